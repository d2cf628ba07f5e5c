//! Commands on a database: those that came together are one transaction.

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame as _};
use weft_group::{Group, Mirror, MirrorError, SessionError};

use crate::backend::RedbBackend;
use crate::command::{COUNT, Command};

/// A database on a group.
#[derive(Debug)]
pub struct Store<G> {
    backend: RedbBackend<G>,
    /// `None` while it is opened anew.
    database: Option<Database>,
}

/// Why a store fails.
#[derive(Debug)]
pub enum StoreError {
    /// The database has no room for what is to be stored. Nothing has changed.
    Full,
    /// The session with the group is over. What was to be stored may be stored or not.
    Session(SessionError),
    /// The group holds something else than a database, or the database does not understand what it holds.
    Database(Box<redb::Error>),
}

impl<G: Group + core::fmt::Debug + Send + 'static> Store<G> {
    /// Opens the database in a mirror. An empty mirror becomes an empty database.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(mirror: Mirror<G>) -> Result<Self, StoreError> {
        let mut store = Self { backend: RedbBackend::new(mirror), database: None };
        store.reopen()?;
        Ok(store)
    }

    /// Carries out commands, in one transaction, and returns their answers. If these become long it stops behind a command, and
    /// the caller comes again with those that have no answer. The answers tell what no failure takes back, and nothing
    /// that is out of date because this client was cut off from the group.
    ///
    /// # Errors
    /// [`StoreError`]. After [`StoreError::Full`] the store can be used.
    pub fn execute(&mut self, commands: &[Command]) -> Result<Vec<OwnedFrame>, StoreError> {
        match self.attempt(commands) {
            Ok(answers) => Ok(answers),
            Err(error) => {
                let error = self.why(error);
                if matches!(error, StoreError::Full) {
                    self.reopen()?;
                }
                Err(error)
            }
        }
    }

    /// Has the database check itself. Returns true if all was well.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn check_integrity(&mut self) -> Result<bool, StoreError> {
        let Some(database) = &mut self.database else { return Ok(false) };
        database.check_integrity().map_err(|error| self.why(error.into()))
    }

    /// Opens the database in what the mirror holds, as after a crash: a database that could not write is of no use.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.database = None;
        self.backend.take_error();
        // A database that a crash leaves half made cannot be opened. All of it comes to the group at once, with the length,
        // which is zero until then.
        if self.backend.size().0 == 0 {
            self.backend.hold();
        }
        // The mirror is in memory already.
        let opened = Database::builder()
            .set_cache_size(CACHE)
            .create_with_backend(self.backend.clone())
            .map_err(redb::Error::from);
        let made = opened.and_then(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_quick_repair(true);
            transaction.open_table(TABLE)?;
            transaction.commit()?;
            self.backend.release()?;
            Ok(database)
        });
        self.database = Some(made.map_err(|error| self.why(error))?);
        Ok(())
    }

    fn attempt(&self, commands: &[Command]) -> Result<Vec<OwnedFrame>, redb::Error> {
        let Some(database) = &self.database else { return Err(redb::Error::DatabaseClosed) };
        let confirm = || {
            let error = |error| redb::Error::Io(std::io::Error::other(error));
            self.backend.confirm().map_err(|cause: MirrorError| error(cause))
        };
        if commands.iter().any(Command::is_write) {
            let mut transaction = database.begin_write()?;
            transaction.set_quick_repair(true);
            let (answers, is_changed) = {
                let mut table = transaction.open_table(TABLE)?;
                let mut is_changed = false;
                let answers = gather(commands, |command| self.write(&mut table, command, &mut is_changed))?;
                (answers, is_changed)
            };
            if is_changed {
                transaction.commit()?;
            } else {
                transaction.abort()?;
                confirm()?;
            }
            return Ok(answers);
        }
        if !commands.iter().any(Command::is_read) {
            return Ok(commands.iter().map(answer).collect());
        }
        let transaction = database.begin_read()?;
        let table = transaction.open_table(TABLE)?;
        let answers = gather(commands, |command| self.read(&table, command));
        confirm()?;
        answers
    }

    fn write(
        &self,
        table: &mut Table<'_, &'static [u8], &'static [u8]>,
        command: &Command,
        is_changed: &mut bool,
    ) -> Result<OwnedFrame, redb::Error> {
        *is_changed |= matches!(command, Command::Set(..) | Command::MSet(_));
        match command {
            Command::Set(key, value) => {
                table.insert(&key[..], &value[..])?;
                Ok(ok())
            }
            Command::MSet(pairs) => {
                for (key, value) in pairs {
                    table.insert(&key[..], &value[..])?;
                }
                Ok(ok())
            }
            Command::Del(keys) => {
                let mut count = 0;
                for key in keys {
                    count += i64::from(table.remove(&key[..])?.is_some());
                }
                *is_changed |= count > 0;
                Ok(OwnedFrame::Integer(count))
            }
            _ => self.read(table, command),
        }
    }

    fn read(
        &self,
        table: &impl ReadableTable<&'static [u8], &'static [u8]>,
        command: &Command,
    ) -> Result<OwnedFrame, redb::Error> {
        let value = |key: &Vec<u8>| -> Result<OwnedFrame, redb::Error> {
            let value = table.get(&key[..])?;
            Ok(value.map_or(OwnedFrame::Null, |value| OwnedFrame::BulkString(value.value().to_vec())))
        };
        match command {
            Command::Get(key) => value(key),
            Command::MGet(keys) => {
                let (mut values, mut left) = (Vec::new(), MAX_ANSWER);
                for key in keys {
                    let value = value(key)?;
                    let Some(rest) = left.checked_sub(value.encode_len(false)) else {
                        let error = "ERR the values are longer than an answer may be (512 MiB)";
                        return Ok(OwnedFrame::Error(error.into()));
                    };
                    left = rest;
                    values.push(value);
                }
                Ok(OwnedFrame::Array(values))
            }
            Command::Exists(keys) => {
                let mut count = 0;
                for key in keys {
                    count += i64::from(table.get(&key[..])?.is_some());
                }
                Ok(OwnedFrame::Integer(count))
            }
            Command::DbSize => Ok(OwnedFrame::Integer(i64::try_from(table.len()?).unwrap_or(i64::MAX))),
            Command::Info => {
                let ((used, capacity), keys) = (self.backend.size(), table.len()?);
                let version = env!("CARGO_PKG_VERSION");
                let text = format!(
                    "# Server\r\nweft_group_kv_version:{version}\r\n# Memory\r\nstorage_octets:{used}\r\n\
                     storage_capacity:{capacity}\r\n# Keyspace\r\ndb0:keys={keys},expires=0,avg_ttl=0\r\n"
                );
                Ok(OwnedFrame::BulkString(text.into_bytes()))
            }
            _ => Ok(answer(command)),
        }
    }

    fn why(&self, error: redb::Error) -> StoreError {
        let io = match &error {
            redb::Error::Io(error) => {
                error.get_ref().and_then(|cause| cause.downcast_ref::<MirrorError>()).cloned()
            }
            _ => None,
        };
        match self.backend.take_error().or(io) {
            Some(MirrorError::Session(error)) => StoreError::Session(error),
            Some(MirrorError::StorageFull) => StoreError::Full,
            _ => StoreError::Database(Box::new(error)),
        }
    }
}

