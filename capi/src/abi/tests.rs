//! Compares every size and offset with those that a C compiler finds in the installed headers.

use core::mem::{offset_of, size_of};
use std::io::Write;
use std::process::{Command, Stdio};

use super::*;
use skip::skip;

#[path = "../../../cli/tests/support/skip.rs"]
mod skip;

/// A C expression and its value.
struct Fact(String, usize);

macro_rules! facts {
    ($($c:literal = $rust:ty { $($field:ident $(. $more:ident)* $(as $name:literal)?),* })*) => {
        vec![$(
            Fact(concat!("sizeof(struct ", $c, ")").into(), size_of::<$rust>()),
            $(Fact(
                format!("offsetof(struct {}, {})", $c, c_name(stringify!($field $(. $more)*), &[$($name)?])),
                offset_of!($rust, $field $(. $more)*),
            ),)*
        )*]
    };
}

fn c_name(rust: &str, given: &[&str]) -> String {
    given.first().map_or_else(|| rust.replace(' ', ""), ToString::to_string)
}

fn verbs() -> Vec<Fact> {
    facts! {
        "ibv_device" = Device { node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        "ibv_context" = Context {
            device, ops, ops.alloc_mw, ops.poll_cq, ops.req_notify_cq, ops.post_srq_recv, ops.post_send, ops.post_recv, cmd_fd,
            async_fd, num_comp_vectors, mutex, abi_compat
        }
        "verbs_context" = VerbsContext {
            query_port, modify_cq, create_cq_ex, priv_ as "priv", query_device_ex, create_qp_ex, sz, context
        }
        "ibv_pd" = Pd { context, handle }
        "ibv_mr" = Mr { context, pd, addr, length, handle, lkey, rkey }
        "ibv_mw" = Mw { context, pd, rkey, handle, kind as "type" }
        "ibv_comp_channel" = CompChannel { context, fd, refcnt }
        "ibv_cq" = Cq {
            context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed, async_events_completed
        }
        "ibv_cq_ex" = CqEx {
            comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode, read_vendor_err, read_byte_len,
            read_imm_data, read_qp_num, read_src_qp, read_wc_flags, read_slid, read_sl, read_dlid_path_bits,
            read_completion_ts, unsupported as "read_cvlan"
        }
        "ibv_srq" = Srq { context, srq_context, pd, handle, mutex, cond, events_completed }
        "ibv_qp" = Qp {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond, events_completed
        }
        "ibv_qp_ex" = QpEx {
            base as "qp_base", comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_bind_mw, wr_local_inv,
            wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm, wr_send_inv, unsupported as "wr_send_tso",
            wr_set_inline_data, wr_set_inline_data_list, wr_set_sge, wr_set_sge_list, wr_start, wr_complete, wr_abort,
            wr_atomic_write
        }
    }
}

fn attributes() -> Vec<Fact> {
    facts! {
        "ibv_gid_entry" = GidEntry { gid, gid_index, port_num, gid_type, ndev_ifindex }
        "ibv_device_attr" = DeviceAttr {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr,
            device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom,
            max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp,
            max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr,
            max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt
        }
        "ibv_device_attr_ex" = DeviceAttrEx {
            orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock, device_cap_flags_ex, tso_caps, rss_caps,
            max_wq_type_rq, packet_pacing_caps, raw_packet_caps, tm_caps, max_cq_count as "cq_mod_caps.max_cq_count",
            max_cq_period as "cq_mod_caps.max_cq_period", max_dm_size, pci_atomic_caps, xrc_odp_caps, phys_port_cnt_ex
        }
        "ibv_port_attr" = PortAttr {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len,
            lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state,
            link_layer, flags, port_cap_flags2
        }
        "ibv_qp_cap" = QpCap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        "ibv_qp_init_attr" = QpInitAttr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        "ibv_qp_init_attr_ex" = QpInitAttrEx {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags, max_tso_header,
            rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags
        }
        "ibv_qp_attr" = QpAttr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr,
            alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic,
            min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit
        }
        "ibv_srq_attr" = SrqAttr { max_wr, max_sge, srq_limit }
        "ibv_srq_init_attr" = SrqInitAttr { srq_context, attr }
        "ibv_srq_init_attr_ex" = SrqInitAttrEx { srq_context, attr, comp_mask, srq_type, pd, xrcd, cq, tm_cap }
        "ibv_cq_init_attr_ex" = CqInitAttrEx {
            cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags, parent_domain
        }
        "ibv_modify_cq_attr" = ModifyCqAttr {
            attr_mask, cq_count as "moderate.cq_count", cq_period as "moderate.cq_period"
        }
        "ibv_async_event" = AsyncEvent { element, event_type }
    }
}

