//! A connection of the operating system's TCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::arrival::{Arrival, DialError};
use crate::time::Deadline;

#[derive(Debug)]
pub(crate) struct KernelTcp {
    stream: TcpStream,
}

impl KernelTcp {
    pub(crate) fn connect(target: SocketAddr, patience: Duration) -> Result<Self, DialError> {
        let stream = TcpStream::connect_timeout(&target, patience).map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => DialError::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => DialError::Silent,
            _ => DialError::Impossible(error.to_string()),
        })?;
        // Each call of send should make a segment of its own, as far as TCP allows.
        stream.set_nodelay(true).map_err(|error| DialError::Impossible(error.to_string()))?;
        Ok(Self { stream })
    }

    pub(crate) fn send(&mut self, octets: &[u8], deadline: &Deadline) -> bool {
        let mut rest = octets;
        while !rest.is_empty() {
            let Some(left) = deadline.left() else { return false };
            if self.stream.set_write_timeout(Some(left)).is_err() {
                return false;
            }
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(len) => rest = &rest[len..],
                Err(error) if is_passing(error.kind()) => {}
                Err(_) => return false,
            }
        }
        true
    }

    pub(crate) fn receive(&mut self, deadline: &Deadline) -> Arrival {
        let mut octets = vec![0; CHUNK];
        loop {
            // Octets that have already come are taken even after the deadline.
            let left = deadline.left().unwrap_or(SHORTEST);
            if self.stream.set_read_timeout(Some(left)).is_err() {
                return Arrival::Reset;
            }
            match self.stream.read(&mut octets) {
                Ok(0) => return Arrival::Fin,
                Ok(len) => {
                    octets.truncate(len);
                    return Arrival::Octets(octets);
                }
                Err(error) if is_passing(error.kind()) => {
                    if deadline.left().is_none() {
                        return Arrival::Nothing;
                    }
                }
                Err(_) => return Arrival::Reset,
            }
        }
    }

    pub(crate) fn finish(&self) {
        // A connection that is already gone needs no FIN.
        let _gone = self.stream.shutdown(Shutdown::Write);
    }

    pub(crate) fn abort(&self) {
        // With this option the drop that follows sends RST.
        let _gone = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

const CHUNK: usize = 65_536;
const SHORTEST: Duration = Duration::from_millis(1);
