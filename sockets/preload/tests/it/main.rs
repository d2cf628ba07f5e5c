//! Programs under the library give the results that they give without it, and the library knows what they did.

mod between;
mod calls;
mod counts;
mod drain;
mod exec;
mod far;
mod growth;
mod hostile;
mod info;
mod migrate;
mod nat;
mod processes;
mod program;
#[path = "../programs/mod.rs"]
mod programs;
mod require;
mod results;
mod route;
mod spaces;
mod stopped;
mod strict;
mod waits;
