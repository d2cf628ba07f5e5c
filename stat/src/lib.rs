//! Answers `weft stat` about the state of a process, over a Unix socket.
//!
//! A [`Server`] answers by [`Section`]s, each with a name. [`device_sections`] returns those of a device. A program
//! may add its own.
//!
//! ```
//! use weft_rnic::{Config, Device};
//! use weft_stat::{Section, Server, device_sections};
//!
//! let (wire, _peer) = weft_netif::pair(1500);
//! let device = Device::open(wire, Config::new("10.0.0.1/24".parse()?, 1))?;
//! let mut sections = device_sections(&device.watcher());
//! sections.push(Section::new("weather", |_| serde_json::json!({ "weather": "fine" })));
//! let folder = std::env::temp_dir().join(format!("weft-stat-example-{}", std::process::id()));
//! let server = Server::start(&folder, sections)?;
//! drop(server);
//! # std::fs::remove_dir(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod device;
mod folder;
mod section;
mod server;

pub use device::device_sections;
pub use folder::{prepare_stat_folder, stat_folder, stat_folder_from_env};
pub use section::{Asker, STAT_VERSION, Section};
pub use server::Server;
