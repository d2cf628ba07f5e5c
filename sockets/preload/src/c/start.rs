//! What runs when the library is loaded.
#![allow(unsafe_code)]

use crate::environment;
use crate::guest;
use crate::policy::{self, Mode};
use crate::{sleep, table};

extern "C" fn start() {
    policy::open();
    environment::open();
    if policy::policy().is_some_and(|policy| policy.mode != Mode::Off) {
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
