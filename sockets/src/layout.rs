//! What lies where in shared memory: a link, a slab of ends, and a status page.
//!
//! Each structure is made of atomics, so that it can be laid over a mapping as it is. All-zero memory is a valid,
//! unused structure. Words are of the machine's order: only processes of one host share them.

// What is reserved is no part of a model.
use core::sync::atomic::{AtomicU32 as UnusedU32, AtomicU64 as UnusedU64};

use crate::sync::{AtomicU16, AtomicU32, AtomicU64};

/// The words of one channel of a link: a connection's two directions. Party 0 produces in the first.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Channel {
    /// One direction for each party that produces.
    pub directions: [Direction; 2],
}

/// One direction of a connection, as both parties see it. Each line of 64 octets has one writer, except for
/// [`Reader::attached`].
#[derive(Debug, Default)]
#[repr(C)]
pub struct Direction {
    /// Written by the sender for each message.
    pub producer: Producer,
    /// Written by the sender now and then.
    pub legs: Legs,
    /// Written by the reader for each message.
    pub consumer: Consumer,
    /// Written by the reader now and then.
    pub reader: Reader,
}

/// The sender's line of each message.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Producer {
    /// The position behind the last octet that the reader may take. One store of it publishes.
    pub tail: AtomicU64,
    /// The position of the first octet in `beside`, or [`NOWHERE`].
    pub beside_start: AtomicU64,
    /// The octets of one short message, beside the tail, so that they come with the same cache line.
    pub beside: [AtomicU64; 5],
    /// The CPU on which the sender ran when it published.
    pub cpu: AtomicU16,
    /// [`FINAL`], [`RESET`], [`KILLED`], [`CLOSED`], [`LOWERED`], [`SILENT`].
    pub flags: AtomicU16,
    /// When octets came into the empty ring, if the reader wants [stamps](Reader::stamps): the low half of a count of 16
    /// nanoseconds.
    pub stamp: AtomicU32,
}

/// The sender's line of rare changes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Legs {
    /// The position where the leg in `leg` begins.
    pub start: AtomicU64,
    /// The latest leg, as [`Leg::to_word`](crate::leg::Leg::to_word) packs it: one store publishes `start` with it.
    pub leg: AtomicU64,
    /// The position behind the last octet of the stream, once [`FINAL`] is set.
    pub end: AtomicU64,
    /// Who sleeps until half of the ring is free: a word as of [`Reader::waiter`].
    pub waiter: AtomicU32,
    /// Not 0 once the sender has the channel. Between hosts a sender begins no ring before the reader's daemon knows that.
    pub present: AtomicU32,
    reserved: [UnusedU32; 8],
}

/// The reader's line of each message.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Consumer {
    /// The position up to which the reader has taken octets and their memory may be used again.
    pub head: AtomicU64,
    /// The number of the leg in which the reader is.
    pub adopted: AtomicU64,
    reserved: [UnusedU64; 6],
}

/// The reader's line of rare changes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Reader {
    /// 0: not yet decided, [`ATTACHED`], [`DECLINED`], or [`COMMITTED`].
    pub attached: AtomicU32,
    /// Who sleeps until there are octets: a [`WaiterName`](crate::waiter::WaiterName), 0 for nobody, or
    /// [`EVERYBODY`].
    pub waiter: AtomicU32,
    /// 0, or [`MODE_NO_FENCE`].
    pub mode: AtomicU32,
    /// [`ASKED`] once the reader wants the stream back on TCP, [`LOST`] or [`LOST_BEFORE_RING`] once the daemon has nobody
    /// to carry it to.
    pub please: AtomicU32,
    /// Not 0 once the reader wants to tell which of several rings had octets first.
    pub stamps: AtomicU32,
    /// Not 0 if the reader wants rings of 4 MiB, should smaller ones be full.
    pub wide: AtomicU32,
    /// Not 0 once the reader has left the ring behind a [record](crate::Record): the daemon carries nothing more.
    pub left: AtomicU32,
    /// Why the reader wants the stream back on TCP: a [`Reason`](crate::reason::Reason), 0 for none. Stored before `please`.
    pub why: AtomicU32,
    reserved: [UnusedU32; 8],
}

/// The first page of a link.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct LinkHeader {
    /// [`LINK_MAGIC`].
    pub magic: AtomicU64,
    /// The daemon's own name for the link, never used twice.
    pub link: AtomicU64,
    /// Counts up whenever the daemon attends the link's far end. Unused inside a host.
    pub heartbeat: AtomicU64,
    reserved: [UnusedU64; 509],
}

