//! What the operations do, on memory of a test's own; and operations at random.

use proptest::prelude::*;
use weft_group::{Copy, Op, Originals, Replicas, Swap, UNTOUCHED};

/// The memory of each replica.
pub(crate) struct Model(pub(crate) Vec<Vec<u8>>);

impl Model {
    pub(crate) fn apply(&mut self, op: &Op, octets: &[u8]) -> Originals {
        let mut originals = [UNTOUCHED; 16];
        let at = |offset: u64| usize::try_from(offset).unwrap();
        for (index, memory) in self.0.iter_mut().enumerate() {
            if let Some(write) = &op.write {
                memory[at(write.start)..at(write.end)].copy_from_slice(octets);
            }
            if let Some(copy) = op.copy {
                memory.copy_within(at(copy.from)..at(copy.from) + copy.len as usize, at(copy.to));
            }
            if let Some(swap) = op.swap.filter(|swap| swap.on.contains(index)) {
                let word: &mut [u8; 8] = memory[at(swap.at)..].first_chunk_mut().unwrap();
                originals[index] = u64::from_ne_bytes(*word);
                if originals[index] == swap.compare {
                    *word = swap.swap.to_ne_bytes();
                }
            }
        }
        originals
    }
}

/// Operations on so many octets, with writes and copies of at most `piece`.
pub(crate) fn op(len: u64, piece: u32) -> impl Strategy<Value = Op> {
    let size = u64::from(piece);
    let write = prop::option::of((0..len, 0..size).prop_map(move |(at, size)| at..(at + size).min(len)));
    let copy = prop::option::of((0..len, 0..len, 0..piece));
    let swap = prop::option::of((0..len / 8, 0..3_u64, any::<u16>()));
    (write, copy, swap).prop_map(|(write, copy, swap)| Op {
        write,
        copy: copy.map(|(from, to, len)| Copy { from, to, len }),
        swap: swap.map(|(word, compare, on)| Swap {
            at: word * 8,
            compare,
            swap: compare + 1,
            on: Replicas(on),
        }),
        flush: None,
        ..Op::default()
    })
}

/// The octets of write `number`.
pub(crate) fn octets(op: &Op, number: usize) -> Vec<u8> {
    let len = op.write.as_ref().map_or(0, |write| usize::try_from(write.end - write.start).unwrap());
    (0..len).map(|at| (at * 7 + number * 13).to_le_bytes()[0]).collect()
}
