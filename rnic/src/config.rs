//! The settings of a device.

use weft_netif::{Duration, IpSetting, StackConfig};

use crate::Clock;

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
    /// How long a closing connection waits for the peer's FIN, in the engine's time.
    pub close_timeout: Duration,
    /// Queue pairs at most.
    pub max_qps: usize,
    /// Completion queues at most.
    pub max_cqs: usize,
    /// Memory regions at most.
    pub max_mrs: usize,
    /// Reads and Atomics of one connection at most, in each direction: no IRD and no ORD is larger (RFC 5042 section 7.2), but
    /// for the one place that an RTR message needs when it is a Read.
    pub max_reads: u16,
    /// Atomics and Immediate Data (RFC 7306) are known. Without, they cannot be posted, and a peer that uses them hears that
    /// the opcode is unexpected, as from an older RNIC.
    pub extensions: bool,
    /// Where time comes from.
    pub clock: Clock,
    /// Who drives the engine.
    pub progress: Progress,
}

/// Who drives the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The thread that polls a completion queue or waits for an event: lowest latency, one thread.
    Manual,
    /// A thread of the device's own, which spins for a while and then sleeps.
    Thread,
    /// Only [`crate::Device::poll`], as a simulation on virtual time needs.
    External,
}

impl Config {
    /// The defaults for an address: MTU 1500, manual progress, CRC on, RFC 6581 startup, and the machine's clock at
    /// [`CLOCK_SCALE`] times its speed, by which the timeouts are multiplied so that they mean the same real time:
    /// startup 10 s, answer 60 s, close 5 s, TCP 30 s.
    ///
    /// `seed` makes TCP sequence numbers, ephemeral ports and STags unpredictable; the same seed gives the same run.
    pub fn new(ip: IpSetting, seed: u64) -> Self {
        let real = |seconds: u64| Duration::from_secs(seconds * u64::from(CLOCK_SCALE));
        let ack_delay = Some(Duration::from_millis(10 * u64::from(CLOCK_SCALE)));
        Self {
            stack: StackConfig {
                seed,
                timeout: Some(real(30)),
                half_open_timeout: real(15),
                linger_timeout: real(60),
                ack_delay,
                ..StackConfig::new(ip)
            },
            mpa: weft_mpa::Config::default(),
            startup_timeout: real(10),
            answer_timeout: real(60),
            close_timeout: real(5),
            max_qps: 1 << 14,
            max_cqs: 1 << 14,
            max_mrs: 1 << 20,
            max_reads: 128,
            extensions: true,
            clock: Clock::real_time(CLOCK_SCALE),
            progress: Progress::Manual,
        }
    }
}

/// How much faster than real time the engine's clock runs by default: smoltcp's shortest retransmission timeout of one
/// second becomes 250 ms, still above the delayed acknowledgements of other stacks.
pub const CLOCK_SCALE: u32 = 4;
