//! The commands that the server knows.

/// A command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// GET key
    Get(Vec<u8>),
    /// SET key value
    Set(Vec<u8>, Vec<u8>),
    /// MGET key …
    MGet(Vec<Vec<u8>>),
    /// MSET key value …
    MSet(Vec<(Vec<u8>, Vec<u8>)>),
    /// DEL key …
    Del(Vec<Vec<u8>>),
    /// EXISTS key …
    Exists(Vec<Vec<u8>>),
    /// DBSIZE
    DbSize,
    /// PING, and PING message
    Ping(Option<Vec<u8>>),
    /// INFO, with or without sections
    Info,
    /// CONFIG GET parameter …
    ConfigGet(Vec<Vec<u8>>),
    /// COMMAND, COMMAND DOCS
    Command,
    /// COMMAND COUNT
    CommandCount,
    /// A command that makes no sense here; why.
    Wrong(String),
}

impl Command {
    /// Reads a command from its name and arguments.
    pub fn parse(words: Vec<Vec<u8>>) -> Self {
        let mut words = words.into_iter();
        let name = words.next().unwrap_or_default().to_ascii_uppercase();
        let arguments: Vec<Vec<u8>> = words.collect();
        let count = arguments.len();
        let mut rest = arguments.into_iter();
        let wrong_count = || {
            let name = printable(&name).to_ascii_lowercase();
            Self::Wrong(format!("ERR wrong number of arguments for '{name}' command"))
        };
        match (&name[..], count) {
            (b"GET", 1) => Self::Get(rest.next().unwrap_or_default()),
            (b"SET", 2) => Self::Set(rest.next().unwrap_or_default(), rest.next().unwrap_or_default()),
            (b"SET", 3..) => Self::Wrong("ERR options of SET are not supported".into()),
            (b"MGET", 1..) => Self::MGet(rest.collect()),
            (b"MSET", 2..) if count.is_multiple_of(2) => {
                let mut pairs = Vec::with_capacity(count / 2);
                while let (Some(key), Some(value)) = (rest.next(), rest.next()) {
                    pairs.push((key, value));
                }
                Self::MSet(pairs)
            }
            (b"DEL", 1..) => Self::Del(rest.collect()),
            (b"EXISTS", 1..) => Self::Exists(rest.collect()),
            (b"DBSIZE", 0) => Self::DbSize,
            (b"PING", 0..=1) => Self::Ping(rest.next()),
            (b"INFO", _) => Self::Info,
            (b"CONFIG", 2..) if is(&mut rest, b"GET") => Self::ConfigGet(rest.collect()),
            (b"CONFIG", _) => Self::Wrong("ERR of CONFIG only GET is supported".into()),
            (b"COMMAND", 1) if is(&mut rest, b"COUNT") => Self::CommandCount,
            (b"COMMAND", _) => Self::Command,
            (b"GET" | b"SET" | b"MGET" | b"MSET" | b"DEL" | b"EXISTS" | b"DBSIZE" | b"PING", _) => {
                wrong_count()
            }
            _ => {
                Self::Wrong(format!("ERR unknown command '{}': this server knows {KNOWN}", printable(&name)))
            }
        }
    }

    /// Returns whether it may change the database.
    pub const fn is_write(&self) -> bool {
        matches!(self, Self::Set(..) | Self::MSet(_) | Self::Del(_))
    }

    /// Returns whether the answer tells something of the database.
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::Get(_) | Self::MGet(_) | Self::Exists(_) | Self::DbSize | Self::Info)
    }
}

fn is(words: &mut impl Iterator<Item = Vec<u8>>, word: &[u8]) -> bool {
    words.next().is_some_and(|first| first.eq_ignore_ascii_case(word))
}

/// Returns the beginning of a name that came from a client, without octets that spoil the answer.
fn printable(name: &[u8]) -> String {
    name.iter()
        .take(64)
        .map(|octet| if octet.is_ascii_graphic() { char::from(*octet) } else { '?' })
        .collect()
}

/// How many commands there are.
pub(crate) const COUNT: i64 = 11;
const KNOWN: &str = "GET SET MGET MSET DEL EXISTS DBSIZE PING INFO CONFIG COMMAND";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Command {
        Command::parse(line.split(' ').map(|word| word.as_bytes().to_vec()).collect())
    }

    #[test]
    fn commands_are_read_with_their_arguments() {
        assert_eq!(parse("get a"), Command::Get(b"a".to_vec()));
        assert_eq!(parse("SET a b"), Command::Set(b"a".to_vec(), b"b".to_vec()));
        let pairs = vec![(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())];
        assert_eq!(parse("mSet a 1 b 2"), Command::MSet(pairs));
        assert_eq!(parse("CONFIG get save"), Command::ConfigGet(vec![b"save".to_vec()]));
        assert_eq!((parse("COMMAND"), parse("COMMAND DOCS")), (Command::Command, Command::Command));
        assert_eq!(parse("command count"), Command::CommandCount);
        assert_eq!(parse("PING x"), Command::Ping(Some(b"x".to_vec())));
        assert_eq!(KNOWN.split(' ').count() as i64, COUNT);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let wrong = |line: &str| match parse(line) {
            Command::Wrong(why) => why,
            other => panic!("{line}: {other:?}"),
        };
        assert!(wrong("GET").contains("wrong number of arguments for 'get'"));
        for line in
            ["GET a b", "SET a", "MGET", "MSET a", "MSET a b c", "DEL", "EXISTS", "DBSIZE x", "PING a b"]
        {
            assert!(wrong(line).contains("wrong number"), "{line}");
        }
        assert!(wrong("SET a b EX 5").contains("options"));
        assert!(wrong("CONFIG SET save x").contains("only GET"));
        assert!(wrong("INCR a").contains("unknown command 'INCR': this server knows GET SET"));
        assert!(wrong("\r\n+OK").contains("'??+OK'"));
        assert!(wrong("").contains("unknown"));
    }
}
