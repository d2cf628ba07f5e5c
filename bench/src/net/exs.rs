//! Ours: two sockets of EXS, each with a context and a thread.

use core::net::Ipv4Addr;
use core::task::{Context as TaskContext, Poll};
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Wake, Waker};
use std::thread::Thread;

use weft_exs::{Context, Error, Memory, Messages, Mode, Op, Options, Outcome as Ended, Socket, Stream};
use weft_rnic::Progress;

use super::place::{End, PATIENCE, Shared, turn};
use super::scene::Scene;
use super::threads::Threads;
use super::verbs::Site;
use super::work::{Kind, Source, Work};
use super::{Outcome, say};
use crate::case::{Effort, Sample, Side, Trouble};

/// Two sockets of EXS on the kernel's TCP.
pub(crate) struct Exs {
    scene: Arc<Scene>,
    plan: Plan,
}

/// What the sockets do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) work: Work,
    pub(crate) carries: Carries,
    /// The longest immediate data.
    pub(crate) small: u32,
    /// Receives at a time.
    pub(crate) recvs: usize,
    pub(crate) crc: bool,
    pub(crate) gauge: Gauge,
}

/// What sockets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    Messages,
    Stream,
}

/// What a turn tells besides its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gauge {
    Nothing,
    /// The part of a core that the program and the context of an end use. The threads wait without driving the device.
    HostCpu,
    /// The share of octets that were written directly into receives.
    Direct,
}

/// What both ends add to.
#[derive(Debug, Default)]
struct Sums {
    /// Nanoseconds of the threads that [`Gauge::HostCpu`] counts, and of real time.
    cpu: AtomicU64,
    wall: AtomicU64,
    /// Octets that came directly, and all.
    direct: AtomicU64,
    octets: AtomicU64,
}

/// A socket of either kind.
enum Either {
    Messages(Socket<Messages>),
    Stream(Socket<Stream>),
}

/// One end.
struct Node<'a> {
    socket: Either,
    /// It lives as long as its sockets.
    _context: Context,
    plan: Plan,
    sums: &'a Sums,
    source: Source,
    /// The source as registered memory.
    from: Memory,
    /// The messages that arrived in this round, one behind the other, and a place for a signal behind them.
    sink: Memory,
    came: Vec<u8>,
    /// This end receives the messages.
    is_sink: bool,
    sends: VecDeque<Transfer>,
    receives: VecDeque<Transfer>,
    /// Receives that were started in this round.
    started: usize,
    /// The threads of both ends, if they are counted.
    threads: Option<Threads>,
}

type Transfer = Op<(Result<Ended, Error>, Memory)>;

impl Exs {
    pub(crate) fn start(plan: Plan) -> Box<dyn Side> {
        Box::new(Self { scene: Scene::loopback(), plan })
    }
}

impl Side for Exs {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let (tell, told) = channel();
        let (plan, all) = (self.plan, Sums::default());
        let sums = &all;
        let server = move |_: &_| Node::accept(plan, sums, &tell);
        let client = move |_: &_| Node::connect(plan, sums, &told);
        let taken = turn((&self.scene.places, &Shared::default()), server, client, &plan.work, effort)?;
        let part = |part: &AtomicU64, whole: &AtomicU64| {
            part.load(Ordering::Relaxed) as f64 / (whole.load(Ordering::Relaxed) as f64).max(1.0)
        };
        let figure = match plan.gauge {
            Gauge::Nothing => 0.0,
            // Both ends together.
            Gauge::HostCpu => part(&sums.cpu, &sums.wall) / 2.0,
            Gauge::Direct => part(&sums.direct, &sums.octets),
        };
        Ok(Sample { figure, ..taken })
    }
}

impl Plan {
    /// Returns messages or a stream, with receives posted ahead.
    pub(crate) const fn new(carries: Carries, work: Work) -> Self {
        Self { work, carries, small: SMALL, recvs: PENDING, crc: true, gauge: Gauge::Nothing }
    }

    fn options(&self) -> Options {
        let options = Options { small_packet_max: self.small, ..Options::default() };
        if self.small > LARGE {
            // Large slots are few.
            Options { window: 8, send_credits: 8, recv_credits: 8, ..options }
        } else {
            options
        }
    }

