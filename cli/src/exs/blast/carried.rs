//! What differs between messages and a stream.

use weft_exs::{Buf, Error, Kind, Messages, Op, Outcome, Socket, Stream};

/// A transfer under way.
pub(super) type Transfer = Op<(Result<Outcome, Error>, Buf)>;

/// What a socket carries.
pub(super) trait Carried: Kind + Sized {
    /// Receives into a whole buffer; of a stream, with `waits_for_all`, until it is full.
    fn receive(socket: &Socket<Self>, buf: Buf, waits_for_all: bool) -> Transfer;
}

impl Carried for Messages {
    fn receive(socket: &Socket<Self>, buf: Buf, _: bool) -> Transfer {
        socket.recv(buf, ..)
    }
}

impl Carried for Stream {
    fn receive(socket: &Socket<Self>, buf: Buf, waits_for_all: bool) -> Transfer {
        if waits_for_all { socket.recv_all(buf, ..) } else { socket.recv(buf, ..) }
    }
}
