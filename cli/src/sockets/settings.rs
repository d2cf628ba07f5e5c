//! The settings of the library: a flag, else the variable that `weft sockets` was started with.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::daemon;
use crate::failure::Failure;
use crate::trace::trace_file;
use crate::usage::number;

/// What the library reads from the environment. It takes a wrong value for none and prints nothing, so that each value
/// is checked here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    mode: String,
    spin: Option<u32>,
    strict: bool,
    pub(super) daemon: Option<String>,
    trace: Option<Trace>,
}

/// What the command line asks for.
#[derive(Debug, Default)]
pub(super) struct Flags {
    /// A value of `WEFT_SOCKETS`.
    pub(super) mode: Option<&'static str>,
    /// Microseconds.
    pub(super) spin: Option<u32>,
    pub(super) strict: bool,
    /// An address that was checked.
    pub(super) daemon: Option<String>,
    pub(super) trace: Option<PathBuf>,
}

/// The file that hears of upgrades.
#[derive(Debug, PartialEq, Eq)]
enum Trace {
    /// The file of the flag, which begins empty.
    Flag(PathBuf),
    /// The file of the variable. Another `weft sockets` may write to it already.
    Variable(PathBuf),
}

impl Settings {
    /// Returns the settings of these flags and of the environment.
    pub(super) fn new(flags: Flags) -> Result<Self, Failure> {
        if let Some(name) = unknown(std::env::vars_os().map(|(name, _)| name)) {
            let name = name.display();
            return Err(Failure::usage(format!(
                "{name}: there is no such variable (there are {MODE}, {STRICT} and {TRACE})"
            )));
        }
        Self::with(flags, |name| std::env::var_os(name))
    }

    fn with(flags: Flags, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Failure> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| match value(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(value)) => Err(wrong(name, &format!("`{}` is no text in UTF-8", value.display()))),
        };
        let mode = text(MODE)?.map(mode).transpose()?;
        let spin = text(SPIN)?.map(|text| number::<u32>(LONGEST_SPIN)(&text)).transpose();
        let spin = spin.map_err(|reason| wrong(SPIN, &reason))?;
        let strict = text(STRICT)?.map(|text| switch(&text)).transpose()?.unwrap_or(false);
        let address = text(DAEMON)?.map(|text| daemon::address(&text)).transpose();
        let address = address.map_err(|reason| wrong(DAEMON, &reason))?;
        let trace = value(TRACE).map(|file| Trace::Variable(file.into()));
        Ok(Self {
            mode: flags.mode.map_or_else(|| mode.unwrap_or_else(|| AUTO.to_owned()), str::to_owned),
            spin: flags.spin.or(spin),
            strict: flags.strict || strict,
            daemon: flags.daemon.or(address),
            trace: flags.trace.map(Trace::Flag).or(trace),
        })
    }

    /// Returns true if connections that stay on TCP are refused.
    pub(super) fn is_required(&self) -> bool {
        self.mode == REQUIRE
    }

    /// Returns true if the program is to have no io_uring and no rights of a file.
    pub(super) const fn is_strict(&self) -> bool {
        self.strict
    }

    /// Puts the settings into the environment of a program, and makes the trace's file.
    pub(super) fn give(self, command: &mut Command) -> Result<(), Failure> {
        let spin = self.spin.map(|spin| spin.to_string().into());
        let daemon = self.daemon.map(OsString::from);
        let strict = self.strict.then(|| "1".into());
        let trace = self.trace.map(Trace::made).transpose()?.map(PathBuf::into_os_string);
        command.env(MODE, self.mode);
        for (variable, value) in [(SPIN, spin), (DAEMON, daemon), (STRICT, strict), (TRACE, trace)] {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        Ok(())
    }
}

impl Trace {
    /// Makes the file and returns its absolute path.
    fn made(self) -> Result<PathBuf, Failure> {
        let (name, path) = match self {
            Self::Flag(file) => ("--trace", trace_file(&file)?),
            Self::Variable(file) => (TRACE, appended(&file)?),
        };
        if path.as_os_str().len() > LONGEST_PATH {
            let path = path.display();
            return Err(wrong(name, &format!("{path}: the path has more than {LONGEST_PATH} octets")));
        }
        Ok(path)
    }
}

