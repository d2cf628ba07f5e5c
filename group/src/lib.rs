//! Replicated memory whose replicas' programs do nothing for an operation (HyperLoop, SIGCOMM 2018).
//!
//! A client replicates memory to a chain of hosts. It sends one message for an operation, and the devices of the replicas
//! place it, forward it, copy, compare and swap, and acknowledge. A replica posts its work requests once, into cyclic
//! queues; a message rewrites operands of the requests of its slot.
//!
//! ```text
//! durability  what flushed octets survive
//! op       operations, and whether one makes sense
//! window   the operations under way, and conflicts between them
//! message  the octets of an operation
//! program  the requests of a replica, and which octets of a message go where
//! replica  the objects of a session at one replica
//! session  the client's side of it
//! control  the messages by which sessions are opened, greeting how each connection begins, link where they are sent
//! server   a replica's side of that; contact the client's: a request, or opening a session
//! group    what stands on a session needs of it: mirror (a file), txlog (transactions), lock (between sessions)
//! epoch    what a member remembers of epochs, and a change of epoch; membership: the record of a group
//! keeper   where a member's state is stored; resync: which blocks of two members differ
//! coordinator  asks the hosts in a change of epoch, each by an inquiry; managed: a client that changes the epoch when it loses its session
//! ```
#![forbid(unsafe_code)]

mod atomic;
mod contact;
mod control;
mod coordinator;
mod deadline;
mod durability;
mod epoch;
#[doc(hidden)]
pub mod fuzzing;
mod greeting;
mod group;
mod inquiry;
mod keeper;
mod key;
mod link;
mod lock;
mod managed;
mod membership;
mod message;
mod mirror;
mod op;
mod opening;
mod program;
mod random;
mod replica;
mod resync;
mod server;
mod session;
mod slots;
mod txlog;
mod window;

pub use contact::Asking;
pub use control::{
    Answer, Copying, End, Hello, KEY_LEN, Lent, MAX_CONTROL, Malformed, Member, Named, Open, Opened, Request,
    Seal, SessionStatus, Status, VERSION, Welcome,
};
pub use coordinator::{Coordinator, Report, members, pause};
pub use durability::Durability;
pub use epoch::change::{Ask, Change, ChangeError, Reply, Sealed};
pub use epoch::{MemberState, Refusal};
pub use greeting::{GREETING_LEN, Greeting, MAGIC, Token};
pub use group::Group;
pub use inquiry::{Inquiry, Replied};
pub use keeper::{Keeper, KeeperError, StateStore};
pub use key::Key;
pub use lock::{Lock, Owner, Step, backoff};
pub use managed::Managed;
pub use membership::etcd::Etcd;
pub use membership::file::FileRegister;
pub use membership::record::{Host, MAX_RECORD, Record, RecordError, Seat, Topology};
pub use membership::register::register;
pub use membership::{Membership, MembershipError, RepairError, Wish, change_epoch};
pub use message::{
    MAX_MESSAGE, Message, Name, Originals, UNTOUCHED, decode, decode_acknowledgement, encode, message_len,
};
pub use mirror::{Mirror, MirrorError};
pub use op::{Copy, MAX_REPLICAS, Op, OpError, Replicas, Swap};
pub use opening::{Opening, Options, status};
pub use program::{ELEMENTS, Parts, Place, STEPS};
pub use replica::{MAX_WINDOW, Replica, SetupError, Shape};
pub use resync::{BLOCK, Hash, Hashing, differing, next_piece};
pub use server::{Limits, Roster, RosterEntry, Server, ServerError, Serving};
pub use session::{Done, Fresh, OpId, Session, SessionError, Terms};
pub use txlog::{LogError, Part, TxLog};
pub use window::Window;
