//! Streaming mode without MPA: both ends of TCP are the application's.

use weft_netif::Duration;
use weft_rnic::{CloseCause, CmEvent, StreamError, StreamState};
use weft_tests::PairConfig;

use crate::talk::{PORT, Talk, news, take};
use crate::world::pattern;

/// One direction is closed behind its octets, the other one goes on.
#[test]
fn directions_are_closed_one_by_one() {
    let mut talk = Talk::new(&PairConfig::default());
    let (text, mut heard) = (pattern(30_000, 3), Vec::new());
    assert_eq!(talk.a.send(&text), Ok(text.len()));
    talk.a.shutdown().unwrap();
    assert!(talk.a.unsent().unwrap() > 0);
    let (b, mut buffer) = (&talk.b, [0; 4096]);
    let end = talk.pair.wait(|| match b.receive(&mut buffer) {
        Ok(len) => {
            heard.extend_from_slice(&buffer[..len]);
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!((end, heard), (Some(StreamError::Finished), text));
    // The application that has asked hears of the last acknowledgement.
    let is_ready = |event| matches!(event, CmEvent::StreamReady { .. });
    let events = talk.pair.a.events.clone();
    assert_eq!(talk.pair.wait(|| events.next().map(is_ready)), Some(true));
    assert_eq!((talk.a.unsent(), talk.a.cause()), (Ok(0), None));
    assert_eq!(talk.carry(false, b"still open", 10), b"still open");
    talk.b.shutdown().unwrap();
    let a = &talk.a;
    let end = talk.pair.wait(|| a.receive(&mut [0; 1]).err());
    assert!(matches!(end, Some(StreamError::Finished | StreamError::Closed)));
    talk.settle();
    assert_eq!((talk.a.cause(), talk.a.unsent()), (Some(CloseCause::Graceful), Err(StreamError::Closed)));
    assert_eq!((talk.a.local(), talk.b.local()), (Some(talk.b.peer()), Some(talk.a.peer())));
}

/// RST ends both directions. Octets that came before can be received.
#[test]
fn a_connection_is_reset() {
    let mut talk = Talk::new(&PairConfig::default());
    let (mut octets, mut heard) = ([0; 16], Vec::new());
    assert_eq!(talk.b.send(b"before"), Ok(6));
    talk.settle();
    talk.b.abort();
    talk.settle();
    assert_eq!([talk.a.state(), talk.b.state()], [StreamState::Closed; 2]);
    assert_eq!((talk.a.cause(), talk.b.cause()), (Some(CloseCause::Reset), Some(CloseCause::Aborted)));
    assert_eq!(take(&talk.a, &mut octets, &mut heard), 6);
    assert_eq!((talk.a.receive(&mut octets), &heard[..]), (Err(StreamError::Closed), &b"before"[..]));
    assert_eq!((talk.a.send(b"late"), talk.a.shutdown()), (Err(StreamError::Closed), Ok(())));
}

/// Notices have the names that the application gave: the listener's, then the connection's.
#[test]
fn notices_of_a_connection_have_its_name() {
    let mut talk = Talk::new(&PairConfig::default());
    let (a, b) = (&talk.pair.a, &talk.pair.b);
    let queue = weft_rnic::EventQueue::new().unwrap();
    let (ours, theirs) = (a.device.events_on(&queue), b.device.events_on(&queue));
    let listener = b.device.listen_streaming_as(7, &theirs, weft_rnic::Listen::from(PORT + 1)).unwrap();
    let opened = a.device.open_stream_as(8, &ours, (None, b.device.address(PORT + 1))).unwrap();
    let mut names = Vec::new();
    let accepted = talk.pair.wait(|| {
        let notice = queue.pop()?;
        names.push(notice.id);
        let weft_rnic::News::Event(CmEvent::StreamRequest(request)) = notice.news else { return None };
        Some(talk.b.id()).filter(|id| *id != request.id).map(|_| request.id)
    });
    let accepted = talk.pair.b.device.accept_stream_as(9, accepted.unwrap()).unwrap();
    assert_eq!(accepted.receive(&mut [0; 1]), Ok(0));
    assert!(names.contains(&7));
    // The device tells those that wait when it is shut down.
    talk.pair.b.device.shutdown(std::time::Duration::ZERO);
    talk.pair.settle(Duration::from_secs(1));
    while let Some(notice) = queue.pop() {
        names.push(notice.id);
    }
    assert!(names.contains(&8) && names.contains(&9), "{names:?}");
    assert_eq!((accepted.receive(&mut [0; 1]), accepted.local()), (Err(StreamError::Closed), None));
    drop((listener, opened));
    assert!(news(&talk.pair.b.events).is_none());
}
