//! FPDUs on their way in (RFC 5044 6): a stream that was cut anywhere becomes whole, checked ULPDUs.

use core::ops::Range;

use crate::fpdu::{CRC_LEN, LENGTH_LEN, content_len};
use crate::marker::Markers;
use crate::{Crc32c, Error};

/// The octets of staging that hold any FPDU (ULPDU_Length 65535) with its Markers.
pub const STAGING_LEN: usize = Markers::new().fpdu_len(content_len(u16::MAX as usize));

/// One receiving direction in Full Operation.
///
/// An FPDU that lies whole in the input is checked there. If no Marker breaks its ULPDU, the ULPDU is handed out from
/// there. An FPDU that arrives in parts is collected in the staging buffer. A ULPDU broken by Markers is joined in
/// it.
#[derive(Debug)]
pub struct Deframer<B> {
    checks: Checks,
    staging: B,
    /// The octets of the next FPDU that are in `staging`, never the whole FPDU.
    staged: usize,
    error: Option<Error>,
}

/// An FPDU, as [`Deframer::inspect`] returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fpdu<'a> {
    /// The ULPDU.
    pub ulpdu: &'a [u8],
    /// The length of the whole FPDU on the wire in octets, Markers included.
    pub len: usize,
    /// The result of its CRC check.
    pub crc: CrcState,
}

