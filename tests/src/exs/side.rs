//! One end of a socket: its program.

use weft_exs::{Context, Error, Mode, Op};
use weft_netif::{Duration, Instant};

use super::ledger::{Direction, Ledger};
use super::plan::{End, SidePlan};
use super::socket::{Coming, Socket, taken};
use crate::simulate::random::Random;

/// One end of a socket.
pub(super) struct Side {
    pub(super) host: usize,
    plan: SidePlan,
    stage: Stage,
    pub(super) ledger: Ledger,
    /// When the program goes on.
    next_step: Instant,
    pub(super) has_stopped: bool,
    pub(super) is_closed: bool,
    /// What the close has not done.
    pub(super) close_error: Option<Error>,
    /// How often it tries again to receive.
    retries: u32,
}

/// How far the program has come.
enum Stage {
    /// It has nothing.
    Idle,
    /// It waits for its socket.
    Coming(Coming),
    Working(Socket),
    /// It sends nothing more, and receives until the peer does not send either. It waits for this receive.
    Draining(Socket, Option<usize>),
    /// It waits for the end of the close, unless it has dropped the socket.
    Closing(Option<(Socket, Op<Result<(), Error>>)>),
    Over,
}

impl Side {
    pub(super) fn new(host: usize, plan: SidePlan, ledger: Ledger) -> Self {
        Self {
            host,
            plan,
            stage: Stage::Idle,
            ledger,
            next_step: Instant::ZERO,
            has_stopped: false,
            is_closed: false,
            close_error: None,
            retries: RETRIES,
        }
    }

    /// Waits for a socket from now on.
    pub(super) fn await_socket(&mut self, coming: Coming) {
        self.stage = Stage::Coming(coming);
    }

    /// Returns whether the side has no socket yet.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Idle | Stage::Coming(_))
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// No socket comes.
    pub(super) fn give_up(&mut self) {
        self.stage = Stage::Over;
    }

    /// Returns when the program goes on by itself.
    pub(super) fn next_time(&self) -> Option<Instant> {
        matches!(self.stage, Stage::Working(_) | Stage::Draining(..)).then_some(self.next_step)
    }

    /// Goes on with the program. Returns whether it has done something.
    ///
    /// # Errors
    /// Why the socket did not come; the outer one: what is wrong.
    pub(super) fn work(
        &mut self,
        context: &Context,
        now: Instant,
        random: &mut Random,
    ) -> Result<Result<bool, Error>, String> {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let mut has_done = false;
        self.stage = match stage {
            Stage::Coming(mut coming) => match coming() {
                None => Stage::Coming(coming),
                Some(Ok(socket)) => {
                    has_done = true;
                    self.next_step = now;
                    Stage::Working(socket)
                }
                Some(Err(error)) => return Ok(Err(error)),
            },
            Stage::Working(socket) if self.next_step <= now => {
                has_done = true;
                self.step(context, socket, now, random)?
            }
            Stage::Draining(socket, receive) if self.next_step <= now => {
                has_done = true;
                self.drain(context, socket, receive, (now, random))?
            }
            Stage::Closing(Some((socket, mut close))) => match taken(&mut close) {
                None => Stage::Closing(Some((socket, close))),
                Some(outcome) => {
                    self.close_error = outcome.err();
                    Stage::Closing(None)
                }
            },
            Stage::Closing(None) if self.ledger.is_idle() => Stage::Over,
            other => other,
        };
        // A drain goes on when its receive has ended.
        Ok(Ok(has_done && !matches!(self.stage, Stage::Draining(_, Some(_)))))
    }

    /// Does one thing, and decides when to do the next.
    fn step(
        &mut self,
        context: &Context,
        socket: Socket,
        now: Instant,
        random: &mut Random,
    ) -> Result<Stage, String> {
        if self.plan.steps == 0 {
            return Ok(self.finish(socket, now));
        }
        self.plan.steps -= 1;
        self.next_step = now + Duration::from_micros(random.pick(&PAUSES));
        let len = match random.below(10) {
            0 => 0,
            1 => random.between(1, 64),
            2 => random.between(1000, 1100).min(self.plan.longest),
            _ => random.between(1, self.plan.longest),
        };
        let ends = (context, &socket);
        match random.below(100) {
            0..42 => _ = self.ledger.start(ends, Direction::Send, len, random)?,
            42..84 => _ = self.ledger.start(ends, Direction::Receive, len, random)?,
            84..92 => self.ledger.cancel_one(random),
            92..94 => self.ledger.cancel_all(&socket),
            94..97 => self.ledger.drop_one(random),
            97 => {
                self.ledger.is_shut = true;
                socket.shutdown();
                self.ledger.tally.operation("shutdown", 0);
            }
            98 if random.percent(30) => {
                self.has_stopped = true;
                socket.shutdown_receive();
                self.ledger.tally.operation("shutdown of receiving", 0);
            }
            // More than a socket takes.
            99 if random.percent(10) => {
                for _ in 0..70 {
                    self.ledger.start(ends, Direction::Send, len.min(100), random)?;
                }
            }
            _ => {}
        }
        Ok(Stage::Working(socket))
    }

    /// Ends the program.
    fn finish(&mut self, socket: Socket, now: Instant) -> Stage {
        self.next_step = now;
        match self.plan.end {
            End::Close | End::Drop => self.close(socket),
            End::Orderly | End::OrderlyDrop => {
                self.ledger.is_shut = true;
                socket.shutdown();
                Stage::Draining(socket, None)
            }
        }
    }

    fn close(&mut self, socket: Socket) -> Stage {
        self.is_closed = true;
        self.ledger.tally.end(&format!("{:?}", self.plan.end));
        match self.plan.end {
            End::Drop | End::OrderlyDrop => Stage::Closing(None),
            End::Close | End::Orderly => {
                let close = socket.close();
                Stage::Closing(Some((socket, close)))
            }
        }
    }

    fn drain(
        &mut self,
        context: &Context,
        socket: Socket,
        receive: Option<usize>,
        (now, random): (Instant, &mut Random),
    ) -> Result<Stage, String> {
        let result = receive.map(|receive| self.ledger.result(Direction::Receive, receive));
        match result {
            Some(None) => return Ok(Stage::Draining(socket, receive)),
            Some(Some(Ok(outcome))) if outcome.mode == Mode::End => return Ok(self.close(socket)),
            None | Some(Some(Ok(_))) => {}
            // A connection that has ended tells the same as a receive whose time is over.
            Some(Some(Err(Error::TimedOut | Error::Full))) if self.retries > 0 => {
                self.retries -= 1;
                self.next_step = now + Duration::from_millis(500);
                return Ok(Stage::Draining(socket, None));
            }
            Some(Some(Err(_))) => return Ok(self.close(socket)),
        }
        let ends = (context, &socket);
        let receive = self.ledger.start(ends, Direction::Receive, self.plan.longest, random)?;
        Ok(Stage::Draining(socket, Some(receive)))
    }
}

/// Half a second each: longer than the peer's program.
const RETRIES: u32 = 240;
/// Microseconds between two things that a program does.
const PAUSES: [u64; 9] = [0, 0, 0, 0, 20, 20, 300, 5000, 50_000];
