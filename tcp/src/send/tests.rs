//! The sender against a model of a path and a receiver, on virtual time.

mod check;
mod direct;
mod hostile;
mod judge;
mod model;
mod path;
mod peer;
mod plan;
mod sabotage;
mod samples;
mod scenarios;
mod world;
