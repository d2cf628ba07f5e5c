//! What the daemon does for connections to other hosts.

mod bounds;
mod completions;
pub(crate) mod greeting;
mod late;
mod letters;
mod losing;
mod opening;
mod rings;
mod turns;
mod wiring;

use core::time::Duration;

use rustix::thread::sched_yield;
use weft_rnic::Completion;
use weft_sockets::sync::Ordering;
use weft_sockets::{LONGEST, Situation, Step, Wait};

use crate::hosts::Hosts;
use crate::hosts::rnic::Way;
pub(crate) use crate::remote::letters::remote_id;
use crate::state::State;

impl State {
    /// Serves the lanes until nothing is left to do, and says that the daemon sleeps from now on. If the next message
    /// mostly comes soon, waits a little for it: a wake-up takes longer.
    pub(crate) fn serve_hosts(&mut self, clock: &dyn Fn() -> Duration) {
        let now = clock();
        self.look_for_lanes(now);
        let Some(hosts) = &self.hosts else { return };
        hosts.set_asleep(false);
        self.beat(hosts);
        hosts.silence();
        let quiet = self.hosts.as_mut().map(|hosts| &mut hosts.quiet);
        let is_quiet = quiet.is_some_and(|quiet| quiet.take_if(|quiet| *quiet <= now).is_some());
        let turns = self.serve_awake(clock, is_quiet);
        let Some(hosts) = &mut self.hosts else { return };
        if turns > 0 && !is_quiet {
            hosts.quiet.get_or_insert(now + QUIET);
        }
        hosts.set_asleep(true);
        // A process that has published before that word has not rung.
        if self.serve_once(now, is_quiet)
            && let Some(hosts) = &mut self.hosts
        {
            hosts.quiet.get_or_insert(now + QUIET);
            // There may be more: the doorbell ends the sleep at once.
            let _rung = rustix::io::write(&*hosts.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Handles what is there, and what comes as long as waiting for it pays. Returns how many rounds had work.
    fn serve_awake(&mut self, clock: &dyn Fn() -> Duration, is_quiet: bool) -> u32 {
        let nanoseconds = |now: Duration| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut turns = 0;
        let mut wait: Option<Wait> = None;
        while turns < TURNS {
            let now = clock();
            let is_busy = self.serve_once(now, is_quiet);
            turns += u32::from(is_busy);
            let Some(hosts) = self.hosts.as_mut().filter(|_| turns > 0) else { break };
            let now = nanoseconds(now);
            if is_busy {
                wait.take().map(|wait| hosts.pace.end(&wait, now));
                continue;
            }
            let wait = wait.get_or_insert_with(|| hosts.pace.begin(now, WAIT));
            if wait.next(now) == Step::Sleep {
                hosts.pace.end(wait, now);
                break;
            }
            // A program, or the daemon of the other host, may need this CPU to send the next message.
            sched_yield();
        }
        turns
    }

    /// Tells the processes with links to other hosts that this daemon is alive.
    fn beat(&self, hosts: &Hosts) {
        let links = hosts.hosts.values().flat_map(|host| host.memory.keys());
        for link in links.filter_map(|name| self.links.get(name)) {
            link.memory.header().heartbeat.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if this family stands for another host.
    pub(crate) fn is_host(&self, family: u64) -> bool {
        self.hosts.as_ref().is_some_and(|hosts| hosts.names.contains(&family))
    }

    /// Handles what is there. Returns false if there was nothing.
    fn serve_once(&mut self, now: Duration, is_quiet: bool) -> bool {
        let mut is_busy = false;
        is_busy |= self.hear_events(now);
        is_busy |= self.complete(now);
        let names: Vec<u64> = self.hosts.iter().flat_map(|hosts| hosts.hosts.keys().copied()).collect();
        for name in names {
            is_busy |= self.serve_host(name, is_quiet, now);
        }
        is_busy
    }

    /// Handles the events of connections. Returns false if there were none.
    fn hear_events(&mut self, now: Duration) -> bool {
        let mut is_busy = false;
        let next = |state: &Self| {
            let mut rnics = state.hosts.iter().flat_map(Hosts::rnics);
            rnics.find_map(|(way, rnic)| Some((way, rnic.event()?)))
        };
        while let Some((way, event)) = next(self) {
            self.handle_lane_event(way, event, now);
            is_busy = true;
        }
        is_busy
    }

    /// Handles completions. Returns false if there were none.
    fn complete(&mut self, now: Duration) -> bool {
        self.complete_of(Way::Kernel, now) | self.complete_of(Way::Wire, now)
    }

    fn complete_of(&mut self, way: Way, now: Duration) -> bool {
        let mut done = [Completion::EMPTY; 64];
        let mut is_busy = false;
        for _ in 0..BATCHES {
            let Some(rnic) = self.hosts.as_ref().and_then(|hosts| hosts.rnic(way)) else { break };
            let count = rnic.poll(&mut done);
            // A lane tells that it is open before it brings something.
            self.hear_events(now);
            for completion in done.get(..count).unwrap_or_default() {
                self.handle_completion(way, completion, now);
            }
            is_busy |= count > 0;
            if count < done.len() {
                break;
            }
        }
        is_busy
    }
}

/// The daemon's waits. The writer of the next message is another thread, and maybe far.
const WAIT: Situation =
    Situation { is_same_cpu: false, is_in_stream: false, bound: LONGEST, is_yielding: true };
/// After this time without work, the other daemons hear how far all readers are. An answer mostly comes sooner, and then
/// a message of its own would only take time from it.
const QUIET: Duration = Duration::from_millis(1);
/// Batches of completions until channels have their turn. A host that floods this one brings more all the time.
const BATCHES: usize = 16;
/// Rounds of work until processes and their messages have their turn.
const TURNS: u32 = 64;
