use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;

/// Which Ethernet device a stack is to run on, as the command line names it.
///
/// ```
/// use weft_netif::Spec;
/// assert_eq!("tap:tap0".parse(), Ok(Spec::Tap("tap0".into())));
/// assert!("token-ring:1".parse::<Spec>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spec {
    /// `pair`: two stacks in one process, frames through memory; see [`pair`](crate::pair).
    Pair,
    /// `unix:PATH`: connects to a Unix stream socket.
    Unix(PathBuf),
    /// `unix-listen:PATH`: listens on a Unix stream socket, one peer at a time.
    UnixListen(PathBuf),
    /// `tap:NAME`: a TAP device of Linux.
    Tap(String),
}

/// A device spec that can't be read: what was given, what is wrong with it, and which specs there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    given: String,
    reason: &'static str,
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let refuse = |reason| Err(SpecError { given: text.into(), reason });
        match text.split_once(':') {
            None if text == "pair" => Ok(Self::Pair),
            None if matches!(text, "unix" | "unix-listen") => refuse("the path of the socket is missing"),
            None if text == "tap" => refuse("the name of the TAP device is missing"),
            Some(("pair", _)) => refuse("a pair has no argument"),
            Some(("unix", path)) => socket_path(path).map_or_else(refuse, |path| Ok(Self::Unix(path))),
            Some(("unix-listen", path)) => {
                socket_path(path).map_or_else(refuse, |path| Ok(Self::UnixListen(path)))
            }
            Some(("tap", name)) => tap_name(name).map_or_else(refuse, |name| Ok(Self::Tap(name))),
            _ => refuse("no such device"),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair => f.write_str("pair"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::UnixListen(path) => write!(f, "unix-listen:{}", path.display()),
            Self::Tap(name) => write!(f, "tap:{name}"),
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, reason } = self;
        write!(f, "device `{given}`: {reason} (there are pair, unix:PATH, unix-listen:PATH and tap:NAME)")
    }
}

impl core::error::Error for SpecError {}

fn socket_path(path: &str) -> Result<PathBuf, &'static str> {
    match path {
        "" => Err("the path of the socket is missing"),
        _ if path.contains('\0') => Err("the path has a zero octet in it"),
        _ if path.len() > MAX_SOCKET_PATH => {
            Err("the path is longer than the 107 octets a Unix socket may have")
        }
        _ => Ok(path.into()),
    }
}

fn tap_name(name: &str) -> Result<String, &'static str> {
    match name {
        "" => Err("the name of the TAP device is missing"),
        "." | ".." => Err("that is no name of an interface"),
        _ if name.len() > MAX_INTERFACE_NAME => Err("an interface name has at most 15 octets"),
        _ if name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control()) => {
            Err("an interface name has no slash, colon or space")
        }
        _ => Ok(name.into()),
    }
}

/// `sun_path` has 108 octets, the last of them zero.
const MAX_SOCKET_PATH: usize = 107;

/// IFNAMSIZ is 16, the last of them zero.
const MAX_INTERFACE_NAME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_specs_are_read_and_written_back() {
        let table = [
            ("pair", Spec::Pair),
            ("unix:/tmp/w.sock", Spec::Unix("/tmp/w.sock".into())),
            ("unix:a:b", Spec::Unix("a:b".into())),
            ("unix-listen:./x", Spec::UnixListen("./x".into())),
            ("tap:tap0", Spec::Tap("tap0".into())),
            ("tap:abcdefghijklmno", Spec::Tap("abcdefghijklmno".into())),
        ];
        for (text, spec) in table {
            assert_eq!(text.parse::<Spec>().as_ref(), Ok(&spec), "{text}");
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn bad_specs_get_one_line_that_names_the_reason_and_the_choice() {
        let long = format!("unix:/{}", "p".repeat(107));
        let table = [
            ("", "no such device"),
            ("Pair", "no such device"),
            ("pair:", "no argument"),
            ("pair:1", "no argument"),
            ("unix", "missing"),
            ("unix:", "missing"),
            ("unix:a\0b", "zero octet"),
            (long.as_str(), "107"),
            ("unix-listen", "missing"),
            ("unix-listen:", "missing"),
            ("tap", "missing"),
            ("tap:", "missing"),
            ("tap:a/b", "slash"),
            ("tap:a b", "space"),
            ("tap:..", "no name"),
            ("tap:abcdefghijklmnop", "15"),
            ("eth0", "no such device"),
            ("xdp:eth0", "no such device"),
            (":x", "no such device"),
        ];
        for (text, reason) in table {
            let error = text.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(error.contains("there are pair, unix:PATH, unix-listen:PATH and tap:NAME"), "{error}");
            assert!(!error.contains('\n'));
        }
    }
}
