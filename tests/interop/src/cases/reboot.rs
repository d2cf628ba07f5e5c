//! The guest reboots during a transfer. The host notices in bounded time, flushes, and serves others meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weft_rnic::{CLOCK_SCALE, ConnParam, DisconnectReason, Status};

use crate::bench::Bench;
use crate::cases::disconnect::Transfer;
use crate::cases::exchange::check_health;
use crate::meeting::{Table, next_request};
use crate::patience::Stopwatch;
use crate::pattern::{Kind, Pattern, Side};
use crate::verbs::{Host, Link, MAIL_OCTETS, text};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let table = Table::lay(bench, |config| {
        config.stack.timeout = Some((SILENCE * CLOCK_SCALE).into());
        config.stack.keep_alive = Some((SILENCE * CLOCK_SCALE / 2).into());
    })?;
    let others = Others::new(&table.host)?;
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let served = std::thread::scope(|scope| {
        let thread = scope.spawn(|| others.serve(&stop, &rounds));
        let outcome = lose_guest(&table, &rounds);
        stop.store(true, Ordering::Release);
        let served = thread.join().map_err(|_| "the thread of the others has panicked")?;
        outcome.and_then(|()| served.map_err(|error| format!("the other connection: {error}")))
    });
    served?;
    bench.guest.wait_ready(BOOT)?;
    check_health(&table)?;
    table.host.close()
}

fn lose_guest(table: &Table<'_>, rounds: &AtomicUsize) -> Result<(), String> {
    let mut transfer = Transfer::start(table, "stream".into())?;
    transfer.write_on(|written| written < WRITES)?;
    let before = rounds.load(Ordering::Acquire);
    let outage = Stopwatch::start();
    table.bench.guest.reboot()?;
    transfer.write_on(|_| true)?;
    let reason = transfer.end()?;
    let (noticed, served) = (outage.elapsed(), rounds.load(Ordering::Acquire) - before);
    if reason != DisconnectReason::TimedOut {
        return Err(format!("the end: {reason}"));
    }
    if transfer.given_up != 1 {
        return Err(format!("{} requests ended as given up, instead of the oldest one", transfer.given_up));
    }
    if noticed > BOUND {
        return Err(format!("noticed after {} s only", noticed.as_secs()));
    }
    if served == 0 {
        return Err("nobody else was served meanwhile".into());
    }
    Ok(())
}

/// Two queue pairs of the device that talk to each other.
struct Others {
    pings: Link,
    pongs: Link,
}

impl Others {
    fn new(host: &Host) -> Result<Self, String> {
        let (calling, called) = (host.events()?, host.events()?);
        let _listener = host.device.listen(&called, PORT).map_err(text)?;
        let (pings, pongs) = (host.link(&calling, 64)?, host.link(&called, 64)?);
        pings.post_mail(0)?;
        pongs.post_mail(0)?;
        let (device, address) = (&host.device, host.device.address(PORT));
        device.connect(&calling, &pings.qp, address, ConnParam::default()).map_err(text)?;
        let request = next_request(&called)?;
        device.accept(request.id, &pongs.qp, ConnParam::default()).map_err(text)?;
        pings.wait_established()?;
        Ok(Self { pings, pongs })
    }

    /// Ping-pongs until `stop` is set, and counts the rounds.
    fn serve(&self, stop: &AtomicBool, rounds: &AtomicUsize) -> Result<(), String> {
        for round in 0.. {
            if stop.load(Ordering::Acquire) {
                break;
            }
            for (from, to) in [(&self.pings, &self.pongs), (&self.pongs, &self.pings)] {
                pass(from, to, &Pattern::new(Side::Host, Kind::Send, round, 0))?;
            }
            rounds.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// Sends one message and checks it. Posts the receive that it took again.
fn pass(from: &Link, to: &Link, pattern: &Pattern) -> Result<(), String> {
    from.send_inline(&pattern.octets(MAIL_OCTETS), true)?;
    for link in [from, to] {
        let completion = link.next_completion()?;
        if completion.status != Status::Success {
            return Err(format!("{completion:?}"));
        }
    }
    pattern.check_memory(&to.mail, 0, MAIL_OCTETS, "message")?;
    to.post_mail(0)
}

const PORT: u16 = 7300;
const WRITES: usize = 40;
/// The device gives a peer up after so long a silence.
const SILENCE: Duration = Duration::from_secs(6);
/// The host must have noticed within this time, on any machine.
const BOUND: Duration = Duration::from_secs(40);
const BOOT: Duration = Duration::from_secs(180);
