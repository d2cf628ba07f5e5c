//! What happens in a world.

use std::vec::Vec;

use super::broken::Broken;

/// What happens in a world.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) ring: u32,
    /// What stands for a quarter of the ring.
    pub(super) ring_part: u32,
    pub(super) adverts: usize,
    /// Receives of at most so many octets are not advertised without need.
    pub(super) small: u32,
    pub(super) inline_max: u32,
    pub(super) direct_min: u32,
    /// Octets of each send.
    pub(super) sends: Vec<u32>,
    /// Octets of each receive, and whether it waits for all.
    pub(super) receives: Vec<(u32, bool)>,
    /// How many receives may be canceled.
    pub(super) cancels: u8,
    /// How many sends may be canceled.
    pub(super) send_cancels: u8,
    /// The sender says that nothing follows its sends.
    pub(super) shuts_down: bool,
    /// The receiver may say that it reads no more.
    pub(super) shuts_read: bool,
    /// DATA leaves for TCP some time after it was posted.
    pub(super) leaves_late: bool,
    pub(super) broken: Option<Broken>,
}

impl Plan {
    /// A ring of so many octets, of which one DATA takes at most `part`, and no sends and receives.
    pub(super) const fn new(ring: u32, ring_part: u32) -> Self {
        Self {
            ring,
            ring_part,
            adverts: 2,
            small: 0,
            inline_max: 0,
            direct_min: 1,
            sends: Vec::new(),
            receives: Vec::new(),
            cancels: 0,
            send_cancels: 0,
            shuts_down: true,
            shuts_read: false,
            leaves_late: false,
            broken: None,
        }
    }

    pub(super) fn with(self, sends: &[u32], receives: &[(u32, bool)]) -> Self {
        Self { sends: sends.to_vec(), receives: receives.to_vec(), ..self }
    }

    pub(super) fn is_broken(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}
