//! Programs as Debian has them: redis and nginx, with their load generators.

use std::ffi::OsStr;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::carrier::{Carrier, Daemon};
use super::process::{Outcome, cpu_of, next_number, say};
use crate::case::{Effort, Sample, Side, Trouble};

/// A server that ends with this value, and its folder.
struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// Starts a program that listens on a free port, with arguments made of port and folder.
    fn start(
        carrier: &Carrier,
        program: &str,
        arguments: impl Fn(u16, &str) -> std::io::Result<Vec<String>>,
    ) -> Outcome<Self> {
        let is_there = Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
        is_there.map_err(|error| Trouble::Skipped(format!("{program}: {error}")))?;
        let folder =
            std::env::temp_dir().join(format!("weft-bench-{}-{}", std::process::id(), next_number()));
        fs::create_dir(&folder).map_err(say("making a folder"))?;
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(say("finding a port"))?.port();
        let mut command = carrier.command(true, OsStr::new(program))?;
        command.args(arguments(port, &folder.display().to_string()).map_err(say("preparing a server"))?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(say(program))?;
        let mut server = Self { child, port, folder };
        server.wait()?;
        Ok(server)
    }

    /// Waits until the server takes connections.
    #[expect(clippy::disallowed_methods, reason = "a time limit turns a hang into a failure")]
    fn wait(&mut self) -> Outcome<()> {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Trouble::failed(format!("a server ended with {status}")));
            }
            if start.elapsed() > PATIENCE {
                return Err(Trouble::failed("a server does not listen"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

/// A server under load.
struct Load {
    server: Server,
    carrier: Carrier,
    /// The load generator's arguments for so many requests, or for a time.
    client: Client,
    /// Requests that fill a turn, measured by a first short turn.
    requests: u64,
}

enum Client {
    Redis {
        connections: u32,
        pipeline: u32,
    },
    /// The latency of one connection, instead of the time of a request: a percentile, or 0 for the mean.
    RedisLatency {
        percentile: usize,
    },
    Wrk {
        connections: u32,
        size: usize,
    },
    Iperf {
        streams: usize,
        size: usize,
    },
}

/// redis-server with redis-benchmark.
pub(super) struct Redis;

/// nginx with wrk.
pub(super) struct Nginx;

/// iperf3, one way.
pub(super) struct Iperf;

impl Redis {
    pub(super) fn start(carrier: &Carrier, connections: u32, pipeline: u32) -> Outcome<Box<dyn Side>> {
        Self::serve(carrier, Client::Redis { connections, pipeline })
    }

    pub(super) fn latency(carrier: &Carrier, percentile: usize) -> Outcome<Box<dyn Side>> {
        Self::serve(carrier, Client::RedisLatency { percentile })
    }

    fn serve(carrier: &Carrier, client: Client) -> Outcome<Box<dyn Side>> {
        let server = Server::start(carrier, "redis-server", |port, folder| {
            let port = port.to_string();
            let words =
                ["--port", &port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"];
            Ok(words.map(str::to_owned).to_vec())
        })?;
        Ok(Box::new(Load { server, carrier: carrier.clone(), client, requests: 0 }))
    }
}

impl Nginx {
    pub(super) fn start(carrier: &Carrier, connections: u32, size: usize) -> Outcome<Box<dyn Side>> {
        let server = Server::start(carrier, "/usr/sbin/nginx", |port, folder| {
            fs::write(format!("{folder}/file"), vec![b'w'; size])?;
            let text = format!(
                "daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;
                 events {{ worker_connections 256; }}
                 http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/body;
                 proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
                 scgi_temp_path {folder}/scgi; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
            );
            fs::write(format!("{folder}/conf"), text)?;
            Ok(vec!["-c".to_owned(), format!("{folder}/conf"), "-e".to_owned(), format!("{folder}/errors")])
        })?;
        let client = Client::Wrk { connections, size };
        Ok(Box::new(Load { server, carrier: carrier.clone(), client, requests: 0 }))
    }
}

impl Iperf {
    pub(super) fn start(carrier: &Carrier, streams: usize, size: usize) -> Outcome<Box<dyn Side>> {
        let server = Server::start(carrier, "iperf3", |port, _| {
            Ok(["-s", "-B", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec())
        })?;
        let client = Client::Iperf { streams, size };
        Ok(Box::new(Load { server, carrier: carrier.clone(), client, requests: 0 }))
    }
}

impl Load {
    /// Runs the load generator, and returns requests and the time that they took.
    fn run(&self, requests: u64, turn: Duration) -> Outcome<(u64, Duration, u64)> {
        let port = self.server.port;
        match self.client {
            Client::Redis { connections, pipeline } => {
                let rate = self.redis(connections, pipeline, requests, 1)?;
                Ok((requests, Duration::from_secs_f64(requests as f64 / rate), 0))
            }
            Client::RedisLatency { percentile } => {
                // rps, then the latencies in milliseconds: mean, least, 50, 95, 99 percent, most.
                let column = match percentile {
                    0 => 2,
                    1 => 3,
                    50 => 4,
                    95 => 5,
                    _ => 6,
                };
                let millis = self.redis(1, 1, requests, column)?;
                Ok((1, Duration::from_secs_f64(millis / 1e3), 0))
            }
            Client::Iperf { streams, size } => self.iperf(streams, size, turn),
            Client::Wrk { connections, size } => {
                let seconds = turn.as_secs().max(1).to_string();
                let mut command = self.carrier.command(false, OsStr::new("wrk"))?;
                command.args(["-t", "1", "-c", &connections.to_string(), "-d", &seconds]);
                command.arg(format!("http://127.0.0.1:{port}/file"));
                let text = text_of(command.output().map_err(say("wrk"))?)?;
                // "  123456 requests in 2.00s, 100MB read"
                let line = text.lines().find(|line| line.contains(" requests in ")).unwrap_or_default();
                let mut words = line.split_whitespace();
                let requests = words.next().and_then(|word| word.parse::<u64>().ok());
                let seconds = words.nth(2).and_then(|word| word.strip_suffix("s,")?.parse::<f64>().ok());
                let (Some(requests), Some(seconds)) = (requests, seconds) else {
                    return Err(Trouble::failed(format!("wrk printed: {text}")));
                };
                if text.contains("Socket errors") || text.contains("Non-2xx") {
                    return Err(Trouble::failed(format!("wrk found errors: {text}")));
                }
                Ok((requests, Duration::from_secs_f64(seconds), requests * size as u64))
            }
        }
    }
}

impl Load {
    /// Runs redis-benchmark, and returns one column of what it prints.
    fn redis(&self, connections: u32, pipeline: u32, requests: u64, column: usize) -> Outcome<f64> {
        let mut command = self.carrier.command(false, OsStr::new("redis-benchmark"))?;
        let (port, connections) = (self.server.port.to_string(), connections.to_string());
        command.args([
            "-p",
            &port,
            "-c",
            &connections,
            "-P",
            &pipeline.to_string(),
            "-n",
            &requests.to_string(),
        ]);
        command.args(["-t", "get", "-d", "8", "--csv"]);
        let text = text_of(command.output().map_err(say("redis-benchmark"))?)?;
        let last = text.lines().last().unwrap_or_default();
        let cell = last.split(',').nth(column).and_then(|cell| cell.trim_matches('"').parse().ok());
        cell.ok_or_else(|| Trouble::failed(format!("redis-benchmark printed: {last}")))
    }

    fn iperf(&self, streams: usize, size: usize, turn: Duration) -> Outcome<(u64, Duration, u64)> {
        let mut command = self.carrier.command(false, OsStr::new("iperf3"))?;
        let seconds = turn.as_secs().max(1).to_string();
        command.args(["-c", "127.0.0.1", "-p", &self.server.port.to_string(), "-t", &seconds, "-J"]);
        command.args(["-P", &streams.to_string(), "-l", &size.to_string()]);
        let text = text_of(command.output().map_err(say("iperf3"))?)?;
        let answer: serde_json::Value = serde_json::from_str(&text).map_err(say("iperf3"))?;
        let received = &answer["end"]["sum_received"];
        let (Some(octets), Some(seconds)) = (received["bytes"].as_u64(), received["seconds"].as_f64()) else {
            return Err(Trouble::failed(format!("iperf3 printed: {}", answer["error"])));
        };
        Ok((octets / size as u64, Duration::from_secs_f64(seconds), octets))
    }
}

impl Side for Load {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        if self.requests == 0 {
            let (requests, wall, _) = self.run(FIRST, Duration::ZERO)?;
            let wanted = u128::from(requests) * effort.turn.as_nanos() / wall.as_nanos().max(1);
            self.requests = u64::try_from(wanted).unwrap_or(FIRST).max(FIRST);
        }
        let ids = [Some(self.server.child.id()), self.carrier.daemon().map(Daemon::id)];
        let cpu = || ids.into_iter().flatten().map(cpu_of).sum::<Outcome<Duration>>();
        let by_ring = self.carrier.daemon().map(Daemon::octets_by_ring).transpose()?;
        let before = cpu()?;
        let (transfers, wall, octets) = self.run(self.requests, effort.turn)?;
        let cpu = cpu()?.saturating_sub(before);
        if let (Some(daemon), Some(before)) = (self.carrier.daemon(), by_ring) {
            // Each request has at least an octet in each direction, and its answer's body.
            daemon.check(before, octets + 2 * transfers)?;
        }
        Ok(Sample { wall, cpu, transfers, octets, checked: transfers, figure: 0.0 })
    }
}

fn text_of(output: Output) -> Outcome<String> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Trouble::failed(format!("{}: {}", output.status, complaint.trim())))
}

const PATIENCE: Duration = Duration::from_secs(10);
/// Requests of the first turn.
const FIRST: u64 = 2000;
