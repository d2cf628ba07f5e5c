//! Bodies of the fuzz targets. Plain tests run them too.

use crate::{Receiver, Segment};

/// Reads `data` as a ULPDU without a panic. The payload is the rest of it, and the fields stay the same when they are
/// written and read again. The receiver must accept no more than the parser does.
pub fn header(data: &[u8]) {
    let parsed = Segment::parse(data);
    let accepted = Receiver::new(4).accept(data);
    match parsed {
        Ok(segment) => {
            assert_eq!(segment.header.len() + segment.payload.len(), data.len());
            let mut octets = [0; crate::Header::UNTAGGED_LEN];
            segment.header.emit(&mut octets);
            let again = Segment::parse(&octets[..segment.header.len()]).map(|again| again.header);
            assert_eq!(again, Ok(segment.header));
            assert!(accepted.is_err() || accepted == Ok(segment));
        }
        Err(error) => assert_eq!(accepted, Err(error)),
    }
}
