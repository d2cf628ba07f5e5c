//! Bodies of the fuzz targets. A plain test runs them over seeded input as well. They panic if an invariant breaks.

use crate::{
    Config, Crc32c, CrcState, Deframer, Error, FrameKind, Framer, Initiator, Locator, MAX_FRAME_LEN,
    MAX_PRIVATE_DATA, NOT_NEGOTIATED, Negotiated, Outcome, Responder, RtrSet, STAGING_LEN, Start,
    StartupError, StartupFrame,
};

/// Takes any octets as a startup frame of either kind, and negotiates with its sender.
///
/// # Panics
/// * if parsing depends on the octets after the frame;
/// * if a parsed frame does not encode to the same octets;
/// * if the agreement breaks a rule of RFC 6581.
pub fn startup(data: &[u8]) {
    for kind in [FrameKind::Request, FrameKind::Reply] {
        let Ok(Some((frame, len))) = check_prefixes(kind, data) else { continue };
        assert_eq!(StartupFrame::parse_any(data), Ok(Some((frame, len))));
        let mut octets = [0; MAX_FRAME_LEN];
        assert_eq!(frame.emit(&mut octets), Ok(len));
        assert_eq!(octets[..len], data[..len]);
        assert_eq!(frame.emit(&mut octets[..len - 1]), Err(StartupError::BufferTooSmall { needed: len }));
        // The octets behind the frame choose our own side's configuration.
        let config = config(&data[len..]);
        match kind {
            FrameKind::Request => check_responder(config, &frame),
            FrameKind::Reply => check_initiator(config, &frame),
        }
    }
}

/// Takes any octets as a stream of FPDUs, cut in several ways. Then takes them as ULPDUs that go through a framer and
/// back.
///
/// # Panics
/// If the cuts change the ULPDUs or the error, or a ULPDU changes on its round trip.
pub fn deframe(data: &[u8]) {
    let Some((&[mode, cut], stream)) = data.split_first_chunk() else { return };
    let crc = (mode & 1 != 0).then_some(Crc32c::PORTABLE);
    let markers = mode & 2 != 0;
    compare_cuts(crc, markers, stream, usize::from(cut) + 1);
    round_trip(crc, markers, stream, usize::from(cut) + 1);
}

/// Looks for FPDUs in any octets at any position of a stream. Then in a part of a stream that a framer made, of which
/// one octet is damaged.
///
/// # Panics
/// If an FPDU is found whose length, CRC or Markers are wrong, or one that the framer did not make.
pub fn locate(data: &[u8]) {
    let Some((&[high, low, cut, len, wrong], rest)) = data.split_first_chunk() else { return };
    let position = 4 * u64::from(u16::from_be_bytes([high, low]));
    let _found = check_located(position, rest, low & 1 != 0).count();
    let mut framer = Framer::new(Some(Crc32c::PORTABLE), true);
    let (mut stream, mut end) = ([0; 8192], 0);
    for ulpdu in rest.chunks(usize::from(len) * 4 + 1) {
        let Some(place) = stream.get_mut(end..end + framer.fpdu_len(ulpdu.len())) else { break };
        framer.ulpdu_mut(place, ulpdu.len()).copy_from_slice(ulpdu);
        end += framer.seal(place, ulpdu.len());
    }
    let sound = stream;
    let from = (usize::from(cut) * 16).min(end);
    if let Some(octet) = stream[from..end].get_mut(usize::from(wrong) * 8) {
        *octet ^= 0x40;
    }
    for located in check_located(from as u64, &stream[from..end], false) {
        let at = usize::try_from(located.position).expect("it lies in the stream");
        assert_eq!(located.fpdu, &sound[at..at + located.fpdu.len()], "a damaged FPDU was found");
        let begins = in_order(&sound[..end]).any(|begin| begin == at);
        assert!(begins, "no FPDU begins at {at}");
    }
}