/// Makes sure that a file can be written at its end. Returns its absolute path.
fn appended(file: &Path) -> Result<PathBuf, Failure> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    let path = opened.and_then(|_| std::path::absolute(file));
    path.map_err(|error| wrong(TRACE, &format!("{}: {error}", file.display())))
}

/// Returns the first name that begins as those of the library, and that it does not know.
fn unknown(mut names: impl Iterator<Item = OsString>) -> Option<OsString> {
    names.find(|name| {
        name.as_encoded_bytes().starts_with(b"WEFT_SOCKET")
            && ![MODE, STRICT, TRACE].iter().any(|known| name == known)
    })
}

fn mode(word: String) -> Result<String, Failure> {
    if MODES.contains(&word.as_str()) {
        return Ok(word);
    }
    Err(wrong(MODE, &format!("there is no `{word}` (there are auto, eager, require and off)")))
}

fn switch(text: &str) -> Result<bool, Failure> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(wrong(STRICT, &format!("`{text}` is neither 0 nor 1"))),
    }
}

fn wrong(name: &str, reason: &str) -> Failure {
    Failure::usage(format!("{name}: {reason}"))
}

const MODE: &str = "WEFT_SOCKETS";
const SPIN: &str = "WEFT_SPIN";
const STRICT: &str = "WEFT_SOCKETS_STRICT";
const DAEMON: &str = "WEFT_DAEMON";
pub(super) const TRACE: &str = "WEFT_SOCKETS_TRACE";
const AUTO: &str = "auto";
const REQUIRE: &str = "require";
const MODES: [&str; 4] = [AUTO, "eager", REQUIRE, "off"];
/// Microseconds.
pub(super) const LONGEST_SPIN: std::ops::RangeInclusive<u64> = 0..=1_000_000;
/// The library copies no longer path.
const LONGEST_PATH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: Flags, variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        let variable =
            |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into());
        Settings::with(flags, variable)
    }

    #[test]
    fn a_flag_comes_before_a_variable() {
        let variables =
            [(MODE, "require"), (SPIN, "7"), (STRICT, "1"), (DAEMON, "@a"), (TRACE, "/x"), ("WEFT", "")];
        let found = settings(Flags::default(), &variables).unwrap();
        assert_eq!((found.mode.as_str(), found.spin, found.strict), ("require", Some(7), true));
        assert_eq!((found.daemon.as_deref(), found.trace), (Some("@a"), Some(Trace::Variable("/x".into()))));
        let (daemon, trace) = (Some("@b".to_owned()), Some("/y".into()));
        let flags = Flags { mode: Some("eager"), spin: Some(0), strict: false, daemon, trace };
        let found = settings(flags, &variables).unwrap();
        assert_eq!((found.mode.as_str(), found.spin), ("eager", Some(0)));
        assert_eq!((found.daemon.as_deref(), found.trace), (Some("@b"), Some(Trace::Flag("/y".into()))));
    }

    #[test]
    fn an_empty_variable_is_none() {
        let empty = [MODE, SPIN, STRICT, DAEMON, TRACE].map(|name| (name, ""));
        let found = settings(Flags::default(), &empty).unwrap();
        assert_eq!(found, settings(Flags::default(), &[]).unwrap());
        assert_eq!((found.mode.as_str(), found.spin, found.daemon), ("auto", None, None));
    }

    #[test]
    fn a_name_that_is_misspelt_is_found() {
        let found = |names: &[&str]| unknown(names.iter().map(OsString::from));
        assert_eq!(found(&[MODE, SPIN, STRICT, DAEMON, TRACE, "PATH", "WEFT_STAT"]), None);
        for name in ["WEFT_SOCKETS_TRAC", "WEFT_SOCKETS_SPIN", "WEFT_SOCKET", "WEFT_SOCKETSTRICT"] {
            assert_eq!(found(&["PATH", MODE, name]), Some(name.into()));
        }
    }

    #[test]
    fn a_wrong_variable_is_reported_by_its_name() {
        for (name, value) in
            [(MODE, "fast"), (SPIN, "-1"), (SPIN, "1000001"), (STRICT, "yes"), (DAEMON, "mine")]
        {
            match settings(Flags::default(), &[(name, value)]) {
                Err(Failure::Usage(line)) => {
                    assert!(line.starts_with(name) && line.contains(&format!("`{value}`")), "{line}");
                }
                other => panic!("{name}={value}: {other:?}"),
            }
        }
    }
}
