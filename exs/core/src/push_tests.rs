//! Both ends of a stream with the wires between them: all orders of events in small worlds, and random ones in larger.
//!
//! The world has memory: of receives, of the ring, and of the windows over receives. Each octet has its position in the
//! stream as its value, so that a lost, doubled or misplaced octet shows. A Write places its octets when it is sent,
//! the earliest time at which it could, and finds its window in use when its DATA comes, the latest.

mod broken;
mod faults;
mod plan;
mod random;
mod search;
mod speed;
mod steps;
mod world;
