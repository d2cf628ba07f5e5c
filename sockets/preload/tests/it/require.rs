//! The mode that refuses connections without a partner.

use std::process::{Command, Output};

use crate::processes::daemon;
use crate::programs::library;

/// Connects a client of this mode to a server that runs with or without the library. Returns what the client says.
fn connect(is_hooked: bool) -> Option<String> {
    let python = std::path::Path::new(PYTHON);
    if !python.exists() {
        println!("skipped: {PYTHON} is not installed");
        return None;
    }
    let server = "import socket, sys; l = socket.create_server(('127.0.0.1', 0)); print(l.getsockname()[1], flush=True)\n\
                  c, _ = l.accept(); c.recv(1); c.sendall(b'y')";
    let client = "import socket, sys\n\
                  try:\n    c = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); c.sendall(b'x'); print(c.recv(1))\n\
                  except ConnectionRefusedError: print('refused')";
    let hooked = |command: &mut Command| {
        command.env("LD_PRELOAD", library()).env("WEFT_DAEMON", daemon()).env("WEFT_SOCKETS", "require");
    };
    let mut command = Command::new(PYTHON);
    command.args(["-c", server]).stdout(std::process::Stdio::piped());
    if is_hooked {
        hooked(&mut command);
    }
    let mut child = command.spawn().expect("the server");
    let mut line = String::new();
    let output = child.stdout.take().expect("its output");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("its port");
    let mut command = Command::new(PYTHON);
    command.args(["-c", client, line.trim()]);
    hooked(&mut command);
    let Output { stdout, .. } = command.output().expect("the client");
    let _ended = child.wait();
    Some(String::from_utf8_lossy(&stdout).trim().to_owned())
}

#[test]
fn a_connection_without_a_partner_is_refused() {
    assert!(connect(false).is_none_or(|said| said == "refused"));
}

#[test]
fn a_connection_with_a_partner_is_made() {
    assert!(connect(true).is_none_or(|said| said == "b'y'"));
}

/// The interpreter of both programs.
const PYTHON: &str = "/usr/bin/python3.11";
