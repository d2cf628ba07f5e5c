//! `weft sockets`: a program whose TCP connections go through shared memory, and to other hosts by RDMA.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use weft_daemon::Networks;

mod daemon;
mod explain;
mod program;
mod settings;

pub(crate) use daemon::{HOST, listening, start_on_demand};

use daemon::Daemon;
use settings::{Flags, LONGEST_SPIN, Settings};

use crate::failure::Failure;
use crate::library::Libraries;
use crate::usage::number;

/// Run an unmodified program: its TCP connections go through shared memory, and by RDMA to other hosts.
///
/// A preloaded library moves a connection's octets to shared memory when both ends run under `weft sockets` and all
/// their calls can be followed. Every other connection stays on TCP, with the same results. A daemon of the user brings
/// the two ends together. This command starts it if none answers; it ends by itself after its last program. With --lanes
/// the daemons of two hosts carry connections between their programs by RDMA.
///
/// The program keeps this process's number, descriptors and signals. With --explain it is a child, to which signals are
/// passed on. The exit status is the program's; 127 if there is no such program, 126 if it cannot be run.
#[derive(Debug, Clone, Parser)]
#[command(
    after_help = "Each of these variables stands for its flag if the flag is not given. A program under LD_PRELOAD reads them, too:
  WEFT_SOCKETS=auto, eager, require or off, WEFT_DAEMON, WEFT_SPIN, WEFT_SOCKETS_TRACE, WEFT_SOCKETS_STRICT=1
UV_USE_IO_URING=0 is set, too: the library cannot follow what a program does by io_uring.

Examples:
  weft sockets -- redis-server
  weft sockets -- redis-benchmark -t get -c 1
  weft sockets --explain -- curl -o page http://127.0.0.1:8000/
  weft sockets --eager --trace /tmp/trace -- curl http://127.0.0.1:8000/
  weft sockets --daemon @mine -- iperf3 -s
  weft sockets --lanes on-link -- redis-server         here, and there
  weft sockets --lanes on-link -- redis-benchmark -h HOST"
)]
pub struct Args {
    /// Upgrade each connection as soon as possible, instead of after 4 calls or 64 KiB
    #[arg(long, conflicts_with = "require")]
    pub eager: bool,
    /// Refuse connections inside the host that are not upgraded within a second, for tests
    #[arg(long)]
    pub require: bool,
    /// Tell bad addresses as the kernel does, and leave the program without io_uring and without set-user-ID programs
    #[arg(long)]
    pub strict: bool,
    /// Microseconds for which a wait spins at most before it sleeps; 0 is never
    #[arg(long, value_name = "US", allow_negative_numbers = true, value_parser = number::<u32>(LONGEST_SPIN))]
    pub spin: Option<u32>,
    /// Write upgrades and returns to TCP to FILE, one a line
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Stay as the program's parent, and print at its end which connections were upgraded, and why others were not
    #[arg(long)]
    pub explain: bool,
    /// The daemon's address: @NAME, an abstract name, or the path of a socket. The default is the host's daemon, then the
    /// user's own
    #[arg(long, value_name = "NAME", value_parser = daemon::address)]
    pub daemon: Option<String>,
    /// Take connections to the hosts of these networks off TCP, too: their daemons and this user's exchange the octets by
    /// RDMA. `on-link` is all that this host reaches without a gateway. `none` is no other host, which is the
    /// default; a daemon that runs already keeps its lanes
    #[arg(long, value_name = "CIDR[,CIDR...]|on-link|none")]
    pub lanes: Option<Networks>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Replaces this process by the program.
pub fn run(args: &Args) -> ExitCode {
    match args.command() {
        Ok(command) if args.explain => {
            explain::run(command).unwrap_or_else(|failure| failure.print("sockets"))
        }
        Ok(mut command) => {
            let error = command.exec();
            Failure::not_run(&command, &error).print("sockets")
        }
        Err(failure) => failure.print("sockets"),
    }
}

impl Args {
    /// Returns the command that becomes the program. A daemon answers by then, or a line has said why not.
    fn command(&self) -> Result<Command, Failure> {
        let (variable, value) = Libraries::new().preload(LIBRARY, "weft-sockets-preload")?;
        let [program, arguments @ ..] = self.program.as_slice() else {
            return Err(Failure::usage("name a program to run, as in weft sockets -- redis-server"));
        };
        if program.is_empty() {
            return Err(Failure::usage(
                "the program's name is empty: name one, as in weft sockets -- redis-server",
            ));
        }
        if program.as_encoded_bytes().starts_with(b"-") {
            let option = program.display();
            return Err(Failure::usage(format!(
                "there is no option {option} (`weft sockets --help` lists what is)"
            )));
        }
        let settings = Settings::new(self.flags())?;
        let obstacle = program::obstacle(program);
        if let Some(reason) = obstacle.as_ref().filter(|_| settings.is_strict()) {
            return Err(Failure::usage(format!("--strict: {reason}")));
        }
        check(obstacle, settings.is_required())?;
        let started = Daemon::new(settings.daemon.as_deref())?.start(self.lanes.as_ref());
        check(started.err(), settings.is_required())?;

        let mut command = Command::new(program);
        command.args(arguments).env(variable, value).env("UV_USE_IO_URING", "0");
        settings.give(&mut command)?;
        Ok(command)
    }

    fn flags(&self) -> Flags {
        let (daemon, trace) = (self.daemon.clone(), self.trace.clone());
        Flags { mode: self.mode(), spin: self.spin, strict: self.strict, daemon, trace }
    }

    /// Returns the value of `WEFT_SOCKETS` that a flag asks for.
    const fn mode(&self) -> Option<&'static str> {
        match (self.eager, self.require) {
            (true, _) => Some("eager"),
            (_, true) => Some("require"),
            _ => None,
        }
    }
}

/// Reports what keeps the program on TCP. It runs all the same, unless upgrades are required.
fn check(obstacle: Option<String>, is_required: bool) -> Result<(), Failure> {
    match obstacle {
        Some(reason) if is_required => Err(Failure::usage(reason)),
        Some(reason) => {
            Failure::usage(reason).print("sockets");
            Ok(())
        }
        None => Ok(()),
    }
}

const LIBRARY: &str = "libweft_sockets_preload.so";

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::parse_from(line.split(' '))
    }

    #[test]
    fn words_behind_the_program_are_its_arguments() {
        let args = args("sockets --spin 0 --strict redis-server --eager -- x");
        assert_eq!(args.program, ["redis-server", "--eager", "--", "x"]);
        assert_eq!((args.spin, args.mode(), args.strict), (Some(0), None, true));
    }

    #[test]
    fn a_program_is_upgraded_in_one_of_three_ways() {
        assert_eq!(args("sockets --eager true").mode(), Some("eager"));
        assert_eq!(args("sockets --require true").mode(), Some("require"));
        assert!(Args::try_parse_from(["sockets", "--eager", "--require", "true"]).is_err());
    }

    #[test]
    fn only_a_required_upgrade_makes_an_obstacle_a_failure() {
        let obstacle = || Some("x is statically linked: it stays on TCP".to_owned());
        assert!(check(obstacle(), false).is_ok());
        assert!(check(None, true).is_ok());
        assert!(check(obstacle(), true).is_err());
    }
}