/// Returns what a [`Locator`] finds, with each FPDU checked by itself.
fn check_located(position: u64, octets: &[u8], begins: bool) -> impl Iterator<Item = crate::Located<'_>> {
    Locator::new(Crc32c::PORTABLE, position, octets, begins).inspect(move |located| {
        let at = usize::try_from(located.position - position).expect("it lies in the octets");
        assert_eq!(octets[at..at + located.fpdu.len()], *located.fpdu);
        let (covered, field) = located.fpdu.split_last_chunk().expect("it has a CRC");
        assert_eq!(Crc32c::PORTABLE.checksum(covered), u32::from_le_bytes(*field));
        assert_eq!(located.pieces().map(<[u8]>::len).sum::<usize>(), located.ulpdu_len);
    })
}

/// Returns where the FPDUs of a sound stream begin.
fn in_order(mut stream: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let mut deframer = Deframer::new(Some(Crc32c::PORTABLE), true, [0; STAGING_LEN]);
    let mut begin = 0;
    core::iter::from_fn(move || {
        let len = deframer.inspect(&mut stream).expect("the stream is sound")?.len;
        begin += len;
        Some(begin - len)
    })
}

/// Checks that more octets change no result. The result is `None` until it is an error or the frame for good.
fn check_prefixes(kind: FrameKind, data: &[u8]) -> Result<Option<(StartupFrame<'_>, usize)>, StartupError> {
    let verdict = StartupFrame::parse(kind, data);
    let mut decided = None;
    for end in 0..=data.len().min(MAX_FRAME_LEN) {
        let now = StartupFrame::parse(kind, &data[..end]);
        if let Some(before) = decided {
            assert_eq!(now, before);
        } else if now != Ok(None) {
            decided = Some(now);
        }
    }
    assert_eq!(verdict, decided.unwrap_or(Ok(None)));
    if let Ok(Some((frame, len))) = verdict {
        assert!(len <= data.len() && len == frame.len() && frame.private_data.len() <= MAX_PRIVATE_DATA);
    }
    verdict
}

fn check_responder(config: Config, request: &StartupFrame<'_>) {
    let Ok(offer) = Responder::new(config).handle_request(request) else {
        assert!(!config.enhanced && request.revision == 2, "every known frame has an answer");
        return;
    };
    let (reply, ours) = offer.accept(b"ok").expect("two octets always fit");
    check_agreement(config, request, &ours);
    if let (Some(asked), Some(told)) = (request.enhanced, reply.enhanced) {
        assert_eq!(asked.peer_to_peer, told.peer_to_peer);
        assert_eq!(told.rtr.is_empty(), !told.peer_to_peer);
        assert!(told.ord == NOT_NEGOTIATED || told.ord <= asked.ird);
        assert!(asked.ird == NOT_NEGOTIATED || ours.ord <= asked.ird);
    } else {
        assert_eq!(request.enhanced.is_some(), reply.enhanced.is_some());
    }
    let mut octets = [0; 64];
    let len = reply.emit(&mut octets).expect("our own frame can be sent");
    assert_eq!(StartupFrame::parse(FrameKind::Reply, &octets), Ok(Some((reply, len))));
}

fn check_initiator(config: Config, reply: &StartupFrame<'_>) {
    let initiator = Initiator::new(config);
    let request = initiator.request(b"").expect("nothing always fits");
    match initiator.handle_reply(reply) {
        Ok(Outcome::Established(ours)) => {
            check_agreement(config, reply, &ours);
            assert!(!reply.reject && request.revision == reply.revision);
            if let Some(told) = reply.enhanced {
                assert!(told.ird == NOT_NEGOTIATED || ours.ord <= told.ird);
                assert!(told.ord == NOT_NEGOTIATED || ours.ird >= told.ord);
                assert_eq!(told.peer_to_peer, ours.start != Start::ClientServer);
            }
        }
        Ok(Outcome::Rejected { .. }) => assert!(reply.reject),
        Ok(Outcome::Failed { error, .. }) => assert!(matches!(error.code(), 0x06 | 0x07)),
        Err(error) => assert_eq!(error.code(), 0x04),
    }
}

