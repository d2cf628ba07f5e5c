//! Commands in the octets that a client sends: arrays of bulk strings, or lines of words.

use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

/// What a client has sent and was not read as a command. Octets may come in pieces of any length.
#[derive(Debug, Default)]
pub struct Input {
    octets: Vec<u8>,
    /// Octets that were read.
    taken: usize,
    /// The words of an array that has not come in full.
    words: Vec<Vec<u8>>,
    /// Octets of these words.
    held: usize,
    /// How many words are missing.
    missing: usize,
}

impl Input {
    /// Takes octets that have come.
    pub fn extend(&mut self, octets: &[u8]) {
        if self.taken > self.octets.len() / 2 {
            self.octets.drain(..self.taken);
            self.taken = 0;
        }
        self.octets.extend_from_slice(octets);
    }

    /// Returns the words of the next command; `None` if it has not come in full.
    ///
    /// The words of an array are read one by one. Nothing is read twice then, however small the pieces are, and an array
    /// in an array, which a command has not, is an error and takes no stack.
    ///
    /// # Errors
    /// The octets are no command. There is nothing to be read behind them.
    pub fn next_command(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        loop {
            if self.missing == 0 {
                let rest = &self.octets[self.taken..];
                let Some(line) = line(rest, if rest.first() == Some(&b'*') { NUMBER } else { LINE })? else {
                    return Ok(None);
                };
                let words = &rest[..line];
                let after = self.taken + line + 1;
                if words.first() != Some(&b'*') {
                    let words: Vec<Vec<u8>> = words
                        .split(u8::is_ascii_whitespace)
                        .filter(|word| !word.is_empty())
                        .map(Into::into)
                        .collect();
                    self.taken = after;
                    if words.is_empty() {
                        continue;
                    }
                    return Ok(Some(words));
                }
                let count =
                    core::str::from_utf8(&words[1..]).ok().and_then(|count| count.trim_end().parse().ok());
                let count: i64 =
                    count.filter(|count| *count <= MAX_WORDS).ok_or("invalid multibulk length")?;
                self.taken = after;
                // An array of nothing is no command.
                self.missing = usize::try_from(count).unwrap_or(0);
                continue;
            }
            if !self.take_word()? {
                return Ok(None);
            }
            if self.missing == 0 {
                self.held = 0;
                return Ok(Some(core::mem::take(&mut self.words)));
            }
        }
    }

    /// Reads a bulk string. Returns whether it has come in full.
    fn take_word(&mut self) -> Result<bool, String> {
        let rest = &self.octets[self.taken..];
        if rest.first().is_some_and(|first| *first != b'$') {
            return Err(format!("expected '$', got '{}'", rest[0].escape_ascii()));
        }
        if line(rest, NUMBER)?.is_none() {
            return Ok(false);
        }
        if self.held + rest.len() > MAX_COMMAND {
            return Err(format!("a command has at most {MAX_COMMAND} octets"));
        }
        match decode_range(rest) {
            Ok(None) => Ok(false),
            Ok(Some((RangeFrame::BulkString((start, end)), used))) if rest[end..used] == *b"\r\n" => {
                self.words.push(rest[start..end].to_vec());
                self.held += end - start;
                self.taken += used;
                self.missing -= 1;
                Ok(true)
            }
            Ok(Some(_)) => Err("a word is a bulk string".into()),
            Err(error) => Err(error.details().to_owned()),
        }
    }
}

/// Returns how many octets the first line has before its LF; `None` if that has not come.
fn line(octets: &[u8], most: usize) -> Result<Option<usize>, String> {
    match octets.iter().take(most).position(|octet| *octet == b'\n') {
        None if octets.len() >= most => Err("the line is too long".into()),
        found => Ok(found),
    }
}

/// Octets of the longest command.
pub const MAX_COMMAND: usize = 64 << 20;
const MAX_WORDS: i64 = 1 << 20;
/// Octets of a line with a number.
const NUMBER: usize = 32;
/// Octets of a line of words.
const LINE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING  you\r\n\r\n*0\r\n*-1\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n*1\r\n";

    fn commands(input: &mut Input) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(words) = input.next_command().unwrap() {
            found
                .push(words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join("|"));
        }
        found
    }

    #[test]
    fn commands_come_in_pieces_of_any_length() {
        for piece in 1..=STREAM.len() {
            let mut input = Input::default();
            let mut found = Vec::new();
            for octets in STREAM.chunks(piece) {
                input.extend(octets);
                found.extend(commands(&mut input));
            }
            assert_eq!(found, ["GET|a", "PING|you", "SET||\\r\\n*1"], "pieces of {piece}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let deep = b"*1\r\n".repeat(100_000);
        let endless = [b'1'; 100];
        let long_line = [b'x'; LINE + 1];
        let bad: [&[u8]; 9] = [
            &deep,
            b"*99999999\r\n",
            b"*x\r\n",
            b"*1\r\n:5\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$x\r\n",
            b"*1\r\n$1\r\nabc",
            &[&b"*1\r\n$"[..], &endless].concat(),
            &long_line,
        ];
        for octets in bad {
            let mut input = Input::default();
            input.extend(octets);
            assert!(input.next_command().is_err(), "{:?}", octets.get(..20));
        }
        let mut input = Input::default();
        input.extend(b"*2\r\n$99999999999\r\n");
        assert_eq!(input.next_command(), Ok(None));
        input.extend(&vec![0; MAX_COMMAND]);
        assert!(input.next_command().is_err(), "too long");
    }
}
