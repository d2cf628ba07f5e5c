//! A real daemon at an address of its own, and processes that talk to it by the messages alone.

mod client;
mod containers;
mod death;
mod hostile;
mod impersonation;
mod join;
mod lanes;
mod mismatch;
mod nat;
mod orders;
mod puppet;
mod restart;
mod run;
mod space;
mod stranger;
mod told;
