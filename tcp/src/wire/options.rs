//! The options of a segment.

use crate::{Interval, SackBlocks, Seq};

/// The options that this crate knows (RFC 9293 section 3.2, RFC 7323, RFC 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size. Means something with SYN only.
    pub mss: Option<u16>,
    /// Shift of the window, at most [`Self::MAX_WINDOW_SCALE`]. Means something with SYN only.
    pub window_scale: Option<u8>,
    /// The sender of the segment reads SACK. Means something with SYN only.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
}

/// The option Timestamps (RFC 7323 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the time of the segment's sender.
    pub value: u32,
    /// TSecr: a time of its receiver, sent back. Means something with ACK only.
    pub echo: u32,
}

impl Options {
    /// The largest shift (RFC 7323 section 2.3). A larger one counts as this.
    pub const MAX_WINDOW_SCALE: u8 = 14;
    /// Octets that options take up at most.
    pub const MAX_LEN: usize = 40;

    /// Reads options as RFC 9293 section 3.1 has them.
    ///
    /// An option with a length that leads out of the options, or back, ends them (MUST-7). Unknown options are skipped
    /// (MUST-6), and so are known ones of another length than theirs. Of two of a kind the second one counts.
    pub fn parse(mut octets: &[u8]) -> Self {
        let mut options = Self::default();
        loop {
            octets = match *octets {
                [] | [END, ..] => return options,
                [NOP, ref rest @ ..] => rest,
                [kind, len, ..] => {
                    let len = usize::from(len);
                    let Some(body) = octets.get(2..len) else { return options };
                    options.take(kind, body);
                    octets.get(len..).unwrap_or_default()
                }
                [_] => return options,
            }
        }
    }

    /// Returns the length that [`Self::emit`] writes, a multiple of 4.
    pub fn len(&self) -> usize {
        let sack = match self.sack_fitting().len() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        4 * usize::from(self.mss.is_some())
            + 4 * usize::from(self.window_scale.is_some())
            + self.word()
            + sack
    }

    /// Whether there is no option.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the options and returns their length, or nothing if `out` is too short for [`Self::len`] octets.
    ///
    /// Blocks of SACK that do not fit into [`Self::MAX_LEN`] are left out: the last ones.
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let len = self.len();
        let mut rest = out.get_mut(..len)?;
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            rest = put(rest, [MSS, 4, high, low])?;
        }
        let filler = if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
        if let Some(Timestamps { value, echo }) = self.timestamps {
            rest = put(rest, [filler[0], filler[1], TIMESTAMPS, 10])?;
            rest = put(rest, value.to_be_bytes())?;
            rest = put(rest, echo.to_be_bytes())?;
        } else if self.sack_permitted {
            rest = put(rest, [NOP, NOP, filler[0], filler[1]])?;
        }
        if let Some(shift) = self.window_scale {
            rest = put(rest, [NOP, WINDOW_SCALE, 3, shift])?;
        }
        let blocks = self.sack_fitting();
        if !blocks.is_empty() {
            let len = u8::try_from(2 + 8 * blocks.len()).ok()?;
            rest = put(rest, [NOP, NOP, SACK, len])?;
        }
        for block in blocks {
            rest = put(rest, block.start.0.to_be_bytes())?;
            rest = put(rest, block.end.0.to_be_bytes())?;
        }
        Some(len)
    }

    /// Returns the octets of Timestamps and SACK-permitted, which share a word.
    const fn word(&self) -> usize {
        match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => 12,
            (None, true) => 4,
            (None, false) => 0,
        }
    }

    /// Returns the blocks for which there is room.
    fn sack_fitting(&self) -> &[Interval] {
        let others =
            4 * usize::from(self.mss.is_some()) + 4 * usize::from(self.window_scale.is_some()) + self.word();
        let room = (Self::MAX_LEN - others).saturating_sub(4) / 8;
        let blocks = self.sack.as_slice();
        blocks.get(..room).unwrap_or(blocks)
    }

    fn take(&mut self, kind: u8, body: &[u8]) {
        match (kind, body) {
            (MSS, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(Self::MAX_WINDOW_SCALE)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                let (value, echo) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                self.timestamps = Some(Timestamps { value, echo });
            }
            (SACK, blocks) if !blocks.is_empty() && blocks.len().is_multiple_of(8) => {
                self.sack = SackBlocks::NONE;
                for block in blocks.chunks_exact(8) {
                    if let &[a, b, c, d, e, f, g, h] = block {
                        let start = Seq(u32::from_be_bytes([a, b, c, d]));
                        let end = Seq(u32::from_be_bytes([e, f, g, h]));
                        self.sack.push(Interval { start, end });
                    }
                }
            }
            _ => {}
        }
    }
}

