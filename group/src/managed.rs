//! A client that goes on when members fail: it changes the epoch, and opens another session.

use std::sync::Arc;

use weft_rnic::Device;

use crate::coordinator::{Coordinator, Report};
use crate::epoch::change::ChangeError;
use crate::group::Group;
use crate::membership::record::Record;
use crate::membership::{Membership, RepairError, Wish};
use crate::message::Originals;
use crate::op::Op;
use crate::opening::Options;
use crate::session::{OpId, Session, SessionError, Terms};

/// A session that is replaced by another one, in a newer epoch, when members fail.
///
/// It goes on only if nobody else has used the group since its own epoch. So it is for the one client that a group has at a
/// time: a [`Mirror`](crate::Mirror) or a [`TxLog`](crate::TxLog) on it repeats what was under way. Clients that share
/// memory under [locks](crate::Lock) use plain sessions, since a change of epoch frees their locks.
pub struct Managed {
    device: Device,
    membership: Box<dyn Membership + Send>,
    options: Options,
    record: Arc<Record>,
    session: Session,
    witness: Option<Witness>,
}

/// Hears of each record with which a client goes on.
type Witness = Box<dyn FnMut(&Record) + Send>;

impl Managed {
    /// Begins a new epoch, which ends all other sessions, and opens a session in it. With `from` it does that only if the
    /// group is in that epoch.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn take(
        device: &Device,
        membership: Box<dyn Membership + Send>,
        options: Options,
        from: Option<u64>,
    ) -> Result<Self, SessionError> {
        let (record, session) = begin(device, &*membership, &options, from)?;
        Ok(Self { device: device.clone(), membership, options, record, session, witness: None })
    }

    /// Has `witness` hear of each record with which it goes on, when members have failed.
    #[must_use]
    pub fn with_witness(self, witness: impl FnMut(&Record) + Send + 'static) -> Self {
        Self { witness: Some(Box::new(witness)), ..self }
    }

    /// Returns the record of the epoch in which it works.
    pub fn record(&self) -> &Record {
        &self.record
    }
}

/// Begins an epoch and opens a session in it. If that does not open another member has failed meanwhile.
fn begin(
    device: &Device,
    membership: &dyn Membership,
    options: &Options,
    mut from: Option<u64>,
) -> Result<(Arc<Record>, Session), SessionError> {
    let coordinator = Coordinator::new(device, membership, options);
    let mut tries = 0;
    loop {
        let mut silent = String::new();
        let record = coordinator.change(Wish { from, is_from_storage: false }, |report| {
            if let Report::Silent(host, reason) = report {
                silent = format!("{}: {reason}", host.addr);
            }
        });
        let record = record.map_err(|error| match error {
            RepairError::Change(ChangeError::Overtaken) => overtaken(&coordinator, from),
            error if silent.is_empty() => SessionError::Refused(error.to_string()),
            error => SessionError::Refused(format!("{error}; {silent}")),
        })?;
        match coordinator.open(&record) {
            Ok(session) => return Ok((record, session)),
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => (from, tries) = (Some(record.epoch), tries + 1),
        }
    }
}

/// Returns why a change was not made: a newer epoch has begun, or other coordinators were always faster.
fn overtaken(coordinator: &Coordinator<'_>, from: Option<u64>) -> SessionError {
    match coordinator.record() {
        Ok(record) if from.is_some_and(|from| from != record.epoch) => {
            SessionError::Sealed { epoch: record.epoch }
        }
        Ok(_) => SessionError::Refused(ChangeError::Overtaken.to_string()),
        Err(error) => SessionError::Refused(error.to_string()),
    }
}

impl Group for Managed {
    fn terms(&self) -> Terms {
        self.session.terms()
    }

    fn replicas(&self) -> usize {
        self.session.replicas()
    }

    fn submit(&mut self, op: &Op, octets: &[u8]) -> Result<OpId, SessionError> {
        self.session.submit(op, octets)
    }

    fn wait(&mut self, id: OpId) -> Result<Originals, SessionError> {
        self.session.wait(id)
    }

    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), SessionError> {
        Group::read(&mut self.session, at, out)
    }

    fn recover(&mut self, error: SessionError) -> Result<(), SessionError> {
        let error = self.session.why_over().unwrap_or(error);
        if !matches!(error, SessionError::Lost(_) | SessionError::TimedOut) {
            return Err(error);
        }
        let from = Some(self.record.epoch);
        (self.record, self.session) = begin(&self.device, &*self.membership, &self.options, from)?;
        if let Some(witness) = &mut self.witness {
            witness(&self.record);
        }
        Ok(())
    }
}

/// How many more members may fail while a session is opened.
const TRIES: usize = 3;

impl core::fmt::Debug for Managed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Managed").field("record", &self.record).finish_non_exhaustive()
    }
}
