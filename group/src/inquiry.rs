//! Questions of a change of epoch to hosts, as requests of the control plane.

use std::time::Duration;

use weft_rnic::Device;

use crate::contact::Asking;
use crate::control::{Answer, Copying, Named, Request, Seal};
use crate::epoch::change::{Ask, Reply};
use crate::key::Key;
use crate::membership::record::Host;
use crate::session::SessionError;

/// A question to a host, while it is asked. It is a state machine that is polled, and has no clock.
#[derive(Debug)]
pub struct Inquiry {
    /// The error is the outcome if it could not be asked.
    asking: Result<Asking, Replied>,
}

/// A reply, and the reason in words if a host does not answer as it should: after [`Reply::SourceLost`] the source, else the
/// host that was asked.
pub type Replied = (Reply, Option<String>);

impl Inquiry {
    /// Begins to ask what a change of epoch has asked. Questions to the register get no answer here.
    pub fn new(device: &Device, key: Option<&Key>, ask: &Ask<'_>) -> Self {
        let asking = match request(ask) {
            Some(Ok((host, request))) => {
                let address = host.address().map_err(SessionError::Refused);
                let asking = address.and_then(|address| Asking::new(device, address, key, request));
                asking.map_err(|error| (Reply::Silent, Some(error.to_string())))
            }
            Some(Err(reason)) => Err((Reply::SourceLost, Some(reason))),
            None => Err((Reply::Silent, None)),
        };
        Self { asking }
    }

    /// Returns the reply once it is there. It is not to be called again after that.
    pub fn poll(&mut self) -> Option<Replied> {
        Some(match &mut self.asking {
            Ok(asking) => reply(asking.poll()?),
            Err(replied) => replied.clone(),
        })
    }

    /// Asks how far the host is, unless an answer to that is missing.
    pub fn look(&mut self) {
        let Ok(asking) = &mut self.asking else { return };
        if let Err(error) = asking.look() {
            self.asking = Err((Reply::Silent, Some(error.to_string())));
        }
    }

    /// Returns how much is done, in parts of how much, if the host has told it.
    pub fn progress(&self) -> Option<[u64; 2]> {
        self.asking.as_ref().ok().and_then(Asking::progress)
    }

    /// Sleeps until there may be something to poll for. Returns false if there was nothing for so long.
    pub(crate) fn wait(&mut self, left: Duration) -> bool {
        self.asking.as_mut().is_ok_and(|asking| asking.wait(left))
    }
}

/// Returns whom to ask, and what; nothing for questions to the register. The error says why there is no way to a source.
fn request<'a>(ask: &Ask<'a>) -> Option<Result<(&'a Host, Request), String>> {
    let request = match *ask {
        Ask::Read | Ask::Swap { .. } => return None,
        Ask::Seal { epoch, base, .. } => Request::Seal(Seal { epoch, base }),
        Ask::Copy { to_incarnation, from, from_incarnation, epoch, .. } => {
            let to = Named { epoch, incarnation: to_incarnation };
            match from.address() {
                Ok(from) => Request::Copy(Copying { to, from, from_incarnation }),
                Err(reason) => return Some(Err(reason)),
            }
        }
        Ask::Flush { incarnation, epoch, .. } => Request::Flush(Named { epoch, incarnation }),
        Ask::Finish { incarnation, epoch, .. } => Request::Finish(Named { epoch, incarnation }),
    };
    Some(Ok((ask.host()?, request)))
}

fn reply(answer: Result<Answer, SessionError>) -> Replied {
    match answer {
        Ok(Answer::Sealed(sealed)) => (Reply::Sealed(sealed), None),
        Ok(Answer::Done) => (Reply::Done, None),
        Ok(Answer::SourceLost(reason)) => (Reply::SourceLost, Some(reason)),
        Ok(Answer::Denied(refusal)) => (Reply::Refused(refusal), None),
        Ok(_) => (Reply::Silent, Some("it has answered something else than was asked".into())),
        Err(error) => (Reply::Silent, Some(error.to_string())),
    }
}
