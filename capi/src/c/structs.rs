//! The text of C's structs in a trace.

use super::names;
use super::show::{LONGEST_LIST, Line, Show, peek};
use crate::abi;

impl Show for *mut abi::SendWr {
    fn show(self, line: &mut Line) {
        line.list(
            self.cast_const(),
            |wr| wr.next.cast_const(),
            |line, wr| {
                let opcode = SEND_OPCODES.get(wr.opcode as usize).copied().unwrap_or("?");
                line.write(format_args!("{{wr_id={:#x} {opcode}", wr.wr_id));
                line.sges(wr.sg_list, wr.num_sge);
                match wr.opcode {
                    abi::WR_RDMA_WRITE | abi::WR_RDMA_WRITE_WITH_IMM | abi::WR_RDMA_READ => {
                        line.write(format_args!(" to={:#x} rkey={:#x}", wr.remote_addr, wr.rdma_rkey()));
                    }
                    abi::WR_ATOMIC_CMP_AND_SWP | abi::WR_ATOMIC_FETCH_AND_ADD => {
                        line.write(format_args!(" to={:#x} rkey={:#x}", wr.remote_addr, wr.atomic_rkey));
                    }
                    _ => {}
                }
                if wr.send_flags != 0 {
                    line.text.push(' ');
                    line.flags(wr.send_flags, &SEND_FLAGS);
                }
                line.text.push('}');
            },
        );
    }
}

impl Show for *mut abi::RecvWr {
    fn show(self, line: &mut Line) {
        line.list(
            self.cast_const(),
            |wr| wr.next.cast_const(),
            |line, wr| {
                line.write(format_args!("{{wr_id={:#x}", wr.wr_id));
                line.sges(wr.sg_list, wr.num_sge);
                line.text.push('}');
            },
        );
    }
}

impl Show for *mut abi::Wc {
    fn show(self, line: &mut Line) {
        let count = line.count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        if count == 0 {
            return line.address(self.addr());
        }
        line.text.push('[');
        for wc in (0..count.min(LONGEST_LIST)).map_while(|index| peek(self.wrapping_add(index))) {
            let status = names::wc_status(wc.status).to_string_lossy();
            line.write(format_args!("{{wr_id={:#x} {status}", wc.wr_id));
            if wc.status == 0 {
                let opcode =
                    WC_OPCODES.iter().find(|(number, _)| *number == wc.opcode).map_or("?", |(_, name)| name);
                line.write(format_args!(" {opcode} len={}", wc.byte_len));
            }
            line.text.push('}');
        }
        line.text.push(']');
    }
}

impl Show for *mut abi::ConnParam {
    fn show(self, line: &mut Line) {
        let Some(param) = peek(self) else { return line.address(self.addr()) };
        let (ird, ord, len) = (param.responder_resources, param.initiator_depth, param.private_data_len);
        line.write(format_args!(
            "{{responder_resources={ird} initiator_depth={ord} private_data_len={len} qp_num={}}}",
            param.qp_num
        ));
    }
}

/// Shows the arguments for a queue pair. Both structs begin with them.
fn show_init(line: &mut Line, send_cq: usize, recv_cq: usize, cap: &abi::QpCap) {
    line.write(format_args!(
        "{{send_cq={send_cq:#x} recv_cq={recv_cq:#x} send_wr={} recv_wr={}",
        cap.max_send_wr, cap.max_recv_wr
    ));
    line.write(format_args!(
        " send_sge={} recv_sge={} inline={}}}",
        cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data
    ));
}

impl Show for *mut abi::QpInitAttr {
    fn show(self, line: &mut Line) {
        let Some(attr) = peek(self) else { return line.address(self.addr()) };
        show_init(line, attr.send_cq.addr(), attr.recv_cq.addr(), &attr.cap);
    }
}

impl Show for *mut abi::QpInitAttrEx {
    fn show(self, line: &mut Line) {
        let Some(attr) = peek(self) else { return line.address(self.addr()) };
        show_init(line, attr.send_cq.addr(), attr.recv_cq.addr(), &attr.cap);
    }
}

impl Show for *mut abi::QpAttr {
    fn show(self, line: &mut Line) {
        let Some(attr) = peek(self) else { return line.address(self.addr()) };
        let state = QP_STATES.get(attr.qp_state as usize).copied().unwrap_or("?");
        line.write(format_args!("{{qp_state={state}}}"));
    }
}

