//! A guest: one QEMU process with Linux and siw in it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::console;
use crate::control::Control;
use crate::image::Image;
use crate::job::Job;
use crate::patience::Deadline;

/// A running virtual machine. Its drop ends it.
#[derive(Debug)]
pub(crate) struct Guest {
    control: Arc<Control>,
    monitor: Mutex<Monitor>,
    dir: PathBuf,
    wire: PathBuf,
    /// The address at which the host reaches port 7174 of the guest's second interface.
    forwarded: SocketAddr,
    /// The guest's description of itself.
    version: String,
    keeper: Keeper,
}

/// The thread that keeps QEMU's process. QEMU lives as long as the thread that started it, so that the kernel ends it
/// however this process ends.
#[derive(Debug)]
struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// QEMU's machine protocol.
#[derive(Debug)]
struct Monitor {
    input: BufReader<UnixStream>,
    output: UnixStream,
}

impl Guest {
    /// Boots a guest whose sockets and logs are in `dir`, and waits until it is ready.
    pub(crate) fn boot(image: &Image, dir: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let forwarded = free_address()?;
        let keeper = Keeper::start(command(image, dir, forwarded)?)?;
        let deadline = Deadline::after(START_TIMEOUT);
        let started = Control::connect(&dir.join("control"), deadline)
            .and_then(|control| Ok((control, Monitor::connect(&dir.join("monitor"), deadline)?)));
        let (control, monitor) =
            started.map_err(|error| format!("QEMU does not start: {error}; {}", last_words(dir)))?;
        let mut guest = Self {
            control: Arc::new(control),
            monitor: Mutex::new(monitor),
            dir: dir.into(),
            wire: dir.join("wire"),
            forwarded,
            version: String::new(),
            keeper,
        };
        guest.version = guest
            .control
            .wait_ready(BOOT_TIMEOUT)
            .map_err(|error| format!("{error}; {}", last_words(dir)))?;
        Ok(guest)
    }

    /// Returns the Unix socket with the guest's Ethernet, for the device `unix:PATH`. It takes one process at a time.
    pub(crate) fn wire(&self) -> &Path {
        &self.wire
    }

    /// Returns the address at which programs of the host reach port 7174 of the guest's second interface, by QEMU's
    /// user network. The guest reaches them at 10.0.2.2.
    pub(crate) const fn forwarded(&self) -> SocketAddr {
        self.forwarded
    }

    /// Returns the kernel's name, and the build of siw.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Returns the path of its console's log.
    pub(crate) fn console(&self) -> PathBuf {
        self.dir.join(CONSOLE)
    }

    /// Returns how many octets the console has shown.
    pub(crate) fn console_len(&self) -> usize {
        std::fs::metadata(self.console()).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX))
    }

    /// Returns the kernel's warning about itself since the console had `seen` octets.
    pub(crate) fn warning_since(&self, seen: usize) -> Option<String> {
        let text = std::fs::read(self.console()).unwrap_or_default();
        console::warning(&String::from_utf8_lossy(text.get(seen..).unwrap_or_default()))
    }

    /// Starts a shell command.
    pub(crate) fn start(&self, command: &str) -> Result<Job, String> {
        Job::start(&self.control, command)
    }

    /// Runs a shell command to its end. An exit status other than 0 is an error.
    pub(crate) fn run(&self, command: &str, timeout: Duration) -> Result<Vec<String>, String> {
        let output = self.start(command)?.wait(timeout)?;
        if output.status == 0 {
            Ok(output.lines)
        } else {
            Err(format!("in the guest, `{command}`: status {}: {}", output.status, output.lines.join(" / ")))
        }
    }

    /// Waits until a program in the guest listens on a TCP port.
    pub(crate) fn wait_listening(&self, port: u16) -> Result<(), String> {
        self.run(&format!("until netstat -ltn | grep -q ':{port} '; do sleep 0.05; done"), LISTEN_TIMEOUT)
            .map(drop)
    }

    /// Resets the machine, like its reset button, and returns at once. The guest ends nothing properly, and is not up
    /// again yet.
    pub(crate) fn reboot(&self) -> Result<(), String> {
        let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        self.control.expect_boot();
        monitor.execute("system_reset")
    }

    /// Waits until a guest that was reset takes commands.
    pub(crate) fn wait_ready(&self, timeout: Duration) -> Result<(), String> {
        self.control.wait_ready(timeout).map(drop)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.keeper.end();
    }
}

