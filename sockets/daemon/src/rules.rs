//! The rules by which the administrator keeps connections on TCP.

use weft_sockets::Tuple;

use crate::network::Network;

/// Rules in order. The first that fits a connection decides. Without one the connection may be upgraded.
///
/// ```
/// use weft_daemon::Rules;
/// assert!("deny net 10.0.0.0/8 port 22\nallow uid 1000\ndeny".parse::<Rules>().is_ok());
/// assert!("deny prot 22".parse::<Rules>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// A line. Each part that is missing fits everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rule {
    is_allowed: bool,
    uid: Option<u32>,
    network: Option<Network>,
    port: Option<u16>,
}

impl Rules {
    /// True if this user's end of this connection may be upgraded.
    pub(crate) fn allow(&self, uid: u32, tuple: &Tuple) -> bool {
        let found = self.0.iter().find(|rule| rule.fits(uid, tuple));
        found.is_none_or(|rule| rule.is_allowed)
    }
}

impl core::str::FromStr for Rules {
    type Err = String;

    /// Reads rules, a line each: `allow|deny`, then any of `uid NAME`, `net CIDR`, `port N`. A `#` begins a comment.
    fn from_str(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, words(line)));
        let rules = lines.filter(|(_, words)| !words.is_empty());
        let parse = |(number, words): (usize, Vec<&str>)| {
            Rule::parse(&words).map_err(|error| format!("line {number}: {error}"))
        };
        rules.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Rule {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let Some((verdict, conditions)) = words.split_first() else { return Ok(Self::default()) };
        let is_allowed = match *verdict {
            "allow" => true,
            "deny" => false,
            other => return Err(format!("`{other}`: a rule begins with allow or deny")),
        };
        let mut rule = Self { is_allowed, ..Self::default() };
        for condition in conditions.chunks(2) {
            let (name, value) = match *condition {
                [name, value] => (name, value),
                [name] => return Err(format!("`{name}`: a value is missing behind it")),
                _ => continue,
            };
            let is_first = match name {
                "uid" => rule.uid.replace(user(value)?).is_none(),
                "net" => rule.network.replace(value.parse()?).is_none(),
                "port" => rule.port.replace(port(value)?).is_none(),
                other => return Err(format!("`{other}`: a rule has uid NAME, net CIDR and port N")),
            };
            if !is_first {
                return Err(format!("`{name}` stands twice"));
            }
        }
        Ok(rule)
    }

    fn fits(&self, uid: u32, tuple: &Tuple) -> bool {
        let ends = [tuple.local, tuple.peer];
        self.uid.is_none_or(|wanted| wanted == uid)
            && self.network.is_none_or(|network| ends.iter().any(|end| network.contains(end.ip())))
            && self.port.is_none_or(|port| ends.iter().any(|end| end.port() == port))
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split('#').next().unwrap_or_default().split_whitespace().collect()
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("`{text}`: a port is a number up to 65535"))
}

/// Reads a user's number, or looks its name up in `/etc/passwd`.
fn user(text: &str) -> Result<u32, String> {
    let by_name = || {
        let users = std::fs::read_to_string("/etc/passwd").ok()?;
        let mut lines = users.lines().map(|line| line.split(':'));
        lines.find_map(|mut line| (line.next()? == text).then(|| line.nth(1))?)?.parse().ok()
    };
    text.parse().ok().or_else(by_name).ok_or_else(|| format!("`{text}`: no such user"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rules: &str, uid: u32, local: &str, peer: &str) -> bool {
        let tuple = Tuple::new(1, local.parse().expect("an address"), peer.parse().expect("an address"));
        rules.parse::<Rules>().expect("rules").allow(uid, &tuple)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules =
            "# comment\nallow uid root port 80\n\ndeny net 10.0.0.0/8 # ten\nallow port 22\ndeny uid 1000";
        assert!(allows(rules, 0, "10.0.0.1:80", "10.0.0.2:5000"));
        assert!(allows(rules, 0, "10.0.0.2:5000", "10.0.0.1:80"), "the port may be the peer's");
        assert!(!allows(rules, 0, "10.0.0.1:81", "192.168.0.2:5000"));
        assert!(allows(rules, 1000, "11.0.0.1:22", "192.168.0.2:5000"));
        assert!(!allows(rules, 1000, "11.0.0.1:23", "192.168.0.2:5000"));
        assert!(allows(rules, 1001, "11.0.0.1:23", "192.168.0.2:5000"), "no rule fits");
        assert!(allows("", 0, "[::1]:1", "[::1]:2"));
        assert!(!allows("deny net ::/0", 0, "[::1]:1", "[::1]:2"));
        assert!(allows("deny net 0.0.0.0/0", 0, "[::1]:1", "[::1]:2"));
        assert!(!allows("deny net 127.0.0.1", 0, "127.0.0.1:1", "127.0.0.1:2"));
    }

    #[test]
    fn wrong_rules_are_told_with_their_line() {
        for (rules, words) in [
            ("allow\npermit port 3", "line 2: `permit`"),
            ("deny port", "`port`: a value is missing"),
            ("deny port 70000", "`70000`"),
            ("deny net 10.0.0.0/33", "`10.0.0.0/33`"),
            ("deny net 10.0.0.1/8", "10.0.0.0/8 is the network"),
            ("deny net 10.0.0.0/", "`10.0.0.0/`"),
            ("deny uid no-such-user-here", "no such user"),
            ("deny port 1 port 2", "`port` stands twice"),
            ("deny host x", "`host`"),
        ] {
            let error = rules.parse::<Rules>().expect_err(rules);
            assert!(error.contains(words), "{error}");
        }
    }
}