fn work() -> Vec<Fact> {
    facts! {
        "ibv_sge" = Sge { addr, length, lkey }
        "ibv_data_buf" = DataBuf { addr, length }
        "ibv_send_wr" = SendWr {
            wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, remote_addr as "wr.rdma.remote_addr",
            remote_addr as "wr.atomic.remote_addr", compare_add as "wr.rdma.rkey", compare_add as "wr.atomic.compare_add",
            swap as "wr.atomic.swap", atomic_rkey as "wr.atomic.rkey", remote_srqn as "qp_type.xrc.remote_srqn",
            bind_mw.mw, bind_mw.rkey, bind_mw.bind_info
        }
        "ibv_mw_bind_info" = MwBindInfo { mr, addr, length, mw_access_flags }
        "ibv_mw_bind" = MwBind { wr_id, send_flags, bind_info }
        "ibv_recv_wr" = RecvWr { wr_id, next, sg_list, num_sge }
        "ibv_wc" = Wc {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl, dlid_path_bits
        }
    }
}

fn cm() -> Vec<Fact> {
    facts! {
        "rdma_event_channel" = EventChannel { fd }
        "rdma_cm_id" = CmId {
            verbs, channel, context, qp, src_addr as "route.addr.src_addr", dst_addr as "route.addr.dst_addr",
            ibaddr as "route.addr.addr", path_rec as "route.path_rec", num_paths as "route.num_paths", ps, port_num, event,
            send_cq_channel, send_cq, recv_cq_channel, recv_cq, srq, pd, qp_type
        }
        "rdma_conn_param" = ConnParam {
            private_data, private_data_len, responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count,
            srq, qp_num
        }
        "rdma_cm_event" = CmEvent { id, listen_id, event, status, conn as "param.conn" }
        "rdma_addrinfo" = AddrInfo {
            ai_flags, ai_family, ai_qp_type, ai_port_space, ai_src_len, ai_dst_len, ai_src_addr, ai_dst_addr, ai_src_canonname,
            ai_dst_canonname, ai_route_len, ai_route, ai_connect_len, ai_connect, ai_next
        }
    }
}

