//! Events, as `struct rdma_cm_event` has them.

use rustix::io::Errno;
use weft_rnic::{ConnectFailure, DisconnectReason};

use crate::core::{Acknowledgement, Cause, Event, Id};
use crate::kind::EventKind;
use crate::param::EventParam;

impl Event {
    /// Returns what has happened.
    pub const fn kind(&self) -> EventKind {
        self.kind
    }

    /// Returns why it happened: 0, or the negative number of libc that librdmacm would report.
    pub fn status(&self) -> i32 {
        self.status.map_or(0, |errno| -errno.raw_os_error())
    }

    /// Returns the same as an [`Errno`]; none for 0.
    pub const fn error(&self) -> Option<Errno> {
        self.status
    }

    /// Returns the number of the id. In a connect request it is that of the new id.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns what the application has stored in the id. A new id begins with the value of its listener.
    pub const fn context(&self) -> u64 {
        self.context
    }

    /// Returns the number of the id that listens, in a connect request.
    pub const fn listen_id(&self) -> Option<u64> {
        self.listener
    }

    /// Returns the new id of a connect request, once. If it is not taken, the request is rejected when the event is
    /// dropped.
    pub const fn take_id(&mut self) -> Option<Id> {
        self.child.take()
    }

    /// Returns the parameters that came with it.
    pub const fn param(&self) -> &EventParam {
        &self.param
    }

    /// Returns the private data that came with it.
    pub fn private_data(&self) -> &[u8] {
        &self.param.private_data
    }

    /// Returns why a connection did not come about, as the device has it.
    pub const fn connect_failure(&self) -> Option<&ConnectFailure> {
        match &self.cause {
            Cause::Failure(failure) => Some(failure),
            _ => None,
        }
    }

    /// Returns how a connection ended, as the device has it.
    pub const fn disconnect_reason(&self) -> Option<&DisconnectReason> {
        match &self.cause {
            Cause::End(reason) => Some(reason),
            _ => None,
        }
    }

    /// Acknowledges the event, for a caller that keeps it. It goes on showing the same.
    pub fn acknowledge(&mut self) {
        self.acknowledgement = None;
    }
}

impl Drop for Acknowledgement {
    fn drop(&mut self) {
        self.0.acknowledge();
    }
}
