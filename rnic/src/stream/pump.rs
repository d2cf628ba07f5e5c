//! Octets between TCP and a stream of any kind.

use weft_netif::Llp;
use weft_rdmap::MAX_UNCUT_ULPDU;

use crate::failure::Failure;
use crate::stream::Stream;
use crate::stream::segments::Fit;
use crate::stream::user::User;

/// The largest ULPDU of a segment. An FPDU larger than the send buffer would wait for room for ever.
pub(crate) fn mulpdu(llp: &Llp<'_>, sends_markers: bool) -> usize {
    weft_mpa::mulpdu(llp.emss().min(llp.capacity()), sends_markers)
}

/// Hands `take` what TCP has, as long as `take` takes of it and neither answers anything nor fails.
#[inline]
pub(crate) fn receive<T, E>(
    llp: &mut Llp<'_>,
    mut take: impl FnMut(&mut &[u8]) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    loop {
        let octets = llp.readable();
        if octets.is_empty() {
            return Ok(None);
        }
        let mut rest = octets;
        let taken = take(&mut rest);
        let consumed = octets.len() - rest.len();
        llp.consume(consumed);
        if consumed == 0 || !matches!(taken, Ok(None)) {
            return taken;
        }
    }
}

/// Lets `build` make FPDUs in the send buffer, where `needed` octets are free, and answers their length: 0 when there
/// is no room or nothing to send. `build` says first how many octets stand there, even if it fails. Of a free part
/// that wraps it gets the piece in front, if that has `least` octets.
#[inline]
pub(crate) fn transmit<E>(
    llp: &mut Llp<'_>,
    scratch: &mut [u8],
    [needed, least]: [usize; 2],
    mut build: impl FnMut(&mut [u8]) -> (usize, Result<usize, E>),
) -> Result<usize, E> {
    if !llp.has_room(needed) {
        return Ok(0);
    }
    let in_place = llp.transmit(least, |out| {
        if out.len() < needed.min(least) {
            return (0, None);
        }
        let (octets, built) = build(out);
        (octets, Some(built))
    });
    match in_place {
        None => Ok(0),
        Some(Some(built)) => built,
        // The piece in front is too short, so that the FPDU is built beside it and copied in two pieces.
        Some(None) => {
            let room = llp.room().min(scratch.len());
            let (octets, built) = build(&mut scratch[..room]);
            let sent = llp.send_slice(&scratch[..octets]);
            built.map(|_octets| sent)
        }
    }
}

/// Sends as long as there is something to send and TCP has room for a whole FPDU of the largest size: as many FPDUs
/// as the free part of the send buffer takes in one call. Where that wraps, an FPDU is cut to end with the buffer, as
/// a TCP segment does there, so that the two keep together; but not where that would make a good part of all FPDUs
/// short. On Weft's own TCP the place ends with the segment.
#[inline]
pub(crate) fn transmit_all(
    stream: &mut Stream,
    llp: &mut Llp<'_>,
    scratch: &mut [u8],
    mulpdu: usize,
    user: &mut impl User,
) -> Result<(), Failure> {
    let is_cut = llp.keeps_segments();
    let mut takes_rest = is_cut;
    while stream.has_output(user.has_request()) {
        let needed = stream.fpdu_room(mulpdu);
        let room = llp.room();
        let cuts = !is_cut && llp.capacity() >= FEW * needed;
        let fills_segments = llp.emss() == needed && !stream.segments().sends_markers();
        let boundary = if cuts && fills_segments { Boundary::of(llp) } else { None };
        let mut is_idle = false;
        let least = if cuts || takes_rest { SHORTEST } else { needed };
        let built = transmit(llp, scratch, [needed, least], |out| {
            let wraps = cuts && out.len() < room;
            let (octets, end) = fill(stream, out, Shape { mulpdu, wraps, boundary, is_cut }, user);
            is_idle = matches!(end, Ok(true));
            (octets, end.map(|_is_idle| octets))
        })?;
        if is_idle || built == 0 && !takes_rest {
            return Ok(());
        }
        // What does not go into the rest of a segment goes into a new one.
        takes_rest = is_cut && built > 0;
    }
    Ok(())
}

