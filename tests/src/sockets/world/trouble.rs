//! What goes wrong: processes and daemons die and stop, and lanes are lost.

use std::rc::Rc;

use super::super::far;
use super::super::plan::{Event, LARGEST};
use super::super::process::Process;
use super::super::task::Task;
use super::{Course, World};

impl World {
    pub(super) fn strike(self: &Rc<Self>, event: Event, course: &mut Course) {
        let now = self.now.get();
        let mut processes = self.processes.borrow().clone();
        processes.retain(|process| !process.is_daemon);
        if event != Event::KillBetween {
            self.hear_of(event);
        }
        match event {
            // Its parent is about to fork it.
            Event::Kill(number) if !processes[number % processes.len()].has_begun.get() => {}
            Event::Kill(number) => {
                let process = &processes[number % processes.len()];
                self.kill(process, course);
            }
            Event::KillBetween => match processes.iter().find(|process| process.is_between()) {
                Some(process) => {
                    self.hear_of(event);
                    self.kill(process, course);
                }
                None => course.postpone(Event::KillBetween, 1),
            },
            Event::Stop(number, span) => {
                let process = &processes[number % processes.len()];
                process.stopped_until.set(now + span);
                self.trouble.set(Some(now + span));
            }
            Event::KillDaemon(rounds) => {
                let host = self.random.borrow_mut().below(1 + usize::from(self.is_far));
                self.kill_daemon(host, course);
                course.postpone(Event::StartDaemon(host), rounds);
            }
            Event::StartDaemon(host) if self.services[host].borrow().is_alive() => {}
            Event::StartDaemon(host) => {
                self.services[host].borrow_mut().begin();
                if self.is_far {
                    self.lanes.borrow_mut().revive(host);
                    far::begin_one(self, host);
                }
            }
            Event::LoseLane(is_torn) => {
                let arrivals = [(); 2].map(|()| self.later());
                self.lanes.borrow_mut().tear(arrivals, is_torn);
            }
            Event::Part(span) => {
                let arrivals = [(); 2].map(|()| self.later());
                let mut lanes = self.lanes.borrow_mut();
                lanes.tear(arrivals, false);
                lanes.apart_until = now + span;
                self.trouble.set(Some(now + span));
            }
            Event::StopDaemon(span) => {
                let host = if self.is_far { self.random.borrow_mut().below(2) } else { 0 };
                self.services[host].borrow_mut().stopped_until = now + span;
                self.lanes.borrow_mut().stopped_until[host] = now + span;
                let all = self.processes.borrow();
                let its = all.iter().filter(|process| process.is_daemon && process.host == host);
                its.for_each(|daemon| daemon.stopped_until.set(now + span));
                self.trouble.set(Some(now + span));
            }
        }
    }

    fn hear_of(&self, event: Event) {
        self.trouble.set(Some(self.now.get()));
        self.note(format_args!("{event:?}"));
        self.tally.borrow_mut().fault(event.name(), 1);
    }

    /// The daemon of a host is killed, and the claims and messages that it has are lost.
    fn kill_daemon(&self, host: usize, course: &mut Course) {
        let mut lost = self.services[host].borrow_mut().die();
        course.threads.append(&mut self.begun.borrow_mut());
        let is_its = |process: &Process| process.is_daemon && process.host == host && process.is_alive.get();
        let its = course.threads.iter_mut().filter(|thread| is_its(&thread.process));
        its.filter_map(|thread| thread.task.take()).for_each(Task::kill);
        let processes = self.processes.borrow();
        processes.iter().filter(|process| is_its(process)).for_each(|daemon| daemon.is_alive.set(false));
        if self.is_far {
            let arrival = self.later();
            lost.extend(self.lanes.borrow_mut().bury(host, arrival));
        }
        for socket in lost {
            let arrival = self.later();
            self.kernel.borrow_mut().release(socket, arrival);
        }
    }

    fn kill(&self, process: &Rc<Process>, course: &mut Course) {
        course.threads.append(&mut self.begun.borrow_mut());
        let its = course.threads.iter_mut().filter(|thread| Rc::ptr_eq(&thread.process, process));
        its.filter_map(|thread| thread.task.take()).for_each(Task::kill);
        let is_reading = process.is_reading();
        if is_reading {
            self.excuse.set(Some("relative that waits for what a killed reader took"));
        }
        if process.is_alive.replace(false) {
            self.bury(process, is_reading);
            course.dead.push((self.later(), process.number));
        }
    }

    /// Processes without a thread end.
    pub(super) fn exit(&self, course: &mut Course) {
        let begun = self.begun.borrow();
        for process in
            self.processes.borrow().iter().filter(|process| process.is_alive.get() && process.has_begun.get())
        {
            if process.is_daemon {
                continue;
            }
            let mut all = course.threads.iter().chain(&*begun);
            if !all.any(|thread| Rc::ptr_eq(&thread.process, process)) {
                process.is_alive.set(false);
                course.dead.push((self.later(), process.number));
            }
        }
    }

    /// The kernel closes what a process had.
    fn bury(&self, process: &Rc<Process>, is_reading: bool) {
        for socket in process.sockets.take() {
            let connections = self.connections.borrow();
            let connection = &connections[socket / 2];
            connection.directions[1 - socket % 2].borrow_mut().excuse(LARGEST as u64);
            connection.writers[socket % 2].borrow_mut().retain(|writer| *writer != process.number);
            // What relatives of a dead process send arrives, unless that was about to go back to TCP.
            if is_reading
                || !self.processes.borrow().iter().any(|other| other.sockets.borrow().contains(&socket))
            {
                connection.excuse();
            }
            self.kernel.borrow_mut().release(socket, self.now.get() + 120);
        }
        let relatives = self.processes.borrow();
        let relatives = relatives.iter().filter(|other| Rc::ptr_eq(&other.family, &process.family));
        self.bereaved.borrow_mut().extend(relatives.map(|relative| relative.number));
    }
}
