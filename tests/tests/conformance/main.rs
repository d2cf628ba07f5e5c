//! A device against a peer that speaks octets: what it sends is compared octet by octet, and nothing of what it gets was
//! made by the code under test.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]

mod atomic_errors;
mod atomics;
mod ddp_association;
mod ddp_ending;
mod ddp_errors;
mod ddp_placing;
mod ddp_sending;
mod ending;
mod enhanced_frames;
mod error_surfacing;
mod errors;
mod frames;
mod handshake;
mod hostile_peers;
mod immediate_data;
mod limits;
mod memory_errors;
mod memory_rights;
mod mpa_crc;
mod mpa_fpdus;
mod mpa_marked_streams;
mod mpa_markers;
mod mpa_mulpdu;
mod mpa_operation;
mod mpa_startup;
mod negotiation;
mod octets;
mod operation;
mod ordering;
mod outstanding_reads;
mod peer_to_peer;
mod rdmap_answers;
mod rdmap_headers;
mod rdmap_reads;
mod rdmap_sends;
mod rdmap_terminate;
mod rdmap_terminate_received;
mod rdmap_wire;
mod rdmap_writes;
mod read_depths;
mod resources;
mod scene;
mod send_types;
mod stag_protection;
mod startup_active;
mod startup_passive;
mod streaming_ends;
mod streaming_mode;
mod talk;
mod teardown;
mod terminate_message;
mod validation;
mod world;
