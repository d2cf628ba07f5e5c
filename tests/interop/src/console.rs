//! The warnings of a guest's kernel about itself, on its console.

/// Returns the first warning, bug or panic of the kernel in `text`, with its place in the code. Returns `None` if there is none.
pub(crate) fn warning(text: &str) -> Option<String> {
    let from = |line: &str, mark: &str| line.find(mark).and_then(|at| line.get(at..)).map(str::to_owned);
    let first = text.lines().find_map(|line| MARKS.iter().find_map(|mark| from(line, mark)))?;
    let first = first.trim_start();
    // A warning names its place in the same line. Behind the other marks come the registers.
    if first.contains(" at ") {
        return Some(first.into());
    }
    let place = text.lines().find_map(|line| from(line, "RIP: "));
    Some(place.map_or_else(|| first.into(), |place| format!("{first}, {place}")))
}

/// The beginnings of Linux's warnings about itself. The space before `BUG:` excludes words that end with it.
const MARKS: [&str; 7] = [
    "WARNING: CPU:",
    " BUG: ",
    "kernel BUG at ",
    "Oops: ",
    "general protection fault",
    "refcount_t: ",
    "Kernel panic",
];

#[cfg(test)]
pub(crate) mod tests {
    use super::warning;

    /// The console of `6.1-p2p` after siw has released an endpoint once too often.
    pub(crate) const UNDERFLOW: &str = "\
[   97.402113] ------------[ cut here ]------------
[   97.402690] WARNING: CPU: 0 PID: 1193 at siw/siw_cm.c:453 siw_cep_put+0x3f/0x50 [siw]
[   97.403377] Modules linked in: siw(OE) ib_core rdma_ucm rdma_cm iw_cm virtio_net
[   97.405512] RIP: 0010:siw_cep_put+0x3f/0x50 [siw]
[   97.409120] Call Trace:
[   97.409433]  siw_destroy_listen+0xd3/0x140 [siw]
[   97.412871] ---[ end trace 0000000000000000 ]---
[   97.413390] ------------[ cut here ]------------
[   97.413711] refcount_t: underflow; use-after-free.
[   97.414142] WARNING: CPU: 0 PID: 1193 at lib/refcount.c:28 refcount_warn_saturate+0xba/0x110
";

    /// The console of a guest whose kernel has no complaint.
    pub(crate) const QUIET: &str = "\
[    1.871242] Run /init as init process
[    3.310076] siw: loading out-of-tree module taints kernel.
[    4.018831] siw: SoftiWARP attached
[    9.500000] DEBUG: nothing to see
";

    #[test]
    fn a_quiet_kernel_has_not_warned() {
        assert_eq!(warning(QUIET), None);
        assert_eq!(warning(""), None);
    }

    #[test]
    fn a_warning_is_told_with_its_place() {
        let found = warning(&format!("{QUIET}{UNDERFLOW}"));
        assert_eq!(
            found.as_deref(),
            Some("WARNING: CPU: 0 PID: 1193 at siw/siw_cm.c:453 siw_cep_put+0x3f/0x50 [siw]")
        );
    }

    #[test]
    fn an_underflow_alone_is_a_warning() {
        let found = warning("[   97.4] refcount_t: underflow; use-after-free.\n");
        assert_eq!(found.as_deref(), Some("refcount_t: underflow; use-after-free."));
    }

    #[test]
    fn a_bug_is_told_with_the_instruction() {
        let console = "[ 7.0] BUG: kernel NULL pointer dereference, address: 0000000000000018\n\
            [ 7.1] Oops: 0000 [#1] PREEMPT SMP NOPTI\n[ 7.2] RIP: 0010:siw_rx_data+0x12/0x40 [siw]\n";
        let found = "BUG: kernel NULL pointer dereference, address: 0000000000000018, \
            RIP: 0010:siw_rx_data+0x12/0x40 [siw]";
        assert_eq!(warning(console).as_deref(), Some(found));
        let console = "[ 8.0] kernel BUG at drivers/infiniband/core/iwcm.c:969!\n";
        assert_eq!(warning(console).as_deref(), Some("kernel BUG at drivers/infiniband/core/iwcm.c:969!"));
    }

    #[test]
    fn a_panic_is_told_with_the_instruction() {
        let console = "[ 1.0] Run /init\n[ 7.1] RIP: 0010:siw_rx_data+0x12/0x40 [siw]\n\
            [ 7.2] Kernel panic - not syncing: Fatal exception in interrupt\n[ 0.0] Linux version 6.12\n";
        let found =
            "Kernel panic - not syncing: Fatal exception in interrupt, RIP: 0010:siw_rx_data+0x12/0x40 [siw]";
        assert_eq!(warning(console).as_deref(), Some(found));
    }
}
