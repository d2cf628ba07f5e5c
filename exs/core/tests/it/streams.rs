//! Two sessions of streams with a wire between them.

mod device;
mod random;
mod scripted;
mod search;
mod world;
