//! A device against a peer that speaks octets: what it sends is compared octet by octet, and nothing of what it gets was
//! made by the code under test.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]

mod atomic_errors;
mod atomics;
mod ending;
mod error_surfacing;
mod errors;
mod frames;
mod immediate_data;
mod memory_errors;
mod memory_rights;
mod mpa_marked_streams;
mod mpa_markers;
mod negotiation;
mod octets;
mod operation;
mod ordering;
mod outstanding_reads;
mod rdmap_answers;
mod rdmap_headers;
mod rdmap_reads;
mod rdmap_sends;
mod rdmap_wire;
mod rdmap_writes;
mod resources;
mod scene;
mod send_types;
mod startup_active;
mod startup_passive;
mod streaming_ends;
mod streaming_mode;
mod teardown;
mod terminate_message;
mod validation;
mod world;
