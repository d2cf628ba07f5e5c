//! The environment of the programs that this one starts: the library and its settings stay in it.
//!
//! Nothing here allocates: a child of vfork calls it in its parent's memory.

use core::ffi::{CStr, c_char};
use core::ptr::null;

use crate::real::{self, Once};

/// The variables that this program was started with, each as `NAME=value` with a zero behind it.
#[derive(Debug)]
struct Kept {
    /// The library's own path in `LD_PRELOAD`.
    library: Line,
    settings: [Option<Line>; SETTINGS.len()],
}

/// The text of a variable, or a part of it.
#[derive(Clone, Copy, Debug)]
struct Line {
    octets: [u8; LONGEST],
    len: usize,
}

impl Line {
    /// Joins texts, and puts a zero behind them. Returns `None` if they are too long.
    fn join(parts: &[&[u8]]) -> Option<Self> {
        let mut line = Self { octets: [0; LONGEST], len: 0 };
        for part in parts {
            let end = line.len.checked_add(part.len()).filter(|end| *end < LONGEST)?;
            line.octets.get_mut(line.len..end)?.copy_from_slice(part);
            line.len = end;
        }
        Some(line)
    }

    fn text(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

impl Kept {
    fn new<'a>(variable: impl Fn(&CStr) -> Option<&'a CStr>) -> Option<Self> {
        let preloads = variable(c"LD_PRELOAD")?.to_bytes();
        let library = preloads.split(is_separator).find(|path| path.ends_with(LIBRARY))?;
        let setting = |name: &CStr| {
            let value = variable(name)?;
            Line::join(&[name.to_bytes(), b"=", value.to_bytes()])
        };
        Some(Self { library: Line::join(&[library])?, settings: SETTINGS.map(setting) })
    }
}

/// An environment with the library in it.
#[derive(Debug)]
pub(crate) struct Environment {
    variables: [*const c_char; MOST],
    len: usize,
    preload: Line,
}

impl Environment {
    /// Makes an empty one.
    pub(crate) const fn new() -> Self {
        Self { variables: [null(); MOST], len: 0, preload: Line { octets: [0; LONGEST], len: 0 } }
    }

    /// Takes over the variables that the program gives to the next one, and adds what it left out. Returns `None` if it
    /// left nothing out, or if there is no room: then its own environment is to be used.
    pub(crate) fn complete<'a>(
        &'a mut self,
        given: impl Iterator<Item = &'a CStr> + Clone,
    ) -> Option<*const *const c_char> {
        self.complete_with(KEPT.get()?, given)
    }

    fn complete_with<'a>(
        &'a mut self,
        kept: &'a Kept,
        given: impl Iterator<Item = &'a CStr> + Clone,
    ) -> Option<*const *const c_char> {
        let values = |name: &'static [u8]| given.clone().filter_map(move |line| value(line, name));
        let is_preloaded = values(b"LD_PRELOAD")
            .any(|value| value.split(is_separator).any(|path| path == kept.library.text()));
        let is_missing = |line: &Line| {
            let name = line.text().split(|octet| *octet == b'=').next().unwrap_or_default();
            !given.clone().any(|given| value(given, name).is_some())
        };
        let missing = kept.settings.iter().flatten().filter(|line| is_missing(line));
        if is_preloaded && missing.clone().next().is_none() {
            return None;
        }
        for line in given.clone().filter(|line| is_preloaded || value(line, b"LD_PRELOAD").is_none()) {
            self.push(line.as_ptr())?;
        }
        for line in missing {
            self.push(line.octets.as_ptr().cast())?;
        }
        if !is_preloaded {
            let others = values(b"LD_PRELOAD").next().unwrap_or_default();
            let separator: &[u8] = if others.is_empty() { b"" } else { b":" };
            self.preload = Line::join(&[b"LD_PRELOAD=", kept.library.text(), separator, others])?;
            self.push(self.preload.octets.as_ptr().cast())?;
        }
        self.push(null())?;
        Some(self.variables.as_ptr())
    }

    fn push(&mut self, variable: *const c_char) -> Option<()> {
        *self.variables.get_mut(self.len)? = variable;
        self.len += 1;
        Some(())
    }
}

