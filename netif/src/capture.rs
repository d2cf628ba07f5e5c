//! Captures: frames written to a pcap file.

use core::fmt;
use core::time::Duration;
use std::io::{self, BufWriter, Write};

use smoltcp::time::Instant;

/// Writes frames as a pcap file (little-endian, stamps in microseconds, LINKTYPE_ETHERNET), which Wireshark reads.
///
/// The first error ends the recording, and the wire goes on. [`Capture::error`] and [`Capture::finish`] return that
/// error.
///
/// ```
/// use weft_netif::{Capture, pair};
/// let (left, _right) = pair(1500);
/// let mut left = left.with_capture(Capture::new(Vec::new()));
/// left.send(weft_netif::Instant::ZERO, &[0; 60]);
/// left.take_capture().unwrap().finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Capture {
    output: BufWriter<Box<dyn Write + Send>>,
    /// The real time since 1970 at the engine's time zero. The second number is the speed of the engine's clock, as a
    /// multiple of real time.
    epoch: Duration,
    scale: u32,
    flushing: bool,
    frames: u64,
    error: Option<io::Error>,
}

impl Capture {
    /// Starts a capture and writes the file header.
    #[must_use]
    pub fn new(output: impl Write + Send + 'static) -> Self {
        let output: Box<dyn Write + Send> = Box::new(output);
        let mut capture = Self {
            output: BufWriter::new(output),
            epoch: Duration::ZERO,
            scale: 1,
            flushing: false,
            frames: 0,
            error: None,
        };
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&MAGIC_MICROSECONDS.to_le_bytes());
        header[4..6].copy_from_slice(&VERSION_MAJOR.to_le_bytes());
        header[6..8].copy_from_slice(&VERSION_MINOR.to_le_bytes());
        header[16..20].copy_from_slice(&SNAP_LEN.to_le_bytes());
        header[20..24].copy_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
        capture.write(&[&header]);
        capture
    }

    /// Stamps frames with real time, for an engine whose clock showed zero at `epoch` (real time since 1970) and runs
    /// `scale` times as fast as real time. Without this the stamps are the engine's time.
    #[must_use]
    pub fn with_real_time(self, epoch: Duration, scale: u32) -> Self {
        Self { epoch, scale: scale.max(1), ..self }
    }

    /// Writes each frame to the output at once, for programs that a signal ends.
    #[must_use]
    pub fn with_flushing(self) -> Self {
        Self { flushing: true, ..self }
    }

    /// Appends one frame, stamped with `now`; a time before the epoch counts as the epoch.
    pub fn record(&mut self, now: Instant, frame: &[u8]) {
        let micros = u64::try_from(now.total_micros()).unwrap_or(0) / u64::from(self.scale);
        let micros = micros.saturating_add(u64::try_from(self.epoch.as_micros()).unwrap_or(0));
        // The format counts seconds in 32 bits, which wrap in 2106.
        let seconds = u32::try_from(micros / 1_000_000 % (1 << 32)).unwrap_or(0);
        let rest = u32::try_from(micros % 1_000_000).unwrap_or(0);
        let kept = frame.len().min(SNAP_LEN as usize);
        let len = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&seconds.to_le_bytes());
        header[4..8].copy_from_slice(&rest.to_le_bytes());
        header[8..12].copy_from_slice(&len(kept));
        header[12..16].copy_from_slice(&len(frame.len()));
        self.write(&[&header, &frame[..kept]]);
        self.frames += u64::from(self.error.is_none());
    }

    /// Ends the capture: writes out what is buffered, and returns the first error since the beginning.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.output.flush(),
        }
    }

    /// Returns the error that ended the recording, if there was one.
    #[must_use]
    pub const fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Returns the number of frames recorded so far.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    fn write(&mut self, parts: &[&[u8]]) {
        if self.error.is_none() {
            let written = parts.iter().try_for_each(|part| self.output.write_all(part));
            self.error =
                written.and_then(|()| if self.flushing { self.output.flush() } else { Ok(()) }).err();
        }
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("frames", &self.frames)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

const MAGIC_MICROSECONDS: u32 = 0xA1B2_C3D4;
const VERSION_MAJOR: u16 = 2;
const VERSION_MINOR: u16 = 4;
const SNAP_LEN: u32 = 0x0004_0000;
const LINKTYPE_ETHERNET: u32 = 1;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_octet_of_the_file_is_as_the_format_says() {
        let output = Shared::default();
        let mut capture = Capture::new(output.clone());
        capture.record(Instant::from_micros(3_000_007), &[0xAA, 0xBB, 0xCC]);
        assert_eq!(capture.frames(), 1);
        capture.finish().unwrap();
        let expected = [
            0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0,
            0, // file header
            3, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, // packet header
            0xAA, 0xBB, 0xCC,
        ];
        assert_eq!(*output.0.lock().unwrap(), expected);
    }

    #[test]
    fn stamps_in_real_time_and_flushing_are_options() {
        let output = Shared::default();
        let epoch = Duration::from_micros(1_700_000_000_999_999);
        let mut capture = Capture::new(output.clone()).with_real_time(epoch, 4).with_flushing();
        capture.record(Instant::from_micros(8), &[0xAA]);
        let octets = output.0.lock().unwrap();
        assert_eq!(octets.len(), 24 + 16 + 1, "nothing waits");
        assert_eq!(octets[24..28], 1_700_000_001_u32.to_le_bytes());
        assert_eq!(octets[28..32], 1_u32.to_le_bytes());
    }

    #[test]
    fn the_first_error_is_kept_and_returned() {
        let mut capture = Capture::new(Full);
        capture.record(Instant::ZERO, &[0; 20_000]);
        capture.record(Instant::ZERO, &[0; 20_000]);
        assert_eq!(capture.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
        assert_eq!(capture.frames(), 0);
        assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
