//! The boundary to C: the exported functions, a file for each family of them.
//!
//! The rules that hold here:
//! * An exported function is one call of safe code outside, which gets the kernel's own call as a closure.
//! * The program guarantees that its arguments are as the headers say. Every `SAFETY` below relies on that. The kernel
//!   checks what is handed on to it.
//! * No panic leaves an exported function, and no lock is held while the program's or the kernel's code runs.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "C's integers go to the kernel's registers and back"
)]

/// Exports functions of the C library. Unit tests call them without exporting them.
macro_rules! hooks {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $answer:ty)? $body:block)+) => {
        $($(#[$attribute])*
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) $(-> $answer)? $body)+
    };
}

mod aliases;
mod data;
mod epoll;
mod escape;
mod exec;
mod jump;
mod life;
mod options;
mod probe;
mod process;
mod rights;
mod rings;
mod start;
mod stdio;
mod wait;
