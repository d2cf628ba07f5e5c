//! The register of the group. It is linearizable; answers get lost, and what was asked may come late.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_group::{Record, Reply};
use weft_netif::{Duration, Instant};

use crate::simulate::random::Random;

/// The register, and the requests that are under way.
#[derive(Debug)]
pub(super) struct Register {
    pub(super) record: Arc<Record>,
    requests: BTreeMap<u64, Request>,
    last: u64,
    lost_answers: usize,
}

/// Names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// What is asked.
#[derive(Debug)]
pub(super) enum Question {
    Read,
    /// The old record, and the new one.
    Swap(Box<[Record; 2]>),
}

#[derive(Debug)]
struct Request {
    question: Question,
    /// When it reaches the register; `None` for one that never does, or has.
    due: Option<Instant>,
    /// When the asker hears of it, or gives up.
    told: Instant,
    is_lost: bool,
    reply: Reply,
}

impl Register {
    pub(super) const fn new(record: Arc<Record>, lost_answers: usize) -> Self {
        Self { record, requests: BTreeMap::new(), last: 0, lost_answers }
    }

    pub(super) fn ask(&mut self, question: Question, now: Instant, random: &mut Random) -> Ticket {
        let after =
            |random: &mut Random, most: usize| now + Duration::from_micros(random.between(100, most) as u64);
        let is_lost = random.percent(self.lost_answers);
        let (due, told) = match is_lost {
            true => (random.percent(60).then(|| after(random, 1_500_000)), now + PATIENCE),
            false => (Some(after(random, 5_000)), now + Duration::from_millis(6)),
        };
        self.last += 1;
        self.requests.insert(self.last, Request { question, due, told, is_lost, reply: Reply::Unknown });
        Ticket(self.last)
    }

    /// Lets what is due reach the register. Returns the records that were replaced.
    pub(super) fn work(&mut self, now: Instant) -> Vec<Arc<Record>> {
        let mut replaced = Vec::new();
        while let Some(request) = self
            .requests
            .values_mut()
            .filter(|request| request.due.is_some_and(|due| due <= now))
            .min_by_key(|request| request.due)
        {
            request.due = None;
            let reply = match &request.question {
                Question::Read => Reply::Record(Arc::clone(&self.record)),
                Question::Swap(records) => {
                    let [old, new] = &**records;
                    let is_swapped = *self.record == *old;
                    if is_swapped {
                        replaced.push(std::mem::replace(&mut self.record, Arc::new(new.clone())));
                    }
                    Reply::Swapped(is_swapped)
                }
            };
            if !request.is_lost {
                request.reply = reply;
            }
        }
        self.requests.retain(|_, request| request.due.is_some() || now < request.told + PATIENCE);
        replaced
    }

    /// Returns the reply once it is there.
    pub(super) fn reply(&self, ticket: Ticket, now: Instant) -> Option<Reply> {
        let request = self.requests.get(&ticket.0)?;
        (now >= request.told).then(|| request.reply.clone())
    }

    pub(super) fn poll_at(&self) -> Option<Instant> {
        self.requests.values().filter_map(|request| request.due).min()
    }

    /// Returns when the asker hears of a request.
    pub(super) fn told_at(&self, ticket: Ticket) -> Option<Instant> {
        self.requests.get(&ticket.0).map(|request| request.told)
    }
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(1_000);
