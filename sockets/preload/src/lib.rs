//! The library that `weft sockets` preloads. It stands between a program and the C library's socket calls.
//!
//! The kernel's socket stays under each descriptor. The hooks count the octets of each TCP connection, and move those that
//! are worth it to a ring of shared memory. Everything else is the kernel's own call.
//!
//! Hooks run in signal handlers, before constructors, behind fork and in children of vfork. So nothing here allocates,
//! takes a lock of std, or looks a symbol up before it is needed. Unsafe code is in `c/` and `real.rs`.

#![cfg_attr(test, allow(dead_code, reason = "the unit tests do not export the hooks"))]

mod anchor;
mod backlog;
mod boundary;
mod buffers;
#[cfg_attr(
    test,
    allow(non_snake_case, unfulfilled_lint_expectations, reason = "there they are plain functions")
)]
mod c;
mod call;
mod calls;
mod cells;
mod channel;
mod clock;
mod closing;
mod control;
mod daemon;
mod data;
mod drain;
mod ends;
mod environment;
mod epoll;
mod evidence;
mod exec;
mod family;
mod file;
mod filter;
mod first;
mod fork;
mod gates;
mod growth;
mod guest;
mod handover;
mod info;
mod jump;
mod life;
mod line;
mod links;
mod lower;
mod member;
mod nested;
mod orphan;
mod overtaken;
mod own;
mod patience;
mod peers;
mod pipe;
mod policy;
mod poll;
mod port;
mod procfs;
mod pulse;
mod queue;
mod real;
mod receive;
mod record;
mod relatives;
mod rights;
mod row;
mod search;
mod section;
mod select;
mod sets;
mod sleep;
mod spin;
mod strict;
mod table;
mod trace;
mod transfer;
mod upgrade;
mod wake;
mod watch;