/// Returns the answers to commands, and stops behind the one that makes them longer than [`LONG`].
fn gather(
    commands: &[Command],
    mut each: impl FnMut(&Command) -> Result<OwnedFrame, redb::Error>,
) -> Result<Vec<OwnedFrame>, redb::Error> {
    let (mut answers, mut len) = (Vec::with_capacity(commands.len()), 0);
    for command in commands {
        let answer = each(command)?;
        len += answer.encode_len(false);
        answers.push(answer);
        if len > LONG {
            break;
        }
    }
    Ok(answers)
}

fn ok() -> OwnedFrame {
    OwnedFrame::SimpleString(b"OK".to_vec())
}

/// Answers a command that needs no database.
fn answer(command: &Command) -> OwnedFrame {
    match command {
        Command::Ping(None) => OwnedFrame::SimpleString(b"PONG".to_vec()),
        Command::Ping(Some(message)) => OwnedFrame::BulkString(message.clone()),
        Command::ConfigGet(names) => {
            let is_asked = |name: &str| {
                names.iter().any(|asked| asked == b"*" || asked.eq_ignore_ascii_case(name.as_bytes()))
            };
            let asked = PARAMETERS.iter().filter(|(name, _)| is_asked(name));
            let words = asked.flat_map(|(name, value)| [name, value]);
            OwnedFrame::Array(words.map(|word| OwnedFrame::BulkString(word.as_bytes().to_vec())).collect())
        }
        Command::CommandCount => OwnedFrame::Integer(COUNT),
        Command::Wrong(why) => OwnedFrame::Error(why.clone()),
        _ => OwnedFrame::Array(Vec::new()),
    }
}

impl core::fmt::Display for StoreError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Full => f.write_str("the group's range has no room for this"),
            Self::Session(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StoreError {}

const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("resp");
/// Octets that the database keeps in memory beside the mirror.
const CACHE: usize = 64 << 20;
/// Octets of answers of one transaction, from where on no more commands are carried out in it.
const LONG: usize = 16 << 20;
/// Octets of one answer, as Redis has it for a value.
const MAX_ANSWER: usize = 512 << 20;
/// What programs ask a server for before they use it.
const PARAMETERS: [(&str, &str); 2] = [("save", ""), ("appendonly", "yes")];
