//! Options of sockets.

use rustix::io::Errno;
use weft_verbs::MAX_INLINE;

use super::hello::rounded;

/// The sizes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Requests under way, and unread messages of the peer.
    pub(crate) send_requests: u16,
    pub(crate) receives: u16,
    /// Octets that are sent inline instead of from the ring.
    pub(crate) inline: u32,
    /// Octets.
    pub(crate) send_buffer: u32,
    pub(crate) recv_buffer: u32,
    /// How many mappings the peer may have.
    pub(crate) mappings: u16,
}

/// An option, by level and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) level: i32,
    pub(crate) name: i32,
}

/// The options of a socket. Those without effect are kept, so that the program can read them back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) sizes: Sizes,
    reuse_address: bool,
    keep_alive: bool,
    out_of_band_inline: bool,
    lingers: bool,
    no_delay: bool,
    only_v6: bool,
    /// In seconds.
    keep_idle: i32,
}

impl Default for Options {
    fn default() -> Self {
        let sizes = Sizes {
            send_requests: 384,
            receives: 384,
            inline: 64,
            send_buffer: 1 << 17,
            recv_buffer: 1 << 17,
            mappings: 0,
        };
        Self {
            sizes,
            reuse_address: false,
            keep_alive: false,
            out_of_band_inline: false,
            lingers: true,
            no_delay: false,
            only_v6: false,
            keep_idle: 7200,
        }
    }
}

impl Options {
    /// Sets an option. `is_open` says that there is a connection: it keeps its sizes.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for an unknown option, `EINVAL` for a wrong value, or a wrong time.
    pub(crate) fn set(&mut self, name: Name, value: i32, is_open: bool) -> Result<(), Errno> {
        let Self { sizes, .. } = self;
        let wanted = value.cast_unsigned();
        let is_on = value != 0;
        if name.level == SOL_RDMA && is_open {
            return Err(Errno::INVAL);
        }
        let requests = || u16::try_from(wanted).unwrap_or(u16::MAX).clamp(MIN_REQUESTS, MAX_REQUESTS);
        match (name.level, name.name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => self.reuse_address = is_on,
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => self.keep_alive = is_on,
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => self.out_of_band_inline = is_on,
            (libc::SOL_SOCKET, libc::SO_LINGER) => self.lingers = is_on,
            // A connection keeps the sizes that it was made with.
            (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF) if is_open => {}
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => sizes.recv_buffer = buffer(wanted),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => sizes.send_buffer = buffer(wanted),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.no_delay = is_on,
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) if value <= 0 => return Err(Errno::INVAL),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => self.keep_idle = value,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL | libc::TCP_MAXSEG) => {}
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => self.only_v6 = is_on,
            (SOL_RDMA, RDMA_SQSIZE) => sizes.send_requests = requests(),
            (SOL_RDMA, RDMA_RQSIZE) => sizes.receives = requests(),
            (SOL_RDMA, RDMA_INLINE) => sizes.inline = wanted.min(LARGEST_INLINE),
            (SOL_RDMA, RDMA_IOMAPSIZE) => sizes.mappings = rounded(wanted),
            _ => return Err(Errno::OPNOTSUPP),
        }
        Ok(())
    }

    /// Returns the value of an option.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for an unknown option.
    pub(crate) fn value(&self, name: Name) -> Result<i32, Errno> {
        let Self { sizes, .. } = self;
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        Ok(match (name.level, name.name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => self.reuse_address.into(),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => self.keep_alive.into(),
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => self.out_of_band_inline.into(),
            (libc::SOL_SOCKET, libc::SO_LINGER) => self.lingers.into(),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => number(sizes.recv_buffer),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => number(sizes.send_buffer),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.no_delay.into(),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => self.keep_idle,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL) => 1,
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => MAX_SEGMENT,
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => self.only_v6.into(),
            (SOL_RDMA, RDMA_SQSIZE) => sizes.send_requests.into(),
            (SOL_RDMA, RDMA_RQSIZE) => sizes.receives.into(),
            (SOL_RDMA, RDMA_INLINE) => number(sizes.inline),
            (SOL_RDMA, RDMA_IOMAPSIZE) => sizes.mappings.into(),
            _ => return Err(Errno::OPNOTSUPP),
        })
    }
}

/// Returns twice the wanted size, as the system does: a multiple of 16, within bounds.
fn buffer(wanted: u32) -> u32 {
    wanted.saturating_mul(2).clamp(MIN_BUFFER, MAX_BUFFER) & !0xF
}

pub(crate) const SOL_RDMA: i32 = 0x10000;
const RDMA_SQSIZE: i32 = 0;
const RDMA_RQSIZE: i32 = 1;
const RDMA_INLINE: i32 = 2;
const RDMA_IOMAPSIZE: i32 = 3;
const MIN_REQUESTS: u16 = 16;
const MAX_REQUESTS: u16 = 0xFFE0;
const MIN_BUFFER: u32 = 4096;
/// The most memory that a socket takes for each direction.
const MAX_BUFFER: u32 = 1 << 28;
#[expect(clippy::cast_possible_truncation, reason = "it is 1024")]
const LARGEST_INLINE: u32 = MAX_INLINE as u32;
/// librdmacm returns this if it knows no path.
const MAX_SEGMENT: i32 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(options: &mut Options, level: i32, name: i32, value: i32) -> Result<i32, Errno> {
        let name = Name { level, name };
        options.set(name, value, false)?;
        options.value(name)
    }

    #[test]
    fn sizes_are_kept_within_bounds() {
        let mut options = Options::default();
        let options = &mut options;
        assert_eq!(set(options, libc::SOL_SOCKET, libc::SO_RCVBUF, 1 << 20), Ok(1 << 21));
        assert_eq!(set(options, libc::SOL_SOCKET, libc::SO_SNDBUF, -1), Ok(1 << 28));
        assert_eq!(set(options, libc::SOL_SOCKET, libc::SO_SNDBUF, 0), Ok(4096));
        assert_eq!(set(options, SOL_RDMA, RDMA_SQSIZE, 1), Ok(16));
        assert_eq!(set(options, SOL_RDMA, RDMA_RQSIZE, -1), Ok(0xFFE0));
        assert_eq!(set(options, SOL_RDMA, RDMA_INLINE, 5000), Ok(1024));
        assert_eq!(set(options, SOL_RDMA, RDMA_IOMAPSIZE, 300), Ok(256));
        assert_eq!(set(options, SOL_RDMA, 4, 1), Err(Errno::OPNOTSUPP));
    }

    #[test]
    fn switches_are_remembered_and_sizes_of_a_connection_stay() {
        let mut options = Options::default();
        assert_eq!(set(&mut options, libc::IPPROTO_TCP, libc::TCP_NODELAY, 7), Ok(1));
        assert_eq!(set(&mut options, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 0), Err(Errno::INVAL));
        let inline = Name { level: SOL_RDMA, name: RDMA_INLINE };
        assert_eq!(options.set(inline, 1, true), Err(Errno::INVAL));
        let buffer = Name { level: libc::SOL_SOCKET, name: libc::SO_RCVBUF };
        assert_eq!(options.set(buffer, 1, true), Ok(()));
        assert_eq!(options.value(buffer), Ok(1 << 17));
    }
}
