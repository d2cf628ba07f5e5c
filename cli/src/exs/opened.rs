//! The context of a command, and what answers `weft stat` about it.

use std::time::Duration;

use weft_exs::{Context, stat_section};
use weft_stat::{Server, device_sections, stat_folder_from_env};

use crate::failure::Failure;
use crate::ground::GroundArgs;

/// A context on a device of its own.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) context: Context,
    /// Answers `weft stat`, if `WEFT_STAT` asks for it.
    _stat: Option<Server>,
}

impl Opened {
    pub(super) fn new(ground: &GroundArgs, timeout: Duration) -> Result<Self, Failure> {
        let device = ground.open(timeout)?;
        let context = Context::on(&device).map_err(Failure::work)?;
        let start = |folder: std::path::PathBuf| {
            let mut sections = device_sections(&device.watcher());
            let watcher = context.watcher();
            sections.push(stat_section(move || Some(watcher.clone())));
            Server::start(&folder, sections).map_err(Failure::work)
        };
        let stat = stat_folder_from_env().map(start).transpose()?;
        Ok(Self { context, _stat: stat })
    }
}
