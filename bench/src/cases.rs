//! The list of all cases: each has a file in this folder and a line here.

use crate::case::Case;

mod host;
mod memory;
mod packet;
mod pair_loss;
mod pair_many;
mod pair_ping;
mod pair_sends;
mod pair_share;
mod pair_write;
mod tap;
mod verbs_calls;

/// All cases, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    GROUPS.iter().flat_map(|group| group.iter())
}

const GROUPS: [&[Case]; 11] = [
    &pair_write::CASES,
    &pair_ping::CASES,
    &pair_sends::CASES,
    &pair_many::CASES,
    &pair_loss::CASES,
    &pair_share::CASES,
    &verbs_calls::CASES,
    &memory::CASES,
    &host::CASES,
    &tap::CASES,
    &packet::CASES,
];
