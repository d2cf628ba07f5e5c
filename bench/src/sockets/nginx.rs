//! nginx with wrk: a server of one file, and a proxy in front of such a server.

use std::ffi::OsStr;
use std::fs;
use std::time::Duration;

use super::carrier::Carrier;
use super::load::{Client, Load, Run, Work, behind_first, text_of};
use super::server::Server;
use crate::case::{Side, Trouble};
use crate::process::Outcome;

/// wrk, which asks for one file again and again.
struct Wrk {
    connections: u64,
    size: u64,
    /// Connections in a row on the way of an answer.
    hops: u64,
}

/// Starts nginx with a file of this size.
pub(super) fn files(carrier: &Carrier, connections: u64, size: usize) -> Outcome<Box<dyn Side>> {
    let server = serve(carrier, size)?;
    Ok(Load::boxed(vec![server], carrier, Wrk { connections, size: size as u64, hops: 1 }))
}

/// Starts nginx in front of such a server, for one connection at a time.
pub(super) fn proxy(carrier: &Carrier, size: usize) -> Outcome<Box<dyn Side>> {
    let behind = serve(carrier, size)?;
    let (at, host) = (behind.port(), carrier.address());
    let proxy = start(carrier, |port, _| {
        Ok(format!(
            "upstream behind {{ server {host}:{at}; keepalive 16; keepalive_requests 1000000000; }}
             server {{ listen {host}:{port}; location / {{ proxy_pass http://behind; proxy_http_version 1.1;
             proxy_set_header Connection \"\"; proxy_max_temp_file_size 0; }} }}"
        ))
    })?;
    Ok(Load::boxed(vec![proxy, behind], carrier, Wrk { connections: 1, size: size as u64, hops: 2 }))
}

fn serve(carrier: &Carrier, size: usize) -> Outcome<Server> {
    let host = carrier.address();
    start(carrier, |port, folder| {
        fs::write(format!("{folder}/file"), vec![b'w'; size])?;
        Ok(format!("server {{ listen {host}:{port}; root {folder}; }}"))
    })
}

/// Starts nginx with one process.
fn start(carrier: &Carrier, servers: impl Fn(u16, &str) -> std::io::Result<String>) -> Outcome<Server> {
    Server::start(carrier, "/usr/sbin/nginx", |port, folder| {
        let servers = servers(port, folder)?;
        let text = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;
             events {{ worker_connections 256; }}
             http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/body;
             proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
             scgi_temp_path {folder}/scgi; {servers} }}"
        );
        fs::write(format!("{folder}/conf"), text)?;
        Ok(vec!["-c".to_owned(), format!("{folder}/conf"), "-e".to_owned(), format!("{folder}/errors")])
    })
}

impl Client for Wrk {
    fn run(&self, carrier: &Carrier, port: u16, work: Work) -> Outcome<Run> {
        let seconds = work.turn.as_secs().max(1).to_string();
        let mut command = carrier.command(false, OsStr::new("wrk"))?;
        command.args(["-t", "1", "-c", &self.connections.to_string(), "-d", &seconds]);
        command.arg(format!("http://{}:{port}/file", carrier.address()));
        let text = text_of(command)?;
        // "  123456 requests in 2.00s, 100MB read"
        let line = text.lines().find(|line| line.contains(" requests in ")).unwrap_or_default();
        let mut words = line.split_whitespace();
        let transfers = words.next().and_then(|word| word.parse::<u64>().ok());
        let seconds = words.nth(2).and_then(|word| word.strip_suffix("s,")?.parse::<f64>().ok());
        let (Some(transfers), Some(seconds)) = (transfers, seconds) else {
            return Err(Trouble::failed(format!("wrk printed: {text}")));
        };
        if text.contains("Socket errors") || text.contains("Non-2xx") {
            return Err(Trouble::failed(format!("wrk found errors: {text}")));
        }
        let each = self.size + LEAST_HEADERS;
        let by_ring = behind_first(transfers, self.connections, each) * self.hops;
        let wall = Duration::from_secs_f64(seconds);
        Ok(Run { transfers, wall, time: wall, octets: transfers * self.size, by_ring })
    }
}

/// The least octets of a request and of an answer's header.
const LEAST_HEADERS: u64 = 250;
