//! Connection events, sorted: requests of further clients wait until the present one has been served.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use weft_rnic::{CmEvent, ConnectRequest, EventChannel};

/// The event channel of a device whose connections are handled one at a time. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    pub(crate) channel: EventChannel,
    requests: Rc<RefCell<VecDeque<ConnectRequest>>>,
}

impl Events {
    pub(crate) fn new(channel: EventChannel) -> Self {
        Self { channel, requests: Rc::default() }
    }

    /// The next client, however long it takes to come. What is left of the one before is thrown away.
    pub(crate) fn next_request(&self) -> ConnectRequest {
        while let Some(event) = self.channel.next() {
            let _of_a_former_client = self.sort(event);
        }
        loop {
            if let Some(request) = self.requests.borrow_mut().pop_front() {
                return request;
            }
            let _of_a_former_client = self.channel.wait(None).and_then(|event| self.sort(event));
        }
    }

    /// The next event of the present connection; `None` when there is none in time.
    pub(crate) fn next(&self, timeout: Option<Duration>) -> Option<CmEvent> {
        loop {
            if let Some(event) = self.sort(self.channel.wait(timeout)?) {
                return Some(event);
            }
        }
    }

    /// Puts a request aside.
    fn sort(&self, event: CmEvent) -> Option<CmEvent> {
        match event {
            CmEvent::ConnectRequest(request) => {
                self.requests.borrow_mut().push_back(request);
                None
            }
            other => Some(other),
        }
    }
}
