//! All checks, in the order in which they run.

use crate::check::Check;

mod atomic_faults;
mod atomic_order;
mod atomics;
mod boundaries;
mod crc;
mod depth;
mod emitted;
mod ending;
mod enhanced;
mod fpdus;
mod immediate;
mod markers;
mod markers_taken;
mod memory;
mod opcodes;
mod options;
mod reads;
mod request;
mod requests;
mod responses;
mod rtr;
mod sends;
mod startup;
mod tagged;
mod terminated;
mod terminates;
mod untagged;
mod writes;

/// All checks, in the order in which they run. Checks after which a target may no longer listen come last.
pub const CHECKS: &[&[Check]] = &[
    startup::CHECKS,
    request::CHECKS,
    options::CHECKS,
    enhanced::CHECKS,
    rtr::CHECKS,
    requests::CHECKS,
    responses::CHECKS,
    writes::CHECKS,
    reads::CHECKS,
    memory::CHECKS,
    depth::CHECKS,
    emitted::CHECKS,
    sends::CHECKS,
    untagged::CHECKS,
    tagged::CHECKS,
    opcodes::CHECKS,
    terminates::CHECKS,
    terminated::CHECKS,
    ending::CHECKS,
    fpdus::CHECKS,
    boundaries::CHECKS,
    crc::CHECKS,
    markers::CHECKS,
    markers_taken::CHECKS,
    atomics::CHECKS,
    atomic_order::CHECKS,
    atomic_faults::CHECKS,
    immediate::CHECKS,
    request::LAST,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalogue::requirement;

    #[test]
    fn every_check_has_a_name_of_its_own_and_judges_what_is_in_the_catalogue() {
        let (mut names, mut judged) = (BTreeSet::new(), BTreeSet::new());
        for check in CHECKS.iter().copied().flatten() {
            assert!(names.insert(check.name), "two checks are called {}", check.name);
            assert!(!check.title.is_empty() && !check.ids.is_empty(), "{}", check.name);
            let ids: BTreeSet<_> = check.ids.iter().collect();
            assert_eq!(ids.len(), check.ids.len(), "{} names a requirement twice", check.name);
            for id in check.ids {
                assert!(requirement(id).is_some(), "{}: there is no requirement {id}", check.name);
                judged.insert(*id);
            }
        }
        assert!(judged.len() >= 350, "{}", judged.len());
    }
}
