//! Both ends of a stream, with the wires between them.

mod faults;