/// In [`Asleep::asleep`]: several sleep, and each ring ends one's sleep.
pub const ALWAYS: u32 = 1;

/// One thread's line of the status page, which its peers can only read.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Asleep {
    /// Not 0 while the waiter sleeps, or is about to: the number of this sleep, which one ring ends, or [`ALWAYS`].
    pub asleep: AtomicU32,
}

/// The status page of a process: a line for each of its waiters.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct StatusPage(pub [Asleep; WAITERS]);

/// A slab: the ends of a process and of the relatives that it forks. No peer ever has it.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct SlabHeader {
    /// [`SLAB_MAGIC`].
    pub magic: AtomicU64,
    /// No place of an end from this number on was ever used.
    pub ends: AtomicU32,
    reserved: [UnusedU32; 13],
    /// What the family's ends did until they were closed.
    pub totals: Totals,
    /// The processes of the family. A process is named by its place here.
    pub members: [Member; MEMBERS],
}

/// Sums over the closed ends of a family, so that they outlive its processes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Totals {
    /// Connections.
    pub seen: AtomicU64,
    /// Connections that were claimed at least once.
    pub claimed: AtomicU64,
    /// Connections that sent by a ring.
    pub out_upgraded: AtomicU64,
    /// Connections that received by a ring.
    pub in_upgraded: AtomicU64,
    /// Octets written to rings.
    pub out_ring: AtomicU64,
    /// Octets read from rings.
    pub in_ring: AtomicU64,
    /// Connections that sent or received by a ring.
    pub upgraded: AtomicU64,
    /// Those, and the ones that [should have](crate::end::Traffic::is_eligible).
    pub eligible: AtomicU64,
    /// Connections that stayed on TCP in both directions, by the number of the [`Reason`](crate::reason::Reason).
    pub reasons: [AtomicU32; REASONS],
}

/// A process of a family.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Member {
    /// Its process id, or 0 if the place is free.
    pub pid: AtomicU32,
    /// Counts up with each message of the daemon that waits in the member's port.
    pub mail: AtomicU32,
    /// When it started, as `/proc/PID/stat` has it, since process ids come again.
    pub started: AtomicU64,
    /// Not 0 if the daemon has marked ends that this member [drains](crate::end::DRAIN).
    pub drain: AtomicU32,
    reserved: [UnusedU32; 11],
}

/// One end of a connection, as the processes that inherited it from one another know it.
///
/// A peer can write to the link only, so all that decides stands here.
#[derive(Debug)]
#[repr(C)]
pub struct End {
    /// What it is, and its state.
    pub identity: Identity,
    /// Its sending direction.
    pub outbound: OwnOutbound,
    /// Its receiving direction.
    pub inbound: OwnInbound,
    /// The members that hold it: a member's number plus 1, or 0.
    pub holders: Holders,
    /// What `weft stat sockets` tells.
    pub counts: Counts,
}

/// The line of an end that seldom changes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Identity {
    /// [`Phase`](crate::end::Phase) in the low octet, a generation above it: it changes whenever the place is used anew.
    pub state: AtomicU32,
    /// Why it stays on TCP: a [`Reason`](crate::reason::Reason), 0 for none.
    pub reason: AtomicU16,
    /// How often it was claimed.
    pub tries: AtomicU16,
    /// `SO_COOKIE` of the kernel's socket.
    pub cookie: AtomicU64,
    /// The link's own name, once there is a channel.
    pub link: AtomicU64,
    /// The channel in the link.
    pub channel: AtomicU32,
    /// 0 or 1: which party of the link this end is.
    pub party: AtomicU32,
    /// Bits of what is known of the socket ([`crate::end`]).
    pub flags: AtomicU32,
    /// How many calls have moved data.
    pub calls: AtomicU32,
    /// The [worth](crate::end::Traffic::worth) that the next claim needs. 0 stands for that of the first.
    pub threshold: AtomicU32,
    /// When it was first seen, in milliseconds of the monotonic clock, the low half.
    pub since: AtomicU32,
    /// The [secret](crate::record::Secret) of a [far](crate::end::FAR) end's channel.
    pub secret: [AtomicU64; 2],
}

