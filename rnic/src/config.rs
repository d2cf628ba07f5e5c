//! The settings of a device.

use std::net::IpAddr;

use weft_netif::{Duration, IpSetting, StackConfig, Tcp};

use crate::clock::Clock;

/// What a [`crate::Device`] is opened with. Start from [`Config::new`] and change what differs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses, MTU, seed, TCP buffers and TCP's own timeouts, in the engine's time.
    pub stack: StackConfig,
    /// What MPA startup asks for and offers.
    pub mpa: weft_mpa::Config,
    /// How long MPA startup may take, and the opening of a connection in streaming mode, in the engine's time.
    pub startup_timeout: Duration,
    /// How long the application may take to answer a connect request or to take a connection in streaming mode, in the
    /// engine's time.
    pub answer_timeout: Duration,
    /// How long a closing connection waits for the peer's FIN, in the engine's time. It waits as long again whenever the
    /// peer has acknowledged octets meanwhile, and not all.
    pub close_timeout: Duration,
    /// How long an initiator waits for the first FPDU of its peer before it sends an empty RDMA Write, in the
    /// engine's time. It does so five times in all, each time after twice as long. None is the default: only posted
    /// requests are sent. Linux siw may leave octets right behind its Reply unread until more come. It needs this if
    /// its program waits for a message that was sent at once.
    pub nudge_after: Option<Duration>,
    /// With [`Progress::External`]: how long after its start a SYNC of memory with a copy in a file is carried out, in
    /// the engine's time.
    pub sync_after: Duration,
    /// Engines: each has a thread of its own with [`Progress::Thread`], and its share of the queue pairs, which the
    /// completion vector of their queues chooses. More than one pays when more than one core is to work.
    pub engines: usize,
    /// Queue pairs of each engine at most.
    pub max_qps: usize,
    /// Completion queues at most.
    pub max_cqs: usize,
    /// Shared receive queues at most.
    pub max_srqs: usize,
    /// Memory regions at most, those for fast registration included.
    pub max_mrs: usize,
    /// Memory windows at most.
    pub max_mws: usize,
    /// Reads and Atomics of one connection at most, in each direction: no IRD and no ORD is larger (RFC 5042 section
    /// 7.2). An RTR message that is a Read may take one more.
    pub max_reads: u16,
    /// Atomics and Immediate Data (RFC 7306) are known. Otherwise they cannot be posted, and a peer that uses them is
    /// told that the opcode is unexpected, as by an older RNIC.
    pub extensions: bool,
    /// Where time comes from.
    pub clock: Clock,
    /// Which thread drives the engine.
    pub progress: Progress,
}

/// Which thread drives the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The thread that polls a completion queue or waits for an event: lowest latency, one thread.
    ///
    /// On a wire only such calls answer the peer, also its probes of an idle connection. The program has to make one
    /// within half of the [peer's timeout](Config::with_peer_timeout), or the peer may take it for gone.
    Manual,
    /// A driver thread of the device, which spins for a while and then sleeps. It stands by while one thread of the
    /// application waits for an event, or polls without a pause: that thread drives then.
    Thread,
    /// Only [`crate::Device::poll`], as a simulation on virtual time needs.
    External,
}

impl Progress {
    /// Whether the device has a driver thread for each engine. It stands by while a waiting thread leads.
    pub(crate) const fn has_threads(self) -> bool {
        match self {
            Self::Thread => true,
            Self::Manual | Self::External => false,
        }
    }

    /// Whether the device has a thread that carries out SYNCs, if there is memory for that.
    pub(crate) const fn has_flusher(self) -> bool {
        match self {
            Self::Manual | Self::Thread => true,
            Self::External => false,
        }
    }

    /// Whether only the polls and waits of the application drive the engines.
    pub(crate) const fn calls_drive(self) -> bool {
        match self {
            Self::Manual => true,
            Self::Thread | Self::External => false,
        }
    }
}

