//! A black-box conformance tester for iWARP endpoints. It plays a scripted peer in octets against any endpoint that
//! listens.
//!
//! A [`Check`] is a dialogue with the target that judges some requirements of the catalogue. The result is pass, fail
//! with the octets that show it, or inconclusive. [`CHECKS`] has them all. A [`Target`] runs them one at a time.
//! [`Report`] sums up by requirement. The tester uses nothing of the stack above TCP. It writes and reads frames
//! octet by octet, so that a judge does not repeat the mistakes of the judged.
//!
//! If the RFCs leave a choice, all of it is accepted. A target only has to listen and to take one connection after
//! the other. Some requirements show only on a server of rping, by its Read Request and its Writes. Elsewhere they
//! are inconclusive.
//!
//! RFCs: 5044 and 6581 (MPA), 5041 (DDP), 5040 and 7306 (RDMAP).

#![forbid(unsafe_code)]

mod arrival;
mod atomic;
mod catalogue;
mod check;
mod checks;
mod dialogue;
mod fault;
mod finding;
mod host;
mod kernel;
pub mod octets;
mod own;
mod ping;
mod probe;
mod report;
mod segment;
mod startup;
mod steps;
mod stream;
mod survey;
mod target;
mod terminate;
mod time;
mod trial;

pub use arrival::DialError;
pub use catalogue::{Requirement, requirement};
pub use check::Check;
pub use checks::CHECKS;
pub use finding::{Evidence, Finding, Verdict};
pub use host::Host;
pub use octets::digits;
pub use report::{Report, Row};
pub use target::{Target, TargetError};
