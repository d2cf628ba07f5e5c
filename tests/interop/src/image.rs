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

/// How siw was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Siw {
    /// As it is: no CRC unless the other side asks for it, client-server start.
    Plain,
    /// It asks for CRC and for the peer-to-peer start of RFC 6581.
    P2p,
}

impl Image {
    /// All guests in `lab`.
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

    /// As people name it: 6.1-plain.
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
