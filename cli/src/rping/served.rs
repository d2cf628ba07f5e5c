//! One client of the server, and the step of its present ping.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use weft_rnic::{Completion, CompletionOpcode, Mr, SendOpcode};

use super::args::Args;
use super::payload::{Advertisement, MAX_SIZE, text};
use super::session::{CQ_LEN, Completed, Session};
use crate::deadline::Deadline;
use crate::failure::Failure;

/// A client from its connect request to its end.
#[derive(Debug)]
pub(crate) struct ServedClient {
    pub(crate) peer: SocketAddr,
    pub(crate) session: Session,
    /// Pings that the server has served to this client.
    pub(crate) pings: u64,
    step: Step,
    /// A message of the client has arrived before the step that reads it.
    has_message: bool,
    silence: Duration,
    /// The client is given up at this moment unless it sends something before.
    pub(crate) deadline: Deadline,
}

/// The step of a ping that the server waits for.
#[derive(Debug)]
enum Step {
    /// The client's first buffer.
    Source,
    /// The Read of that buffer.
    Read(Octets),
    /// The client's second buffer.
    Sink(Octets),
    /// The Write to that buffer.
    Write(Octets),
}

/// The octets of the present ping.
#[derive(Debug)]
struct Octets {
    buffer: Mr,
    size: u32,
}

impl ServedClient {
    /// Returns a client that may be silent for `silence` from now on. The channel announces its first message.
    pub(crate) fn new(peer: SocketAddr, session: Session, silence: Duration) -> Self {
        session.cq.request_notification(false);
        let deadline = Deadline::after(silence);
        Self { peer, session, pings: 0, step: Step::Source, has_message: false, silence, deadline }
    }

    /// Takes everything that has completed so far, and posts what follows from it. The channel announces what
    /// completes later, so that other clients come in between.
    pub(crate) fn advance(&mut self, args: &Args) -> Result<(), Failure> {
        self.session.cq.request_notification(false);
        let mut completions = [Completion::EMPTY; CQ_LEN as usize];
        let taken = self.session.cq.poll(&mut completions);
        for completion in &completions[..taken] {
            let Completed::Done(opcode) = Completed::of(completion)? else { continue };
            // A Send or Write has completed when its octets are in TCP. This is no sign of life of the client.
            if matches!(opcode, CompletionOpcode::Recv | CompletionOpcode::Read) {
                self.deadline = Deadline::after(self.silence);
            }
            self.has_message |= opcode == CompletionOpcode::Recv;
            self.step = match core::mem::replace(&mut self.step, Step::Source) {
                Step::Read(octets) if opcode == CompletionOpcode::Read => self.end_read(octets, args)?,
                Step::Write(octets) if opcode == CompletionOpcode::Write => self.end_write(&octets)?,
                step => step,
            };
            if self.has_message {
                self.step = match core::mem::replace(&mut self.step, Step::Source) {
                    Step::Source => self.read()?,
                    Step::Sink(octets) => self.write(octets)?,
                    step => step,
                };
            }
        }
        Ok(())
    }

    /// Reads the buffer that the client advertises.
    fn read(&mut self) -> Result<Step, Failure> {
        let Advertisement { address, rkey, size } = self.take_message()?;
        if size > MAX_SIZE {
            return Err(Failure::work(format!(
                "the client wants pings of {size} octets; at most {MAX_SIZE} are taken"
            )));
        }
        let buffer = self.session.buffer(size)?;
        self.session.transfer(SendOpcode::Read { stag: rkey, to: address }, &buffer, size)?;
        Ok(Step::Read(Octets { buffer, size }))
    }

    fn end_read(&self, octets: Octets, args: &Args) -> Result<Step, Failure> {
        if args.verbose {
            let mut content = vec![0; octets.size as usize];
            octets.buffer.read(0, &mut content).map_err(Failure::work)?;
            writeln!(std::io::stdout(), "server ping data: {}", text(&content))?;
        }
        self.session.advertise(&octets.buffer, octets.size)?;
        Ok(Step::Sink(octets))
    }

    /// Writes the same octets to the buffer that the client advertises.
    fn write(&mut self, octets: Octets) -> Result<Step, Failure> {
        let Advertisement { address, rkey, size } = self.take_message()?;
        if size < octets.size {
            let ping = self.pings;
            let reason = format!("ping {ping}: the client's second buffer is smaller than its first");
            return Err(Failure::work(reason));
        }
        let write = SendOpcode::Write { stag: rkey, to: address };
        self.session.transfer(write, &octets.buffer, octets.size)?;
        Ok(Step::Write(octets))
    }

    fn end_write(&mut self, octets: &Octets) -> Result<Step, Failure> {
        self.session.advertise(&octets.buffer, octets.size)?;
        self.pings += 1;
        Ok(Step::Source)
    }

    fn take_message(&mut self) -> Result<Advertisement, Failure> {
        self.has_message = false;
        self.session.take_message()
    }
}
