//! All checks, in the order in which they run.

use crate::check::Check;

mod startup;

/// All checks, in the order in which they run.
pub const CHECKS: &[&[Check]] = &[startup::CHECKS];