fn numbers() -> Vec<Fact> {
    macro_rules! same {
        ($($c:literal $rust:expr),* $(,)?) => {
            vec![$(Fact(concat!("(size_t)", $c).into(), usize::try_from($rust).unwrap())),*]
        };
    }
    let with = "(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | \
                IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | \
                IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)";
    let mut facts = same! {
        "IBV_NODE_RNIC" NODE_RNIC, "IBV_TRANSPORT_IWARP" TRANSPORT_IWARP, "IBV_DEVICE_SRQ_RESIZE" DEVICE_SRQ_RESIZE,
        "IBV_ATOMIC_GLOB" ATOMIC_GLOB, "IBV_PORT_ACTIVE" PORT_ACTIVE, "IBV_LINK_LAYER_ETHERNET" LINK_LAYER_ETHERNET,
        "IBV_FORK_UNNEEDED" FORK_UNNEEDED, "IBV_ACCESS_OPTIONAL_RANGE" ACCESS_OPTIONAL_RANGE,
        "IBV_ACCESS_HUGETLB" ACCESS_HUGETLB, "IBV_ACCESS_ON_DEMAND" ACCESS_ON_DEMAND,
        "IBV_QPS_SQD" QPS_SQD, "IBV_QPS_ERR" QPS_ERR, "IBV_QP_ACCESS_FLAGS" QP_ACCESS_FLAGS,
        "IBV_QP_MAX_QP_RD_ATOMIC" QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC" QP_MAX_DEST_RD_ATOMIC,
        "IBV_QP_CAP" QP_CAP, "IBV_QP_RATE_LIMIT" QP_RATE_LIMIT, "((IBV_QP_DEST_QPN << 1) - 1)" QP_KNOWN,
        "IBV_QP_INIT_ATTR_SEND_OPS_FLAGS" QP_INIT_ATTR_SEND_OPS_FLAGS,
        "IBV_QP_INIT_ATTR_CREATE_FLAGS" QP_INIT_ATTR_CREATE_FLAGS,
        "IBV_WR_RDMA_READ" WR_RDMA_READ, "IBV_WR_LOCAL_INV" WR_LOCAL_INV, "IBV_WR_SEND_WITH_INV" WR_SEND_WITH_INV,
        "IBV_WR_BIND_MW" WR_BIND_MW, "IBV_MW_TYPE_1" MW_TYPE_1, "IBV_MW_TYPE_2" MW_TYPE_2,
        "IBV_DEVICE_MEM_WINDOW" DEVICE_MEM_WINDOW, "IBV_DEVICE_MEM_WINDOW_TYPE_2B" DEVICE_MEM_WINDOW_TYPE_2B,
        "IBV_DEVICE_MEM_MGT_EXTENSIONS" DEVICE_MEM_MGT_EXTENSIONS,
        "IBV_SEND_INLINE" SEND_INLINE, "IBV_WC_LOCAL_INV" WC_LOCAL_INV, "IBV_WC_RECV_RDMA_WITH_IMM" WC_RECV_RDMA_WITH_IMM,
        "IBV_WC_WITH_INV" WC_WITH_INV, "(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)" WC_EX_KNOWN,
        "IBV_EVENT_QP_LAST_WQE_REACHED" EVENT_QP_LAST_WQE_REACHED, "IBV_EVENT_SRQ_ERR" EVENT_SRQ_ERR,
        "IBV_EVENT_DEVICE_FATAL" EVENT_DEVICE_FATAL, "RDMA_PS_TCP" PS_TCP, "RDMA_PS_IB" PS_IB,
        "RDMA_MAX_RESP_RES" MAX_DEPTH, "RAI_FAMILY" RAI_FAMILY, "RDMA_OPTION_ID_REUSEADDR" OPTION_ID_REUSEADDR,
    };
    facts.push(Fact(format!("(size_t){with}"), usize::try_from(WITH_KNOWN).unwrap()));
    facts
}

#[test]
fn all_structs_are_those_of_the_installed_headers() {
    let facts: Vec<_> = [verbs(), attributes(), work(), cm(), numbers()].into_iter().flatten().collect();
    let lines: String =
        facts.iter().map(|Fact(c, _)| format!("    printf(\"%zu\\n\", (size_t)({c}));\n")).collect();
    let program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n\
         #ifndef IBV_ACCESS_OPTIONAL_RANGE\n#error old headers\n#endif\nint main(void)\n{{\n{lines}    return 0;\n}}\n"
    );
    let output = std::env::temp_dir().join(format!("weft-layout-{}", std::process::id()));
    let compiler = Command::new("cc")
        .args(["-x", "c", "-", "-o"])
        .arg(&output)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut compiler) = compiler else { return skip("no C compiler for the layout of C structs") };
    compiler.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let compiled = compiler.wait_with_output().unwrap();
    let complaints = String::from_utf8_lossy(&compiled.stderr);
    if complaints.contains("No such file or directory") {
        return skip("no headers of libibverbs and librdmacm for the layout of C structs");
    }
    assert!(compiled.status.success(), "{complaints}");
    let printed = Command::new(&output).output().unwrap();
    std::fs::remove_file(&output).unwrap();
    let found: Vec<usize> =
        String::from_utf8(printed.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found.len(), facts.len());
    let wrong: Vec<_> = facts
        .iter()
        .zip(found)
        .filter(|(Fact(_, ours), theirs)| ours != theirs)
        .map(|(Fact(what, ours), theirs)| format!("{what}: {ours} here, {theirs} there"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
