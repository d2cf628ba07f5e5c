//! `weft run`: a verbs program on Weft instead of on an RDMA device.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, ValueEnum};
use weft_netif::{IpSetting, Spec};

use crate::failure::Failure;
use crate::library::{Libraries, in_front};
use crate::trace::trace_file;
use crate::usage::number;

/// Run a verbs program unmodified, without an RDMA device, a kernel module or privileges.
///
/// A preloaded library takes the program's calls of libibverbs and librdmacm to Weft. With --form directory the program
/// finds two libraries in place of the system's: programs such as NCCL look libraries up by themselves.
///
/// The program sees one device, weft0, an RNIC. It has to connect by rdma_cm (perftest: -R), unless --personality says
/// otherwise. Its peers are other programs under `weft run`, `weft rping`, Linux siw and hardware for iWARP. The exit
/// status is the program's.
#[derive(Debug, Clone, Parser)]
#[command(
    after_help = "The flags set these variables, which a program under LD_PRELOAD can be given by hand as well:
  WEFT_PERSONALITY, WEFT_TRANSPORT, WEFT_IP, WEFT_MTU, WEFT_TIMEOUT, WEFT_RNR_WAIT=1, WEFT_MARKERS=1,
  WEFT_CRC=0, WEFT_GUARD=0, WEFT_TRACE=1 or a file, WEFT_SYSFS,
  WEFT_STAT=1

Examples:
  weft run -- ibv_devinfo
  weft run -- rping -s -a 127.0.0.1 -C 3 -v
  weft run -- ib_write_bw -R
  weft run --personality roce -- ib_write_bw
  weft run --trace -- ibv_devinfo
  weft run --transport unix:/tmp/wire --ip 10.0.0.2/24 -- rping -c -a 10.0.0.1 -C 3"
)]
pub struct Args {
    /// The kind of the device: an RNIC, or an adapter for RoCE, for programs that connect queue pairs by themselves.
    /// Both sides have to take the same kind, unless they use rdma_cm
    #[arg(long, value_enum, default_value = "iwarp")]
    pub personality: Personality,
    /// The network: host, the operating system's TCP and its addresses; or a wire, as in `weft rping --netif`
    #[arg(long, value_name = "SPEC", default_value = "host")]
    pub transport: Spec,
    /// The device's IP address: with prefix on a wire, without on host. On host the default is all addresses
    #[arg(long, value_name = "ADDR")]
    pub ip: Option<String>,
    /// Octets of the largest IP packet, 576 to 65535
    #[arg(long, value_name = "N", default_value_t = 1500, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(576..=65_535))]
    pub mtu: u32,
    /// Seconds after which a peer that sends and answers nothing is given up; after half of that if it owes an answer
    #[arg(long, value_name = "N", default_value_t = 60, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(2..=3600))]
    pub timeout: u32,
    /// A Send that finds no receive waits for one, as on InfiniBand, instead of ending the connection, as on iWARP
    #[arg(long)]
    pub rnr_wait: bool,
    /// Ask for Markers in what this side receives
    #[arg(long)]
    pub markers: bool,
    /// Do not ask for the CRC32c of FPDUs
    #[arg(long)]
    pub no_crc: bool,
    /// A folder for the files that a kernel's device has below /sys, for programs that read them there
    #[arg(long, value_name = "FOLDER")]
    pub sysfs: Option<PathBuf>,
    /// How the program finds Weft
    #[arg(long, value_enum, default_value_t = Form::Preload)]
    pub form: Form,
    /// Print the program's calls of libibverbs and librdmacm, and at its end the number of calls and the objects that
    /// are left: to standard error, or to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STANDARD_ERROR)]
    pub trace: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// How a program finds Weft instead of the system's libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A library in front of the system's, which stay loaded (LD_PRELOAD)
    Preload,
    /// A folder with libibverbs.so.1 and librdmacm.so.1 (LD_LIBRARY_PATH), which capi/directory/link makes
    Directory,
}

/// The kind of device that the program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Personality {
    /// An RNIC for iWARP
    Iwarp,
    /// A channel adapter for RoCE v2, whose messages are iWARP's all the same
    Roce,
}

/// Replaces this process by the program.
pub fn run(args: &Args) -> ExitCode {
    match args.command() {
        Ok(mut command) => {
            let error = command.exec();
            Failure::not_run(&command, &error).print("run")
        }
        Err(failure) => failure.print("run"),
    }
}

impl Args {
    fn command(&self) -> Result<Command, Failure> {
        self.check()?;
        let (variable, value) = self.form.variable(&Libraries::new())?;
        let [program, arguments @ ..] = self.program.as_slice() else {
            return Err(Failure::usage("name a program to run, as in weft run ib_write_bw -R"));
        };
        let mut command = Command::new(program);
        command.args(arguments).env(variable, value);
        command.env("WEFT_TRANSPORT", self.transport.to_string()).env("WEFT_MTU", self.mtu.to_string());
        command.env("WEFT_TIMEOUT", self.timeout.to_string());
        let personality = match self.personality {
            Personality::Iwarp => "iwarp",
            Personality::Roce => "roce",
        };
        command.env("WEFT_PERSONALITY", personality);
        match &self.ip {
            Some(ip) => command.env("WEFT_IP", ip),
            None => command.env_remove("WEFT_IP"),
        };
        match &self.sysfs {
            Some(folder) => {
                let folder = std::path::absolute(folder)
                    .map_err(|error| Failure::usage(format!("--sysfs: {}: {error}", folder.display())))?;
                command.env("WEFT_SYSFS", &folder).env("SYSFS_PATH", folder)
            }
            None => command.env_remove("WEFT_SYSFS"),
        };
        match self.trace_output()? {
            Some(output) => command.env("WEFT_TRACE", output),
            None => command.env_remove("WEFT_TRACE"),
        };
        for (is_set, variable, value) in [
            (self.rnr_wait, "WEFT_RNR_WAIT", "1"),
            (self.markers, "WEFT_MARKERS", "1"),
            (self.no_crc, "WEFT_CRC", "0"),
        ] {
            if is_set {
                command.env(variable, value);
            } else {
                command.env_remove(variable);
            }
        }
        Ok(command)
    }

