//! What the environment asks for. It is read once: programs write over their environment's memory.

use core::ffi::CStr;

use crate::real::{self, Once};

/// What becomes of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The library does nothing.
    Off,
    /// Connections that are worth it leave TCP.
    #[default]
    Auto,
    /// Connections leave TCP as soon as they can.
    Eager,
    /// As [`Mode::Eager`], and connections without a partner are refused.
    Require,
}

impl Mode {
    /// Reads a mode. Unknown words mean [`Mode::Auto`]; `weft sockets` refuses them before.
    fn parse(word: &[u8]) -> Self {
        match word {
            b"off" => Self::Off,
            b"eager" => Self::Eager,
            b"require" => Self::Require,
            _ => Self::Auto,
        }
    }
}

/// The text of a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    len: usize,
    octets: [u8; LONGEST],
}

impl Text {
    /// Copies a text. Returns `None` if it is too long.
    fn new(text: &[u8]) -> Option<Self> {
        let mut octets = [0; LONGEST];
        octets.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { len: text.len(), octets })
    }

    /// The octets, without a zero at the end.
    pub(crate) fn octets(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

/// The settings of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// `WEFT_SOCKETS`
    pub(crate) mode: Mode,
    /// `WEFT_DAEMON`: the address of the daemon, `@name` or a path.
    pub(crate) daemon: Option<Text>,
    /// `WEFT_SPIN`: the longest spin before a sleep, in microseconds.
    pub(crate) spin: Option<u32>,
    /// `WEFT_SOCKETS_TRACE`: the file that hears of upgrades and lowerings.
    pub(crate) trace: Option<Text>,
    /// `WEFT_SOCKETS_STRICT`: bad addresses are told, and there is no io_uring.
    pub(crate) is_strict: bool,
}

impl Policy {
    fn from_environment(variable: impl Fn(&CStr) -> Option<&'static CStr>) -> Self {
        let octets = |name| variable(name).map(CStr::to_bytes);
        let text = |name| octets(name).and_then(Text::new);
        let number = |name| core::str::from_utf8(octets(name)?).ok()?.parse().ok();
        Self {
            mode: octets(c"WEFT_SOCKETS").map_or_else(Mode::default, Mode::parse),
            daemon: text(c"WEFT_DAEMON"),
            spin: number(c"WEFT_SPIN"),
            trace: text(c"WEFT_SOCKETS_TRACE"),
            is_strict: octets(c"WEFT_SOCKETS_STRICT") == Some(b"1"),
        }
    }
}

/// Reads the environment.
pub(crate) fn open() {
    POLICY.set(|| Some(Policy::from_environment(real::variable)));
}

/// Returns the settings once they were read.
pub(crate) fn policy() -> Option<&'static Policy> {
    POLICY.get()
}

/// True if connections are to leave TCP as soon as they can.
pub(crate) fn is_eager() -> bool {
    policy().is_some_and(|policy| matches!(policy.mode, Mode::Eager | Mode::Require))
}

static POLICY: Once<Policy> = Once::new();
/// The longest text of a variable: more than any address or most paths have.
const LONGEST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_from_the_environment() {
        let policy = Policy::from_environment(|name| match name.to_bytes() {
            b"WEFT_SOCKETS" => Some(c"eager"),
            b"WEFT_DAEMON" => Some(c"@mine"),
            b"WEFT_SPIN" => Some(c"30"),
            b"WEFT_SOCKETS_STRICT" => Some(c"1"),
            _ => None,
        });
        assert_eq!((policy.mode, policy.spin), (Mode::Eager, Some(30)));
        assert_eq!(policy.daemon.as_ref().map(Text::octets), Some(&b"@mine"[..]));
        assert!(policy.trace.is_none() && policy.is_strict);
    }

    #[test]
    fn wrong_settings_are_as_none() {
        let policy = Policy::from_environment(|name| match name.to_bytes() {
            b"WEFT_SOCKETS" => Some(c"always"),
            b"WEFT_SPIN" => Some(c"-1"),
            _ => None,
        });
        assert_eq!((policy.mode, policy.spin), (Mode::Auto, None));
        assert!(Text::new(&[b'x'; LONGEST]).is_some() && Text::new(&[b'x'; LONGEST + 1]).is_none());
    }
}
