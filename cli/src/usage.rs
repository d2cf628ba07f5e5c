//! The error about arguments that make no sense: one line that names the argument and a right value.

use core::num::ParseIntError;
use core::ops::RangeInclusive;
use std::error::Error as _;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::failure::Failure;

/// Prints clap's `error` about the `words` behind the program's name, and returns the exit status. Help and version go
/// to standard output with status 0. Anything else is one line on standard error with status 2.
pub fn explain(error: &Error, weft: &Command, words: impl Iterator<Item = OsString>) -> ExitCode {
    let (command, name) = command_of(weft, words);
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => Failure::from(error).print(&name),
        };
    }
    Failure::usage(reason(error, command, format!("weft {name}").trim_end())).print(&name)
}

/// Returns the command that the first words name, with its name as it is typed behind `weft`.
fn command_of(weft: &Command, words: impl Iterator<Item = OsString>) -> (&Command, String) {
    let (mut command, mut name) = (weft, String::new());
    for word in words.filter(|word| word != "help") {
        let Some(next) = command.find_subcommand(word) else { break };
        command = next;
        name = format!("{name} {}", next.get_name()).trim_start().to_owned();
    }
    (command, name)
}

/// Returns the names of the commands below this one that help shows, in words.
fn names(command: &Command) -> String {
    let names: Vec<&str> =
        command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

/// Returns a reader of numbers within `range`. Its error names the range.
pub(crate) fn number<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| {
            format!("`{text}` is not a whole number from {} to {}", range.start(), range.end())
        })
    }
}

fn reason(error: &Error, command: &Command, weft: &str) -> String {
    let argument = context(error, ContextKind::InvalidArg);
    let value = context(error, ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::ValueValidation => {
            let source = match error.source() {
                Some(source) if source.is::<ParseIntError>() => format!("`{value}` is not a whole number"),
                Some(source) => source.to_string(),
                None => format!("`{value}` is no value for it"),
            };
            format!("{}: {source}", option(&argument))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("{} needs a value: {argument}", option(&argument))
        }
        ErrorKind::InvalidValue => {
            let there_are = context(error, ContextKind::ValidValue);
            format!("{}: there is no `{value}` (there are {there_are})", option(&argument))
        }
        ErrorKind::TooManyValues => format!("{} takes no value", option(&argument)),
        ErrorKind::ArgumentConflict => {
            let prior = context(error, ContextKind::PriorArg);
            if prior == argument || prior.is_empty() {
                format!("{} is given twice", option(&argument))
            } else {
                format!("{} and {} exclude each other", option(&argument), option(&prior))
            }
        }
        ErrorKind::MissingRequiredArgument => {
            format!("missing: {argument} (`{weft} --help` has examples)")
        }
        // Commands that only this program starts are no advice.
        ErrorKind::InvalidSubcommand if names(command).is_empty() => {
            let given = context(error, ContextKind::InvalidSubcommand);
            format!("`{given}` is not expected here (`{weft} --help` lists what is)")
        }
        ErrorKind::InvalidSubcommand => {
            let given = context(error, ContextKind::InvalidSubcommand);
            format!("there is no command `{given}` (there are {})", names(command))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("a command is missing: {} (`{weft} --help` explains them)", names(command))
        }
        ErrorKind::UnknownArgument => {
            let similar = context(error, ContextKind::SuggestedArg);
            let advice =
                if similar.is_empty() { String::new() } else { format!("perhaps {similar} was meant; ") };
            format!("`{argument}` is not expected here ({advice}`{weft} --help` lists what is)")
        }
        _ => {
            let text = error.render().to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

/// Returns a part of clap's error as words.
fn context(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(list)) => {
            let words: Vec<String> = list.iter().map(|text| one_of(text)).collect();
            words.join(", ")
        }
        Some(ContextValue::StyledStr(text)) => text.to_string(),
        _ => String::new(),
    }
}

/// Returns `<-s|-c>` as `-s or -c`.
fn one_of(text: &str) -> String {
    match text.strip_prefix("<-").and_then(|rest| rest.strip_suffix('>')) {
        Some(alternatives) => format!("-{}", alternatives.replace('|', " or ")),
        None => text.to_owned(),
    }
}

/// Returns `--mtu <N>` without its value, `[PID]` without the brackets.
fn option(argument: &str) -> &str {
    argument.split_whitespace().next().unwrap_or(argument).trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_range() {
        let port = number::<u16>(1..=65_535);
        assert_eq!((port("1"), port("65535")), (Ok(1), Ok(65_535)));
        for text in ["0", "65536", "-1", "x", "", "1.5", "99999999999999999999"] {
            assert_eq!(port(text), Err(format!("`{text}` is not a whole number from 1 to 65535")));
        }
        assert_eq!(number::<u64>(0..=u64::MAX)("18446744073709551615"), Ok(u64::MAX));
        assert!(number::<u8>(0..=300)("256").is_err(), "more than the type holds");
    }
}
