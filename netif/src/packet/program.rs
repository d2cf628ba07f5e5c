//! The programs that the kernel runs for each frame, in the language of the classic packet filter.

use libc::sock_filter;

use crate::steering::MULTIPLIER;

/// Returns a program that returns zero for a frame that is neither to `mac` nor to a group, and for a frame of a
/// VLAN. The kernel takes tags out, so that a VLAN's frame would pass for an untagged one. A tag with VLAN 0 is a
/// priority only.
pub(super) fn station(mac: [u8; 6]) -> Vec<sock_filter> {
    let [a, b, c, d, e, f] = mac;
    let (high, low) = (u32::from_be_bytes([a, b, c, d]), u32::from(u16::from_be_bytes([e, f])));
    let tag = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG).cast_unsigned();
    vec![
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_W, tag),
        jump(libc::BPF_JSET, VLAN, 0, 1),
        op(libc::BPF_RET | libc::BPF_K, 0),
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_W, 0),
        jump(libc::BPF_JEQ, high, 0, 2),
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_H, 4),
        jump(libc::BPF_JEQ, low, 2, 0),
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_B, 0),
        jump(libc::BPF_JSET, 1, 0, 1),
        op(libc::BPF_RET | libc::BPF_K, u32::MAX),
        op(libc::BPF_RET | libc::BPF_K, 0),
    ]
}

/// Returns a program that returns [`queue_of`](crate::steering::queue_of) for the ports of TCP, and 0 for all other
/// frames.
pub(super) fn queue(queues: usize) -> Vec<sock_filter> {
    let queues = u32::try_from(queues).unwrap_or(u32::MAX);
    let net = |offset: u32| libc::SKF_NET_OFF.cast_unsigned().wrapping_add(offset);
    let protocol = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL).cast_unsigned();
    let alu = |code, k| op(libc::BPF_ALU | libc::BPF_K | code, k);
    vec![
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_H, protocol),
        jump(libc::BPF_JEQ, IPV6, 9, 0),
        jump(libc::BPF_JEQ, IPV4, 0, 19),
        // IPv4: the ports lie behind the header, whose length is in it.
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_B, net(9)),
        jump(libc::BPF_JEQ, TCP, 0, 17),
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_B, net(0)),
        alu(libc::BPF_AND, 0x0F),
        alu(libc::BPF_LSH, 2),
        op(libc::BPF_MISC | libc::BPF_TAX, 0),
        op(libc::BPF_LD | libc::BPF_IND | libc::BPF_W, net(0)),
        op(libc::BPF_JMP | libc::BPF_JA, 3),
        // IPv6, without extension headers.
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_B, net(6)),
        jump(libc::BPF_JEQ, TCP, 0, 9),
        op(libc::BPF_LD | libc::BPF_ABS | libc::BPF_W, net(40)),
        // Both ports: the exclusive-or of the word's two halves.
        op(libc::BPF_MISC | libc::BPF_TAX, 0),
        alu(libc::BPF_RSH, 16),
        op(libc::BPF_ALU | libc::BPF_X | libc::BPF_XOR, 0),
        alu(libc::BPF_AND, 0xFFFF),
        alu(libc::BPF_MUL, MULTIPLIER),
        alu(libc::BPF_RSH, 16),
        alu(libc::BPF_MOD, queues),
        op(libc::BPF_RET | libc::BPF_A, 0),
        op(libc::BPF_RET | libc::BPF_K, 0),
    ]
}

fn op(code: u32, k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k }
}

/// Compares with `k`. Skips `jt` steps if the condition holds, else `jf`.
fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { jt, jf, ..op(libc::BPF_JMP | libc::BPF_K | code, k) }
}

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86DD;
const TCP: u32 = 6;
/// The number of a VLAN in a tag.
const VLAN: u32 = 0x0FFF;
