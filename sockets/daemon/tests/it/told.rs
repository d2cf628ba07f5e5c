//! A host whose daemon tells `weft stat` what it knows.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::Value;
use weft_daemon::{Config, Daemon, Lanes};

use crate::lanes::Host;
use crate::run::{Running, config};
use crate::space::Space;

/// The host, and the folder in which the daemon answers.
pub(crate) struct Told {
    pub(crate) host: Host,
    folder: PathBuf,
}

impl Told {
    /// A host whose folder has this name in it.
    pub(crate) fn new(space: &Space, lanes: Lanes, name: &str) -> Self {
        let config = Config { lanes: Some(lanes), ..config() };
        let folder = std::env::temp_dir().join(format!("weft-told-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("rights");
        let start = || {
            let mut daemon = Daemon::start(&config).expect("a daemon");
            daemon.serve_stat(&folder).expect("a server");
            Running::run(daemon, &config)
        };
        let host = Host::of(space, space.run(start));
        Self { host, folder }
    }

    /// Returns the word for why there is no lane to the only host that is known.
    pub(crate) fn reason(&self) -> Value {
        let sockets = std::fs::read_dir(&self.folder).expect("a folder");
        let paths = sockets.map(|entry| entry.expect("an entry").path());
        let mut stream = paths.into_iter().find_map(|path| UnixStream::connect(path).ok()).expect("a daemon");
        stream.write_all(b"sockets\n").expect("a question");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        let hosts = told["hosts"].as_array().expect("a table").clone();
        assert_eq!(hosts.len(), 1, "{told}");
        hosts[0]["reason"].clone()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}