/// Notes the variables that this program was started with.
pub(crate) fn open() {
    KEPT.set(|| Kept::new(real::variable));
}

/// Returns the value of a variable in a line of the environment, if it has this name.
fn value<'a>(line: &'a CStr, name: &[u8]) -> Option<&'a [u8]> {
    line.to_bytes().strip_prefix(name)?.strip_prefix(b"=")
}

/// True between the paths of `LD_PRELOAD`.
const fn is_separator(octet: &u8) -> bool {
    matches!(octet, b':' | b' ')
}

static KEPT: Once<Kept> = Once::new();
const LIBRARY: &[u8] = b"/libweft_sockets_preload.so";
const SETTINGS: [&CStr; 6] = [
    c"WEFT_SOCKETS",
    c"WEFT_DAEMON",
    c"WEFT_SPIN",
    c"WEFT_SOCKETS_TRACE",
    c"WEFT_SOCKETS_EXPLAIN",
    c"WEFT_SOCKETS_STRICT",
];
/// Octets of a line. A longer one is left out.
const LONGEST: usize = 2048;
/// Variables of an environment. A program with more of them starts others without the library.
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &CStr = c"/usr/lib/libweft_sockets_preload.so";

    fn kept(preload: &'static CStr) -> Option<Kept> {
        Kept::new(move |name| match name.to_bytes() {
            b"LD_PRELOAD" => Some(preload),
            b"WEFT_SOCKETS" => Some(c"eager"),
            b"WEFT_DAEMON" => Some(c"@mine"),
            _ => None,
        })
    }

    /// The variables that the next program gets, or `None` for those that were given.
    fn completed(given: &[&CStr]) -> Option<Vec<String>> {
        let kept = kept(PATH).expect("the library was preloaded");
        let mut environment = Environment::new();
        environment.complete_with(&kept, given.iter().copied())?;
        let strings = environment.variables.iter().take_while(|variable| !variable.is_null());
        // Only lines that were given or are kept are in it.
        let lines = given.iter().map(|line| (line.as_ptr(), line.to_bytes()));
        let own = kept.settings.iter().flatten().chain([&environment.preload]);
        let lines: Vec<_> = lines.chain(own.map(|line| (line.octets.as_ptr().cast(), line.text()))).collect();
        let text = |variable: &*const c_char| lines.iter().find(|(at, _)| at == variable).expect("a line").1;
        Some(strings.map(|variable| String::from_utf8_lossy(text(variable)).into_owned()).collect())
    }

    #[test]
    fn an_environment_that_has_all_stays_as_it_is() {
        let all = [
            c"A=1",
            c"LD_PRELOAD=/x.so:/usr/lib/libweft_sockets_preload.so",
            c"WEFT_SOCKETS=auto",
            c"WEFT_DAEMON=@b",
        ];
        assert_eq!(completed(&all), None);
    }

    #[test]
    fn what_was_left_out_is_put_back() {
        let library = "LD_PRELOAD=/usr/lib/libweft_sockets_preload.so";
        assert_eq!(
            completed(&[]).expect("another one"),
            ["WEFT_SOCKETS=eager", "WEFT_DAEMON=@mine", library]
        );
        let given = [c"WEFT_DAEMON=@other", c"LD_PRELOAD=/x.so", c"A=1"];
        let expected = ["WEFT_DAEMON=@other", "A=1", "WEFT_SOCKETS=eager", &format!("{library}:/x.so")];
        assert_eq!(completed(&given).expect("another one"), expected);
        let given = [c"LD_PRELOAD=", c"WEFT_SOCKETS=off", c"WEFT_DAEMON="];
        assert_eq!(completed(&given).expect("another one"), ["WEFT_SOCKETS=off", "WEFT_DAEMON=", library]);
    }

    #[test]
    fn too_many_variables_stay_as_they_are() {
        assert!(completed(&[c"A=1"; MOST - 4]).is_some());
        assert_eq!(completed(&[c"A=1"; MOST - 3]), None);
    }

    #[test]
    fn a_library_that_came_another_way_is_not_put_in() {
        assert!(kept(c"/x.so /usr/lib/libweft_sockets_preload.so").is_some());
        assert!(kept(c"/usr/lib/libweft_preload.so").is_none());
    }
}
