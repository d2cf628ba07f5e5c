//! `weft conform`: judges an iWARP endpoint by what it does on the wire.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use weft_conform::{CHECKS, Check, Host, Report, Target};
use weft_netif::{Capture, IpSetting, Spec, StackConfig};

mod print;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::usage::number;
use crate::wire;

/// Judge an iWARP endpoint by what it does on the wire.
///
/// Plays a scripted peer against a server that listens. Prints a verdict for each requirement of RFC 5040, 5041, 5044,
/// 6581 and 7306 that shows on the wire: pass, fail with the octets that show it, or inconclusive. The server may be
/// any iWARP server that takes one connection after the other. A server of rping shows most (rping -s -P -S 65535,
/// weft rping -s -P).
///
/// Exit status: 0 if nothing failed; 1 if something failed or the target could not be tested; 2 if the arguments make
/// no sense.
#[derive(Debug, Clone, Parser)]
#[command(
    verbatim_doc_comment,
    after_help = help()
)]
pub struct Args {
    /// The address of the endpoint, or without --netif its name
    #[arg(required_unless_present = "list")]
    pub target: Option<String>,
    /// The port that it listens on
    #[arg(long, value_name = "N", default_value_t = 7174, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u16>(1..=65_535))]
    pub port: u16,
    /// A device for a TCP/IP of this process, see below
    #[arg(long, value_name = "SPEC", requires = "ip")]
    pub netif: Option<Spec>,
    /// This side's own IP address on that device, with prefix; then a gateway, or `route NET/PREFIX via ADDR`
    #[arg(long, value_name = "CIDR[,gw ADDR]", requires = "netif")]
    pub ip: Option<IpSetting>,
    /// List the checks with their requirements, and run none
    #[arg(long)]
    pub list: bool,
    /// Run only the checks of a requirement, of a section (5044-7.1.1) or RFC, or the check of that name
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub only: Vec<String>,
    /// Seconds that an answer may take
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=600))]
    pub timeout: u32,
    /// Write all frames to this file, for Wireshark, tshark or weft decode
    #[arg(long, value_name = "FILE", requires = "netif")]
    pub pcap: Option<PathBuf>,
    /// Print the results as a JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the checks.
pub fn run(args: &Args) -> ExitCode {
    match judge(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => failure.print("conform"),
    }
}

fn help() -> String {
    let wires = Spec::wires("and");
    format!(
        "Devices for --netif: {wires}, as for weft rping.
Without --netif the TCP of the operating system is used.

{EXAMPLES}"
    )
}

/// Runs the checks and prints the report. Returns true if no requirement failed.
fn judge(args: &Args) -> Result<bool, Failure> {
    let checks = choose(&args.only)?;
    if args.list {
        print::list(&mut io::stdout().lock(), &checks, args.json)?;
        return Ok(true);
    }
    let address = address(args)?;
    let patience = Duration::from_secs(args.timeout.into());
    let target = Target::open(host(args, address.ip(), patience)?, address, patience)
        .map_err(|error| Failure::work(format!("{address}: {error}")))?;
    let mut report = Report::default();
    let progress = Progress::new(checks.len() as u64, "checks");
    let mut end = Ok(());
    for &check in &checks {
        match target.run(check) {
            Ok(findings) => report.add(select(findings, &args.only, check)),
            Err(reason) => {
                end = Err(Failure::work(format!(
                    "{address} is gone {reason} (a server has to take one connection after the other)"
                )));
                break;
            }
        }
        progress.advance();
    }
    progress.finish();
    let is_enhanced = target.is_enhanced();
    let capture = target.close();
    let colours =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", print::json(&report, address, is_enhanced))?;
    } else {
        print::text(&mut out, &report, colours)?;
    }
    end?;
    capture
        .map_or(Ok(()), Capture::finish)
        .map_err(|error| Failure::work(format!("cannot write the capture: {error}")))?;
    Ok(report.counts().1 == 0)
}

/// Returns the checks that `only` names, or all checks if it names none.
fn choose(only: &[String]) -> Result<Vec<&'static Check>, Failure> {
    let all = || CHECKS.iter().copied().flatten();
    for name in only {
        if !all().any(|check| is_named(check, name)) {
            return Err(Failure::usage(format!(
                "--only {name}: no check has that name or judges a requirement of that number (`weft conform --list` has all)"
            )));
        }
    }
    Ok(all().filter(|check| only.is_empty() || only.iter().any(|name| is_named(check, name))).collect())
}

fn is_named(check: &Check, name: &str) -> bool {
    check.name == name || check.ids.iter().any(|id| is_part_of(id, name))
}

/// Returns true if `name` is the requirement `id`, its section or its RFC.
fn is_part_of(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
}

/// Leaves out requirements that `only` does not name, although the same check judges them.
fn select(
    mut findings: Vec<weft_conform::Finding>,
    only: &[String],
    check: &Check,
) -> Vec<weft_conform::Finding> {
    if !only.is_empty() && !only.iter().any(|name| name == check.name) {
        findings.retain(|finding| only.iter().any(|name| is_part_of(finding.id, name)));
    }
    findings
}

fn address(args: &Args) -> Result<SocketAddr, Failure> {
    let name = args.target.as_deref().unwrap_or_default();
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, args.port));
    }
    if args.netif.is_some() {
        return Err(Failure::usage(format!(
            "`{name}` is no IP address, such as 10.0.0.1; names need the operating system's TCP"
        )));
    }
    let mut found = (name, args.port)
        .to_socket_addrs()
        .map_err(|error| Failure::work(format!("cannot find the host `{name}`: {error}")))?;
    found.next().ok_or_else(|| Failure::work(format!("the host `{name}` has no address")))
}

fn host(args: &Args, target: IpAddr, patience: Duration) -> Result<Host, Failure> {
    let (Some(spec), Some(ip)) = (&args.netif, &args.ip) else { return Ok(Host::kernel()) };
    if target.is_ipv4() != ip.address.is_ipv4() {
        return Err(Failure::usage(format!("{target} and {} are of different IP versions", ip.address)));
    }
    let capture = args.pcap.as_deref().map(|path| wire::capture(path, 1)).transpose()?;
    let mut wire = wire::open(spec, MTU, patience)?;
    if let Some(capture) = capture {
        wire = wire.with_capture(capture);
    }
    // The ports have to differ from those of the last run, whose connections the target may still know.
    let seed = RandomState::new().hash_one(std::process::id());
    let config = StackConfig { seed, ..StackConfig::new(ip.clone()) };
    wire.claim(config.mac, config.ip.address).map_err(Failure::usage)?;
    Host::stack(wire, config).map_err(Failure::usage)
}

const MTU: usize = 1500;
const EXAMPLES: &str = "Examples:
  weft conform 192.0.2.7
  weft conform 10.0.0.1 --netif unix:/tmp/wire --ip 10.0.0.2/24
  weft conform 10.0.0.1 --netif unix:/tmp/wire --ip 10.0.0.2/24 --only 5044-7.1.1 --only read-zero
  weft conform 192.0.2.7 --json | jq '.results[] | select(.verdict == \"fail\")'
  weft conform --list";
