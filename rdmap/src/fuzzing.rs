//! Bodies of the fuzz targets. Plain tests run them too.

use weft_ddp::{Receiver, Segment, Stag};

use crate::{
    AtomicOp, Endpoint, Inbound, Kind, Message, OutstandingRequest, PendingRequest, Terminate, Token,
};

/// Feeds `data` as ULPDUs, each with its length in front (one octet), until the first error. The endpoint waits for
/// the answers to one Read and one Atomic. Accepted segments must keep the promises of [`Inbound`].
pub fn accept(data: &[u8]) {
    let mut endpoint = Endpoint::new([OutstandingRequest::default(); 2], [PendingRequest::default(); 2]);
    let kind = Kind::Read { sink_stag: SINK, sink_to: SINK_TO, source_stag: Stag(0x20), source_to: 0 };
    assert_eq!(endpoint.start(Message { token: Token(7), len: READ_LEN, kind }), Ok(()));
    assert!(endpoint.poll_segment(128).is_some());
    let kind = Kind::Atomic { op: AtomicOp::FetchAdd { add: 1, mask: 0 }, stag: Stag(0x20), to: 0 };
    assert_eq!(endpoint.start(Message { token: Token(8), len: 8, kind }), Ok(()));
    assert!(endpoint.poll_segment(128).is_some());

    let mut receiver = Receiver::new(4);
    let mut received = 0;
    let mut rest = data;
    while let Some((&len, octets)) = rest.split_first() {
        let (ulpdu, next) = octets.split_at(usize::from(len).min(octets.len()));
        rest = next;
        let accepted =
            receiver.accept(ulpdu).map_err(Into::into).and_then(|segment| endpoint.accept(segment));
        match accepted {
            Ok(inbound) => check(&inbound, &mut received),
            Err(error) => {
                check_terminate(&Terminate::from_error(&error, Some(ulpdu)), ulpdu);
                break;
            }
        }
        assert!(endpoint.readiness().requests_to_answer <= 2);
        // Answers some of the requests, so that the queues wrap.
        if len % 3 == 0 {
            let _segment = endpoint.poll_segment(64);
        }
    }
}

/// Reads `data` as a Terminate, writes the result and reads that again.
pub fn terminate(data: &[u8]) {
    let Ok(terminate) = Terminate::parse(data) else {
        assert!(data.len() < 4);
        return;
    };
    let octets = terminate.emit();
    assert_eq!(octets.len(), terminate.len());
    assert!(octets.len() <= Terminate::MAX_LEN);
    assert_eq!(Terminate::parse(&octets), Ok(terminate));
}

fn check(inbound: &Inbound<'_>, received: &mut u64) {
    match inbound {
        Inbound::Send { offset, payload, last: Some(end) } => {
            assert_eq!(u64::from(end.len), u64::from(*offset) + payload.len() as u64);
        }
        Inbound::ReadResponse { token, stag, to, payload, finished } => {
            assert_eq!((*token, *stag, *to), (Token(7), SINK, SINK_TO.wrapping_add(*received)));
            *received += payload.len() as u64;
            assert!(*received <= u64::from(READ_LEN));
            assert!(!finished || *received == u64::from(READ_LEN));
        }
        // This comes behind the Read, and only once.
        Inbound::AtomicResponse { token, .. } => {
            assert_eq!((*token, *received), (Token(8), u64::from(READ_LEN)));
            *received += 1;
        }
        _ => {}
    }
}

fn check_terminate(terminate: &Terminate, ulpdu: &[u8]) {
    assert_eq!(Terminate::parse(&terminate.emit()).as_ref(), Ok(terminate));
    assert!(ulpdu.starts_with(&terminate.ddp_header));
    assert!(terminate.rdma_header.is_empty() || Segment::parse(ulpdu).is_ok());
}

const SINK: Stag = Stag(0x10);
/// So high that the Read's own offsets wrap: RDMAP does not check bounds.
const SINK_TO: u64 = u64::MAX - 15;
const READ_LEN: u32 = 40;
