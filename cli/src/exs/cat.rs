//! `weft exs cat`: standard input and output as the ends of a stream.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use weft_exs::{Buf, Context, Error, Mode, Op, Options, Outcome, Plain, Socket, Stream};

use super::address::{address, not_connected};
use super::opened::Opened;
use crate::failure::Failure;
use crate::ground::GroundArgs;
use crate::usage::number;

/// Send standard input over a stream, and write what comes to standard output.
///
/// The end of standard input is told to the peer. The command ends when both sides have said that nothing more comes. A
/// terminal as standard input is read only if standard output is a terminal, too: otherwise it counts as empty, so that
/// a copy to a file ends.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft exs cat -l 127.0.0.1:7475 > copy
  weft exs cat 127.0.0.1:7475 < file
  weft exs cat --plain example.org:7475 < file
  weft exs cat --netif tap:tap0 --ip 10.0.0.2/24 10.0.0.1:7475 < file")]
pub(super) struct Args {
    /// Listen at the address for one peer, instead of connecting to it; port 0 chooses a free one, which standard error
    /// names
    #[arg(short, long)]
    listen: bool,
    /// Seconds for which a peer that does not answer is waited for while connecting. A peer that is silent later is given
    /// up after 30 to 60 seconds
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=3600))]
    timeout: u32,
    /// The peer is over plain TCP, without EXS, such as netcat; with -l peers of both kinds are taken
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    ground: GroundArgs,
    /// The peer's address, or the own one with -l. Of a name the first IPv4 address is taken
    #[arg(value_name = "ADDR:PORT", value_parser = address)]
    address: SocketAddr,
}

type Transfer = Op<(Result<Outcome, Error>, Buf)>;

/// Copies in both directions until both have ended.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let timeout = Duration::from_secs(args.timeout.into());
    let Opened { context, .. } = &Opened::new(&args.ground, timeout)?;
    let socket = if args.listen { accept(args, context)? } else { connect(args, context, timeout)? };
    // A read of standard input may wait for a person. If the peer is lost, nobody waits for that.
    let (tell, told) = mpsc::channel();
    let sender = {
        let (context, socket) = (context.clone(), socket.clone());
        std::thread::spawn(move || {
            let sent = send(&context, &socket);
            let has_failed = sent.is_err();
            // It is told before the socket is closed, which ends the receives.
            let _nobody_waits = tell.send(sent);
            if has_failed {
                cut_off(&socket);
            }
        })
    };
    if let Err(failure) = receive(context, &socket) {
        let first = told.try_recv().ok().and_then(Result::err);
        cut_off(&socket);
        return Err(first.unwrap_or(failure));
    }
    if let Err(panic) = sender.join() {
        std::panic::resume_unwind(panic);
    }
    told.recv().map_err(Failure::work)??;
    socket.close().wait().map_err(Failure::work)
}

/// Ends the connection after a failure: the peer hears of a reset, and takes nothing for the whole.
fn cut_off(socket: &Socket<Stream>) {
    socket.set_linger(Duration::ZERO);
    // The failure is told, whatever becomes of this.
    let _late = socket.close().wait_timeout(FAREWELL);
}

fn accept(args: &Args, context: &Context) -> Result<Socket<Stream>, Failure> {
    let refused = |error| Failure::usage(format!("{}: {error}", args.address));
    let plain = if args.plain { Plain::Accept } else { Plain::Off };
    let options = Options { plain, ..Options::default() };
    let listener = context.listen::<Stream>(args.address, &options).map_err(refused)?;
    if args.address.port() == 0 {
        writeln!(io::stderr(), "listening at {}", listener.local_addr())?;
    }
    listener.accept().wait().map_err(Failure::work)
}

fn connect(args: &Args, context: &Context, timeout: Duration) -> Result<Socket<Stream>, Failure> {
    let plain = if args.plain { Plain::Always } else { Plain::Off };
    let connecting = context.connect::<Stream>(args.address, &Options { plain, ..Options::default() });
    let connected = connecting.wait_timeout(timeout).unwrap_or(Err(Error::TimedOut));
    connected.map_err(|error| not_connected(args.address, error))
}

/// Sends standard input to its end.
fn send(context: &Context, socket: &Socket<Stream>) -> Result<(), Failure> {
    if io::stdin().is_terminal() && !io::stdout().is_terminal() {
        socket.shutdown();
        return Ok(());
    }
    let mut input = io::stdin().lock();
    let mut under_way: VecDeque<Transfer> = VecDeque::new();
    let mut made = 0;
    loop {
        let mut buf = if made < BUFFERS {
            made += 1;
            context.buffer(BUFFER).map_err(Failure::work)?
        } else {
            let Some(oldest) = under_way.pop_front() else { return Ok(()) };
            ended(oldest)?.1
        };
        let len = loop {
            match input.read(&mut buf) {
                Ok(len) => break len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::work(format!("cannot read the input: {error}"))),
            }
        };
        if len == 0 {
            break;
        }
        under_way.push_back(socket.send(buf, ..len));
    }
    socket.shutdown();
    under_way.into_iter().try_for_each(|op| ended(op).map(drop))
}

/// Writes what comes to standard output, until nothing more comes.
fn receive(context: &Context, socket: &Socket<Stream>) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let receives: Result<VecDeque<Transfer>, Failure> = (0..BUFFERS)
        .map(|_| context.buffer(BUFFER).map(|buf| socket.recv(buf, ..)).map_err(Failure::work))
        .collect();
    let mut under_way = receives?;
    while let Some(oldest) = under_way.pop_front() {
        let (outcome, buf) = ended(oldest)?;
        if outcome.mode == Mode::End {
            return Ok(());
        }
        output.write_all(buf.get(..outcome.octets as usize).unwrap_or_default())?;
        output.flush()?;
        under_way.push_back(socket.recv(buf, ..));
    }
    Ok(())
}

fn ended(op: Transfer) -> Result<(Outcome, Buf), Failure> {
    let (result, buf) = op.wait();
    Ok((result.map_err(Failure::work)?, buf))
}

/// How long the end of a connection is waited for that is cut off.
const FAREWELL: Duration = Duration::from_secs(1);
/// Transfers of each direction at a time.
const BUFFERS: usize = 4;
/// Octets of one.
const BUFFER: usize = 256 << 10;
