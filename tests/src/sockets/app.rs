//! The programs: each thread sends and receives until its streams end, and does what its script says meanwhile.

use std::cell::Cell;
use std::rc::Rc;

use weft_sockets_stepped::end::SHARED;
use weft_sockets_stepped::sync::Ordering::Relaxed;

use super::end::{End, enter_kernel};
use super::oracle::SENDERS;
use super::plan::{Act, Plan, Script};
use super::process::{Family, Process};
use super::transfer::Step;
use super::waits::Wanted;
use super::world::{Waits, World};

/// A thread of a program, which uses one end.
struct Program {
    end: End,
    script: Script,
    /// The octets of children have names of their own.
    sender: usize,
    left: usize,
    reads: bool,
    /// The program does without the library.
    is_bare: bool,
    turn: usize,
    /// The process's threads that use the end.
    mates: Rc<Cell<u32>>,
}

/// Begins the processes and their connections.
pub(crate) fn begin(world: &Rc<World>, plan: &Plan) {
    let is_single = plan.is_single && plan.connections.len() == 1 && !plan.is_one_process;
    let make = |host| world.new_process(|number| Process::new(number, Family::new(), is_single, host));
    let left = make(0);
    let right = if plan.is_one_process { Rc::clone(&left) } else { make(usize::from(plan.is_far)) };
    for connection in &plan.connections {
        let own = world.connect();
        for (side, process) in [&left, &right].into_iter().enumerate() {
            let end = End::create(world, process, &own, side);
            process.sockets.borrow_mut().push(end.socket());
            let script = connection.ends[side].clone();
            let begins = connection.begins;
            own.writers[side].borrow_mut().push(process.number);
            let first = end.of(process);
            world.begin(process, move || {
                first.world.wait(Waits { until: Some(begins), ..Waits::default() });
                start(&first, &script);
            });
        }
    }
}

/// Runs an end by one thread, or by two.
fn start(end: &End, script: &Script) {
    if end.world.is_eager {
        end.consider();
    }
    let mates = Rc::new(Cell::new(1 + u32::from(script.has_writer)));
    let program = |end: &End, left, reads| Program {
        end: end.clone(),
        script: script.clone(),
        sender: 0,
        left,
        reads,
        is_bare: false,
        turn: 0,
        mates: Rc::clone(&mates),
    };
    let mut own = script.total;
    if script.has_writer {
        let mut writer = program(&end.of(&end.process), script.total, false);
        writer.script.acts.clear();
        own = if script.both_write { script.total / 2 } else { 0 };
        if own > 0 {
            writer.left -= own;
            writer.sender = end.connection.new_sender(end.side);
            end.connection.writers[end.side].borrow_mut().push(end.process.number);
        }
        end.world.begin(&end.process, move || writer.run());
    }
    program(end, own, true).run();
}

impl Program {
    fn run(mut self) {
        let is_writer = self.left > 0 || !self.reads || !self.script.has_writer;
        let mut is_counted = is_writer;
        loop {
            self.turn += 1;
            if self.act() {
                return;
            }
            let mut is_moved = false;
            if self.left > 0 {
                is_moved |= self.send();
            }
            if self.left == 0 {
                if std::mem::take(&mut is_counted) {
                    self.end.connection.end_writer(self.end.side, self.end.process.number);
                }
                self.shut_down();
            }
            if self.reads {
                is_moved |= self.receive();
            }
            if self.left == 0 && !self.reads {
                break;
            }
            if !is_moved {
                self.sleep();
            }
        }
        self.mates.set(self.mates.get() - 1);
        if self.mates.get() == 0 {
            self.end.close();
        }
    }