    /// Returns the sends at a time.
    const fn pending(&self) -> usize {
        if self.work.size <= LARGE as usize { MOST } else { PENDING }
    }
}

impl<'a> Node<'a> {
    fn accept(plan: Plan, sums: &'a Sums, tell: &Sender<SocketAddr>) -> Outcome<Self> {
        let context = open(plan)?;
        let own = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let (options, failed) = (plan.options(), say("listening"));
        let told = |address| tell.send(address).map_err(say("telling the client"));
        let socket = match plan.carries {
            Carries::Messages => {
                let listener = context.listen(own, &options).map_err(failed)?;
                told(listener.local_addr())?;
                Either::Messages(connected(listener.accept())?)
            }
            Carries::Stream => {
                let listener = context.listen(own, &options).map_err(failed)?;
                told(listener.local_addr())?;
                Either::Stream(connected(listener.accept())?)
            }
        };
        Self::new(context, socket, plan, (sums, true))
    }

    fn connect(plan: Plan, sums: &'a Sums, told: &Receiver<SocketAddr>) -> Outcome<Self> {
        let context = open(plan)?;
        let peer = told.recv_timeout(PATIENCE).map_err(say("waiting for the server"))?;
        let options = plan.options();
        let socket = match plan.carries {
            Carries::Messages => Either::Messages(connected(context.connect(peer, &options))?),
            Carries::Stream => Either::Stream(connected(context.connect(peer, &options))?),
        };
        Self::new(context, socket, plan, (sums, plan.work.kind == Kind::RoundTrips))
    }