impl Config {
    /// The defaults for the sockets of the kernel, at `address` or, where that is unspecified, at all of the host's: as
    /// [`Config::new`], with the machine's clock at its own speed, and probes after 30 s of silence.
    ///
    /// ```
    /// use weft_netif::Ground;
    /// use weft_rnic::{Config, Device};
    ///
    /// let device = Device::open(Ground::Host, Config::host([127, 0, 0, 1].into(), 1))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn host(address: IpAddr, seed: u64) -> Self {
        let stack = StackConfig { seed, ..StackConfig::host(address) };
        let seconds = Duration::from_secs;
        let config = Self {
            startup_timeout: seconds(10),
            answer_timeout: seconds(60),
            close_timeout: seconds(5),
            clock: Clock::real_time(1),
            ..Self::new(stack.ip.clone(), seed)
        };
        Self { stack, ..config }
    }

    /// The defaults for an address: MTU 1500, manual progress, CRC on, RFC 6581 startup, and the machine's clock at
    /// [`CLOCK_SCALE`] times its speed, by which the timeouts are multiplied so that they mean the same real time:
    /// startup 10 s, answer 60 s, close 5 s, TCP 30 s, keep-alive 30 s.
    ///
    /// So a peer that sends nothing and answers nothing is given up within [`Config::PEER_TIMEOUT`], its process
    /// being stopped or killed or its link down, and after half of that if it owes an answer. The same holds for this
    /// end: with [`Progress::Manual`] on a wire, call into the device more often than every half of the peer's timeout.
    ///
    /// `seed` makes TCP sequence numbers, ephemeral ports and STags unpredictable; the same seed gives the same run.
    pub fn new(ip: IpSetting, seed: u64) -> Self {
        let scale = scale_of(Tcp::default());
        let real = |seconds: u64| Duration::from_secs(seconds * u64::from(scale));
        let ack_delay = Some(Duration::from_millis(10 * u64::from(scale)));
        Self {
            stack: StackConfig {
                seed,
                timeout: Some(real(30)),
                keep_alive: Some(real(30)),
                half_open_timeout: real(15),
                linger_timeout: real(60),
                ack_delay,
                ..StackConfig::new(ip)
            },
            mpa: weft_mpa::Config::default(),
            startup_timeout: real(10),
            answer_timeout: real(60),
            close_timeout: real(5),
            nudge_after: None,
            sync_after: Duration::ZERO,
            engines: 1,
            max_qps: 1 << 14,
            max_cqs: 1 << 14,
            max_srqs: 1 << 14,
            max_mrs: 1 << 20,
            max_mws: 1 << 20,
            max_reads: 128,
            extensions: true,
            clock: Clock::real_time(scale),
            progress: Progress::Manual,
        }
    }

    /// How long at most a silent peer is kept by default, in real time.
    pub const PEER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

    /// The same settings for peers that are kept for at most `timeout` (real time) without an answer: idle ones are
    /// probed after half of it, and half of it is the time to answer a probe or anything else. A peer on a wire with
    /// [`Progress::Manual`] answers only while its program calls into the device: it has to do so within that half.
    #[must_use]
    pub fn with_peer_timeout(mut self, timeout: std::time::Duration) -> Self {
        let half = Some(self.engine_time(timeout / 2));
        (self.stack.timeout, self.stack.keep_alive) = (half, half);
        self
    }

    /// The same settings with a clock that runs `scale` times as fast as real time, and all times that are set so far
    /// multiplied so that they mean the same real time as before.
    ///
    /// smoltcp's shortest retransmission timeout is one second of the engine's time. 4 ([`CLOCK_SCALE`]) suits peers
    /// of any kind; 100 and more repairs a loss within 10 ms and less, but takes a peer that delays its
    /// acknowledgements for longer for one that has lost something, so that both ends should be of this kind. An
    /// acknowledgement is never delayed by more than a quarter of that timeout. Weft's own TCP has shorter timeouts, and
    /// always runs at the speed of real time.
    ///
    /// ```
    /// # let ip: weft_netif::IpSetting = "10.0.0.1/24".parse().unwrap();
    /// use weft_rnic::{CLOCK_SCALE, Config};
    ///
    /// let config = Config::new(ip, 1).with_clock_scale(100 * CLOCK_SCALE);
    /// assert_eq!(config.stack.timeout, Some(config.engine_time(std::time::Duration::from_secs(30))));
    /// ```
    #[must_use]
    pub fn with_clock_scale(self, scale: u32) -> Self {
        let is_own = self.stack.tcp == Tcp::Own;
        if is_own { self } else { self.scaled(scale) }
    }

    /// The same settings with the TCP of this choice, whose clock runs at its default speed.
    #[must_use]
    pub fn with_tcp(mut self, tcp: Tcp) -> Self {
        self.stack.tcp = tcp;
        self.scaled(scale_of(tcp))
    }

    fn scaled(mut self, scale: u32) -> Self {
        let (scale, before) = (scale.max(1), u64::from(self.clock.scale()));
        let rescaled = |time: Duration| {
            let micros = time.total_micros().saturating_mul(u64::from(scale));
            Duration::from_micros(micros / before)
        };
        let stack = &mut self.stack;
        for time in [&mut stack.half_open_timeout, &mut stack.linger_timeout] {
            *time = rescaled(*time);
        }
        for time in [&mut stack.timeout, &mut stack.keep_alive, &mut stack.ack_delay, &mut self.nudge_after] {
            *time = time.map(rescaled);
        }
        stack.ack_delay = stack.ack_delay.map(|delay| delay.min(MAX_ACK_DELAY));
        let own = [&mut self.startup_timeout, &mut self.answer_timeout, &mut self.close_timeout];
        for time in own.into_iter().chain([&mut self.sync_after]) {
            *time = rescaled(*time);
        }
        Self { clock: Clock::real_time(scale), ..self }
    }

    /// What a span of real time is in the engine's time, in which all times here are set.
    #[must_use]
    pub fn engine_time(&self, real: std::time::Duration) -> Duration {
        Duration::from(real) * self.clock.scale()
    }
}

