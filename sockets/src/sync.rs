//! The atomics that processes share. With `cfg(loom)` they are loom's, which tries all interleavings of a model's
//! threads. With `cfg(stepped)` they are those of the simulation, which draws interleavings from seeds.

#[cfg(not(any(loom, stepped)))]
pub use core::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, compiler_fence as light_fence, fence,
};

#[cfg(loom)]
pub use model::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence, light_fence};
#[cfg(stepped)]
pub use stepped::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence, light_fence};

#[cfg(loom)]
pub(crate) mod model;
#[cfg(stepped)]
pub mod stepped;
