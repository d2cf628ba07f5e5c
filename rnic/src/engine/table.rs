//! The connections of an engine.

use weft_netif::ConnectionId;

use crate::connection::state::Connection;

/// Connections by the places that the stack has given them: every turn begins here, so that there is no hash to be
/// made.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    places: Vec<Option<Box<Connection>>>,
}

impl Connections {
    /// Takes a connection in. The stack has only one at a place.
    pub(crate) fn insert(&mut self, connection: Connection) {
        let place = connection.llp.index();
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place] = Some(Box::new(connection));
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        self.places.get_mut(id.index())?.take_if(|connection| connection.llp == id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.places.get_mut(id.index())?.as_deref_mut().filter(|connection| connection.llp == id)
    }

    #[inline]
    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.places.get(id.index())?.as_deref().filter(|connection| connection.llp == id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Connection> {
        self.places.iter().filter_map(Option::as_deref)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.places.iter_mut().filter_map(Option::as_deref_mut)
    }
}