/// An end's sending direction, as its own family knows it. Each change of a word leaves a valid state behind: its owner
/// may be killed at any moment.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct OwnOutbound {
    /// See [`Lock`](crate::Lock).
    pub lock: AtomicU64,
    /// The position behind the last octet that was written, by TCP or into the ring.
    pub written: AtomicU64,
    /// The position behind the last octet that was copied to the ring, if that is behind `written`: the octets between
    /// are held (`MSG_MORE`, `TCP_CORK`).
    pub copied: AtomicU64,
    /// The reader's head as last believed.
    pub head: AtomicU64,
    /// The current leg, packed as in the link.
    pub leg: AtomicU64,
    /// What the kernel has counted less `written`, in the current TCP leg: records, and what came before the hooks.
    pub kernel: AtomicU64,
    /// See [`Gate`](crate::Gate).
    pub inside: AtomicU32,
    /// [`SHUT`](crate::end::SHUT) and other bits of this direction.
    pub flags: AtomicU32,
    /// When the ring was last found full, in microseconds of the monotonic clock, the low half.
    pub full_since: AtomicU32,
    /// Where a send last found less room than it wanted: the low half of the position behind the octet that had none. It
    /// stays the same as long as that octet waits.
    pub full: AtomicU32,
    /// The second line: where the current leg begins, at the place of its number's lowest bit. At the other one stands
    /// the leg before, so that one store of `leg` changes both.
    pub starts: [AtomicU64; 2],
    /// The leg before the current one, packed.
    pub before: AtomicU64,
    /// The last ring, packed as a leg, if octets from `head` on have to be sent again by TCP. Else 0.
    pub backlog: AtomicU64,
    /// The ring that the daemon has given for what is sent, packed as a leg, until a leg begins in it. 0: none.
    pub ring: AtomicU64,
    /// The sleeps of threads that wait for room, as [`Sleepers`](crate::Sleepers) names them.
    pub sleeps: [AtomicU64; 3],
}

/// An end's receiving direction, as its own family knows it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct OwnInbound {
    /// See [`Lock`](crate::Lock).
    pub lock: AtomicU64,
    /// The position up to which the program has taken octets, from TCP or from the ring.
    pub consumed: AtomicU64,
    /// The position up to which the current ring is believed to have octets.
    pub tail: AtomicU64,
    /// The current leg, packed as in the link.
    pub leg: AtomicU64,
    /// The head that the link shows.
    pub published: AtomicU64,
    /// The head at which the reader last looked for a sender that waits for room.
    pub checked: AtomicU64,
    /// See [`Gate`](crate::Gate).
    pub inside: AtomicU32,
    /// Bits of this direction.
    pub flags: AtomicU32,
    /// Messages taken since the last sleep, for the mode of waking.
    pub awake: AtomicU32,
    /// Bits of what the thread has to do behind its section: a signal handler took octets, and the link does not show that
    /// yet; or the reader has come to another leg, and the sender's waiter has to hear of that.
    pub behind: AtomicU32,
    /// The second line: what the kernel has counted less `consumed`, in the current TCP leg.
    pub kernel: AtomicU64,
    /// The sleeps of threads that wait for octets, as [`Sleepers`](crate::Sleepers) names them.
    pub sleeps: [AtomicU64; 3],
    /// The position up to which this end had written when its reader last waited.
    pub answered: AtomicU64,
    /// When the kernel's socket of a [far](crate::end::FAR) end first told what the link had not told, in milliseconds of
    /// the monotonic clock, the low half. 0: never.
    pub early: AtomicU32,
    /// Octets of the kernel's stream that have to be dropped before the next one is read: a [record](crate::Record), and
    /// what has come by the ring already.
    pub skip: AtomicU64,
    reserved: [UnusedU32; 2],
}

/// The members that hold an end.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Holders(pub [AtomicU16; HOLDERS]);

/// What `weft stat sockets` tells of an end.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Counts {
    /// Octets written to a ring.
    pub out_ring: AtomicU64,
    /// Octets read from a ring.
    pub in_ring: AtomicU64,
    /// Waits that ended while they spun.
    pub spins: AtomicU64,
    /// Waits that ended while they yielded.
    pub yields: AtomicU64,
    /// Waits that slept.
    pub sleeps: AtomicU64,
    /// Wake-ups sent to the peer.
    pub wakes: AtomicU64,
    /// The [heartbeat](LinkHeader::heartbeat) that a sender with octets under way saw last, and since when, in
    /// milliseconds: the low halves. 0: it has none under way.
    pub pulse: AtomicU64,
    reserved: [UnusedU64; 1],
}

