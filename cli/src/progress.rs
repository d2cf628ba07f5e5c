//! A progress bar.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that shows on a terminal only, and only if the work takes more than a second.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
}

impl Progress {
    #[expect(clippy::disallowed_methods, reason = "the person at the terminal waits in real time")]
    pub(crate) fn new(total: u64, unit: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{bar:40}} {{pos}}/{{len}} {unit}, {{eta}} left"))
        {
            bar.set_style(style);
        }
        Self { bar, start: Instant::now() }
    }

    pub(crate) fn advance(&self) {
        self.reach(self.bar.position() + 1);
    }

    /// Moves to a position.
    pub(crate) fn reach(&self, position: u64) {
        self.bar.set_position(position);
        if self.bar.is_hidden() && self.start.elapsed() > PATIENCE && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Hides the bar while `print` prints.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

const PATIENCE: Duration = Duration::from_secs(1);
