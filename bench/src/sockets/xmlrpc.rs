//! Calls of Python's xmlrpc with 1 KiB, on one connection.

use std::ffi::OsStr;
use std::time::Duration;

use super::carrier::Carrier;
use super::load::{Client, Load, Run, Work, behind_first, text_of};
use super::server::Server;
use crate::case::{Side, Trouble};
use crate::process::Outcome;

/// The client.
struct Calls;

/// Starts a server of the function `echo`.
pub(super) fn start(carrier: &Carrier) -> Outcome<Box<dyn Side>> {
    let server = Server::start(carrier, PYTHON, |port, _| {
        Ok(["-c", SERVER, &carrier.address().to_string(), &port.to_string()].map(str::to_owned).to_vec())
    })?;
    Ok(Load::boxed(vec![server], carrier, Calls))
}

impl Client for Calls {
    fn run(&self, carrier: &Carrier, port: u16, Work { requests, .. }: Work) -> Outcome<Run> {
        let mut command = carrier.command(false, OsStr::new(PYTHON))?;
        command.args([
            "-c",
            CLIENT,
            &carrier.address().to_string(),
            &port.to_string(),
            &requests.to_string(),
        ]);
        let text = text_of(command)?;
        let Ok(seconds) = text.trim().parse() else {
            return Err(Trouble::failed(format!("the client printed: {text}")));
        };
        let octets = requests * 2 * SIZE;
        let by_ring = behind_first(requests, 1, 2 * SIZE);
        let wall = Duration::from_secs_f64(seconds);
        Ok(Run { transfers: requests, wall, time: wall, octets, by_ring })
    }
}

const PYTHON: &str = "/usr/bin/python3";
const SIZE: u64 = 1024;
/// HTTP/1.1 keeps the connection for all calls.
const SERVER: &str = "
import sys
from xmlrpc.server import SimpleXMLRPCServer, SimpleXMLRPCRequestHandler
SimpleXMLRPCRequestHandler.protocol_version = 'HTTP/1.1'
server = SimpleXMLRPCServer((sys.argv[1], int(sys.argv[2])), logRequests=False)
server.register_function(lambda text: text, 'echo')
server.serve_forever()
";
/// Compares each answer.
const CLIENT: &str = "
import sys, time, xmlrpc.client
server = xmlrpc.client.ServerProxy('http://' + sys.argv[1] + ':' + sys.argv[2])
text = 'w' * 1024
start = time.monotonic()
for _ in range(int(sys.argv[3])):
    assert server.echo(text) == text
print(time.monotonic() - start)
";
