//! The end that sends, and measures.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use weft_exs::{Context, Error, Kind, Messages, Options, Socket, Stream};

use super::args::Args;
use super::carried::Transfer;
use super::pattern::fill;
use super::plan::{Carries, MAX_MEMORY, Plan};
use super::report::{Measured, Report};
use super::talk::{Talk, strange};
use super::time::{Moment, PATIENCE};
use crate::exs::address::not_connected;
use crate::failure::Failure;

/// Measures all rows.
pub(super) fn measure(args: &Args, context: &Context, peer: SocketAddr) -> Result<(), Failure> {
    let plans = plans(args)?;
    let talk = Talk::new(context, connect::<Messages>(context, peer, &Options::default())?);
    let mut report = Report::new(args.json)?;
    for plan in plans {
        talk.say(&json!({ "open": plan.to_json() }))?;
        let told = hear(&talk)?;
        let port = told["port"].as_u64().and_then(|port| u16::try_from(port).ok()).ok_or_else(strange)?;
        let peer = SocketAddr::new(peer.ip(), port);
        let measured = match plan.carries {
            Carries::Message => measure_row::<Messages>(args, context, (&talk, peer), plan)?,
            Carries::Stream => measure_row::<Stream>(args, context, (&talk, peer), plan)?,
        };
        report.print(&plan, &measured)?;
    }
    talk.close()?;
    report.end()
}

/// Returns a plan for each row.
fn plans(args: &Args) -> Result<Vec<Plan>, Failure> {
    if args.waitall && !args.types.iter().any(|carries| matches!(carries, Carries::Stream)) {
        return Err(Failure::usage("--waitall is for streams: a receive of a message has all of it"));
    }
    let mut plans = Vec::new();
    for carries in &args.types {
        for small in &args.small {
            for size in &args.sizes.0 {
                let (pending, recvs) = args.at_a_time();
                let most = recvs.max(pending);
                if size * most > MAX_MEMORY {
                    return Err(Failure::usage(format!(
                        "{most} operations of {size} octets are more than 1 GiB: lower --pending, --recvs or --sizes"
                    )));
                }
                let Some(small) = small.of(*size) else {
                    return Err(Failure::usage(format!("--small max: {size} octets are more than 16 MiB")));
                };
                let (carries, size, wait) = (*carries, *size, args.wait);
                plans.push(Plan { carries, size, small, recvs, waits_for_all: args.waitall, wait });
            }
        }
    }
    Ok(plans)
}

fn measure_row<K: Kind>(
    args: &Args,
    context: &Context,
    (talk, peer): (&Talk, SocketAddr),
    plan: Plan,
) -> Result<Measured, Failure> {
    plan.wait.begin(context);
    let socket = connect::<K>(context, peer, &plan.options())?;
    let (pending, _) = args.at_a_time();
    let mut row = Row { context, talk, socket, plan, pending, spare: VecDeque::new() };
    // More than are under way, so that each buffer is used again.
    let checked = (2 * pending.max(plan.recvs) as u64 + 1).min(CHECKED / plan.size as u64 + 1);
    row.run(checked, true)?;
    let few = row.run(checked, false)?;
    let wanted = Duration::from_millis(args.time.into()).as_secs_f64();
    let count = (checked as f64 * wanted / few.seconds.max(f64::MIN_POSITIVE)).clamp(checked as f64, MOST);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within 1 and MOST")]
    let measured = row.run(count as u64, false)?;
    talk.say(&json!({ "close": true }))?;
    row.socket.close().wait().map_err(Failure::work)?;
    hear(talk)?;
    Ok(Measured { checked: checked * plan.size as u64, ..measured })
}

/// A socket that sends.
struct Row<'a, K> {
    context: &'a Context,
    talk: &'a Talk,
    socket: Socket<K>,
    plan: Plan,
    /// Sends at a time.
    pending: usize,
    /// Buffers that no send has.
    spare: VecDeque<weft_exs::Buf>,
}

impl<K: Kind> Row<'_, K> {
    /// Sends so many times. The other end checks every octet, or measures.
    fn run(&mut self, count: u64, is_checked: bool) -> Result<Measured, Failure> {
        self.talk.say(&json!({ "count": count, "checked": is_checked }))?;
        if hear(self.talk)?["ready"] != true {
            return Err(strange());
        }
        let begun = Moment::now();
        let mut under_way: VecDeque<Transfer> = VecDeque::new();
        for number in 0..count {
            if under_way.len() == self.pending
                && let Some(oldest) = under_way.pop_front()
            {
                self.end(oldest)?;
            }
            let spare = self.spare.pop_front();
            let mut buf = match spare {
                Some(buf) => buf,
                None => self.context.buffer(self.plan.size).map_err(Failure::work)?,
            };
            if is_checked {
                fill(&mut buf, number * self.plan.size as u64);
            }
            under_way.push_back(self.socket.send(buf, ..));
        }
        under_way.into_iter().try_for_each(|op| self.end(op))?;
        let told = hear(self.talk)?;
        let (_, cpu) = begun.since();
        if let Some(position) = told["wrong"].as_u64() {
            return Err(Failure::work(format!(
                "{} octets: octet {position} did not come as it was sent",
                self.plan.size
            )));
        }
        let number = |name: &str| told[name].as_f64().ok_or_else(strange);
        let (seconds, received) = (number("seconds")?, number("cpu")?);
        Ok(Measured { count, seconds, cpu: [cpu, received], ways: told["ways"].clone(), checked: 0 })
    }

    fn end(&mut self, op: Transfer) -> Result<(), Failure> {
        let (sent, buf) = self.plan.wait.finish(op);
        sent.map_err(Failure::work)?;
        self.spare.push_back(buf);
        Ok(())
    }
}

fn connect<K: Kind>(context: &Context, peer: SocketAddr, options: &Options) -> Result<Socket<K>, Failure> {
    let connecting = context.connect::<K>(peer, options);
    let connected = connecting.wait_timeout(PATIENCE).unwrap_or(Err(Error::TimedOut));
    connected.map_err(|error| not_connected(peer, error))
}

fn hear(talk: &Talk) -> Result<Value, Failure> {
    talk.hear()?.ok_or_else(|| Failure::work("the other end has ended"))
}

/// Octets that are checked in a row, or a few more.
const CHECKED: u64 = 32 << 20;
/// Sends of a measurement.
const MOST: f64 = 1e8;