    /// Returns the value of `WEFT_TRACE`. It is an absolute path: a program may change its folder before its first
    /// call.
    fn trace_output(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(file) = &self.trace else { return Ok(None) };
        if file.as_os_str() == STANDARD_ERROR {
            return Ok(Some(file.clone()));
        }
        trace_file(file).map(Some)
    }

    /// Checks that the address fits the transport, so that this command reports the error and not the library.
    fn check(&self) -> Result<(), Failure> {
        match (&self.transport, self.ip.as_deref()) {
            (Spec::Pair, _) => Err(Failure::usage("pair joins two devices of one process: try host")),
            (Spec::Host, None) => Ok(()),
            (Spec::Host, Some(ip)) => {
                let is_address = ip.parse::<std::net::IpAddr>().is_ok();
                let complaint = || {
                    Failure::usage(format!("--ip: `{ip}` is no IP address without prefix, as host needs it"))
                };
                is_address.then_some(()).ok_or_else(complaint)
            }
            (_, Some(ip)) => ip.parse::<IpSetting>().map(drop).map_err(Failure::usage),
            (wire, None) => Err(Failure::usage(format!(
                "{wire} needs an IP address of this side's own, as in --ip 10.0.0.1/24"
            ))),
        }
    }
}

impl Form {
    /// Returns the variable of the dynamic loader, with Weft in front of its present value.
    fn variable(self, libraries: &Libraries) -> Result<(&'static str, OsString), Failure> {
        match self {
            Self::Preload => libraries.preload(LIBRARY, "weft-preload"),
            Self::Directory => {
                let made_by = format!("capi/directory/link{}", libraries.release());
                let library = libraries.find("weft-directory/libibverbs.so.1", &made_by)?;
                let folder = library.parent().unwrap_or(&library).into();
                Ok(("LD_LIBRARY_PATH", in_front("LD_LIBRARY_PATH", folder)))
            }
        }
    }
}

/// `WEFT_TRACE` for standard error.
const STANDARD_ERROR: &str = "1";
const LIBRARY: &str = "libweft_preload.so";

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::parse_from(line.split(' '))
    }

    #[test]
    fn words_behind_the_program_are_its_arguments() {
        let args = args("run --no-crc ib_write_bw -R --ip x -- y");
        assert_eq!(args.program, ["ib_write_bw", "-R", "--ip", "x", "--", "y"]);
        assert!(args.no_crc && args.ip.is_none());
    }

    #[test]
    fn a_personality_is_one_of_two() {
        assert_eq!(args("run ib_write_bw").personality, Personality::Iwarp);
        assert_eq!(args("run --personality roce ib_write_bw").personality, Personality::Roce);
        assert!(Args::try_parse_from(["run", "--personality", "ib", "true"]).is_err());
    }

    #[test]
    fn a_trace_goes_to_standard_error_or_a_file() {
        let output = |line: &str| args(line).trace_output().map_err(|_| ()).unwrap();
        assert_eq!(output("run true"), None);
        assert_eq!(output("run --trace true"), Some("1".into()));
        assert_eq!(args("run --trace true").program, ["true"]);
        let file = std::env::temp_dir().join(format!("weft-run-trace-{}", std::process::id()));
        std::fs::write(&file, "old").unwrap();
        assert_eq!(output(&format!("run --trace={} true", file.display())), Some(file.clone()));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
        std::fs::remove_file(&file).unwrap();
        assert!(args("run --trace=/no/such/folder/x true").trace_output().is_err());
    }

    #[test]
    fn an_address_goes_with_its_transport() {
        for line in ["run true", "run --ip 127.0.0.1 true", "run --transport unix:/x --ip 10.0.0.1/24 true"] {
            assert!(args(line).check().is_ok(), "{line}");
        }
        for line in [
            "run --ip 127.0.0.1/8 true",
            "run --transport unix:/x true",
            "run --transport unix:/x --ip 10.0.0.1 true",
            "run --transport pair true",
        ] {
            assert!(args(line).check().is_err(), "{line}");
        }
    }

    #[test]
    fn a_library_that_is_missing_is_reported_with_what_makes_it() {
        let message = |form: Form, folder: &str| match form.variable(&Libraries(vec![folder.into()])) {
            Err(Failure::Usage(line)) => line,
            other => panic!("{other:?}"),
        };
        assert!(message(Form::Preload, "/nowhere").contains("cargo build --release -p weft-preload"));
        assert!(message(Form::Directory, "/nowhere/debug").contains("capi/directory/link makes it"));
        assert!(message(Form::Directory, "/nowhere/release").contains("capi/directory/link --release"));
    }
}