/// The result of a CRC check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrcState {
    /// CRCs are not in use.
    Off,
    /// The field is right.
    Good,
    /// The field is wrong.
    Bad {
        /// The CRC of the octets.
        expected: u32,
        /// The value of the field.
        received: u32,
    },
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Deframer<B> {
    /// The start of Full Operation. Without a CRC its field is ignored. `markers` is true if this end asked for
    /// Markers.
    ///
    /// A `staging` of [`STAGING_LEN`] octets is enough for every stream. With a smaller one, a long FPDU that arrives
    /// in several pieces is an [`Error::TooLong`].
    pub const fn new(crc: Option<Crc32c>, markers: bool, staging: B) -> Self {
        let markers = if markers { Some(Markers::new()) } else { None };
        Self { checks: Checks { crc, markers }, staging, staged: 0, error: None }
    }

    /// Takes octets off `input` and returns the next whole ULPDU whose CRC and Markers are good.
    ///
    /// Returns `None` when all of `input` is taken and more is needed. Until then the caller calls again with the
    /// same `input`.
    ///
    /// # Errors
    /// [`Error::Crc`], [`Error::Marker`] or [`Error::TooLong`]. The deframer then stays in error, since the length
    /// field of a bad FPDU cannot be trusted (5044-8-11). The rest of `input` then has no meaning.
    #[inline]
    pub fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<&'a [u8]>, Error> {
        if let Some(ulpdu) = self.next_plain(input) {
            return Ok(Some(ulpdu));
        }
        Ok(match self.step(input, false)? {
            None => None,
            Some((Place::Input(ulpdu), _)) => Some(ulpdu),
            Some((Place::Staging(range), _)) => Some(&self.staging.as_ref()[range]),
        })
    }

    /// Does the same as [`Deframer::next`] for a program that only watches: it also returns an FPDU with a bad CRC.
    ///
    /// # Errors
    /// As [`Deframer::next`], except [`Error::Crc`]. Markers of an FPDU with a bad CRC are not checked.
    pub fn inspect<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<Fpdu<'a>>, Error> {
        Ok(match self.step(input, true)? {
            None => None,
            Some((Place::Input(ulpdu), found)) => Some(Fpdu { ulpdu, len: found.len, crc: found.crc }),
            Some((Place::Staging(range), found)) => {
                Some(Fpdu { ulpdu: &self.staging.as_ref()[range], len: found.len, crc: found.crc })
            }
        })
    }

    /// Takes an FPDU of `len` octets off the stream, which [`Locator`](crate::Locator) found ahead of its turn, and
    /// whose octets are elsewhere.
    ///
    /// # Errors
    /// [`Error::Marker`], for good, if an FPDU has begun that would reach over its beginning: a Marker and the length
    /// fields disagree (RFC 5044 section 8, error 3). The error that the deframer is in.
    pub fn pass(&mut self, len: usize) -> Result<(), Error> {
        if self.error.is_none() && self.staged > 0 {
            let begun = self.staged.saturating_sub(self.checks.lead());
            self.error =
                Some(Error::Marker { expected: u16::try_from(begun).unwrap_or(u16::MAX), received: 0 });
        }
        match self.error {
            Some(error) => Err(error),
            None => {
                self.checks.advance(len);
                Ok(())
            }
        }
    }

    /// Returns true between two FPDUs. There the peer's FIN is a graceful close; elsewhere it is [`Error::Closed`].
    ///
    /// A Marker alone counts as between, although it belongs to the FPDU behind it. Returns false after an error.
    pub const fn is_aligned(&self) -> bool {
        let lead = self.checks.lead();
        self.error.is_none() && (self.staged == 0 || self.staged == lead)
    }

    /// Returns the staging, so that the caller can replace it, or `None` while part of an FPDU is in it.
    ///
    /// A stream that waits between two FPDUs needs no staging. So many streams can share a few buffers. A stream must
    /// have one again before it takes octets.
    pub const fn staging_mut(&mut self) -> Option<&mut B> {
        if self.staged == 0 { Some(&mut self.staging) } else { None }
    }

    /// Returns the lengths of ULPDU and FPDU, in octets, if `input` has the beginning of an FPDU and not all of it.
    /// Returns `None` if the direction has a CRC or Markers. The caller may take such an FPDU off the input itself,
    /// to its last octet, instead of passing it in.
    pub fn partial(&self, input: &[u8]) -> Option<(usize, usize)> {
        if self.error.is_some() || self.staged > 0 || !self.is_plain() {
            return None;
        }
        let ulpdu_len = self.checks.ulpdu_len(input)?;
        let fpdu_len = self.checks.fpdu_len(ulpdu_len);
        (fpdu_len > input.len()).then_some((ulpdu_len, fpdu_len))
    }

    /// Returns true if the octets of an FPDU need no pass over them: there is neither a CRC nor a Marker.
    pub const fn is_plain(&self) -> bool {
        self.checks.crc.is_none() && self.checks.markers.is_none()
    }

    /// Returns the next ULPDU in the usual case: without Markers, whole in the input, and good. [`Self::step`]
    /// handles all other cases.
    #[inline]
    fn next_plain<'i>(&self, input: &mut &'i [u8]) -> Option<&'i [u8]> {
        if self.checks.markers.is_some() || self.staged > 0 || self.error.is_some() {
            return None;
        }
        let ulpdu_len = usize::from(u16::from_be_bytes(*input.first_chunk()?));
        let (fpdu, rest) = input.split_at_checked(content_len(ulpdu_len))?;
        if self.checks.crc.is_some_and(|crc| check_crc(crc, fpdu) != CrcState::Good) {
            return None;
        }
        *input = rest;
        Some(&fpdu[LENGTH_LEN..LENGTH_LEN + ulpdu_len])
    }

    fn step<'i>(&mut self, input: &mut &'i [u8], watch: bool) -> Result<Option<(Place<'i>, Found)>, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let result = self.take(input, watch);
        self.error = result.as_ref().err().copied();
        result
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], watch: bool) -> Result<Option<(Place<'i>, Found)>, Error> {
        if self.staged == 0
            && let Some(ulpdu_len) = self.checks.ulpdu_len(input)
            && let Some((fpdu, rest)) = input.split_at_checked(self.checks.fpdu_len(ulpdu_len))
        {
            let found = self.checks.verify(fpdu, watch)?;
            let place = self.place(fpdu, ulpdu_len)?;
            self.checks.advance(found.len);
            *input = rest;
            return Ok(Some((place, found)));
        }
        if input.is_empty() {
            return Ok(None);
        }
        let Some(ulpdu_len) = self.stage(input)? else { return Ok(None) };
        let fpdu = &self.staging.as_ref()[..self.checks.fpdu_len(ulpdu_len)];
        let found = self.checks.verify(fpdu, watch)?;
        let range = self.join(ulpdu_len);
        self.checks.advance(found.len);
        self.staged = 0;
        Ok(Some((Place::Staging(range), found)))
    }

    /// Returns the ULPDU of an FPDU that lies whole in the input. If Markers break the ULPDU, it is joined in the
    /// staging.
    fn place<'i>(&mut self, fpdu: &'i [u8], ulpdu_len: usize) -> Result<Place<'i>, Error> {
        let start = self.checks.lead() + LENGTH_LEN;
        let Some(markers) = self.checks.markers else {
            return Ok(Place::Input(&fpdu[start..start + ulpdu_len]));
        };
        let mut pieces = markers.pieces(ulpdu_len);
        let first = pieces.next().unwrap_or(start..start);
        if first.len() == ulpdu_len {
            return Ok(Place::Input(&fpdu[first]));
        }
        let capacity = self.staging.as_ref().len();
        let Some(staging) = self.staging.as_mut().get_mut(..ulpdu_len) else {
            return Err(Error::TooLong { len: ulpdu_len, capacity });
        };
        let mut end = 0;
        for piece in markers.pieces(ulpdu_len) {
            let (from, to) = (end, end + piece.len());
            staging[from..to].copy_from_slice(&fpdu[piece]);
            end = to;
        }
        Ok(Place::Staging(0..ulpdu_len))
    }

    /// Moves octets from `input` to the staging. Returns the ULPDU's length as soon as the whole FPDU is there.
    fn stage(&mut self, input: &mut &[u8]) -> Result<Option<usize>, Error> {
        // The length field comes first. It tells how much of the input belongs to this FPDU.
        if !self.stage_up_to(self.checks.lead() + LENGTH_LEN, input)? {
            return Ok(None);
        }
        let ulpdu_len = self.checks.ulpdu_len(&self.staging.as_ref()[..self.staged]);
        let Some(ulpdu_len) = ulpdu_len else { return Ok(None) };
        Ok(self.stage_up_to(self.checks.fpdu_len(ulpdu_len), input)?.then_some(ulpdu_len))
    }

    /// Stages until `len` octets are there or the input is empty. Returns true if they are there.
    fn stage_up_to(&mut self, len: usize, input: &mut &[u8]) -> Result<bool, Error> {
        let capacity = self.staging.as_ref().len();
        if len > capacity {
            return Err(Error::TooLong { len, capacity });
        }
        let count = len.saturating_sub(self.staged).min(input.len());
        let (taken, rest) = input.split_at(count);
        self.staging.as_mut()[self.staged..self.staged + count].copy_from_slice(taken);
        self.staged += count;
        *input = rest;
        Ok(self.staged >= len)
    }

    /// Closes the gaps that the Markers leave in the ULPDU of the staged FPDU. Returns the ULPDU's range in the
    /// staging.
    fn join(&mut self, ulpdu_len: usize) -> Range<usize> {
        let start = self.checks.lead() + LENGTH_LEN;
        if let Some(markers) = self.checks.markers {
            let staging = self.staging.as_mut();
            let mut end = start;
            for piece in markers.pieces(ulpdu_len) {
                let to = end + piece.len();
                if piece.start != end {
                    staging.copy_within(piece, end);
                }
                end = to;
            }
        }
        start..start + ulpdu_len
    }
}

