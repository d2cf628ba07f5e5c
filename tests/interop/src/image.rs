//! The guests that `tests/interop/run` has built.

use std::path::{Path, PathBuf};

/// One guest: a kernel, and one of the two builds of siw.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// The series: 6.1 or 6.12.
    pub(crate) kernel: String,
    pub(crate) siw: Siw,
    pub(crate) vmlinuz: PathBuf,
    pub(crate) initramfs: PathBuf,
}

/// The build of siw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Siw {
    /// Unpatched: CRC only if the other side asks for it, and the client-server start.
    Plain,
    /// Patched: it asks for CRC and for the peer-to-peer start of RFC 6581.
    P2p,
}

impl Image {
    /// Returns all guests in `lab`.
    pub(crate) fn all(lab: &Path) -> Vec<Self> {
        let mut images = Vec::new();
        for kernel in KERNELS {
            let [vmlinuz, initramfs] = ["vmlinuz", "initramfs"].map(|file| lab.join(kernel).join(file));
            if !vmlinuz.exists() || !initramfs.exists() {
                continue;
            }
            for siw in [Siw::Plain, Siw::P2p] {
                let (vmlinuz, initramfs) = (vmlinuz.clone(), initramfs.clone());
                images.push(Self { kernel: kernel.into(), siw, vmlinuz, initramfs });
            }
        }
        images
    }

    /// Returns the name for people, such as 6.1-plain.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.kernel, self.siw.name())
    }
}

impl Siw {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::P2p => "p2p",
        }
    }
}

const KERNELS: [&str; 2] = ["6.1", "6.12"];
