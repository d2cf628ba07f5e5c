//! What sockets are made of, one by one: calls, locks, copies, and what two threads pass to one another.

use std::hint::black_box;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use weft_sockets::sync::AtomicU64;
use weft_sockets::{Level, Lock, Owner};

use crate::case::{Effort, Sample, Side, Trouble};
use crate::cores::keep_to;
use crate::process::{Outcome, say};
use crate::watch::Watch;

/// A call of one thread, made again and again.
struct Call<F> {
    call: F,
    round: u64,
}

/// Something that two threads do at the same time, each on its core.
struct Exchange {
    parties: [Party; 2],
    cores: [usize; 2],
}

/// What a thread does once.
type Party = Box<dyn FnMut() -> io::Result<()> + Send>;

pub(super) fn system_call() -> Outcome<Box<dyn Side>> {
    call(10_000, || {
        black_box(rustix::process::getppid());
        Ok(())
    })
}

pub(super) fn socket() -> Outcome<Box<dyn Side>> {
    call(100, || TcpListener::bind(("127.0.0.1", 0)).map(drop))
}

pub(super) fn mutex() -> Outcome<Box<dyn Side>> {
    let mutex = Mutex::new(0_u64);
    call(10_000, move || {
        *mutex.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Ok(())
    })
}

/// A direction's lock, in a process with threads.
pub(super) fn own_lock() -> Outcome<Box<dyn Side>> {
    let (word, me) = (AtomicU64::new(0), Owner::new(1, 1));
    call(10_000, move || {
        let lock = Lock::new(black_box(&word));
        let taken = lock.try_lock(me, Level::Shared).map_err(|_| io::Error::other("a lock that is not free"));
        black_box(lock.unlock(Level::Shared));
        taken
    })
}

pub(super) fn copy(size: usize) -> Outcome<Box<dyn Side>> {
    let (from, mut to) = (vec![1_u8; size], vec![0_u8; size]);
    call(((4 << 20) / size) as u64, move || {
        black_box(&mut to).copy_from_slice(black_box(&from));
        Ok(())
    })
}

/// A Mutex that two threads want at all times.
pub(super) fn contended_mutex() -> Outcome<Box<dyn Side>> {
    let mutex = Arc::new(Mutex::new(0_u64));
    let party = || -> Party {
        let mutex = Arc::clone(&mutex);
        Box::new(move || {
            *mutex.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            Ok(())
        })
    };
    exchange([party(), party()], [0, 1])
}

/// A cache line that two cores write by turns: there and back.
pub(super) fn cache_line() -> Outcome<Box<dyn Side>> {
    alternate(core::hint::spin_loop, [0, 1])
}

/// Two threads that yield one core to each other: there and back.
pub(super) fn yields() -> Outcome<Box<dyn Side>> {
    alternate(thread::yield_now, [0, 0])
}

/// Threads that wake one another: there and back.
pub(super) fn wakes() -> Outcome<Box<dyn Side>> {
    let make = || eventfd(0, EventfdFlags::CLOEXEC).map(Arc::new).map_err(say("an eventfd"));
    let (there, back) = (make()?, make()?);
    let ring = |bell: &OwnedFd| rustix::io::write(bell, &1_u64.to_ne_bytes()).map(drop);
    let wait = |bell: &OwnedFd| rustix::io::read(bell, &mut [0; 8]).map(drop);
    let (there_too, back_too) = (Arc::clone(&there), Arc::clone(&back));
    let first: Party = Box::new(move || Ok(ring(&there).and_then(|()| wait(&back))?));
    let second: Party = Box::new(move || Ok(wait(&there_too).and_then(|()| ring(&back_too))?));
    exchange([first, second], [0, 1])
}

/// 8 octets through pipes, there and back.
pub(super) fn pipe_round_trips() -> Outcome<Box<dyn Side>> {
    let ((mut near, mut out), (mut come, mut far)) = (pipe()?, pipe()?);
    let first: Party = Box::new(move || {
        out.write_all(&[0; 8])?;
        come.read_exact(&mut [0; 8])
    });
    let second: Party = Box::new(move || {
        near.read_exact(&mut [0; 8])?;
        far.write_all(&[0; 8])
    });
    exchange([first, second], [0, 1])
}

/// Messages of 8 octets through a pipe.
pub(super) fn pipe_messages() -> Outcome<Box<dyn Side>> {
    let (mut near, mut out) = pipe()?;
    let first: Party = Box::new(move || out.write_all(&[0; 8]));
    exchange([first, Box::new(move || near.read_exact(&mut [0; 8]))], [0, 1])
}

fn pipe() -> Outcome<(PipeReader, PipeWriter)> {
    io::pipe().map_err(say("a pipe"))
}

fn alternate(wait: fn(), cores: [usize; 2]) -> Outcome<Box<dyn Side>> {
    let turn = Arc::new(AtomicBool::new(false));
    let party = |own: bool| -> Party {
        let turn = Arc::clone(&turn);
        Box::new(move || {
            while turn.load(Ordering::Acquire) != own {
                wait();
            }
            turn.store(!own, Ordering::Release);
            Ok(())
        })
    };
    exchange([party(false), party(true)], cores)
}

fn call(round: u64, call: impl FnMut() -> io::Result<()> + 'static) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(Call { call, round }))
}

fn exchange(parties: [Party; 2], cores: [usize; 2]) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(Exchange { parties, cores }))
}

impl<F: FnMut() -> io::Result<()>> Side for Call<F> {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            watch.time(|| (0..self.round).try_for_each(|_| (self.call)())).map_err(Trouble::failed)?;
            watch.count(self.round, 0, self.round);
        }
        Ok(watch.finish())
    }
}

impl Side for Exchange {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let mut watch = Watch::new(effort);
        let [first, second] = &mut self.parties;
        while watch.goes_on() {
            thread::scope(|scope| {
                let far = scope.spawn(|| {
                    keep_to(self.cores[1])?;
                    (0..ROUND).try_for_each(|_| second())
                });
                let near = scope.spawn(|| {
                    keep_to(self.cores[0])?;
                    // The other thread has begun when this one has come back.
                    first()?;
                    watch.time(|| (1..ROUND).try_for_each(|_| first()))
                });
                let joined = |end: thread::ScopedJoinHandle<'_, io::Result<()>>| {
                    end.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
                };
                let (near, far) = (joined(near), joined(far));
                near.and(far)
            })
            .map_err(Trouble::failed)?;
            watch.count(ROUND - 1, 0, ROUND - 1);
        }
        Ok(watch.finish())
    }
}

const ROUND: u64 = 5000;