/// The buffer in which a ULPDU lies.
enum Place<'i> {
    Input(&'i [u8]),
    Staging(Range<usize>),
}

pub(crate) struct Found {
    len: usize,
    crc: CrcState,
}

/// The facts about the next FPDU before its octets are read, and the checks on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checks {
    pub(crate) crc: Option<Crc32c>,
    pub(crate) markers: Option<Markers>,
}

impl Checks {
    const fn advance(&mut self, fpdu_len: usize) {
        if let Some(markers) = &mut self.markers {
            markers.advance(fpdu_len);
        }
    }

    const fn lead(&self) -> usize {
        match self.markers {
            Some(markers) => markers.lead(),
            None => 0,
        }
    }

    /// Returns the length field of the FPDU that starts at `octets[0]`, or `None` if it is not there yet.
    pub(crate) fn ulpdu_len(&self, octets: &[u8]) -> Option<usize> {
        octets.get(self.lead()..)?.first_chunk().map(|field| usize::from(u16::from_be_bytes(*field)))
    }

    pub(crate) fn fpdu_len(&self, ulpdu_len: usize) -> usize {
        let content = content_len(ulpdu_len);
        self.markers.map_or(content, |markers| markers.fpdu_len(content))
    }

    /// Checks the CRC first, then Markers: a Marker damaged on the way is a CRC error (5044-6-3).
    pub(crate) fn verify(&self, fpdu: &[u8], watch: bool) -> Result<Found, Error> {
        let crc = self.crc.map_or(CrcState::Off, |crc| check_crc(crc, fpdu));
        match crc {
            CrcState::Bad { expected, received } if !watch => return Err(Error::Crc { expected, received }),
            CrcState::Bad { .. } => {}
            CrcState::Good | CrcState::Off => self.markers.map_or(Ok(()), |markers| markers.check(fpdu))?,
        }
        Ok(Found { len: fpdu.len(), crc })
    }
}

#[inline]
fn check_crc(crc: Crc32c, fpdu: &[u8]) -> CrcState {
    let (covered, field) = fpdu.split_at(fpdu.len() - CRC_LEN);
    let received = field.iter().rev().fold(0, |word, octet| word << 8 | u32::from(*octet));
    let expected = crc.checksum(covered);
    if expected == received { CrcState::Good } else { CrcState::Bad { expected, received } }
}