impl Keeper {
    fn start(mut command: Command) -> Result<Self, String> {
        let (stop, stopped) = channel();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || match command.spawn() {
            Ok(child) => {
                // The receiver is gone only if this process is about to end.
                let _unheard = tell.send(Ok(()));
                keep(child, &stopped);
            }
            Err(error) => {
                let _unheard = tell.send(Err(format!("{}: {error}", command.get_program().display())));
            }
        });
        let started = told.recv().unwrap_or_else(|_| Err("the thread that keeps QEMU has ended".into()));
        let keeper = Self { stop: Some(stop), thread: Some(thread) };
        started.map(|()| keeper)
    }

    fn end(&mut self) {
        // Without a sender the thread stops waiting.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and a destructor could do nothing about it.
            let _ended = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

impl Monitor {
    fn connect(path: &Path, deadline: Deadline) -> Result<Self, String> {
        let output = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(error) if deadline.left().is_zero() => {
                    return Err(format!("{}: {error}", path.display()));
                }
                Err(_) => std::thread::sleep(RETRY),
            }
        };
        let prepared = output.set_read_timeout(Some(MONITOR_TIMEOUT)).and_then(|()| output.try_clone());
        let input = BufReader::new(prepared.map_err(|error| error.to_string())?);
        let mut monitor = Self { input, output };
        monitor.execute("qmp_capabilities")?;
        Ok(monitor)
    }

    /// Executes a command without arguments, and waits for its answer.
    fn execute(&mut self, command: &str) -> Result<(), String> {
        let failed = |reason: &dyn core::fmt::Display| format!("QEMU's monitor, {command}: {reason}");
        writeln!(self.output, "{}", json!({ "execute": command })).map_err(|error| failed(&error))?;
        loop {
            let mut line = String::new();
            if self.input.read_line(&mut line).map_err(|error| failed(&error))? == 0 {
                return Err(failed(&"it has gone"));
            }
            let answer: Value = serde_json::from_str(&line).map_err(|error| failed(&error))?;
            // Greetings and events may come before it.
            if answer.get("return").is_some() {
                return Ok(());
            }
            if let Some(error) = answer.get("error") {
                return Err(failed(error));
            }
        }
    }
}

fn keep(mut child: Child, stopped: &Receiver<()>) {
    // This returns when the sender is dropped.
    let _stopped = stopped.recv();
    // The process may have ended by itself, which is as good.
    let _ended = child.kill().and_then(|()| child.wait());
}

fn command(image: &Image, dir: &Path, forwarded: SocketAddr) -> Result<Command, String> {
    let path = |name: &str| dir.join(name).display().to_string();
    let errors = File::create(dir.join(ERRORS)).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut command = Command::new("setpriv");
    command
        .args([
            "--pdeathsig",
            "KILL",
            "qemu-system-x86_64",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
        ])
        // Nested KVM starts no guest on the test machines. An emulated processor is the same everywhere.
        .args(["-accel", "tcg", "-cpu", "max", "-m", "512"])
        .arg("-kernel")
        .arg(&image.vmlinuz)
        .arg("-initrd")
        .arg(&image.initramfs)
        // On a busy machine the kernel would take the timer for broken. A guest that panics reboots, and its jobs are
        // lost.
        .args(["-append", &format!("console=ttyS0 no_timer_check panic=1 siw={}", image.siw.name())])
        .args(["-serial", &format!("file:{}", path(CONSOLE))])
        .args(["-chardev", &format!("socket,id=control,server=on,wait=off,path={}", path("control"))])
        .args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=control,name=control"])
        .args(["-netdev", &format!("stream,id=wire,server=on,addr.type=unix,addr.path={}", path("wire"))])
        .args(["-device", "virtio-net-pci,netdev=wire,romfile="])
        .args(["-netdev", &format!("user,id=user,hostfwd=tcp:{forwarded}-10.0.2.15:7174")])
        .args(["-device", "virtio-net-pci,netdev=user,romfile="])
        .args(["-qmp", &format!("unix:{},server=on,wait=off", path("monitor"))])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors);
    Ok(command)
}

/// Returns an address of this machine that no program uses at this moment.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("no free port: {error}"))
}

/// Returns the end of the output of QEMU and of the console.
fn last_words(dir: &Path) -> String {
    let mut words = Vec::new();
    for name in [ERRORS, CONSOLE] {
        let text = std::fs::read(dir.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        words.extend(text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).map(str::to_owned));
    }
    words.join(" / ")
}

const CONSOLE: &str = "console.log";
const ERRORS: &str = "qemu.log";
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A boot takes 5 s on an idle machine.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);
const MONITOR_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(20);
