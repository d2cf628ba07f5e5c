//! A progress bar.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that shows on a terminal only.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(turns: u64) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        let target = if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(turns), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} turns, {eta} left  {msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Shows the name of the present case.
    pub(crate) fn begin(&self, name: &'static str) {
        self.bar.set_message(name);
    }

    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }

    /// Hides the bar while `print` prints.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
