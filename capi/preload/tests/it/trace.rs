//! The output of `WEFT_TRACE`.

use std::collections::BTreeSet;

use crate::program::Program;

/// Returns the lines of a process, without the process and thread in front.
fn lines_of<'a>(trace: &'a str, who: &'a str) -> impl Iterator<Item = &'a str> {
    trace.lines().filter_map(move |line| line.strip_prefix(who)?.strip_prefix(' '))
}

/// Each call is printed with its arguments and its answer, then the number of calls and the objects that are left.
#[test]
fn a_trace_shows_all_calls() {
    let Some(program) = Program::compile("traced") else { return };
    let file = std::env::temp_dir().join(format!("weft-trace-{}", std::process::id()));
    program.assert_ok(&["env", &format!("WEFT_TRACE={}", file.display())]);
    let trace = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();

    let who: BTreeSet<&str> = trace.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let processes: Vec<&&str> = who.iter().filter(|who| !who.contains('/')).collect();
    assert_eq!(processes.len(), 2, "a process and its child: {who:?}");
    let parent = trace.split(' ').next().unwrap();
    assert!(!parent.contains('/') && !trace.contains('\x1b'), "{trace}");
    let has = |who: &str, beginning: &str, end: &str| {
        lines_of(&trace, who).any(|line| line.starts_with(beginning) && line.ends_with(end))
    };
    assert!(has(parent, "ibv_get_device_list(num_devices=[1]) = 0x", ""), "{trace}");
    assert!(has(parent, "ibv_dereg_mr(mr=0x", ") = EINVAL (Invalid argument)"), "{trace}");
    assert!(has(parent, "rdma_bind_addr(id=NULL, local=0x10) = -1 EINVAL (Invalid argument)", ""), "{trace}");
    assert!(has(parent, "ibv_free_device_list(list=0x", ")"), "{trace}");
    let send = lines_of(&trace, parent).find(|line| line.starts_with("ibv_post_send(qp=0x")).unwrap();
    assert!(send.contains(", wrs=[{wr_id=0x78 SEND 0x") && send.contains("+5 lkey=0x"), "{send}");
    assert!(send.contains(" SIGNALED}], bad=") && send.ends_with(" = 0"), "{send}");
    let has_capacity = |line: &str| line.contains(" send_wr=2 recv_wr=2 send_sge=1 recv_sge=1 ");
    assert!(lines_of(&trace, parent).any(|line| line.starts_with("rdma_create_ep(") && has_capacity(line)));
    assert!(trace.contains("[{wr_id=0x77 success RECV len=5}]) = 1"), "{trace}");
    let threads: Vec<&str> = who.iter().copied().filter(|who| who.contains('/')).collect();
    let asks = |who: &&&str| has(who, "ibv_query_device(context=0x", " = 0");
    assert_eq!(threads.iter().filter(asks).count(), 1, "{trace}");
    let connects =
        |who: &&&str| has(who, "rdma_connect(id=0x", "initiator_depth=4 private_data_len=6 qp_num=0}) = 0");
    assert_eq!(threads.iter().filter(connects).count(), 1, "{trace}");

    let child = processes.into_iter().find(|who| **who != parent).unwrap();
    let calls = lines_of(&trace, child).filter(|line| line.contains('(')).collect::<Vec<_>>();
    assert!(matches!(calls[..], [call] if call.ends_with("= NULL EINVAL (Invalid argument)")), "{calls:?}");
    assert_eq!(lines_of(&trace, child).last(), Some("objects left: 0"));

    let counts = |call: &str| {
        let rows = lines_of(&trace, parent).map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row.last() == Some(&call)).map(|row| (row[0].to_owned(), row[1].to_owned())).next()
    };
    assert_eq!(counts("ibv_dereg_mr"), Some(("2".into(), "1".into())), "{trace}");
    assert_eq!(counts("rdma_create_ep"), Some(("2".into(), "0".into())), "{trace}");
    let left: Vec<_> = lines_of(&trace, parent).filter_map(|line| line.strip_prefix("left: ")).collect();
    let kinds: Vec<_> = left.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(kinds, ["context", "pd", "mr"], "{left:?}");
    assert!(left[2].contains(", made by ibv_reg_mr, for weft-traced"), "{left:?}");
    assert_eq!(lines_of(&trace, parent).last(), Some("objects left: 3"));
}
