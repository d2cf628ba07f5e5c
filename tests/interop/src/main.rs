//! Weft against Linux siw in virtual machines.

fn main() {}
