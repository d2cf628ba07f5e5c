//! Binds, connects and accepts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use weft_cm::{Cm, ConnParam, EventKind, Id};
use weft_rnic::Device;

use super::hello::Hello;
use super::link::Link;
use super::socket::{CoreGuard, Patience, Socket};
use super::state::{Core, Phase};
use crate::errno::cm_errno;

impl Socket {
    /// # Errors
    /// Those of [`Id::bind`].
    pub(crate) fn bind(&self, local: SocketAddr) -> Result<(), Errno> {
        let mut core = self.lock();
        core.id.bind(local).map_err(cm_errno)?;
        core.phase = Phase::Bound;
        Ok(())
    }

    /// # Errors
    /// Those of [`Id::listen`].
    pub(crate) fn listen(&self, backlog: usize) -> Result<(), Errno> {
        let mut core = self.lock();
        if core.phase != Phase::Listening {
            core.id.listen(backlog).map_err(cm_errno)?;
            core.phase = Phase::Listening;
        }
        Ok(())
    }

    /// Connects. Without O_NONBLOCK it blocks until the answer.
    ///
    /// # Errors
    /// `EINPROGRESS` while there is no answer, `EALREADY` for a second call, `EISCONN`; `ECONNREFUSED` and others of
    /// [`weft_cm::Id::connect`].
    pub(crate) fn connect(&self, device: &Device, peer: SocketAddr) -> Result<(), Errno> {
        let mut core = self.lock();
        let patience = self.patience(true);
        match core.phase {
            Phase::Fresh | Phase::Bound => {
                let begun = self.begin(device, &mut core, peer);
                begun.inspect_err(|&errno| {
                    core.fail(errno);
                    core.error = None;
                })?;
                core.phase = Phase::Connecting;
            }
            Phase::Connecting | Phase::Accepting if patience == Patience::None => {
                self.advance(&mut core);
                if core.phase.has_news() {
                    return Err(Errno::ALREADY);
                }
            }
            Phase::Connecting | Phase::Accepting => {}
            Phase::Connected => return Err(Errno::ISCONN),
            Phase::Listening | Phase::Over => return Err(core.error.take().unwrap_or(Errno::INVAL)),
        }
        match self.settle(core, patience) {
            Ok(mut core) => core.link().map(drop),
            Err(Errno::AGAIN) => Err(Errno::INPROGRESS),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the socket of the next connection. The peer may still have to answer; the first octet waits for that.
    ///
    /// # Errors
    /// `EINVAL` for a socket that does not listen, `EAGAIN`, `EINTR`; those of [`Link::create`].
    pub(crate) fn accept(&self, device: &Device, cm: &Cm) -> Result<Arc<Self>, Errno> {
        loop {
            let mut core = self.lock();
            if core.phase != Phase::Listening {
                return Err(Errno::INVAL);
            }
            let patience = self.patience(true);
            core = self.wait(core, patience, |core| !core.requests.is_empty())?;
            let Some((id, hello)) = core.requests.pop_front() else { continue };
            let options = core.options;
            drop(core);
            let events = cm.create_event_channel().map_err(cm_errno)?;
            id.migrate(Some(&events)).map_err(cm_errno)?;
            let socket = Self::around(device, (events, id), self.is_v6())?;
            let mut core = socket.lock();
            core.options = options;
            let answered = socket.answer(device, &mut core, &hello);
            drop(core);
            match answered {
                Ok(()) => return Ok(socket),
                // The peer has gone meanwhile.
                Err(Errno::CONNRESET) => socket.close(),
                Err(errno) => {
                    socket.close();
                    return Err(errno);
                }
            }
        }
    }

    /// Blocks until the connection is established or has failed.
    ///
    /// # Errors
    /// Those of [`Socket::wait`].
    pub(super) fn settle<'a>(
        &'a self,
        core: CoreGuard<'a>,
        patience: Patience,
    ) -> Result<CoreGuard<'a>, Errno> {
        if matches!(core.phase, Phase::Connecting | Phase::Accepting) {
            let settled = |core: &mut Core| !matches!(core.phase, Phase::Connecting | Phase::Accepting);
            return self.wait(core, patience, settled);
        }
        Ok(core)
    }

    fn begin(&self, device: &Device, core: &mut Core, peer: SocketAddr) -> Result<(), Errno> {
        core.id.resolve_addr(None, peer, PATIENCE).map_err(cm_errno)?;
        self.expect(EventKind::AddrResolved)?;
        core.id.resolve_route(PATIENCE).map_err(cm_errno)?;
        self.expect(EventKind::RouteResolved)?;
        let hello = self.make_link(device, core)?.hello().octets();
        connect_or_accept(core, Id::connect, &hello)
    }

    fn answer(&self, device: &Device, core: &mut Core, peer: &Hello) -> Result<(), Errno> {
        let link = self.make_link(device, core)?;
        link.establish(peer);
        let hello = link.hello().octets();
        connect_or_accept(core, Id::accept, &hello)?;
        core.phase = Phase::Accepting;
        Ok(())
    }

    fn make_link<'a>(&self, device: &Device, core: &'a mut Core) -> Result<&'a mut Link, Errno> {
        let link = Link::create(device, &self.channel, core.options.sizes)?;
        core.id.attach_qp(Arc::clone(&link.qp)).map_err(cm_errno)?;
        Ok(core.link.insert(link))
    }

    /// Takes the event of a step that completes at once.
    fn expect(&self, wanted: EventKind) -> Result<(), Errno> {
        match self.events().next() {
            Some(event) if event.kind() == wanted => Ok(()),
            Some(event) => Err(event.error().unwrap_or(Errno::NETUNREACH)),
            None => Err(Errno::NETUNREACH),
        }
    }
}

fn connect_or_accept(
    core: &Core,
    act: impl FnOnce(&Id, &ConnParam<'_>) -> Result<(), weft_cm::Error>,
    private_data: &[u8],
) -> Result<(), Errno> {
    act(&core.id, &ConnParam { private_data, ..ConnParam::default() }).map_err(cm_errno)
}

const PATIENCE: Duration = Duration::ZERO;