    /// Does what the script says. Returns true if the thread has ended.
    fn act(&mut self) -> bool {
        let Some((_, act)) = self.script.acts.first().copied().filter(|(turn, _)| *turn <= self.turn) else {
            return false;
        };
        self.script.acts.remove(0);
        let end = &self.end;
        end.world.note(format_args!("{end}: {act:?}"));
        match act {
            Act::Fork if !self.is_bare && end.connection.senders[end.side].get() + 1 < SENDERS => self.fork(),
            Act::Lower(is_bare) if !self.is_bare => self.is_bare = end.lower() && is_bare,
            Act::Close if !self.script.has_writer && end.is_held_alone() => {
                end.connection.excuse();
                end.close();
                return true;
            }
            Act::Idle(span) => {
                let until = end.world.now.get() + span;
                end.connection.busy_until[end.side].set(until);
                end.world.wait(Waits { until: Some(until), ..Waits::default() });
            }
            _ => {}
        }
        false
    }

    /// A child sends and receives on the same end.
    fn fork(&self) {
        let end = &self.end;
        let family = Rc::clone(&end.process.family);
        end.withdraw();
        let child = end.world.new_process(|number| Process::new(number, family, true, end.process.host));
        end.words().identity.flags.fetch_or(SHARED, Relaxed);
        let _is_held = end.words().holders.add(child.member);
        child.inherit(&end.process);
        end.world.kernel.borrow_mut().hold(end.socket());
        child.sockets.borrow_mut().push(end.socket());
        end.connection.writers[end.side].borrow_mut().push(child.number);
        let script = Script { acts: vec![], has_writer: false, ..self.script.clone() };
        let left = if end.connection.is_shut[end.side].get() { 0 } else { script.total / 2 };
        let mates = Rc::new(Cell::new(1));
        let (end_of_child, sender) = (end.of(&child), end.connection.new_sender(end.side));
        let program =
            Self { end: end_of_child, script, sender, left, reads: true, is_bare: false, turn: 0, mates };
        end.world.tally.borrow_mut().operation("fork", 0);
        end.world.begin(&child, move || program.run());
    }

    fn send(&mut self) -> bool {
        let most = self.script.sizes[0].min(self.left);
        let len = self.end.world.random.borrow_mut().between(1, most);
        let step = if self.is_bare {
            enter_kernel();
            self.end.send_bare(self.sender, len)
        } else {
            self.end.send(self.sender, len)
        };
        match step {
            Step::Moved(octets) => self.left -= octets,
            Step::Nothing => return false,
            Step::End | Step::Failed => {
                self.left = 0;
                self.lose("a send");
            }
        }
        true
    }

    fn receive(&mut self) -> bool {
        let most = self.script.sizes[1];
        let len = self.end.world.random.borrow_mut().between(1, most);
        let step = if self.is_bare {
            enter_kernel();
            self.end.receive_by_kernel(len)
        } else {
            self.end.receive(len)
        };
        match step {
            Step::Moved(_) => {}
            Step::Nothing => return false,
            Step::End => {
                self.reads = false;
                let end = &self.end;
                let is_whole = end.connection.directions[1 - end.side].borrow().is_whole();
                if !is_whole && !end.connection.is_excused() {
                    end.world.fail(format!("{end}: the stream ends too early"));
                }
            }
            Step::Failed => {
                self.reads = false;
                self.lose("a receive");
            }
        }
        true
    }

    /// A call has failed.
    fn lose(&self, call: &str) {
        if !self.end.connection.is_excused() {
            self.end.world.fail(format!("{}: {call} fails, and nothing has died", self.end));
        }
    }

    /// Shuts the sending direction down behind the last thread that sends.
    fn shut_down(&self) {
        let (connection, side) = (&self.end.connection, self.end.side);
        if connection.writers[side].borrow().is_empty() && !connection.is_shut[side].replace(true) {
            if self.is_bare { self.end.shut_down_bare() } else { self.end.shut_down() }
        }
    }

    fn sleep(&self) {
        let wanted = Wanted { octets: self.reads, room: self.left > 0 };
        if !self.is_bare {
            return self.end.sleep(wanted);
        }
        let socket = self.end.socket();
        self.end.world.wait(Waits {
            readable: wanted.octets.then_some(socket),
            writable: wanted.room.then_some(socket),
            ..Waits::default()
        });
    }
}