/// The offset of a channel's words in a link.
#[must_use]
pub const fn channel_offset(channel: u32) -> u64 {
    CHANNELS_AT + channel as u64 * size_of::<Channel>() as u64
}

/// The offset of an end's words in a slab.
#[must_use]
pub const fn end_offset(slot: u32) -> u64 {
    ENDS_AT + slot as u64 * size_of::<End>() as u64
}

const PAGE: u64 = 4096;
/// "weft-lnk"
pub const LINK_MAGIC: u64 = u64::from_le_bytes(*b"weft-lnk");
/// "weft-slb"
pub const SLAB_MAGIC: u64 = u64::from_le_bytes(*b"weft-slb");
/// `beside_start` if nothing is beside. Zeroed memory says position 0 instead, which no tail confirms.
pub const NOWHERE: u64 = u64::MAX;
/// The stream ends at [`Legs::end`].
pub const FINAL: u16 = 1;
/// The connection was reset.
pub const RESET: u16 = 2;
/// All processes of this end were killed, and had not read all that was sent to them. The daemon says so.
pub const KILLED: u16 = 4;
/// The sender has gone back to TCP behind a [record](crate::Record): the daemon carries nothing more.
pub const LOWERED: u16 = 8;
/// The other end was closed before it has begun a ring: the kernel's socket tells the rest. The daemon says so of an end on
/// another host.
pub const CLOSED: u16 = 16;
/// Beside [`LOWERED`]: no record comes, since the reader asks for TCP and has come to no ring.
pub const SILENT: u16 = 32;
/// The sender to another host is about to end its stream in a ring: its daemon promises no way back to TCP any more.
pub const STAYING: u16 = 64;
/// [`Reader::attached`]: the reader will take octets from a ring.
pub const ATTACHED: u32 = 1;
/// [`Reader::attached`]: the reader stays on TCP.
pub const DECLINED: u32 = 2;
/// [`Reader::attached`]: the sender has begun to use a ring. The sender stores it.
pub const COMMITTED: u32 = 3;
/// [`Reader::please`]: the reader asks for TCP.
pub const ASKED: u32 = 1;
/// [`Reader::please`]: the daemon lets go of a direction between hosts.
pub const LOST: u32 = 2;
/// [`Reader::please`]: the same, and the sender has begun no ring, though the reader has attached.
pub const LOST_BEFORE_RING: u32 = 3;
/// [`Reader::mode`]: the sender needs no fence before it looks for a sleeper. All-zero memory asks for the fence.
pub const MODE_NO_FENCE: u32 = 1;
/// [`Reader::waiter`]: the daemon rings all that sleep.
pub const EVERYBODY: u32 = u32::MAX;
/// Channels of a link.
pub const CHANNELS: u32 = if cfg!(loom) { 1 } else { 4032 };
const CHANNELS_AT: u64 = PAGE;
/// The offset of the first ring.
pub const RINGS_AT: u64 = 4 << 20;
/// The unit of rings' offsets and sizes.
pub const RING_UNIT: u64 = 64 << 10;
/// Octets of a link, most of them never touched.
pub const LINK_LEN: u64 = 1 << 30;
/// Sleepers that a process can have at a time.
pub const WAITERS: usize = 64;
/// Processes of a family.
pub const MEMBERS: usize = 1020;
/// Room for the numbers of reasons.
pub const REASONS: usize = 32;
const ENDS_AT: u64 = 64 << 10;
/// Ends of a slab.
pub const ENDS: u32 = 1 << 16;
/// Members that can hold an end at a time. An end with more stays as it is.
pub const HOLDERS: usize = 64;
/// Octets of a slab, most of them never touched.
pub const SLAB_LEN: u64 = end_offset(ENDS);

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Producer>() == 64 && size_of::<Legs>() == 64);
    assert!(size_of::<Consumer>() == 64 && size_of::<Reader>() == 64);
    assert!(size_of::<Channel>() == 512 && size_of::<LinkHeader>() == 4096);
    assert!(size_of::<StatusPage>() == 4096 && size_of::<SlabHeader>() as u64 == ENDS_AT);
    // `memory.rs` clears both as 64 words.
    assert!(size_of::<End>() == 512 && channel_offset(CHANNELS) <= RINGS_AT);
};
