//! The turns of channels: what each has to send.

use core::time::Duration;

use weft_sockets::end::{Phase, SHUT};
use weft_sockets::far::{Duty, Letter, Notice, NoticeKind, Outgoing};
use weft_sockets::layout::{self, RESET};
use weft_sockets::sync::Ordering;
use weft_sockets::{Broken, Sleepers};

use crate::hosts::channel::Channel;
use crate::hosts::failure::Failure;
use crate::hosts::host::Host;
use crate::hosts::lane::Message;
use crate::hosts::seen::Seen;
use crate::hosts::why::Why;
use crate::state::State;

/// What became of a look at a channel.
enum Step {
    Nothing,
    Sent,
    /// Nothing of it is in use any more.
    Over,
}

impl Channel {
    /// Sends what is to be sent next, if there is room.
    fn step(&mut self, host: &mut Host, state: &State, own: u32, is_idle: bool) -> Result<Step, Failure> {
        let Some(link) = state.links.get(&self.link) else { return Ok(Step::Over) };
        let (ours, theirs) = self.words(&link.memory).ok_or(Broken)?;
        // Before all other looks.
        let seen = Seen::new(ours, theirs, link);
        self.seen = None;
        host.flush()?;
        if !host.has_room() {
            return Ok(Step::Nothing);
        }
        let notice = |kind, value| Notice { kind, channel: self.peer, value };
        if !self.is_broken
            && let Some((kind, value)) = self.incoming.poll(theirs, is_idle)?
        {
            host.notify(notice(kind, value));
            return Ok(Step::Sent);
        }
        let is_closed = link.end(self.number, self.party).is_none();
        if is_closed {
            self.outgoing.end_for_sender(ours);
        }
        let channel = self.peer;
        let may_write = self.under_way < UNDER_WAY;
        let mut duty = if self.is_broken { None } else { self.outgoing.poll(ours, MOST, may_write)? };
        if duty.is_none() && !self.is_broken && self.outgoing.may_end_before_ring() {
            duty = state.end_of_shut(self).and_then(|end| self.outgoing.end_before_ring(end));
        }
        match duty {
            Some(Duty::Write { from, to, len, value }) => {
                let at = usize::try_from(from - layout::RINGS_AT).map_err(|_| Broken)?;
                let notice = Notice { kind: NoticeKind::Data, channel, value };
                host.push(Message::Write { own, link: self.link, at, len, to: (self.stag, to), notice });
                self.under_way += 1;
            }
            Some(Duty::Leg { number, ring, start }) => {
                host.send(Letter::Leg { channel, number, ring, start });
            }
            Some(Duty::Final { end }) => host.send(Letter::Final { channel, end }),
            Some(Duty::Notice { kind, value }) => host.notify(Notice { kind, channel, value }),
            None if is_closed && !self.is_told_closed && self.under_way == 0 => {
                self.is_told_closed = true;
                host.notify(Notice { kind: NoticeKind::Closed, channel, value: 0 });
            }
            None if self.is_told_closed && self.is_closed_there => return Ok(Step::Over),
            None => {
                // The slab tells of a process that has not taken its channel.
                self.is_taken = self.is_taken || is_closed || state.is_taken(self);
                self.seen = self.is_taken.then_some((seen, is_idle));
                return Ok(Step::Nothing);
            }
        }
        Ok(Step::Sent)
    }
}

impl State {
    /// Gives each channel of a host its turns. Returns false if there was nothing to send.
    pub(crate) fn serve_host(&mut self, name: u64, is_idle: bool, now: Duration) -> bool {
        let Some(mut host) = self.take_host(name) else { return false };
        let mut is_busy = false;
        let numbers = self.with_news(&host, is_idle);
        let mut lost = false;
        for own in numbers {
            let Some(mut channel) = host.channels.remove(&own) else { continue };
            let mut is_over = false;
            for _ in 0..STEPS {
                match channel.step(&mut host, self, own, is_idle) {
                    Ok(Step::Nothing) => break,
                    Ok(Step::Sent) => is_busy = true,
                    Ok(Step::Over) => {
                        is_over = true;
                        break;
                    }
                    Err(Failure::Channel) => {
                        self.break_channel(&mut host, &mut channel);
                        break;
                    }
                    Err(Failure::Lane | Failure::Host) => {
                        lost = true;
                        break;
                    }
                }
            }
            if is_over {
                host.by_place.remove(&(channel.link, channel.number));
                self.close(channel.link, channel.number, 1 - channel.party);
            } else {
                host.channels.insert(own, channel);
            }
        }
        host.memory.retain(|link, _| self.links.contains_key(link));
        lost |= host.flush().is_err();
        let is_silent = host.keep_in_touch(now).is_err();
        self.put_host(host);
        if is_silent {
            // The daemon may be stopped. Its kernel takes what is sent.
            self.refuse_host(name, Why::Silent, now);
        } else if lost {
            self.lose_lane(name, now);
        }
        is_busy
    }

