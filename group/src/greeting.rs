//! The private data with which each connection of a group begins: what it is for, and a token that admits it.
//!
//! ```text
//! 0..8   weft-grp
//! 8      what the connection is for
//! 9..25  the token; zero for the control plane
//! ```

use ctutils::CtEq as _;

/// The first octets of the private data.
pub const MAGIC: [u8; 8] = *b"weft-grp";

/// Octets of the private data.
pub const GREETING_LEN: usize = MAGIC.len() + 1 + TOKEN_LEN;

const TOKEN_LEN: usize = 16;

/// Admits a connection to a queue pair of a session. It is random, and told over the control plane.
#[derive(Clone, Copy)]
pub struct Token(pub [u8; TOKEN_LEN]);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// Messages of the control plane.
    Control,
    /// To IN of a replica, from its predecessor or from the client.
    Inward(Token),
    /// To OUT of the tail, from the client.
    Outward(Token),
}

impl Greeting {
    /// Returns the private data.
    pub fn encode(self) -> [u8; GREETING_LEN] {
        let (kind, token) = match self {
            Self::Control => (1, [0; TOKEN_LEN]),
            Self::Inward(Token(token)) => (2, token),
            Self::Outward(Token(token)) => (3, token),
        };
        let mut octets = [0; GREETING_LEN];
        octets[..8].copy_from_slice(&MAGIC);
        octets[8] = kind;
        octets[9..].copy_from_slice(&token);
        octets
    }

    /// Reads private data; `None` if it is no group's.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let (kind, token) = octets.strip_prefix(&MAGIC)?.split_first()?;
        let token: [u8; TOKEN_LEN] = token.try_into().ok()?;
        match kind {
            1 if token == [0; TOKEN_LEN] => Some(Self::Control),
            2 => Some(Self::Inward(Token(token))),
            3 => Some(Self::Outward(Token(token))),
            _ => None,
        }
    }
}

/// Takes the same time for all tokens.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).to_bool()
    }
}

impl Eq for Token {}

/// The token itself is not printed.
impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_read_as_they_were_written() {
        let token = Token(core::array::from_fn(|index| index.to_le_bytes()[0]));
        for greeting in [Greeting::Control, Greeting::Inward(token), Greeting::Outward(token)] {
            let octets = greeting.encode();
            assert_eq!(Greeting::parse(&octets), Some(greeting));
            assert_eq!(Greeting::parse(&octets[1..]), None);
            assert_eq!(Greeting::parse(&octets[..GREETING_LEN - 1]), None);
            assert_eq!(Greeting::parse(&[&octets[..], &[0]].concat()), None);
            for at in 0..9 {
                let mut changed = octets;
                changed[at] ^= 4;
                assert_eq!(Greeting::parse(&changed), None, "octet {at}");
            }
        }
        let mut control = Greeting::Control.encode();
        control[24] = 1;
        assert_eq!(Greeting::parse(&control), None);
        assert_ne!(Greeting::Inward(token), Greeting::Inward(Token([0; 16])));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
