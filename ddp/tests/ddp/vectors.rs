//! Every computed FPDU, octet by octet.

use weft_ddp::{Cutter, Header, Queue, Receiver, Segment, Sender, Stag};

use crate::vector_file::{fpdu_names, load, ulpdus};

#[test]
fn every_header_is_read_and_written_as_computed() {
    let file = load();
    let names = fpdu_names(&file);
    assert_eq!(names.len(), 36);
    for name in names {
        for ulpdu in ulpdus(&file, &name) {
            let segment = Segment::parse(&ulpdu).unwrap();
            assert_eq!(build(segment.header, segment.payload), ulpdu, "{name}");
        }
    }
}

#[test]
fn every_vector_is_a_stream_in_order() {
    let file = load();
    for name in fpdu_names(&file) {
        let msn = if name == "send-wrap" { u32::MAX } else { 1 };
        let mut receiver = Receiver::with_msn(4, msn);
        for ulpdu in ulpdus(&file, &name) {
            assert_eq!(receiver.accept(&ulpdu), Segment::parse(&ulpdu), "{name}");
        }
    }
}

#[test]
fn fields_are_where_the_specification_has_them() {
    let file = load();
    let header = |name: &str, index: usize| {
        let ulpdus = ulpdus(&file, name);
        Segment::parse(&ulpdus[index]).unwrap().header
    };
    let untagged =
        |last, control, word, queue, msn, mo| Header::Untagged { last, control, word, queue, msn, mo };
    assert_eq!(header("send5", 0), untagged(true, 0x43, 0, 0, 1, 0));
    assert_eq!(header("sendinv", 0), untagged(true, 0x44, 0x1122_3344, 0, 1, 0));
    assert_eq!(header("send-2seg", 0), untagged(false, 0x43, 0, 0, 1, 0));
    assert_eq!(header("send-2seg", 1), untagged(true, 0x43, 0, 0, 1, 4));
    assert_eq!(header("rreq", 0), untagged(true, 0x41, 0, 1, 1, 0));
    assert_eq!(header("term-crc", 0), untagged(true, 0x47, 0, 2, 1, 0));
    assert_eq!(header("atomic-rsp", 0), untagged(true, 0x4B, 0, 3, 1, 0));
    assert_eq!(header("m-fig6", 1), untagged(true, 0x43, 0, 0, 2, 0));
    let tagged = Header::Tagged { last: true, control: 0x40, stag: Stag(0x100), to: 0x1000 };
    assert_eq!(header("write8", 0), tagged);
}

// Covers 5041-4.1-8, 5041-4.1-10, 5041-4.2-1, 5041-4.3-1.
#[test]
fn the_sender_makes_the_vectors() {
    let file = load();
    let make = |cutter, max, message: &[u8]| segments(cutter, max, message);
    let untagged = |control, word, queue, len| Sender::new().untagged(control, word, queue, len);
    assert_eq!(make(untagged(0x43, 0, Queue::Send, 0), 18, b""), ulpdus(&file, "send0"));
    assert_eq!(make(untagged(0x43, 0, Queue::Send, 5), 128, b"hello"), ulpdus(&file, "send5"));
    assert_eq!(make(untagged(0x43, 0, Queue::Send, 8), 22, b"abcdefgh"), ulpdus(&file, "send-2seg"));
    let invalidate = untagged(0x44, 0x1122_3344, Queue::Send, 5);
    assert_eq!(make(invalidate, 128, b"hello"), ulpdus(&file, "sendinv"));
    let write = Sender::new().tagged(0x40, Stag(0x100), 0x1000, 8);
    assert_eq!(make(write, 128, &[0, 1, 2, 3, 4, 5, 6, 7]), ulpdus(&file, "write8"));
    assert_eq!(make(Sender::new().tagged(0x40, Stag(0), 0, 0), 14, b""), ulpdus(&file, "write0"));

    let mut sender = Sender::with_msn(u32::MAX);
    let mut wrap = make(sender.untagged(0x43, 0, Queue::Send, 5), 128, b"hello");
    wrap.extend(make(sender.untagged(0x43, 0, Queue::Send, 5), 128, b"hello"));
    assert_eq!(wrap, ulpdus(&file, "send-wrap"));
}

pub(crate) fn build(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = vec![0; header.len()];
    header.emit(&mut ulpdu);
    ulpdu.extend_from_slice(payload);
    ulpdu
}

pub(crate) fn segments(mut cutter: Cutter, max_ulpdu: usize, message: &[u8]) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    while let Some(cut) = cutter.next(max_ulpdu) {
        let start = usize::try_from(cut.offset).unwrap();
        segments.push(build(cut.header, &message[start..start + cut.len]));
    }
    segments
}
