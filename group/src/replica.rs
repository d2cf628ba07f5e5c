//! The objects of a session at one replica, and how they come to work.
//!
//! * **IN** is the queue pair from the predecessor. Its receives are cyclic, and complete to `inbox`.
//! * **SELF** is connected to itself, and changes the replica's own memory. It completes to `done`.
//! * **OUT** leads to the next replica, or from the tail to the client.
//!
//! All of them are of one protection domain and one engine. Its memory is registered twice: for the predecessor, and for the
//! replica itself. Once the programs are posted nobody makes a call.

use std::sync::Arc;

use weft_rnic::{
    Access, Cq, CqInit, CreateError, CycleError, Device, Mr, Pd, PostError, Qp, QpCapacity, QpInit, RecvWr,
    Region, RegisterError, SendWr, Stag,
};

use crate::program::{ELEMENTS, Parts, Place, STEPS};

/// What a session is like at one replica.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The number of the replica in its chain.
    pub index: usize,
    /// How many replicas the chain has.
    pub replicas: usize,
    /// Slots: a power of two.
    pub window: u32,
    /// The range of the session in the replica's memory, in octets. Its first octet has the tagged offset 0.
    pub range: core::ops::Range<usize>,
}

/// A session at one replica.
#[derive(Debug)]
pub struct Replica {
    shape: Shape,
    inward: Qp,
    own: Qp,
    outward: Qp,
    inbox: Cq,
    done: Cq,
    /// The range, for the predecessor.
    data_in: Mr,
    /// The same for SELF and OUT. Nobody is told its STag.
    data_own: Mr,
    /// At the tail, for the client's reads.
    data_out: Option<Mr>,
    stage: Mr,
    /// The entries of SELF and of OUT.
    entries: [Mr; 2],
    _others: Cq,
    _pd: Pd,
}

/// Why a session cannot be set up at a replica.
#[derive(Debug)]
pub enum SetupError {
    /// The shape makes no sense: no replica of this number, no power of two, or a range beyond the memory.
    Shape,
    /// The system has no descriptor left.
    Channel(std::io::Error),
    /// The device has no room for the objects.
    Create(CreateError),
    /// The memory cannot be registered.
    Register(RegisterError),
    /// The program cannot be posted.
    Post(PostError),
    /// A queue cannot be made cyclic.
    Cycle(CycleError),
    /// SELF cannot be connected to itself.
    Connect(weft_rnic::CmError),
}

