//! The daemons of two hosts. They follow the real one: its own tests show that it has the same steps.

mod channel;
mod contact;
mod host;
mod late;
mod letters;

use std::rc::Rc;

use super::world::World;
use host::Host;

/// Begins the daemons of both hosts.
pub(crate) fn begin(world: &Rc<World>) {
    (0..2).for_each(|number| begin_one(world, number));
}

/// Begins the daemon of a host.
pub(crate) fn begin_one(world: &Rc<World>, number: usize) {
    let epoch = world.services[number].borrow().epoch;
    let host = Host::new(world, number, epoch);
    world.begin(&host.process(), move || host.run());
}