/// What decides how long FPDUs get.
#[derive(Clone, Copy)]
struct Shape {
    mulpdu: usize,
    /// The buffer wraps behind the place for the FPDUs.
    wraps: bool,
    boundary: Option<Boundary>,
    /// The place is a TCP segment, or what is left of one.
    is_cut: bool,
}

/// Where TCP's segment ends that the next FPDU begins in, if FPDUs of the largest size fill segments. Behind the
/// short one that ends a message all others would lie across two segments (RFC 5044 section 5.1): the next one of a
/// long message ends where the segment does.
#[derive(Clone, Copy)]
struct Boundary {
    /// Octets of a whole segment.
    segment: usize,
    /// Octets that the segment still takes.
    room: usize,
}

impl Boundary {
    fn of(llp: &Llp<'_>) -> Option<Self> {
        let segment = Some(llp.emss()).filter(|&emss| emss >= FEW * SHORTEST)?;
        Some(Self { segment, room: llp.segment_room()? })
    }

    /// How the next FPDU fits.
    const fn fit(&self) -> Fit {
        match self.room {
            room if room == self.segment => Fit::Any,
            room if room < SHORTEST => Fit::Cut(room + self.segment - SHORTEST),
            room => Fit::Cut(room),
        }
    }

    /// Notes an FPDU of so many octets.
    const fn pass(&mut self, octets: usize) {
        let behind = self.segment - self.room + octets;
        self.room = self.segment - behind % self.segment;
    }
}

/// Builds FPDUs in `out` one behind the other, as long as one of the largest size fits, or to its end if the buffer
/// wraps there; answers their octets, and whether there is nothing more to send. What was built before a failure goes
/// out.
#[inline]
fn fill(
    stream: &mut Stream,
    out: &mut [u8],
    mut shape: Shape,
    user: &mut impl User,
) -> (usize, Result<bool, Failure>) {
    let Shape { mulpdu, wraps, is_cut, .. } = shape;
    let mut filled = 0;
    loop {
        let rest = out.len() - filled;
        let limit = if wraps { before_wrap(rest, stream.fpdu_room(mulpdu)) } else { rest };
        let fit = match &shape.boundary {
            Some(boundary) => boundary.fit(),
            None if is_cut => Fit::Whole,
            None => Fit::Any,
        };
        let octets = match stream.transmit(&mut out[filled..filled + limit], (mulpdu, fit), user) {
            Ok(octets) => octets,
            Err(failure) => return (filled, Err(failure)),
        };
        filled += octets;
        if let Some(boundary) = &mut shape.boundary {
            boundary.pass(octets);
        }
        if !stream.has_output(user.has_request()) || octets == 0 {
            // In a segment it may be that only the place is too short.
            return (filled, Ok(octets > 0 || !is_cut || !stream.has_output(user.has_request())));
        }
        let least = if wraps || is_cut { SHORTEST } else { stream.fpdu_room(mulpdu) };
        if out.len() - filled < least {
            return (filled, Ok(false));
        }
    }
}

/// How long the next FPDU may be where the buffer wraps after `rest` octets, for the last one before that to have a
/// useful length.
const fn before_wrap(rest: usize, largest: usize) -> usize {
    if rest > largest && rest < largest + SHORTEST && rest >= 2 * SHORTEST { rest - SHORTEST } else { rest }
}

/// Throws the octets of TCP away.
pub(crate) fn discard(llp: &mut Llp<'_>) {
    loop {
        let octets = llp.readable().len().max(llp.placed());
        if octets == 0 {
            return;
        }
        llp.consume(octets);
    }
}

/// Room for the FPDU of any message that is not cut.
const SHORTEST: usize = (MAX_UNCUT_ULPDU + FRAMING).next_power_of_two();
/// Octets that MPA adds to such a ULPDU at most: length, pad, CRC and one Marker.
const FRAMING: usize = 2 + 3 + 4 + 4;
/// In a send buffer of fewer FPDUs than this, no FPDU is cut to end with the buffer.
const FEW: usize = 4;
