//! A handle that looks at a device without keeping it open.

use std::sync::{Arc, Weak};

use crate::drive::Engines;
use crate::objects::device::Device;

/// A handle that does not keep the device open. A server of the device's state has one.
#[derive(Clone, Debug)]
pub struct Watcher {
    engines: Weak<Engines>,
}

impl Device {
    /// A handle that does not keep the device open.
    pub fn watcher(&self) -> Watcher {
        Watcher { engines: Arc::downgrade(&self.engines) }
    }
}

impl Watcher {
    /// The device, unless its last handle is gone. Drop it soon: its engines stay as long as it lives, but no thread
    /// drives them.
    pub fn device(&self) -> Option<Device> {
        self.engines.upgrade().map(Device::without_drivers)
    }
}
