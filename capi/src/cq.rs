//! Completion queues.

use core::ffi::c_void;
use core::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use weft_rnic::{Completion, CqInit};

use crate::abi;
use crate::acks::Acks;
use crate::channel::CompChannel;
use crate::context::Context;
use crate::errno::errno;
use crate::raw::Visible;
use crate::roce::Numbers;

/// The object behind `ibv_create_cq` and `ibv_create_cq_ex`.
#[derive(Debug)]
pub(crate) struct Cq {
    visible: Visible<abi::CqEx>,
    pub(crate) cq: weft_rnic::Cq,
    context: Arc<Context>,
    channel: Option<(Arc<CompChannel>, Arc<()>)>,
    /// Counts completion events; `events` counts asynchronous ones.
    pub(crate) completions: Acks,
    pub(crate) events: Acks,
    /// Each queue pair of the queue holds a copy.
    pub(crate) users: Arc<()>,
    /// Set when the queue is being destroyed. From then on no event of it is delivered.
    is_closing: AtomicBool,
    /// The numbers by which completions name queue pairs, in the second personality.
    numbers: Option<Arc<Numbers>>,
    /// The completion that the program reads by functions, if the queue is polled that way.
    current: Mutex<Option<Completion>>,
}

/// The arguments of `ibv_create_cq` and `ibv_create_cq_ex`.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) entries: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: Option<Arc<CompChannel>>,
    pub(crate) comp_vector: usize,
    pub(crate) ignore_overrun: bool,
}

impl Cq {
    /// # Errors
    /// `EINVAL` for no entries or too many, `ENOMEM` if there are too many queues.
    pub(crate) fn new(
        context: &Arc<Context>,
        request: Request,
        numbers: Option<Arc<Numbers>>,
    ) -> Result<Arc<Self>, Errno> {
        let Request { entries, cq_context, channel, comp_vector, ignore_overrun } = request;
        if entries == 0 {
            return Err(Errno::INVAL);
        }
        let init = CqInit {
            channel: channel.as_ref().map(|channel| &channel.channel),
            comp_vector,
            ignore_overrun,
            ..CqInit::new(entries)
        };
        let cq = context.device.create_cq_with(&init).map_err(|error| errno(error.errno()))?;
        let mut functions = (context.functions.cq)();
        functions.base.context = context.handle();
        functions.base.channel = channel.as_ref().map_or(core::ptr::null_mut(), |channel| channel.handle());
        functions.base.cq_context = cq_context;
        functions.base.handle = cq.number();
        functions.base.cqe = capacity(&cq);
        let channel = channel.map(|channel| {
            let use_ = Arc::clone(&channel.users);
            (channel, use_)
        });
        Ok(Arc::new(Self {
            visible: Visible::new(functions),
            cq,
            context: Arc::clone(context),
            channel,
            completions: Acks::default(),
            events: Acks::default(),
            users: Arc::default(),
            is_closing: AtomicBool::new(false),
            numbers,
            current: Mutex::default(),
        }))
    }

    /// Stops the delivery of events, and blocks until all events are acknowledged.
    ///
    /// # Errors
    /// `EBUSY` while a queue pair uses the queue, `EINVAL` if it is closed already.
    pub(crate) fn close(&self) -> Result<(), Errno> {
        if Arc::strong_count(&self.users) > 1 {
            return Err(Errno::BUSY);
        }
        if self.is_closing.swap(true, Ordering::SeqCst) {
            return Err(Errno::INVAL);
        }
        if let Some((channel, _)) = &self.channel {
            channel.channel.discard(self.cq.id());
        }
        self.completions.wait();
        self.events.wait();
        Ok(())
    }

    /// Counts a completion event as the program's. Returns false if the queue is being destroyed.
    pub(crate) fn deliver(&self) -> bool {
        self.completions.deliver();
        if self.is_closing.load(Ordering::SeqCst) {
            self.completions.acknowledge(1);
            return false;
        }
        true
    }

    /// Takes completions, and returns how many.
    pub(crate) fn poll(&self, out: &mut [Completion]) -> usize {
        let taken = self.cq.poll(out);
        if let Some(numbers) = &self.numbers {
            for completion in &mut out[..taken] {
                completion.qp_num = numbers.name_of(completion.qp_num);
            }
        }
        taken
    }

    /// # Errors
    /// `EINVAL` for no entries or too many.
    pub(crate) fn resize(&self, entries: u32) -> Result<(), Errno> {
        if entries == 0 {
            return Err(Errno::INVAL);
        }
        self.cq.resize(entries).map_err(|_| Errno::INVAL)?;
        self.visible.set(offset_of!(abi::Cq, cqe), capacity(&self.cq));
        Ok(())
    }

