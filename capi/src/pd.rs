//! Protection domains.

use std::sync::Arc;

use crate::abi;
use crate::context::Context;
use crate::raw::Visible;

/// The object behind `ibv_alloc_pd`.
#[derive(Debug)]
pub(crate) struct Pd {
    visible: Visible<abi::Pd>,
    pub(crate) pd: weft_rnic::Pd,
    pub(crate) context: Arc<Context>,
}

impl Pd {
    pub(crate) fn new(context: &Arc<Context>) -> Arc<Self> {
        let visible = Visible::new(abi::Pd { context: context.handle(), handle: 0 });
        Arc::new(Self { visible, pd: context.device.alloc_pd(), context: Arc::clone(context) })
    }

    pub(crate) const fn handle(&self) -> *mut abi::Pd {
        self.visible.as_ptr()
    }
}
