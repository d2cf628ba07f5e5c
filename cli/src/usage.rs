//! What is said about arguments that make no sense: one line that names the argument and what would be right.

use core::ops::RangeInclusive;
use std::error::Error as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::failure::Failure;

/// Prints what clap has to say, and answers the exit status: help and version on standard output with 0, anything else as
/// one line on standard error with 2. `command` is the subcommand, if there is one.
pub fn explain(error: &Error, command: Option<&str>) -> ExitCode {
    let command = command.unwrap_or_default();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => Failure::from(error).print(command),
        };
    }
    let weft = format!("weft {command}");
    Failure::usage(reason(error, weft.trim_end())).print(command)
}

/// Reads a number within `range`, and says which one is needed where it is none.
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

fn reason(error: &Error, weft: &str) -> String {
    let argument = context(error, ContextKind::InvalidArg);
    let value = context(error, ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::ValueValidation => {
            let source =
                error.source().map_or_else(|| format!("`{value}` is no value for it"), ToString::to_string);
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
        ErrorKind::InvalidSubcommand => {
            let given = context(error, ContextKind::InvalidSubcommand);
            format!("there is no command `{given}` (there are {COMMANDS})")
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("a command is missing: {COMMANDS} (`weft --help` tells what they do)")
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

/// What clap knows about an error, in words.
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

/// `<-s|-c>` in words.
fn one_of(text: &str) -> String {
    match text.strip_prefix("<-").and_then(|rest| rest.strip_suffix('>')) {
        Some(alternatives) => format!("-{}", alternatives.replace('|', " or ")),
        None => text.to_owned(),
    }
}

/// `--mtu <N>` without its value, `[PID]` without the brackets.
fn option(argument: &str) -> &str {
    argument.split_whitespace().next().unwrap_or(argument).trim_matches(['[', ']'])
}

const COMMANDS: &str = "demo, rping, decode, conform, stat and bench";

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
