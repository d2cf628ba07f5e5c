//! The counts of the hooks beside those of the kernel, at the moment when a direction leaves TCP.

use loom::sync::Mutex;

use super::*;
use crate::Gate;
use crate::end::{Attach, Switch};
use crate::layout::ATTACHED;
use crate::sync::AtomicU64;

/// A direction of which threads move octets by the kernel.
#[derive(Debug, Default)]
struct Counted {
    inside: AtomicU32,
    /// What the hooks have counted.
    hooks: AtomicU64,
    /// What the kernel has. Its lock orders nothing for the hooks.
    kernel: Mutex<u64>,
}

/// A step in the wrong order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Nothing,
    /// A thread leaves the gate before it counts.
    Count,
    /// The gate stays open.
    Gate,
}

impl Counted {
    /// Moves an octet by the kernel if the gate is open.
    fn call(&self, left_out: LeftOut) {
        let gate = Gate::new(&self.inside, false);
        if !gate.enter() {
            return;
        }
        *self.kernel.lock().unwrap() += 1;
        if left_out == LeftOut::Count {
            gate.leave();
        }
        self.hooks.fetch_add(1, Ordering::Relaxed);
        if left_out != LeftOut::Count {
            gate.leave();
        }
    }
}

/// Two threads that move octets by the kernel, and one that looks at the counts. `agrees` decides by hooks and kernel.
fn a_decision_beside_calls(left_out: LeftOut, agrees: fn(u64, u64) -> bool) {
    let counted = Arc::new(Counted::default());
    let threads = [1, 2].map(|_| {
        let counted = Arc::clone(&counted);
        loom::thread::spawn(move || counted.call(left_out))
    });
    if left_out == LeftOut::Gate || Gate::new(&counted.inside, false).try_close() {
        let (hooks, kernel) = (counted.hooks.load(Ordering::Relaxed), *counted.kernel.lock().unwrap());
        assert!(agrees(hooks, kernel), "model: {hooks} octets by the hooks, {kernel} by the kernel");
        let behind = counted.hooks.load(Ordering::Relaxed);
        assert_eq!(behind, hooks, "model: no octet behind the decision");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn may_switch(written: u64, kernel: u64) -> bool {
    let switch = Switch { attached: ATTACHED, is_alone: true, is_held: false, written, kernel };
    switch.decide() == Some(Ok(()))
}

/// A reader that has taken nothing waits.
fn may_attach(consumed: u64, kernel: u64) -> bool {
    let attach = Attach { is_offered: true, is_alone: true, consumed, kernel };
    if consumed == 0 { kernel == 0 } else { attach.decide() == Some(Ok(())) }
}

#[test]
fn behind_a_closed_gate_both_counts_agree() {
    for agrees in [may_switch, may_attach] {
        check(&[Weakened::Acquire, Weakened::Release], move || {
            a_decision_beside_calls(LeftOut::Nothing, agrees);
        });
        find(move || a_decision_beside_calls(LeftOut::Count, agrees));
        find(move || a_decision_beside_calls(LeftOut::Gate, agrees));
    }
}
