//! What the verbs promise, between two devices: queue pairs, completions, events, memory, connections and threads.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod completions;
mod connecting;
mod ending;
mod events;
mod gather;
mod many;
mod protection;
mod reads;
mod revoking;
mod states;
mod streaming;
mod streaming_ends;
mod talk;
mod threads;
mod world;
