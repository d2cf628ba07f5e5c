//! Requests that a program builds call by call: `ibv_wr_start` to `ibv_wr_complete` of `struct ibv_qp_ex`.

use core::ops::Range;

use rustix::io::Errno;
use weft_rnic::{Data, Qp, SendOpcode, SendWr, Sge};

use crate::errno::refused;
use crate::work::send_wr;

/// Requests that are not posted yet. Their memory is used again for the next ones.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    built: Vec<Built>,
    sges: Vec<Sge>,
    octets: Vec<u8>,
    /// The first error. Nothing is posted then.
    wrong: Option<Errno>,
}

#[derive(Debug)]
struct Built {
    wr_id: u64,
    flags: u32,
    opcode: SendOpcode,
    local: Local,
}

/// Where the local data of a request lies in the builder.
#[derive(Debug)]
enum Local {
    Sges(Range<usize>),
    Inline(Range<usize>),
}

impl Builder {
    pub(crate) fn start(&mut self) {
        self.built.clear();
        self.sges.clear();
        self.octets.clear();
        self.wrong = None;
    }

    /// Adds a request, without data so far.
    pub(crate) fn add(&mut self, wr_id: u64, flags: u32, opcode: SendOpcode) {
        let local = Local::Sges(self.sges.len()..self.sges.len());
        self.built.push(Built { wr_id, flags, opcode, local });
    }

    /// Refuses everything that is being built.
    pub(crate) fn refuse(&mut self, errno: Errno) {
        self.wrong.get_or_insert(errno);
    }

    /// Sets the data of the last request, in place of the data that it had.
    pub(crate) fn set_sges(&mut self, sges: impl IntoIterator<Item = Sge>) {
        let first = self.sges.len();
        self.sges.extend(sges);
        let local = Local::Sges(first..self.sges.len());
        self.set_local(local);
    }

    /// Sets the octets of the last request. `copy` appends them to its argument.
    pub(crate) fn set_inline(&mut self, copy: impl FnOnce(&mut Vec<u8>) -> Result<(), Errno>) {
        let first = self.octets.len();
        if let Err(errno) = copy(&mut self.octets) {
            self.refuse(errno);
        }
        let local = Local::Inline(first..self.octets.len());
        self.set_local(local);
    }

    fn set_local(&mut self, local: Local) {
        match self.built.last_mut() {
            Some(last) => last.local = local,
            None => self.refuse(Errno::INVAL),
        }
    }

    fn wr<'a>(&'a self, built: &Built) -> SendWr<'a> {
        let data = match &built.local {
            Local::Sges(range) => Data::Sges(&self.sges[range.clone()]),
            Local::Inline(range) => Data::Inline(&self.octets[range.clone()]),
        };
        send_wr(built.wr_id, built.flags, built.opcode, data)
    }

    /// Posts everything to `sender`, or returns the error in it.
    ///
    /// # Errors
    /// The error of a request, and nothing is posted. Or the reason why the queue refused one, and those behind it are
    /// not posted.
    pub(crate) fn complete(&mut self, sender: Result<&Qp, Errno>) -> Result<(), Errno> {
        let outcome = match (self.wrong, self.built.as_slice()) {
            (Some(errno), _) => Err(errno),
            (None, []) => Ok(()),
            (None, [only]) => sender.and_then(|qp| qp.post_send(&self.wr(only)).map_err(refused)),
            (None, several) => {
                let wrs: Vec<_> = several.iter().map(|built| self.wr(built)).collect();
                sender.and_then(|qp| qp.post_sends(&wrs).map_err(|(_, error)| refused(error)))
            }
        };
        self.start();
        outcome
    }
}
