//! The program of a replica. Lines tell it what to do, and it answers by lines.
//!
//! ```text
//!   open               makes the objects of the next session         opened STAG
//!   tail               waits for the client's connection, begins     ready
//!   next ADDR STAG     connects to the next replica, begins          ready
//!   up                 waits for the predecessor's connection        up
//!   digest             reads the memory of all sessions, and that    digest CRC32C
//!                      the file has the same
//!   refill             posts all slots again                         filled
//!   go                 a turn begins: programs may spin and compute  gone
//!   rest               it has ended                                  rests
//! ```

use core::net::SocketAddr;
use std::fs::File;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weft_group::{Replica, Shape};
use weft_rnic::{CmEvent, ConnParam, Device, EventChannel, Listener, Progress, Qp, Region, Stag};

use super::driven::{Busy, Driven};
use super::network;
use super::terms::{Mode, ReplicaArgs};
use crate::case::Trouble;
use crate::process::{Outcome, say};

/// Plays a replica until the input ends.
pub(crate) fn run(args: &ReplicaArgs, input: &mut dyn BufRead, out: &mut dyn Write) -> Outcome<()> {
    let mut program = Program::new(args)?;
    writeln!(out, "{}", program.device.address(program.listener.local_addr().port()))?;
    out.flush()?;
    if args.busy && !args.mode.is_driven() {
        let is_on = Arc::clone(&program.is_on);
        thread::spawn(move || Busy::new().compute(&is_on));
    }
    for line in input.lines() {
        let answer = program.obey(&line?)?;
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

struct Program {
    args: ReplicaArgs,
    device: Device,
    events: EventChannel,
    listener: Listener,
    memory: Arc<Region>,
    /// The sessions whose device does the work.
    replicas: Vec<Replica>,
    /// The session that is being set up, if the program does the work.
    driven: Option<Driven>,
    next: Option<Stag>,
    opened: usize,
    /// This side has its turn.
    is_on: Arc<AtomicBool>,
}

impl Program {
    fn new(args: &ReplicaArgs) -> Outcome<Self> {
        let seed = args.index as u64 + 1;
        let device = network::open(args.address, args.interface.as_deref(), seed, Progress::Thread)?;
        let events = device.create_event_channel().map_err(say("making a channel"))?;
        let listener = device.listen(&events, 0).map_err(say("listening"))?;
        let len = args.len * args.sessions;
        let memory = match &args.file {
            None => Region::owned(len).ok_or("no memory").map_err(say("a region"))?,
            Some(path) => {
                let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
                file.and_then(|file| Region::on_file(file, len)).map_err(say("the file of a replica"))?
            }
        };
        Ok(Self {
            args: args.clone(),
            device,
            events,
            listener,
            memory: Arc::new(memory),
            replicas: Vec::new(),
            driven: None,
            next: None,
            opened: 0,
            is_on: Arc::default(),
        })
    }

    fn obey(&mut self, line: &str) -> Outcome<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["open"] => self.open(),
            ["tail"] => {
                self.accept(true)?;
                self.begin(None)
            }
            ["next", address, stag] => {
                let address: SocketAddr = address.parse().map_err(say("an address"))?;
                let stag = Stag(u32::from_str_radix(stag, 16).map_err(say("an STag"))?);
                self.connect(address)?;
                self.begin(Some(stag))
            }
            ["up"] => {
                self.accept(false)?;
                self.serve();
                Ok("up".to_owned())
            }
            ["digest"] => self.digest(),
            ["refill"] => {
                let next = self.next;
                self.replicas.iter().try_for_each(|replica| replica.post(next)).map_err(say("refilling"))?;
                Ok("filled".to_owned())
            }
            ["go"] => {
                self.is_on.store(true, Ordering::Relaxed);
                Ok("gone".to_owned())
            }
            ["rest"] => {
                self.is_on.store(false, Ordering::Relaxed);
                Ok("rests".to_owned())
            }
            _ => Err(Trouble::failed(format!("a line that a replica does not know: {line}"))),
        }
    }

    fn open(&mut self) -> Outcome<String> {
        let start = self.opened * self.args.len;
        self.opened += 1;
        let shape = Shape {
            index: self.args.index,
            replicas: self.args.replicas,
            window: self.args.window,
            range: start..start + self.args.len,
        };
        let stag = if self.args.mode.is_driven() {
            let driven = Driven::new(&self.device, &self.memory, shape, self.args.file.as_deref())?;
            let stag = driven.data_in.rkey();
            self.driven = Some(driven);
            stag
        } else {
            let replica = Replica::new(&self.device, &self.memory, shape).map_err(say("making a replica"))?;
            let stag = replica.data_in();
            self.replicas.push(replica);
            stag
        };
        Ok(format!("opened {:x}", stag.0))
    }

    /// Returns the queue pairs from the predecessor and to the successor.
    fn qps(&self) -> Outcome<[&Qp; 2]> {
        let own = self.driven.as_ref().map(|driven| [&driven.inward, &driven.outward]);
        let qps = own.or_else(|| self.replicas.last().map(|replica| [replica.inward(), replica.outward()]));
        qps.ok_or("none is open").map_err(say("a session"))
    }

    fn connect(&self, address: SocketAddr) -> Outcome<()> {
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
        self.device.connect(&self.events, self.qps()?[1], address, param).map_err(say("connecting"))?;
        self.await_established()
    }

    fn accept(&self, is_outward: bool) -> Outcome<()> {
        let Some(CmEvent::ConnectRequest(request)) = self.events.wait(Some(PATIENCE)) else {
            return Err(Trouble::failed("nobody connects to a replica"));
        };
        let qp = self.qps()?[usize::from(is_outward)];
        self.device.accept(request.id, qp, ConnParam::default()).map_err(say("accepting"))?;
        self.await_established()
    }

    fn await_established(&self) -> Outcome<()> {
        match self.events.wait(Some(PATIENCE)) {
            Some(CmEvent::Established { .. }) => Ok(()),
            other => Err(Trouble::failed(format!("a replica is not connected: {other:?}"))),
        }
    }

    fn begin(&mut self, next: Option<Stag>) -> Outcome<String> {
        self.next = next;
        if let Some(driven) = &mut self.driven {
            driven.begin(next)?;
        } else if let Some(replica) = self.replicas.last() {
            replica.post(next).map_err(say("posting"))?;
            if self.args.mode == Mode::Cyclic {
                replica.cycle().map_err(say("making queues cyclic"))?;
            }
        }
        Ok("ready".to_owned())
    }

    /// Starts the thread of a session whose program does the work.
    fn serve(&mut self) {
        let Some(driven) = self.driven.take() else { return };
        let (mode, is_busy, is_on) = (self.args.mode, self.args.busy, Arc::clone(&self.is_on));
        thread::spawn(move || {
            if let Err(trouble) = driven.serve(mode, is_busy, &is_on) {
                eprintln!("weft bench: a replica: {trouble}");
                std::process::exit(1);
            }
        });
    }

    fn digest(&self) -> Outcome<String> {
        let mut octets = vec![0; self.args.len];
        let mut crc = 0;
        for session in 0..self.opened {
            let is_read = self.memory.copy_out(session * self.args.len, &mut octets);
            is_read.then_some(()).ok_or("out of bounds").map_err(say("reading a range"))?;
            crc = crc32c::crc32c_append(crc, &octets);
        }
        if let Some(path) = &self.args.file {
            let kept = std::fs::read(path).map_err(say("reading the file of a replica"))?;
            if crc32c::crc32c(&kept) != crc {
                return Ok("file differs".to_owned());
            }
        }
        Ok(format!("digest {crc:08x}"))
    }
}

impl Mode {
    /// Returns true if the program does the work of each operation.
    const fn is_driven(self) -> bool {
        matches!(self, Self::Sleep | Self::Poll | Self::Spin)
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
