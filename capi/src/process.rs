//! The state of this process: the device, and the objects by their names.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use rustix::io::Errno;
use weft_cm::Cm;
use weft_rnic::{CqId, Device, SrqId};

use crate::abi;
use crate::addrinfo::AddrInfo;
use crate::channel::CompChannel;
use crate::cm::{CmEvent, EventChannel, Id};
use crate::context::Context;
use crate::cq::Cq;
use crate::device::Limits;
use crate::exs::Tables;
use crate::gid::Gids;
use crate::handles::{Handles, Lists};
use crate::mr::Mr;
use crate::mw::Mw;
use crate::opened::Opened;
use crate::pd::Pd;
use crate::qp::Qp;
use crate::raw::Blocked;
use crate::roce::Roce;
use crate::rsocket::Socket;
use crate::settings::Settings;
use crate::srq::Srq;
use crate::tally::Tally;

/// Lives as long as the process. A child after `fork` begins with a new one.
#[derive(Debug, Default)]
pub(crate) struct Process {
    opened: OnceLock<Result<Opened, Errno>>,
    pub(crate) device_lists: Lists<[*mut abi::Device; 2]>,
    pub(crate) context_lists: Lists<[*mut abi::Context; 2]>,
    pub(crate) cm: Cm,
    /// The context and the domain of connection management.
    pub(crate) cm_context: OnceLock<(Arc<Context>, Arc<Pd>)>,
    pub(crate) contexts: Handles<usize, Context>,
    pub(crate) pds: Handles<usize, Pd>,
    pub(crate) mrs: Handles<usize, Mr>,
    pub(crate) mws: Handles<usize, Mw>,
    pub(crate) channels: Handles<usize, CompChannel>,
    pub(crate) cqs: Handles<usize, Cq>,
    pub(crate) cq_ids: Handles<CqId, Cq>,
    pub(crate) srqs: Handles<usize, Srq>,
    pub(crate) srq_ids: Handles<SrqId, Srq>,
    pub(crate) qps: Handles<usize, Qp>,
    pub(crate) qp_numbers: Handles<u32, Qp>,
    pub(crate) event_channels: Handles<usize, EventChannel>,
    pub(crate) ids: Handles<usize, Id>,
    pub(crate) id_numbers: Handles<u64, Id>,
    pub(crate) cm_events: Handles<usize, CmEvent>,
    pub(crate) addr_infos: Handles<usize, AddrInfo>,
    pub(crate) rsockets: Handles<i32, Socket>,
    pub(crate) exs: Tables,
    pub(crate) tally: Tally,
}

impl Process {
    /// Returns the device. The first call opens it.
    ///
    /// # Errors
    /// The error of the first call, which also wrote the reason to standard error.
    pub(crate) fn device(&self) -> Result<&Device, Errno> {
        self.opened().map(|opened| &opened.device)
    }

    pub(crate) fn settings(&self) -> Result<&Settings, Errno> {
        self.opened().map(|opened| &opened.settings)
    }

    pub(crate) fn limits(&self) -> Result<&Limits, Errno> {
        self.opened().map(|opened| &opened.limits)
    }

    pub(crate) fn gids(&self) -> Result<&Gids, Errno> {
        self.opened().map(|opened| &opened.gids)
    }

    /// Returns the state of the second personality; none in the first.
    pub(crate) fn roce(&self) -> Result<Option<&Roce>, Errno> {
        self.opened().map(|opened| opened.roce.as_ref())
    }

    /// Closes the sockets of EXS, and the connections whose TCP ends with this process, so that their peers get what
    /// was sent and learn of the end. The system closes connections of its own TCP. Returns after four times
    /// [`FAREWELL`] at the latest, even if the program ends within a call that holds locks.
    pub(crate) fn say_farewell(&'static self) {
        let Some(Ok(opened)) = self.opened.get() else { return };
        // With RoCE programs end without having disconnected: the last Sends may not have arrived yet.
        let shuts_down =
            !opened.settings.network.is_host() || opened.roce.as_ref().is_some_and(Roce::has_met);
        let context = self.exs.context_so_far();
        if !shuts_down && context.is_none() {
            return;
        }
        let (done, is_done) = mpsc::channel();
        let blocked = Blocked::begin();
        let thread = std::thread::Builder::new().name("weft-farewell".into()).spawn(move || {
            if let Some(context) = context {
                context.close_all(FAREWELL * 2);
            }
            if shuts_down {
                opened.device.shutdown(FAREWELL);
            }
            // The receiver is gone if the time is over.
            let _late = done.send(());
        });
        drop(blocked);
        if thread.is_ok() {
            let _late = is_done.recv_timeout(FAREWELL * 4);
        }
    }

    /// Returns a line for each object that the program made and did not destroy, for a trace.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let kinds = [
            ("context", self.contexts.left()),
            ("pd", self.pds.left()),
            ("mr", self.mrs.left()),
            ("mw", self.mws.left()),
            ("comp channel", self.channels.left()),
            ("cq", self.cqs.left()),
            ("srq", self.srqs.left()),
            ("qp", self.qps.left()),
            ("event channel", self.event_channels.left()),
            ("id", self.ids.left()),
            ("event", self.cm_events.left()),
            ("addrinfo", self.addr_infos.left()),
        ];
        // The library made these two itself.
        let own = self.cm_context.get().map(|(context, pd)| [context.handle().addr(), pd.handle().addr()]);
        let own = own.unwrap_or_default();
        let lines = kinds.into_iter().flat_map(|(kind, left)| left.into_iter().map(move |one| (kind, one)));
        let lines = lines.filter(|(_, (address, _))| !own.contains(address));
        let lines = lines.map(|(kind, (address, origin))| {
            let origin = origin.map_or_else(String::new, |origin| format!(", made {origin}"));
            format!("left: {kind} {address:#x}{origin}")
        });
        let mut lines: Vec<_> = lines.collect();
        lines.push(format!("objects left: {}", lines.len()));
        lines
    }

    fn opened(&self) -> Result<&Opened, Errno> {
        let opened = self.opened.get_or_init(|| {
            let opened = Opened::by_environment(&self.exs.watcher)?;
            self.cm.add(&opened.device);
            self.cm.set_connect_repeats(CONNECT_REPEATS, CONNECT_PAUSE);
            Ok(opened)
        });
        opened.as_ref().map_err(|&errno| errno)
    }
}

/// perftest has one listener for its settings and then another for its test. Its client may connect between the two.
const CONNECT_REPEATS: u32 = 200;
const CONNECT_PAUSE: Duration = Duration::from_millis(1);
/// Several round trips. Connections that are left then are reset.
const FAREWELL: Duration = Duration::from_millis(500);
