//! S1, table 3: which features of sockets there are, each with the test that shows it.

use core::fmt::Write as _;
use std::io::{self, Write};

use serde_json::json;

/// A feature, and what shows that it is there.
pub(super) struct Feature {
    name: &'static str,
    /// The answer of our column.
    answer: &'static str,
    /// A file of the repository with the name of a test in it; none if the feature is not there.
    test: Option<(&'static str, &'static str)>,
}

const fn is(name: &'static str, answer: &'static str, file: &'static str, test: &'static str) -> Feature {
    Feature { name, answer, test: Some((file, test)) }
}

const fn is_not(name: &'static str, answer: &'static str) -> Feature {
    Feature { name, answer, test: None }
}

/// Prints the features.
pub(super) fn print(as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    for feature in FEATURES {
        if as_json {
            let test = feature.test.map(|(file, name)| json!({ "file": file, "name": name }));
            let object = json!({ "feature": feature.name, "answer": feature.answer, "test": test });
            writeln!(out, "{object}")?;
        } else {
            writeln!(out, "{:<40} {:<44} {}", feature.name, feature.answer, feature.shown())?;
        }
    }
    Ok(())
}

/// Returns the features as a table.
pub(super) fn table() -> String {
    let mut text = String::from("| feature | Weft | shown by |\n|---|---|---|\n");
    for feature in FEATURES {
        // Writing to a string does not fail.
        let _ok = writeln!(text, "| {} | {} | {} |", feature.name, feature.answer, feature.shown());
    }
    text
}

impl Feature {
    fn shown(&self) -> String {
        self.test.map_or_else(String::new, |(file, name)| format!("`{file}`: `{name}`"))
    }
}

const FEATURES: &[Feature] = &[
    is("unmodified programs", "yes", "tests/sockets/cases/stores.sh", "case_redis"),
    is(
        "peers on plain TCP",
        "yes",
        COMMAND,
        "a_program_without_hooks_runs_on_tcp_unless_upgrades_are_required",
    ),
    is("inside a host", "yes, by shared memory", PROCESSES, "children_take_connections"),
    is(
        "between hosts",
        "yes, by RDMA",
        "sockets/daemon/tests/it/lanes.rs",
        "without_a_wire_lanes_go_by_the_tcp_of_the_hosts",
    ),
    is("poll and select", "yes", WAITS, "poll_and_select_tell_the_same"),
    is("epoll, by level", "yes", WAITS, "epoll_by_level_tells_the_same"),
    is("epoll, by edge", "yes", WAITS, "epoll_by_edge_tells_the_same"),
    is("epoll sets in sets", "yes", WAITS, "sets_in_sets_are_told"),
    is(
        "several programs listen on a port",
        "yes, the kernel's listeners",
        PROCESSES,
        "children_share_a_listener",
    ),
    is("fork: both use a connection", "yes", PROCESSES, "parent_and_child_take_turns"),
    is("threads share a socket", "yes", WAITS, "threads_share_a_set"),
    is("exec", "yes, on TCP", PROCESSES, "a_program_takes_a_connection"),
    is("descriptors are passed", "yes, on TCP", PROCESSES, "a_descriptor_is_passed"),
    is("signal handlers use the socket", "yes", RESULTS, "a_signal_handler_sends_in_the_middle_of_a_send"),
    is("ends of connections", "as on TCP", RESULTS, "the_other_end_hears_of_each_way_to_end_a_connection"),
    is("errors", "as on TCP", RESULTS, "calls_that_fail_say_the_same"),
    is(
        "a killed process",
        "as on TCP",
        DEATH,
        "death_behind_a_final_octet_resets_the_other_direction_and_wakes",
    ),
    is(
        "access control",
        "the kernel's, and rules of the daemon",
        JOIN,
        "a_claim_that_a_rule_denies_is_dropped",
    ),
    is("isolation of users", "yes", HOSTILE, "a_process_cannot_speak_for_links_of_others"),
    is(
        "isolation from the peer",
        "yes",
        "sockets/src/stream_tests/random.rs",
        "a_hostile_peer_moves_nobody_out_of_the_ring",
    ),
    is_not("quality of service", "no: a ring has no rate"),
    is(
        "live migration",
        "yes, on TCP: a drained process moves with its connections",
        "sockets/preload/tests/it/migrate.rs",
        "a_drained_process_moves_to_another_host_with_its_connection",
    ),
    is_not("zero copy", "no: two copies through the ring"),
];

const COMMAND: &str = "cli/tests/command/sockets.rs";
const PROCESSES: &str = "sockets/preload/tests/it/processes.rs";
const WAITS: &str = "sockets/preload/tests/it/waits.rs";
const RESULTS: &str = "sockets/preload/tests/it/results.rs";
const DEATH: &str = "sockets/daemon/tests/it/death.rs";
const JOIN: &str = "sockets/daemon/tests/it/join.rs";
const HOSTILE: &str = "sockets/daemon/tests/it/hostile.rs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_that_is_named_is_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (file, name) in FEATURES.iter().filter_map(|feature| feature.test) {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            let is_there = [format!("fn {name}("), format!("    {name}: "), format!("{name}() {{")];
            assert!(is_there.iter().any(|form| text.contains(form)), "{file} has no test {name}");
        }
    }
}
