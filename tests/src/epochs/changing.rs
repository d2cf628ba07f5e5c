//! A coordinator: a change of epoch, and what it has asked.

use std::sync::Arc;

use weft_group::{Ask, Change, ChangeError, Inquiry, Record, Reply, Wish};
use weft_netif::{Duration, Instant};

use super::register::{Question, Ticket};
use super::sabotage::Sabotage;
use super::stage::Stage;

/// A change of epoch under way.
#[derive(Debug)]
pub(super) struct Changing {
    change: Change,
    asked: Option<Asked>,
    /// When it gives up.
    end: Instant,
}

#[derive(Debug)]
enum Asked {
    Register(Ticket),
    Host(Box<Waiting>),
}

/// A question to a host.
#[derive(Debug)]
struct Waiting {
    inquiry: Inquiry,
    progress: Option<[u64; 2]>,
    deadline: Instant,
    look_at: Instant,
}

impl Changing {
    pub(super) fn new(record: Arc<Record>, wish: Wish, now: Instant) -> Self {
        let change = Change::new(record, wish.is_from_storage);
        let change = match wish.from {
            Some(epoch) => change.starting_from(epoch),
            None => change,
        };
        Self { change, asked: None, end: now + LONGEST }
    }

    /// Goes on from this host. Returns how the change has ended, once it has.
    pub(super) fn work(
        &mut self,
        stage: &mut Stage,
        host: usize,
    ) -> Option<Result<Arc<Record>, ChangeError>> {
        let now = stage.now();
        if now >= self.end {
            return Some(Err(ChangeError::Overtaken));
        }
        loop {
            if let Some(outcome) = self.change.outcome() {
                return Some(outcome);
            }
            let reply = match &mut self.asked {
                None => self.ask(stage, host),
                Some(Asked::Register(ticket)) => stage.register.reply(*ticket, now),
                Some(Asked::Host(question)) => question.work(now),
            };
            match reply {
                Some(reply) => {
                    self.asked = None;
                    self.change.handle(reply);
                }
                None => return None,
            }
        }
    }

    /// Returns when it has to go on if no host answers.
    pub(super) fn poll_at(&self, stage: &Stage) -> Option<Instant> {
        match &self.asked {
            None => Some(stage.now()),
            Some(Asked::Register(ticket)) => stage.register.told_at(*ticket),
            Some(Asked::Host(question)) => Some(question.deadline.min(question.look_at)),
        }
    }

    /// Asks what has to be asked next. Returns the reply if that is there already.
    fn ask(&mut self, stage: &mut Stage, host: usize) -> Option<Reply> {
        let now = stage.now();
        let question = match self.change.ask()? {
            Ask::Read => Question::Read,
            Ask::Swap { old, new } => Question::Swap(Box::new([old.clone(), new])),
            Ask::Copy { .. } if stage.sabotage == Some(Sabotage::SkipCopy) => return Some(Reply::Done),
            ask => {
                let text = format!("host {host} asks {}", described(&ask));
                stage.note(&text);
                let device = stage.hosts[host].device.as_ref()?;
                let inquiry = Inquiry::new(device, None, &ask);
                let (deadline, look_at) = (now + PATIENCE, now + LOOK);
                let mut question = Waiting { inquiry, progress: None, deadline, look_at };
                let reply = question.work(now);
                self.asked = Some(Asked::Host(Box::new(question)));
                return reply;
            }
        };
        let ticket = stage.register.ask(question, now, &mut stage.plan.random);
        self.asked = Some(Asked::Register(ticket));
        None
    }
}

impl Waiting {
    fn work(&mut self, now: Instant) -> Option<Reply> {
        if let Some((reply, _)) = self.inquiry.poll() {
            return Some(reply);
        }
        if self.inquiry.progress() != self.progress {
            self.progress = self.inquiry.progress();
            self.deadline = now + PATIENCE;
        }
        if now >= self.look_at {
            self.inquiry.look();
            self.look_at = now + LOOK;
        }
        (now >= self.deadline).then_some(Reply::Silent)
    }
}

fn described(ask: &Ask<'_>) -> String {
    match ask {
        Ask::Read | Ask::Swap { .. } => String::new(),
        Ask::Seal { host, epoch, base } => format!("{} to be sealed with {epoch}, from {base}", host.id),
        Ask::Copy { to, from, epoch, .. } => format!("{} to copy from {}, for {epoch}", to.id, from.id),
        Ask::Flush { host, epoch, .. } => format!("{} to flush, for {epoch}", host.id),
        Ask::Finish { host, epoch, .. } => format!("{} to finish {epoch}", host.id),
    }
}

/// How long a host may be silent.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// How long nothing may come before a host is asked how far it is.
const LOOK: Duration = Duration::from_millis(200);
/// A change that takes longer is given up.
const LONGEST: Duration = Duration::from_secs(60);