/// Writes four octets and returns what lies behind them.
fn put(out: &mut [u8], word: [u8; 4]) -> Option<&mut [u8]> {
    let (place, rest) = out.split_first_chunk_mut()?;
    *place = word;
    Some(rest)
}

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;
    use smoltcp::wire::TcpOption;

    use super::*;

    fn options() -> impl Strategy<Value = Options> {
        let blocks = proptest::collection::vec(any::<(u32, u32)>(), 0..=4);
        let numbers = (any::<Option<u16>>(), proptest::option::of(0_u8..=14), any::<bool>());
        (numbers, any::<Option<(u32, u32)>>(), blocks).prop_map(
            |((mss, window_scale, sack_permitted), times, blocks)| {
                let mut sack = SackBlocks::NONE;
                for (start, end) in blocks {
                    sack.push(Interval::new(Seq(start), Seq(end)));
                }
                let timestamps = times.map(|(value, echo)| Timestamps { value, echo });
                Options { mss, window_scale, sack_permitted, timestamps, sack }
            },
        )
    }

    /// Returns what smoltcp reads up to its first error. It has no more than three blocks of SACK.
    fn by_smoltcp(mut octets: &[u8]) -> Options {
        let mut options = Options::default();
        while let Ok((rest, option)) = TcpOption::parse(octets) {
            match option {
                TcpOption::EndOfList => break,
                TcpOption::MaxSegmentSize(mss) => options.mss = Some(mss),
                TcpOption::WindowScale(shift) => options.window_scale = Some(shift.min(14)),
                TcpOption::SackPermitted => options.sack_permitted = true,
                TcpOption::SackRange(ranges) => {
                    options.sack = SackBlocks::NONE;
                    for (start, end) in ranges.into_iter().flatten() {
                        options.sack.push(Interval::new(Seq(start), Seq(end)));
                    }
                }
                TcpOption::TimeStamp { tsval, tsecr } => {
                    options.timestamps = Some(Timestamps { value: tsval, echo: tsecr });
                }
                TcpOption::NoOperation | TcpOption::Unknown { .. } => {}
            }
            octets = rest;
        }
        options
    }

    /// Whether smoltcp reads all options without an error.
    fn suits_smoltcp(mut octets: &[u8]) -> bool {
        while !octets.is_empty() {
            match TcpOption::parse(octets) {
                Ok((_, TcpOption::EndOfList)) => return true,
                Ok((rest, _)) => octets = rest,
                Err(_) => return false,
            }
        }
        true
    }

    fn with_three_blocks(mut options: Options) -> Options {
        let blocks = options.sack;
        options.sack = SackBlocks::NONE;
        for &block in blocks.as_slice().iter().take(3) {
            options.sack.push(block);
        }
        options
    }

    proptest! {
        // Covers 2018-3-1, 9293-MUST-68.
        #[test]
        fn what_is_written_is_read_here_and_by_smoltcp(options in options()) {
            let mut octets = [0; Options::MAX_LEN];
            let len = options.emit(&mut octets).unwrap();
            prop_assert_eq!(len, options.len());
            let read = Options::parse(&octets[..len]);
            let fitting = read.sack.as_slice().len();
            prop_assert_eq!(read.sack.as_slice(), &options.sack.as_slice()[..fitting]);
            prop_assert!(fitting == options.sack.as_slice().len() || len + 8 > Options::MAX_LEN);
            prop_assert_eq!(Options { sack: options.sack, ..read }, options);
            prop_assert_eq!(by_smoltcp(&octets[..len]), with_three_blocks(read));
        }

        // Covers 9293-MUST-4, 9293-MUST-64.
        #[test]
        fn any_octets_are_read_as_smoltcp_reads_them(
            kinds in proptest::collection::vec((0_u8..10, 0_u8..36, any::<[u8; 34]>(), any::<bool>()), 0..6),
        ) {
            let mut octets = Vec::new();
            for (kind, len, body, is_right) in kinds {
                let right = [1, 1, 4, 3, 2, 18, 6, 6, 10, 2][usize::from(kind)];
                let len = if is_right { right } else { len };
                octets.push(kind);
                if kind > 1 {
                    octets.push(len);
                    octets.extend_from_slice(&body[..usize::from(len).saturating_sub(2)]);
                }
            }
            octets.truncate(Options::MAX_LEN);
            if suits_smoltcp(&octets) {
                prop_assert_eq!(with_three_blocks(Options::parse(&octets)), by_smoltcp(&octets));
            }
        }
    }

    // Covers 7323-2.3-1, 9293-MUST-6, 9293-MUST-7.
    #[test]
    fn a_wrong_length_ends_the_options_or_skips_one() {
        let mss = Options { mss: Some(1460), ..Options::default() };
        assert_eq!(Options::parse(&[2, 4, 5, 180, 3, 0, 4, 2]), mss, "a length of 0 would never end");
        assert_eq!(Options::parse(&[2, 4, 5, 180, 3, 1, 4, 2]), mss);
        assert_eq!(Options::parse(&[2, 4, 5, 180, 4]), mss);
        assert_eq!(Options::parse(&[2, 4, 5, 180, 8, 10, 0, 0]), mss, "cut off");
        assert_eq!(Options::parse(&[3, 4, 7, 7, 2, 4, 5, 180]), mss, "a window scale of two octets");
        assert_eq!(
            Options::parse(&[5, 3, 7, 254, 4, 0, 0, 2, 4, 5, 180]),
            mss,
            "half a block, an experiment"
        );
        assert_eq!(Options::parse(&[1, 2, 4, 5, 180, 0, 4, 2]), mss, "the list has ended");
        assert_eq!(Options::parse(&[3, 3, 255]).window_scale, Some(14));
        assert_eq!(mss.emit(&mut [0; 3]), None);
    }

    #[test]
    fn options_of_a_syn_share_words() {
        let timestamps = Some(Timestamps { value: 0x0102_0304, echo: 5 });
        let syn = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps,
            ..Options::default()
        };
        let mut octets = [0xFF; 40];
        let len = syn.emit(&mut octets).unwrap();
        let expected = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 5, 1, 3, 3, 7];
        assert_eq!(&octets[..len], &expected);
    }
}
