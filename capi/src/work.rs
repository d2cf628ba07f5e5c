//! Translates work requests from C's numbers to operations.

use rustix::io::Errno;
use weft_rnic::{Data, SendOpcode, SendWr, Sge, Stag};
use weft_verbs::{MAX_INLINE, MAX_SGE};

use crate::abi;

/// The scatter-gather elements of one request.
pub(crate) type Sges = heapless::Vec<Sge, MAX_SGE>;
/// The inline data of one request.
pub(crate) type Inline = heapless::Vec<u8, MAX_INLINE>;

/// Translates C's opcode and its arguments.
///
/// # Errors
/// `EOPNOTSUPP` for operations that iWARP lacks, `EINVAL` for unknown ones.
pub(crate) fn opcode(wr: &abi::SendWr) -> Result<SendOpcode, Errno> {
    let stag = Stag(wr.rdma_rkey());
    let to = wr.remote_addr;
    Ok(match wr.opcode {
        abi::WR_SEND => SendOpcode::Send,
        abi::WR_SEND_WITH_INV => SendOpcode::SendInvalidate { stag: Stag(wr.imm_data) },
        abi::WR_RDMA_WRITE => SendOpcode::Write { stag, to },
        abi::WR_RDMA_WRITE_WITH_IMM => write_immediate(stag, to, wr.imm_data),
        abi::WR_RDMA_READ => SendOpcode::Read { stag, to },
        abi::WR_ATOMIC_CMP_AND_SWP => compare_swap(Stag(wr.atomic_rkey), to, wr.compare_add, wr.swap),
        abi::WR_ATOMIC_FETCH_AND_ADD => fetch_add(Stag(wr.atomic_rkey), to, wr.compare_add),
        abi::WR_LOCAL_INV => SendOpcode::LocalInvalidate { stag: Stag(wr.imm_data) },
        // iWARP has no Send with immediate data. A request that binds a window names objects, and is translated
        // elsewhere.
        other if other <= LAST_OPCODE => return Err(Errno::OPNOTSUPP),
        _ => return Err(Errno::INVAL),
    })
}

pub(crate) const fn write_immediate(stag: Stag, to: u64, imm_data: u32) -> SendOpcode {
    SendOpcode::WriteImmediate { stag, to, immediate: imm_data.to_ne_bytes() }
}

pub(crate) const fn compare_swap(stag: Stag, to: u64, compare: u64, swap: u64) -> SendOpcode {
    SendOpcode::CompareSwap { stag, to, swap, swap_mask: u64::MAX, compare, compare_mask: u64::MAX }
}

pub(crate) const fn fetch_add(stag: Stag, to: u64, add: u64) -> SendOpcode {
    SendOpcode::FetchAdd { stag, to, add, mask: 0 }
}

/// Returns a request with C's flags.
pub(crate) const fn send_wr<'a>(wr_id: u64, flags: u32, opcode: SendOpcode, data: Data<'a>) -> SendWr<'a> {
    SendWr {
        wr_id,
        // C's programs set this flag on Writes as well, without a meaning.
        solicited: flags & abi::SEND_SOLICITED != 0 && opcode.takes_receive(),
        signaled: flags & abi::SEND_SIGNALED != 0,
        fence: flags & abi::SEND_FENCE != 0,
        opcode,
        data,
    }
}

/// Translates a scatter-gather element.
pub(crate) const fn sge(sge: &abi::Sge) -> Sge {
    Sge { addr: sge.addr, length: sge.length, lkey: Stag(sge.lkey) }
}

/// `IBV_WR_ATOMIC_WRITE`.
const LAST_OPCODE: u32 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn wr(opcode: u32) -> abi::SendWr {
        let bind_info = abi::MwBindInfo { mr: core::ptr::null_mut(), addr: 0, length: 0, mw_access_flags: 0 };
        abi::SendWr {
            wr_id: 1,
            next: core::ptr::null_mut(),
            sg_list: core::ptr::null_mut(),
            num_sge: 0,
            opcode,
            send_flags: 0,
            imm_data: 5_u32.to_be(),
            remote_addr: 0x1000,
            compare_add: 0xAABB_CCDD_0000_0107,
            swap: 9,
            atomic_rkey: 0x300,
            wr_end: 0,
            remote_srqn: 0,
            bind_mw: abi::BindMw { mw: core::ptr::null_mut(), rkey: 0, bind_info },
        }
    }

    #[test]
    fn the_unions_of_c_are_read_by_opcode() {
        let stag = Stag(0x107);
        assert_eq!(opcode(&wr(abi::WR_RDMA_READ)), Ok(SendOpcode::Read { stag, to: 0x1000 }));
        let immediate = SendOpcode::WriteImmediate { stag, to: 0x1000, immediate: [0, 0, 0, 5] };
        assert_eq!(opcode(&wr(abi::WR_RDMA_WRITE_WITH_IMM)), Ok(immediate));
        let atomic = compare_swap(Stag(0x300), 0x1000, 0xAABB_CCDD_0000_0107, 9);
        assert_eq!(opcode(&wr(abi::WR_ATOMIC_CMP_AND_SWP)), Ok(atomic));
    }

    #[test]
    fn opcodes_without_iwarp_are_not_supported_and_unknown_ones_invalid() {
        for not_ours in [3, 8, 10, 11, 15] {
            assert_eq!(opcode(&wr(not_ours)), Err(Errno::OPNOTSUPP));
        }
        assert_eq!(opcode(&wr(16)), Err(Errno::INVAL));
        assert_eq!(opcode(&wr(u32::MAX)), Err(Errno::INVAL));
    }

    #[test]
    fn a_solicited_write_is_just_a_write() {
        let flags = abi::SEND_SOLICITED | abi::SEND_SIGNALED;
        let write = send_wr(1, flags, opcode(&wr(abi::WR_RDMA_WRITE)).unwrap(), Data::Sges(&[]));
        assert!(write.signaled && !write.solicited && !write.fence);
        assert!(send_wr(1, flags, SendOpcode::Send, Data::Sges(&[])).solicited);
    }
}
