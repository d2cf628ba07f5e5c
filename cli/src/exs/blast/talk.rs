//! The messages by which the two ends agree: JSON objects on a socket of their own.

use serde_json::Value;
use weft_exs::{Context, Messages, Mode, Socket};

use crate::failure::Failure;

/// A socket for them.
pub(super) struct Talk {
    context: Context,
    socket: Socket<Messages>,
}

impl Talk {
    pub(super) fn new(context: &Context, socket: Socket<Messages>) -> Self {
        Self { context: context.clone(), socket }
    }

    pub(super) fn say(&self, value: &Value) -> Result<(), Failure> {
        let text = value.to_string();
        let mut buf = self.context.buffer(text.len()).map_err(Failure::work)?;
        buf.copy_from_slice(text.as_bytes());
        self.socket.send(buf, ..).wait().0.map(drop).map_err(Failure::work)
    }

    /// Waits for the peer's next word. `None`: it has no more.
    pub(super) fn hear(&self) -> Result<Option<Value>, Failure> {
        let buf = self.context.buffer(LONGEST).map_err(Failure::work)?;
        let (received, buf) = self.socket.recv(buf, ..).wait();
        let received = received.map_err(Failure::work)?;
        if received.mode == Mode::End {
            return Ok(None);
        }
        let octets = buf.get(..received.octets as usize).unwrap_or_default();
        serde_json::from_slice(octets).map(Some).map_err(|_| strange())
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        self.socket.close().wait().map_err(Failure::work)
    }
}

/// Returns the failure that the peer is no `weft exs blast`.
pub(super) fn strange() -> Failure {
    Failure::work("the peer says something that this command does not know")
}

const LONGEST: usize = 4096;
