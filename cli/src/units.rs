//! Sizes and offsets as they are typed.

/// Reads a size: a number of octets, or one with K, M, G or T behind it, which are powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'T' | b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number = plain(digits).filter(|number| *number > 0).and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| format!("`{text}` is no size, as 4096, 64M and 2G are"))
}

/// Reads a whole number, decimal or with 0x before it.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => plain(text),
    };
    number.ok_or_else(|| format!("`{text}` is no whole number, as 4096 and 0x1000 are"))
}

fn plain(text: &str) -> Option<u64> {
    if text.bytes().all(|digit| digit.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let good =
            [("1", 1), ("4096", 4096), ("3K", 3072), ("64M", 64 << 20), ("2g", 2 << 30), ("1T", 1 << 40)];
        for (text, octets) in good {
            assert_eq!(size(text), Ok(octets), "{text}");
        }
        for text in
            ["", "0", "M", "-1", "+1", "1.5G", "1P", "64MB", "99999999999999T", "\u{131}M", "1\u{212a}"]
        {
            assert_eq!(size(text), Err(format!("`{text}` is no size, as 4096, 64M and 2G are")));
        }
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!([whole("0"), whole("0x1F"), whole("18446744073709551615")], [Ok(0), Ok(31), Ok(u64::MAX)]);
        for text in ["", "0x", "x", "-1", "+1", "0x+1", "1F", "18446744073709551616"] {
            assert!(whole(text).is_err(), "{text}");
        }
    }
}
