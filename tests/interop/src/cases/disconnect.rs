//! Either side ends the connection during a transfer. The other one sees its requests flushed, then the end. A fresh
//! connection then works.

use weft_rnic::{DisconnectReason, Status};

use crate::bench::Bench;
use crate::cases::exchange::check_health;
use crate::meeting::{Meeting, Plan, Table, explain, finish};
use crate::verbs::{Link, MAIL_SLOTS, text};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let table = Table::lay(bench, |_| {})?;
    disconnect(&table, true)?;
    check_health(&table)?;
    disconnect(&table, false)?;
    check_health(&table)?;
    table.host.close()
}

fn disconnect(table: &Table<'_>, by_guest: bool) -> Result<(), String> {
    let command = if by_guest { format!("stream -x -C {WRITES}") } else { "stream".into() };
    let mut transfer = Transfer::start(table, command)?;
    if by_guest {
        transfer.write_on(|_| true)?;
    } else {
        transfer.write_on(|written| written < WRITES)?;
        transfer.meeting.link.qp.disconnect().map_err(text)?;
    }
    let reason = transfer.end()?;
    let expected = match reason {
        DisconnectReason::Local => !by_guest,
        // A FIN may come behind any octet of an FPDU, and unread octets make it a reset.
        DisconnectReason::Peer | DisconnectReason::Lost => by_guest,
        _ => false,
    };
    let job = &transfer.meeting.job;
    if !expected || transfer.given_up > 0 {
        return Err(explain(&format!("the end: {reason}"), job));
    }
    finish(job)
}

/// Writes without end, in both directions.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) meeting: Meeting,
    posted: usize,
    written: usize,
    next: usize,
    flushed: usize,
    /// The number of requests that were under way when the device gave the peer up.
    pub(crate) given_up: usize,
}

impl Transfer {
    pub(crate) fn start(table: &Table<'_>, command: String) -> Result<Self, String> {
        let mut meeting = table.meet(&Plan { command, memory: WINDOW, ..Plan::default() })?;
        for slot in 1..MAIL_SLOTS {
            meeting.link.post_mail(slot)?;
        }
        meeting.greet(table.bench.role)?;
        Ok(Self { meeting, posted: MAIL_SLOTS - 1, written: 0, next: 0, flushed: 0, given_up: 0 })
    }

    /// Writes until `goes_on` returns false for the number of Writes, or a request is flushed. Returns that number.
    pub(crate) fn write_on(&mut self, mut goes_on: impl FnMut(usize) -> bool) -> Result<usize, String> {
        while goes_on(self.written) && self.flushed + self.given_up == 0 {
            while self.posted < MAIL_SLOTS - 1 + AT_ONCE {
                let link = &self.meeting.link;
                let place = self.next % (WINDOW / LEN as usize) * LEN as usize;
                link.post(
                    self.next as u64,
                    link.peer_window.write(place as u64),
                    link.source.sge(place, LEN),
                )?;
                self.next += 1;
                self.posted += 1;
            }
            self.take()?;
        }
        Ok(self.written)
    }

    /// Takes the rest of the posted requests, all of which complete. Returns how the connection ended.
    pub(crate) fn end(&mut self) -> Result<DisconnectReason, String> {
        while self.posted > 0 {
            self.take()?;
        }
        if self.flushed == 0 {
            return Err("nothing was flushed".into());
        }
        self.link().wait_disconnected()
    }

    fn take(&mut self) -> Result<(), String> {
        let completion = self.link().next_completion()?;
        self.posted -= 1;
        match completion.status {
            Status::Success => self.written += 1,
            Status::RetryExceeded if self.flushed == 0 => self.given_up += 1,
            Status::WorkRequestFlushed => self.flushed += 1,
            status => return Err(format!("a request ended with: {status}")),
        }
        Ok(())
    }

    const fn link(&self) -> &Link {
        &self.meeting.link
    }
}

const WRITES: usize = 40;
const WINDOW: usize = 1 << 20;
const LEN: u32 = 1 << 16;
const AT_ONCE: usize = 8;
