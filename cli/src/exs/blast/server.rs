//! The end that receives.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use serde_json::{Value, json};
use weft_exs::{Context, Messages, Mode, Options, Socket, Stream};

use super::carried::{Carried, Transfer};
use super::output::print;
use super::pattern::find_wrong;
use super::plan::{Carries, Plan};
use super::talk::{Talk, strange};
use super::time::{Moment, PATIENCE};
use crate::failure::Failure;

/// Serves one client.
pub(super) fn serve(context: &Context, own: SocketAddr, json: bool) -> Result<(), Failure> {
    let refused = |error| Failure::usage(format!("{own}: {error}"));
    let listener = context.listen::<Messages>(own, &Options::default()).map_err(refused)?;
    if json {
        print(json!({ "listening": listener.local_addr() }))?;
    } else {
        print(format_args!("{LISTENING}{}", listener.local_addr()))?;
    }
    let talk = Talk::new(context, listener.accept().wait().map_err(Failure::work)?);
    let ip = listener.local_addr().ip();
    while let Some(word) = talk.hear()? {
        let plan = Plan::from_json(&word["open"]).ok_or_else(strange)?;
        match plan.carries {
            Carries::Message => serve_row::<Messages>(context, &talk, SocketAddr::new(ip, 0), plan)?,
            Carries::Stream => serve_row::<Stream>(context, &talk, SocketAddr::new(ip, 0), plan)?,
        }
    }
    talk.close()
}

/// Serves the measurements of one row, on a socket of its own.
fn serve_row<K: Carried>(context: &Context, talk: &Talk, own: SocketAddr, plan: Plan) -> Result<(), Failure> {
    plan.wait.begin(context);
    let listener = context.listen::<K>(own, &plan.options()).map_err(Failure::work)?;
    talk.say(&json!({ "port": listener.local_addr().port() }))?;
    let accepted = listener.accept().wait_timeout(PATIENCE);
    let socket =
        accepted.map_err(|_| Failure::work("the client does not connect"))?.map_err(Failure::work)?;
    let mut row = Row { context, socket, plan, under_way: VecDeque::new(), made: 0 };
    while let Some(word) = talk.hear()? {
        let Some(count) = word["count"].as_u64() else { break };
        row.fill_up()?;
        talk.say(&json!({ "ready": true }))?;
        let told = row.receive(count, word["checked"] == true)?;
        talk.say(&told)?;
    }
    // Receives are under way.
    row.socket.close().wait().map_err(Failure::work)?;
    talk.say(&json!({ "closed": true }))
}

/// A socket that receives.
struct Row<'a, K> {
    context: &'a Context,
    socket: Socket<K>,
    plan: Plan,
    /// Receives, the oldest first. They stay from one measurement to the next.
    under_way: VecDeque<Transfer>,
    /// Buffers.
    made: usize,
}

impl<K: Carried> Row<'_, K> {
    fn fill_up(&mut self) -> Result<(), Failure> {
        while self.made < self.plan.recvs {
            let buf = self.context.buffer(self.plan.size).map_err(Failure::work)?;
            self.under_way.push_back(K::receive(&self.socket, buf, self.plan.waits_for_all));
            self.made += 1;
        }
        Ok(())
    }

    /// Receives so many sends. Returns what is to be told of them.
    fn receive(&mut self, count: u64, is_checked: bool) -> Result<Value, Failure> {
        let total = count.checked_mul(self.plan.size as u64).ok_or_else(strange)?;
        let (mut position, mut wrong) = (0, None);
        let mut ways: BTreeMap<&str, u64> = BTreeMap::new();
        let begun = Moment::now();
        while position < total {
            let Some(oldest) = self.under_way.pop_front() else { return Err(strange()) };
            let (received, buf) = self.plan.wait.finish(oldest);
            let received = received.map_err(Failure::work)?;
            if received.mode == Mode::End {
                return Err(Failure::work("the client has ended in the middle of a measurement"));
            }
            if is_checked && wrong.is_none() {
                let octets = buf.get(..received.octets as usize).unwrap_or_default();
                wrong = find_wrong(octets, position);
            }
            position += u64::from(received.octets);
            *ways.entry(way(received.mode)).or_default() += u64::from(received.octets);
            self.under_way.push_back(K::receive(&self.socket, buf, self.plan.waits_for_all));
        }
        let (seconds, cpu) = begun.since();
        Ok(json!({ "seconds": seconds, "cpu": cpu, "wrong": wrong, "ways": ways }))
    }
}

const fn way(mode: Mode) -> &'static str {
    match mode {
        Mode::Inline | Mode::InPlace { .. } => "immediate",
        Mode::Read => "read",
        Mode::Direct => "direct",
        Mode::Ring => "ring",
        Mode::Plain => "plain",
        Mode::End => "end",
    }
}

/// What the server says, in front of its address.
pub(super) const LISTENING: &str = "listening at ";
