//! Sizes of sends, and limits of immediate data, as they are typed.

use super::plan::{MAX_IMMEDIATE, MAX_SIZE};
use crate::units::size;

/// The sizes of sends, in octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) Vec<usize>);

/// The longest immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// In octets.
    Octets(u32),
    /// Every send is immediate.
    Max,
}

/// Reads `64,4K,1M` or `1..16M`.
pub(super) fn parse(text: &str) -> Result<Sizes, String> {
    let octets = |text: &str| {
        let octets = size(text)?;
        let fits = usize::try_from(octets).ok().filter(|octets| *octets <= MAX_SIZE);
        fits.ok_or_else(|| format!("`{text}` is more than {} MiB", MAX_SIZE >> 20))
    };
    let Some((first, last)) = text.split_once("..") else {
        return text.split(',').map(octets).collect::<Result<_, _>>().map(Sizes);
    };
    let (first, last) = (octets(first)?, octets(last)?);
    if first > last {
        return Err(format!("`{text}` begins with the larger end"));
    }
    let steps = std::iter::successors(Some(first), |size| size.checked_mul(4));
    let mut sizes: Vec<usize> = steps.take_while(|size| *size < last).collect();
    sizes.push(last);
    Ok(Sizes(sizes))
}

/// Reads a number of octets, or `max`.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "max" => Ok(Limit::Max),
        "0" => Ok(Limit::Octets(0)),
        _ => {
            let octets = size(text)?;
            let fits = u32::try_from(octets).ok().filter(|octets| *octets <= MAX_IMMEDIATE);
            fits.map(Limit::Octets).ok_or_else(|| format!("`{text}` is more than 16 MiB"))
        }
    }
}

impl Limit {
    /// Returns the limit for sends of this size; `None` if it cannot be so large.
    pub(super) fn of(self, size: usize) -> Option<u32> {
        match self {
            Self::Octets(octets) => Some(octets),
            Self::Max => u32::try_from(size).ok().filter(|octets| *octets <= MAX_IMMEDIATE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_taken_as_it_is_and_a_range_in_factors_of_4() {
        assert_eq!(parse("64,4K,1M"), Ok(Sizes(vec![64, 4096, 1 << 20])));
        assert_eq!(parse("1..70"), Ok(Sizes(vec![1, 4, 16, 64, 70])));
        assert_eq!(parse("4K..4K"), Ok(Sizes(vec![4096])));
        for text in ["", "0", "1,", "..", "1..", "8..4", "65M", "-1", "1..1T", "x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn immediate_data_has_a_limit() {
        assert_eq!(limit("0"), Ok(Limit::Octets(0)));
        assert_eq!(limit("1K").map(|limit| limit.of(9)), Ok(Some(1024)));
        assert_eq!(limit("max").map(|limit| [limit.of(9), limit.of(17 << 20)]), Ok([Some(9), None]));
        assert!(limit("17M").is_err() && limit("-1").is_err() && limit("").is_err());
    }
}
