//! The promises of the verbs, between two devices: queue pairs, completions, events, memory, connections and threads.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod async_events;
mod attributes;
mod completions;
mod connecting;
mod counters;
mod cq_resize;
mod cyclic;
mod ending;
mod engines;
mod events;
mod fast_registration;
mod gather;
mod held_work;
mod held_world;
mod host;
mod host_placing;
mod leading;
mod line;
mod many;
mod moderation;
mod mw_revoke;
mod protection;
mod reads;
mod registration;
mod resources;
mod revoking;
mod rnr_wait;
mod routing;
mod shutdown;
mod srq;
mod states;
mod statuses;
mod streaming;
mod streaming_alone;
mod streaming_ends;
mod streaming_peek;
mod syncing;
mod talk;
mod threads;
mod tracing;
mod wait;
mod windows;
mod world;
mod write_immediate;