impl Replica {
    /// Makes the objects of a session. SELF is at work then, IN and OUT have to be connected.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(device: &Device, memory: &Arc<Region>, shape: Shape) -> Result<Self, SetupError> {
        let is_sound = shape.index < shape.replicas
            && shape.replicas <= crate::MAX_REPLICAS
            && shape.window.is_power_of_two()
            && shape.window <= MAX_WINDOW;
        let part = || Region::part(memory, shape.range.clone()).ok_or(SetupError::Shape);
        if !is_sound {
            return Err(SetupError::Shape);
        }
        let pd = device.alloc_pd();
        let register = |access| Ok::<_, SetupError>(pd.register_at(part()?, access, 0)?);
        let data_in = register(Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let data_own = register(Access::ALL)?;
        let is_tail = shape.index + 1 == shape.replicas;
        let data_out = if is_tail { Some(register(Access::REMOTE_READ)?) } else { None };
        let slots = shape.window as usize;
        let stage = pd.register(
            slots * Parts::stage_len(shape.index, shape.replicas),
            Access::LOCAL_WRITE | Access::REMOTE_ATOMIC,
        )?;
        let cq = || device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(shape.window) });
        let (inbox, done, others) = (cq()?, cq()?, cq()?);
        let sends = shape.window * u32::try_from(STEPS).unwrap_or(u32::MAX);
        let sending = QpCapacity { send_wr: sends, recv_wr: 1, send_sge: 1, recv_sge: 0, inline: 0 };
        let receiving =
            QpCapacity { send_wr: 1, recv_wr: shape.window, send_sge: 0, recv_sge: ELEMENTS, inline: 0 };
        let create = |capacity, send: &Cq, recv: &Cq| {
            device.create_qp(&pd, &QpInit { capacity, ..QpInit::new(send, recv) })
        };
        let inward = create(receiving, &others, &inbox)?;
        let own = create(sending, &done, &others)?;
        let outward = create(sending, &others, &others)?;
        let entries = [&own, &outward].map(|qp| pd.register_send_queue(qp, Access::LOCAL_WRITE));
        let [first, second] = entries;
        own.connect_self().map_err(SetupError::Connect)?;
        let entries = [first?, second?];
        Ok(Self {
            shape,
            inward,
            own,
            outward,
            inbox,
            done,
            data_in,
            data_own,
            data_out,
            stage,
            entries,
            _others: others,
            _pd: pd,
        })
    }

    /// Posts the programs of all slots and makes the queues cyclic. OUT is connected by then, and IN must not be: a message
    /// that came before would find nothing. `next` is where OUT writes, `None` at the tail.
    ///
    /// # Errors
    /// [`SetupError`]; the session is of no use then.
    pub fn begin(&self, next: Option<Stag>) -> Result<(), SetupError> {
        self.post(next)?;
        self.cycle()
    }

    /// Posts the programs of all slots, for one lap. Behind that, either the queues are made [cyclic](Self::cycle), or a program
    /// posts again when all slots are done.
    ///
    /// # Errors
    /// [`SetupError`]; the session is of no use then.
    pub fn post(&self, next: Option<Stag>) -> Result<(), SetupError> {
        let parts = self.parts(next);
        let mut posted = Ok(());
        for slot in 0..u64::from(self.shape.window) {
            let mut post = |qp: &Qp, wr: &SendWr<'_>| {
                if posted.is_ok() {
                    posted = qp.post_send(wr);
                }
            };
            parts.own_requests(slot, |wr| post(&self.own, wr));
            parts.out_requests(slot, |wr| post(&self.outward, wr));
        }
        posted?;
        for slot in 0..u64::from(self.shape.window) {
            self.inward.post_recv(&RecvWr { wr_id: slot, sges: &parts.scatter(slot) })?;
        }
        Ok(())
    }

    /// Makes the queues cyclic: they refill themselves from now on.
    ///
    /// # Errors
    /// [`SetupError::Cycle`]; the session is of no use then.
    pub fn cycle(&self) -> Result<(), SetupError> {
        self.own.cycle_sends()?;
        self.outward.cycle_sends()?;
        self.inward.cycle_recvs()?;
        Ok(())
    }

    /// Returns the queue pair that the predecessor connects to.
    pub const fn inward(&self) -> &Qp {
        &self.inward
    }

    /// Returns the queue pair to the next replica, or to the client.
    pub const fn outward(&self) -> &Qp {
        &self.outward
    }

    /// Returns the queue pair that changes the replica's own memory.
    pub const fn own(&self) -> &Qp {
        &self.own
    }

    /// Returns the STag of the range for the predecessor.
    pub fn data_in(&self) -> Stag {
        self.data_in.rkey()
    }

    /// Returns the STag of the range for the client's reads, at the tail.
    pub fn data_out(&self) -> Option<Stag> {
        self.data_out.as_ref().map(Mr::rkey)
    }

    fn parts(&self, next: Option<Stag>) -> Parts {
        let place = |memory: &Mr| Place { stag: memory.lkey(), addr: memory.addr() };
        let [own, out] = &self.entries;
        Parts {
            index: self.shape.index,
            replicas: self.shape.replicas,
            inbox: self.inbox.number(),
            done: self.done.number(),
            own: self.data_own.lkey(),
            next,
            stage: place(&self.stage),
            entries: [place(own), place(out)],
            layout: self.own.send_queue_layout(),
        }
    }
}

/// The largest window.
pub const MAX_WINDOW: u32 = 4096;

impl core::fmt::Display for SetupError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Shape => {
                f.write_str("a session of this shape does not fit: look at its number, window and range")
            }
            Self::Channel(error) => error.fmt(f),
            Self::Create(error) => error.fmt(f),
            Self::Register(error) => error.fmt(f),
            Self::Post(error) => error.fmt(f),
            Self::Cycle(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SetupError {}

impl From<CreateError> for SetupError {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}

impl From<RegisterError> for SetupError {
    fn from(error: RegisterError) -> Self {
        Self::Register(error)
    }
}

impl From<PostError> for SetupError {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
}

impl From<CycleError> for SetupError {
    fn from(error: CycleError) -> Self {
        Self::Cycle(error)
    }
}