    /// The channels of a host that may have something to send. Most channels of a process are in one link.
    fn with_news(&self, host: &Host, is_idle: bool) -> Vec<u32> {
        let mut last = None;
        let mut news = Vec::new();
        for (own, channel) in &host.channels {
            let link = match last {
                Some((name, link)) if name == channel.link => link,
                _ => self.links.get(&channel.link),
            };
            last = Some((channel.link, link));
            if !channel.is_quiet(link, is_idle) {
                news.push(*own);
            }
        }
        news
    }

    /// True if a process has taken its channel: from then on it tells all by the link.
    fn is_taken(&self, channel: &Channel) -> bool {
        let taken = || {
            let link = self.links.get(&channel.link)?;
            let end = link.end(channel.number, channel.party)?;
            let state = self.families.get(link.families.get(channel.party)?)?.slab.end(end.slot)?.state();
            Some(state.phase == Phase::Offered && state.generation == end.generation)
        };
        taken() == Some(true)
    }

    /// Ends a connection whose rules were broken, for both ends.
    pub(crate) fn break_channel(&self, host: &mut Host, channel: &mut Channel) {
        channel.is_broken = true;
        self.reset_end(channel);
        host.notify(Notice { kind: NoticeKind::Reset, channel: channel.peer, value: 0 });
    }

    /// Returns where a stream ends that its process has shut down before it heard of the channel. The process may sleep, and
    /// hear of the channel only when the other end has ended its stream, too. That end waits for this word.
    fn end_of_shut(&self, channel: &Channel) -> Option<u64> {
        let link = self.links.get(&channel.link)?;
        let end = link.end(channel.number, channel.party)?;
        let words = self.families.get(link.families.get(channel.party)?)?.slab.end(end.slot)?;
        let state = words.state();
        let has_not_heard = matches!(state.phase, Phase::Plain | Phase::Claimed);
        let is_shut = words.outbound.flags.load(Ordering::SeqCst) & SHUT != 0;
        (has_not_heard && is_shut && state.generation == end.generation)
            .then(|| words.outbound.written.load(Ordering::Acquire))
    }

    /// Tells the process that its connection is broken.
    pub(crate) fn reset_end(&self, channel: &Channel) {
        let Some(link) = self.links.get(&channel.link) else { return };
        let Some((_, theirs)) = channel.words(&link.memory) else { return };
        theirs.producer.flags.fetch_or(RESET, Ordering::SeqCst);
        if let Some(family) = link.families.get(channel.party) {
            self.wake(*family, None);
        }
    }

    /// Lets the process go on by the kernel's stream, because nobody carries its octets any more.
    pub(crate) fn lower_end(&self, channel: &Channel) {
        let Some(link) = self.links.get(&channel.link) else { return };
        let Some((ours, theirs)) = channel.words(&link.memory) else { return };
        for sleepers in [Outgoing::lower(ours), channel.incoming.lower(theirs)] {
            self.wake_end(channel, sleepers);
        }
    }

    /// Wakes those of a process that a publication concerns.
    pub(crate) fn wake_end(&self, channel: &Channel, sleepers: Option<Sleepers>) {
        let family = self.links.get(&channel.link).and_then(|link| link.families.get(channel.party));
        match (family, sleepers) {
            (Some(family), Some(Sleepers::One(waiter))) => self.wake(*family, Some(waiter)),
            (Some(family), Some(Sleepers::Everybody)) => self.wake(*family, None),
            _ => {}
        }
    }
}

/// Octets of a Write at most.
const MOST: u32 = 64 << 10;
/// Writes of a channel without a completion at most.
const UNDER_WAY: u8 = 2;
/// What a channel sends until the others have their turn.
const STEPS: usize = 8;
