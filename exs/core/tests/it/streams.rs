//! Two sessions of streams with a wire between them.

mod device;
mod random;
mod search;
mod world;