impl Show for *mut abi::SrqAttr {
    fn show(self, line: &mut Line) {
        let Some(attr) = peek(self) else { return line.address(self.addr()) };
        line.write(format_args!(
            "{{max_wr={} max_sge={} srq_limit={}}}",
            attr.max_wr, attr.max_sge, attr.srq_limit
        ));
    }
}

impl Show for *mut abi::SrqInitAttr {
    fn show(self, line: &mut Line) {
        let Some(attr) = peek(self) else { return line.address(self.addr()) };
        line.write(format_args!("{{max_wr={} max_sge={}}}", attr.attr.max_wr, attr.attr.max_sge));
    }
}

impl Show for *mut abi::CqInitAttrEx {
    fn show(self, line: &mut Line) {
        let Some(attr) = peek(self) else { return line.address(self.addr()) };
        line.write(format_args!(
            "{{cqe={} channel={:#x} wc_flags={:#x}}}",
            attr.cqe,
            attr.channel.addr(),
            attr.wc_flags
        ));
    }
}

const SEND_OPCODES: [&str; 16] = [
    "RDMA_WRITE",
    "RDMA_WRITE_WITH_IMM",
    "SEND",
    "SEND_WITH_IMM",
    "RDMA_READ",
    "ATOMIC_CMP_AND_SWP",
    "ATOMIC_FETCH_AND_ADD",
    "LOCAL_INV",
    "BIND_MW",
    "SEND_WITH_INV",
    "TSO",
    "DRIVER1",
    "?",
    "?",
    "FLUSH",
    "ATOMIC_WRITE",
];
const WC_OPCODES: [(u32, &str); 9] = [
    (0, "SEND"),
    (abi::WC_RDMA_WRITE, "RDMA_WRITE"),
    (abi::WC_RDMA_READ, "RDMA_READ"),
    (abi::WC_COMP_SWAP, "COMP_SWAP"),
    (abi::WC_FETCH_ADD, "FETCH_ADD"),
    (abi::WC_BIND_MW, "BIND_MW"),
    (abi::WC_LOCAL_INV, "LOCAL_INV"),
    (abi::WC_RECV, "RECV"),
    (abi::WC_RECV_RDMA_WITH_IMM, "RECV_RDMA_WITH_IMM"),
];
const SEND_FLAGS: [(u32, &str); 4] = [
    (abi::SEND_FENCE, "FENCE"),
    (abi::SEND_SIGNALED, "SIGNALED"),
    (abi::SEND_SOLICITED, "SOLICITED"),
    (abi::SEND_INLINE, "INLINE"),
];
const QP_STATES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];

#[cfg(test)]
mod tests {
    use super::super::show::tests::shown;
    use super::*;

    #[test]
    fn lists_of_requests_are_shown_whole() {
        let bind_info = abi::MwBindInfo { mr: core::ptr::null_mut(), addr: 0, length: 0, mw_access_flags: 0 };
        let mut sge = abi::Sge { addr: 0x1000, length: 8, lkey: 0x107 };
        let mut last = abi::SendWr {
            wr_id: 2,
            next: core::ptr::null_mut(),
            sg_list: &raw mut sge,
            num_sge: 1,
            opcode: abi::WR_RDMA_READ,
            send_flags: abi::SEND_SIGNALED | abi::SEND_FENCE,
            imm_data: 0,
            remote_addr: 0x2000,
            compare_add: 0x207,
            swap: 0,
            atomic_rkey: 0,
            wr_end: 0,
            remote_srqn: 0,
            bind_mw: abi::BindMw { mw: core::ptr::null_mut(), rkey: 0, bind_info },
        };
        let mut first = abi::SendWr {
            wr_id: 1,
            next: &raw mut last,
            num_sge: 0,
            opcode: abi::WR_SEND,
            send_flags: 0,
            ..last
        };
        let read = "{wr_id=0x2 RDMA_READ 0x1000+8 lkey=0x107 to=0x2000 rkey=0x207 FENCE|SIGNALED}";
        assert_eq!(shown("wrs", Some(0), &raw mut first), format!("f(wrs=[{{wr_id=0x1 SEND}}, {read}]) = 0"));
    }
}
