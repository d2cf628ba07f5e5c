//! What one daemon tells another.

use weft_sockets::far::{Letter, Notice};

/// Reads `data` as a letter and as notices between daemons. What is read has to be written as the same octets.
///
/// # Panics
/// If it is not.
pub fn sockets_letter(data: &[u8]) {
    if let Some(letter) = Letter::decode(data) {
        assert_eq!(&*letter.encode(), data);
    }
    for octets in data.as_chunks::<8>().0 {
        if let Some(notice) = Notice::decode(*octets) {
            assert_eq!(notice.encode(), *octets);
        }
    }
}