    fn new(context: Context, socket: Either, plan: Plan, (sums, is_sink): (&'a Sums, bool)) -> Outcome<Self> {
        let source = Source::of(plan.work);
        let came = source.sink();
        let memory = |len| context.memory(len).map_err(say("registering memory"));
        let (from, sink) = (memory(source.octets().len())?, memory(came.len() + SIGNAL)?);
        from.write(0, source.octets()).map_err(Trouble::failed)?;
        Ok(Self {
            socket,
            _context: context,
            plan,
            sums,
            source,
            from,
            sink,
            came,
            is_sink,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            started: 0,
            threads: None,
        })
    }

    /// Returns the receives of a round: of messages, or of the signal that they have come.
    const fn expected(&self) -> usize {
        if self.is_sink { self.plan.work.round } else { 1 }
    }

    /// Keeps receives started.
    fn start_receives(&mut self) {
        let size = self.plan.work.size;
        while self.started < self.expected() && self.receives.len() < self.plan.recvs {
            let range = if self.is_sink {
                self.started * size..(self.started + 1) * size
            } else {
                self.came.len()..self.came.len() + SIGNAL
            };
            let sink = self.sink.clone();
            self.receives.push_back(match &self.socket {
                Either::Messages(socket) => socket.recv(sink, range),
                Either::Stream(socket) => socket.recv_all(sink, range),
            });
            self.started += 1;
        }
    }

    /// Waits for the oldest receive, and starts another one.
    fn receive(&mut self, len: usize) -> Outcome {
        let Some(oldest) = self.receives.pop_front() else { return Err(Trouble::failed("no receive")) };
        let ended = self.wait(oldest)?;
        if ended.octets as usize != len {
            return Err(Trouble::failed(format!("{} octets have come instead of {len}", ended.octets)));
        }
        self.start_receives();
        if self.is_sink && self.plan.gauge == Gauge::Direct {
            let octets = u64::from(ended.octets);
            let is_direct = u64::from(ended.mode == Mode::Direct);
            self.sums.direct.fetch_add(octets * is_direct, Ordering::Relaxed);
            self.sums.octets.fetch_add(octets, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sends octets of the source.
    fn send(&mut self, start: usize, len: usize) -> Outcome {
        if self.sends.len() >= self.plan.pending()
            && let Some(oldest) = self.sends.pop_front()
        {
            self.wait(oldest)?;
        }
        let (from, range) = (self.from.clone(), start..start + len);
        self.sends.push_back(match &self.socket {
            Either::Messages(socket) => socket.send(from, range),
            Either::Stream(socket) => socket.send(from, range),
        });
        Ok(())
    }

    fn drain(&mut self) -> Outcome {
        while let Some(oldest) = self.sends.pop_front() {
            self.wait(oldest)?;
        }
        Ok(())
    }

    fn wait(&self, op: Transfer) -> Outcome<Ended> {
        let (result, _) = match self.plan.gauge {
            Gauge::HostCpu => parked(op)?,
            Gauge::Nothing | Gauge::Direct => {
                op.wait_timeout(PATIENCE).map_err(|_| Trouble::failed("an operation does not end"))?
            }
        };
        result.map_err(say("an operation"))
    }

    fn round_trips(&mut self, is_first: bool) -> Outcome {
        let Work { size, round, .. } = self.plan.work;
        for index in 0..round {
            if is_first {
                self.send(self.source.offset(index), size)?;
            }
            self.receive(size)?;
            if !is_first {
                self.send(self.source.offset(index), size)?;
            }
        }
        self.drain()
    }

    fn ask_once(&mut self) -> Outcome {
        if self.plan.work.kind == Kind::RoundTrips {
            return self.round_trips(true);
        }
        for index in 0..self.plan.work.round {
            self.send(self.source.offset(index), self.plan.work.size)?;
        }
        self.receive(SIGNAL)?;
        self.drain()
    }
}

impl End for Node<'_> {
    const NAME: &'static str = "exs";

    fn prepare(&mut self) -> Outcome {
        self.started = 0;
        self.start_receives();
        Ok(())
    }

    fn serve(&mut self) -> Outcome {
        if self.plan.work.kind == Kind::RoundTrips {
            return self.round_trips(false);
        }
        for _ in 0..self.expected() {
            self.receive(self.plan.work.size)?;
        }
        // Any octets say that all have come.
        self.send(0, SIGNAL)?;
        self.drain()
    }

    fn ask(&mut self) -> Outcome {
        if self.plan.gauge != Gauge::HostCpu {
            return self.ask_once();
        }
        let mut threads = match self.threads.take() {
            Some(threads) => threads,
            None => Threads::named(&["exs server", "exs client", "weft-exs"])?,
        };
        threads.look();
        let begun = super::place::now();
        self.ask_once()?;
        let nanos = |time: core::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sums.wall.fetch_add(nanos(begun.elapsed()), Ordering::Relaxed);
        self.sums.cpu.fetch_add(nanos(threads.look()), Ordering::Relaxed);
        self.threads = Some(threads);
        Ok(())
    }

    fn check(&mut self) -> Outcome {
        if self.is_sink {
            self.sink.read(0, &mut self.came).map_err(Trouble::failed)?;
            self.source.check(&self.came)?;
            self.came.fill(0);
            self.sink.write(0, &self.came).map_err(Trouble::failed)?;
        }
        Ok(())
    }
}

fn open(plan: Plan) -> Outcome<Context> {
    let device = Site::Host(Ipv4Addr::LOCALHOST.into()).open(plan.crc, Progress::Thread)?;
    Context::on(&device).map_err(say("a context"))
}

fn connected<S>(op: Op<Result<S, Error>>) -> Outcome<S> {
    let connected = op.wait_timeout(PATIENCE).map_err(|_| Trouble::failed("no connection comes"))?;
    connected.map_err(say("connecting"))
}

/// Waits for an operation without driving the device.
fn parked<T>(op: Op<T>) -> Outcome<T> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut op = pin!(op);
    let begun = super::place::now();
    loop {
        if let Poll::Ready(outcome) = op.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            return Ok(outcome);
        }
        if begun.elapsed() > PATIENCE {
            return Err(Trouble::failed("an operation does not end"));
        }
        std::thread::park_timeout(PATIENCE);
    }
}

/// The length of what the server says when all messages have come: an octet of the source.
const SIGNAL: usize = 1;
/// The longest immediate data, if a case says nothing else.
const SMALL: u32 = 1024;
/// Octets of a small send, and immediate data of which there are many slots.
const LARGE: u32 = 4096;
/// Operations at a time: large sends and receives, and small sends.
const PENDING: usize = 16;
const MOST: usize = 64;
