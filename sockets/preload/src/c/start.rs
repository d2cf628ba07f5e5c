//! What runs when the library is loaded.
#![allow(unsafe_code)]

use crate::environment;
use crate::filter;
use crate::guest;
use crate::policy::{self, Mode};
use crate::{sleep, table};

extern "C" fn start() {
    policy::open();
    environment::open();
    let is_wanted = policy::policy().is_some_and(|policy| policy.mode != Mode::Off);
    if is_wanted && (!filter::is_inherited() || super::probe::are_calls_allowed()) {
        guest::remember_process();
        super::process::register();
        sleep::open();
        table::open();
    }
}

// SAFETY: the loader calls each function of this section once, before the program's own code.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static START: extern "C" fn() = start;
