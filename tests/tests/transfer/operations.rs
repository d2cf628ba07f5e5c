//! Send, Write and Read between two devices, contents checked.

use weft_rnic::{CompletionOpcode, Data, SendOpcode, SendWr, Status};
use weft_tests::{Pair, PairConfig};

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + seed) ^ (i >> 8)).to_le_bytes()[0]).collect()
}

fn send<'a>(wr_id: u64, opcode: SendOpcode, data: Data<'a>) -> SendWr<'a> {
    SendWr { wr_id, opcode, data, signaled: true, fence: false, solicited: false }
}

fn send_write_read(config: &PairConfig, sizes: &[usize]) {
    let mut pair = Pair::connected(config);
    let max = *sizes.iter().max().unwrap();
    let (ma, mb) = (pair.a.memory(max), pair.b.memory(max));
    let mut back = vec![0; max];
    for (round, &size) in sizes.iter().enumerate() {
        let len = u32::try_from(size).unwrap();
        let octets = pattern(size, round);
        ma.write(0, &octets).unwrap();
        pair.b.post_recv(1, mb.sge(0, len));
        let sge = [ma.sge(0, len)];
        pair.a.qp.post_send(&send(2, SendOpcode::Send, Data::Sges(&sge))).unwrap();
        let received = pair.completion_of_b();
        assert_eq!(
            (received.status, received.opcode, received.byte_len),
            (Status::Success, CompletionOpcode::Recv, len)
        );
        mb.read(0, &mut back[..size]).unwrap();
        assert_eq!(back[..size], octets, "Send of {size}");
        assert_eq!(pair.completion_of_a().wr_id, 2);

        let octets = pattern(size, round ^ 0xFF);
        ma.write(0, &octets).unwrap();
        let write = SendOpcode::Write { stag: mb.rkey(), to: mb.addr() };
        pair.a.qp.post_send(&send(3, write, Data::Sges(&sge))).unwrap();
        assert_eq!(pair.completion_of_a().status, Status::Success);
        // A Read behind the Write says that it has been placed (RFC 5040 section 5.5).
        ma.write(0, &vec![0; size]).unwrap();
        let read = SendOpcode::Read { stag: mb.rkey(), to: mb.addr() };
        pair.a.qp.post_send(&send(4, read, Data::Sges(&sge))).unwrap();
        let done = pair.completion_of_a();
        assert_eq!((done.status, done.opcode, done.byte_len), (Status::Success, CompletionOpcode::Read, len));
        mb.read(0, &mut back[..size]).unwrap();
        assert_eq!(back[..size], octets, "Write of {size}");
        ma.read(0, &mut back[..size]).unwrap();
        assert_eq!(back[..size], octets, "Read of {size}");
    }
}

const SIZES: [usize; 14] = [0, 1, 2, 3, 4, 63, 511, 512, 1440, 1441, 4096, 65_536, 100_001, 1 << 20];

#[test]
fn every_size() {
    send_write_read(&PairConfig::default(), &SIZES);
}

#[test]
fn with_markers() {
    let mpa = weft_mpa::Config { markers: true, ..weft_mpa::Config::default() };
    send_write_read(&PairConfig { mpa, ..PairConfig::default() }, &SIZES);
}

#[test]
fn without_crc() {
    let mpa = weft_mpa::Config { crc: false, ..weft_mpa::Config::default() };
    send_write_read(&PairConfig { mpa, ..PairConfig::default() }, &SIZES);
}

#[test]
fn at_the_ends_of_the_mtu() {
    for mtu in [576, 9000, 65_535] {
        send_write_read(&PairConfig { mtu, ..PairConfig::default() }, &SIZES);
    }
}

#[test]
fn over_ipv6() {
    let addresses = ["fd00::1/64", "fd00::2/64"];
    send_write_read(&PairConfig { addresses, ..PairConfig::default() }, &SIZES);
}