fn check_agreement(config: Config, peer: &StartupFrame<'_>, ours: &Negotiated) {
    assert_eq!(ours.crc, config.crc || peer.crc);
    assert_eq!((ours.send_markers, ours.receive_markers), (peer.markers, config.markers));
    assert!(ours.ird <= NOT_NEGOTIATED && ours.ord <= NOT_NEGOTIATED);
}

fn config(octets: &[u8]) -> Config {
    let octet = |index: usize| octets.get(index).copied().unwrap_or(0);
    let bit = |bit: u8| octet(0) & bit != 0;
    Config {
        crc: bit(0x01),
        markers: bit(0x02),
        enhanced: !bit(0x04),
        ird: u16::from_be_bytes([octet(1), octet(2)]),
        ord: u16::from_be_bytes([octet(3), octet(4)]),
        peer_to_peer: bit(0x08),
        rtr: RtrSet { send: bit(0x10), write: bit(0x20), read: bit(0x40) },
    }
}

/// A stream gives the same ULPDUs and the same error whole, cut, and octet by octet.
fn compare_cuts(crc: Option<Crc32c>, markers: bool, stream: &[u8], cut: usize) {
    let mut whole = Deframer::new(crc, markers, [0; STAGING_LEN]);
    let mut chunked = Deframer::new(crc, markers, [0; STAGING_LEN]);
    let mut rest = stream;
    let mut chunks = stream.chunks(cut);
    let mut chunk: &[u8] = &[];
    loop {
        let expected = whole.next(&mut rest);
        let found = loop {
            match chunked.next(&mut chunk) {
                Ok(None) => match chunks.next() {
                    Some(next) => chunk = next,
                    None => break Ok(None),
                },
                result => break result.map(|ulpdu| ulpdu.map(checksum)),
            }
        };
        assert_eq!(expected.map(|ulpdu| ulpdu.map(checksum)), found);
        match expected {
            Ok(Some(_)) => {}
            Ok(None) => {
                assert!(rest.is_empty());
                break;
            }
            Err(error) => {
                assert_eq!(whole.next(&mut rest), Err(error), "an error is for good");
                assert!(!whole.is_aligned());
                break;
            }
        }
    }
    assert_eq!(whole.is_aligned(), chunked.is_aligned());
}

/// Stands for the ULPDU, which cannot be kept while the deframer goes on.
fn checksum(ulpdu: &[u8]) -> (usize, u32) {
    (ulpdu.len(), Crc32c::PORTABLE.checksum(ulpdu))
}

fn round_trip(crc: Option<Crc32c>, markers: bool, data: &[u8], cut: usize) {
    let mut framer = Framer::new(crc, markers);
    let mut deframer = Deframer::new(crc, markers, [0; STAGING_LEN]);
    let mut out = [0; 4096];
    // Sizes that grow from 0 meet the Markers at many places.
    for (index, ulpdu) in data.chunks(cut * 3).enumerate().take(64) {
        let fpdu_len = framer.fpdu_len(ulpdu.len());
        assert!(framer.room(fpdu_len) >= ulpdu.len() && fpdu_len.is_multiple_of(4));
        framer.ulpdu_mut(&mut out, ulpdu.len()).copy_from_slice(ulpdu);
        assert_eq!(framer.seal(&mut out, ulpdu.len()), fpdu_len);
        let (mut first, mut second) = out[..fpdu_len].split_at(index * 7 % fpdu_len);
        assert_eq!(deframer.next(&mut first), Ok(None));
        let fpdu = deframer.inspect(&mut second).expect("nothing was damaged").expect("the FPDU is whole");
        assert_eq!((fpdu.ulpdu, fpdu.len), (ulpdu, fpdu_len));
        assert_eq!(fpdu.crc, if crc.is_some() { CrcState::Good } else { CrcState::Off });
    }
    assert!(deframer.is_aligned());
    if let Some(crc) = crc {
        let len = framer.seal(&mut out, 4);
        out[len / 2] ^= 0x10;
        let error = deframer.next(&mut &out[..len]).expect_err("an octet was damaged");
        // A damaged length field may announce more octets than there are. Here the damage is in the ULPDU or the pad.
        assert!(matches!(error, Error::Crc { .. }), "{error} {crc:?}");
    }
}