/// How much faster than real time the engine's clock runs by default: smoltcp's shortest retransmission timeout of one
/// second becomes 250 ms, still above the delayed acknowledgements of other stacks.
pub const CLOCK_SCALE: u32 = 4;

/// How much faster than real time the clock of a TCP runs.
const fn scale_of(tcp: Tcp) -> u32 {
    match tcp {
        Tcp::Smoltcp => CLOCK_SCALE,
        Tcp::Own => 1,
    }
}

/// A quarter of the shortest retransmission timeout.
const MAX_ACK_DELAY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_tcp_runs_in_real_time() {
        let config = Config::new("10.0.0.1/24".parse().unwrap(), 1).with_tcp(Tcp::Smoltcp);
        assert_eq!((config.clock.scale(), config.stack.timeout), (4, Some(Duration::from_secs(120))));
        let config = config.with_tcp(Tcp::Own).with_clock_scale(100);
        assert_eq!((config.clock.scale(), config.stack.timeout), (1, Some(Duration::from_secs(30))));
    }

    #[test]
    fn the_sockets_of_the_kernel_have_the_same_times() {
        let config = Config::host([127, 0, 0, 1].into(), 1);
        assert_eq!(config.clock.scale(), 1);
        let times = [config.startup_timeout, config.answer_timeout, config.close_timeout];
        assert_eq!(times, [10, 60, 5].map(Duration::from_secs));
    }

    #[test]
    fn all_times_keep_their_meaning_when_the_clock_changes() {
        let config = Config::new("10.0.0.1/24".parse().unwrap(), 1).with_tcp(Tcp::Smoltcp);
        assert_eq!(config.clock.scale(), CLOCK_SCALE);
        let mut config = config.with_clock_scale(100);
        assert_eq!(config.clock.scale(), 100);
        let seconds = |count| std::time::Duration::from_secs(count);
        assert_eq!(config.engine_time(seconds(3)), Duration::from_secs(300));
        let times = [config.startup_timeout, config.answer_timeout, config.close_timeout];
        assert_eq!(times, [10, 60, 5].map(|count| config.engine_time(seconds(count))));
        let stack = &config.stack;
        let times = [stack.half_open_timeout, stack.linger_timeout, stack.timeout.unwrap()];
        assert_eq!(times, [15, 60, 30].map(|count| config.engine_time(seconds(count))));
        assert_eq!(stack.ack_delay, Some(MAX_ACK_DELAY), "10 ms would be a whole retransmission timeout");
        let half = |config: &Config| Some(config.engine_time(Config::PEER_TIMEOUT / 2));
        assert_eq!(
            [stack.timeout, stack.keep_alive],
            [half(&config); 2],
            "a silent peer is given up in time"
        );
        let host = Config::host([127, 0, 0, 1].into(), 1);
        assert_eq!([host.stack.timeout, host.stack.keep_alive], [half(&host); 2]);
        let brief = config.clone().with_peer_timeout(seconds(6));
        assert_eq!([brief.stack.timeout, brief.stack.keep_alive], [Some(config.engine_time(seconds(3))); 2]);
        config.stack.keep_alive = Some(config.engine_time(seconds(7)));
        config.nudge_after = Some(config.engine_time(seconds(8)));
        let slow = config.with_clock_scale(0);
        assert_eq!((slow.clock.scale(), slow.stack.keep_alive), (1, Some(Duration::from_secs(7))));
        assert_eq!(slow.nudge_after, Some(Duration::from_secs(8)));
    }
}