    /// Delays an event until there are `count` completions or `micros` microseconds have passed.
    pub(crate) fn moderate(&self, count: u16, micros: u16) {
        self.cq.modify_moderation(count, Duration::from_micros(micros.into()).into());
    }

    /// Moves on to the next completion. The program reads its fields by functions.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub(crate) fn start(&self) -> Result<(), Errno> {
        let mut next = [Completion::EMPTY];
        let next = (self.poll(&mut next) == 1).then_some(next[0]);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = next;
        let next = next.ok_or(Errno::NOENT)?;
        self.visible.set(offset_of!(abi::CqEx, status), next.status as u32);
        self.visible.set(offset_of!(abi::CqEx, wr_id), next.wr_id);
        Ok(())
    }

    /// Returns the completion that [`Self::start`] moved to last.
    pub(crate) fn current(&self) -> Completion {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(Completion::EMPTY)
    }

    pub(crate) const fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn cq_context(&self) -> *mut c_void {
        self.visible.get(offset_of!(abi::Cq, cq_context))
    }

    pub(crate) const fn handle(&self) -> *mut abi::Cq {
        self.visible.as_ptr().cast()
    }
}

fn capacity(cq: &weft_rnic::Cq) -> i32 {
    i32::try_from(cq.capacity()).unwrap_or(i32::MAX)
}

/// Translates a completion to C's struct.
pub(crate) const fn wc(completion: &Completion) -> abi::Wc {
    let (imm_data, wc_flags) = immediate(completion);
    abi::Wc {
        wr_id: completion.wr_id,
        status: completion.status as u32,
        opcode: opcode(completion),
        vendor_err: completion.vendor_err,
        byte_len: completion.byte_len,
        imm_data,
        qp_num: completion.qp_num,
        src_qp: 0,
        wc_flags,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

/// Returns the union of immediate data and invalidated rkey, with the flag that tells them apart.
pub(crate) const fn immediate(completion: &Completion) -> (u32, u32) {
    match (completion.immediate, completion.invalidated) {
        (Some([a, b, c, d, ..]), _) => (u32::from_ne_bytes([a, b, c, d]), abi::WC_WITH_IMM),
        (None, Some(stag)) => (stag, abi::WC_WITH_INV),
        (None, None) => (0, 0),
    }
}

/// Returns the number of the operation in C. Of our own kinds, C can post none below 128, and the others are receives.
pub(crate) const fn opcode(completion: &Completion) -> u32 {
    match completion.opcode as u32 {
        64..128 => 0,
        192.. => abi::WC_RECV,
        number => number,
    }
}

#[cfg(test)]
mod tests {
    use weft_rnic::{CompletionOpcode, Status};

    use super::*;

    #[test]
    fn operations_have_the_numbers_of_c() {
        for &code in CompletionOpcode::ALL {
            let expected = match code {
                CompletionOpcode::Write => abi::WC_RDMA_WRITE,
                CompletionOpcode::Read => abi::WC_RDMA_READ,
                CompletionOpcode::CompareSwap => abi::WC_COMP_SWAP,
                CompletionOpcode::FetchAdd => abi::WC_FETCH_ADD,
                CompletionOpcode::BindWindow => abi::WC_BIND_MW,
                CompletionOpcode::LocalInvalidate => abi::WC_LOCAL_INV,
                CompletionOpcode::Recv => abi::WC_RECV,
                CompletionOpcode::RecvWithImmediate => abi::WC_RECV_RDMA_WITH_IMM,
                own if own as u32 >= 192 => abi::WC_RECV,
                _ => 0,
            };
            assert_eq!(opcode(&Completion { opcode: code, ..Completion::EMPTY }), expected, "{code:?}");
        }
    }

    #[test]
    fn a_completion_keeps_its_numbers() {
        let receive = Completion {
            wr_id: 7,
            status: Status::Success,
            opcode: CompletionOpcode::RecvWithImmediate,
            byte_len: 9,
            immediate: Some(*b"abcd\0\0\0\0"),
            qp_num: 3,
            ..Completion::EMPTY
        };
        let wc = wc(&receive);
        assert_eq!((wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.qp_num), (7, 0, 129, 9, 3));
        assert_eq!((wc.imm_data.to_ne_bytes(), wc.wc_flags), (*b"abcd", abi::WC_WITH_IMM));
        let invalidating = Completion { immediate: None, invalidated: Some(0x100), ..receive };
        assert_eq!(immediate(&invalidating), (0x100, abi::WC_WITH_INV));
        let failed = Completion { status: Status::RemoteAccess, ..Completion::EMPTY };
        assert_eq!(super::wc(&failed).status, 10);
    }
}
