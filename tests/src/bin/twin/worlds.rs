//! The two worlds: agents on plain sockets, and agents with the library, which are told the same commands.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, mknodat, open};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};

use crate::calls::kernel_octets;

/// Both worlds of one script.
pub(crate) struct Worlds {
    worlds: [World; 2],
    /// The commands so far with the answers of both worlds.
    pub(crate) log: Vec<String>,
}

/// Where the library and its daemon are.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    /// The file of the library, or `None` to compare plain sockets with plain sockets.
    pub(crate) file: Option<PathBuf>,
    /// `WEFT_DAEMON`
    pub(crate) daemon: String,
    /// `WEFT_SOCKETS_TRACE`
    pub(crate) trace: Option<PathBuf>,
}

/// What differs, or hangs, or died.
pub(crate) type Fault = String;

/// The driver's side of a channel.
struct Channel {
    commands: File,
    answers: File,
    left: Vec<u8>,
}

struct World {
    folder: PathBuf,
    agents: Vec<Child>,
    channels: Vec<Channel>,
    library: Option<Library>,
}

impl Worlds {
    pub(crate) fn new(folder: &Path, library: &Library) -> Self {
        let world = |name: &str, library: Option<&Library>| World {
            folder: folder.join(name),
            agents: Vec::new(),
            channels: Vec::new(),
            library: library.cloned(),
        };
        Self { worlds: [world("plain", None), world("weft", Some(library))], log: Vec::new() }
    }

    /// Starts a process in each world, and returns the number of its channel.
    pub(crate) fn start_agent(&mut self) -> Result<usize, Fault> {
        for world in &mut self.worlds {
            world.start_agent().map_err(|error| format!("cannot start an agent: {error}"))?;
        }
        Ok(self.worlds[0].channels.len() - 1)
    }

    /// Starts a thread or a forked child where this channel's commands are obeyed. Returns the new channel.
    pub(crate) fn start(&mut self, what: &str, channel: usize) -> Result<usize, Fault> {
        let number = self.worlds[0].channels.len();
        for world in &mut self.worlds {
            world.make_pipes().map_err(|error| format!("cannot make pipes: {error}"))?;
        }
        let answers = self.ask(channel, &format!("{what} {number}"))?;
        if answers[0] != "0" || answers[1] != "0" {
            return Err(format!("{what}: plain says {}, weft says {}", answers[0], answers[1]));
        }
        for world in &mut self.worlds {
            world.open(number).map_err(|error| format!("cannot open pipes: {error}"))?;
        }
        // The numbers of descriptors are the same only once its pipes are open.
        self.same(number, "sleep 0")?;
        Ok(number)
    }

    /// Has both worlds obey a command, and returns both answers.
    pub(crate) fn ask(&mut self, channel: usize, command: &str) -> Result<[String; 2], Fault> {
        self.tell(channel, command)?;
        self.answers(channel, command)
    }

    /// As [`Self::ask`], if the answers have to be the same.
    pub(crate) fn same(&mut self, channel: usize, command: &str) -> Result<String, Fault> {
        let [plain, weft] = self.ask(channel, command)?;
        if plain == weft { Ok(plain) } else { Err(differ(command, &plain, &weft)) }
    }

    /// As [`Self::ask`] in one world only.
    pub(crate) fn ask_in(&mut self, world: usize, channel: usize, command: &str) -> Result<String, Fault> {
        self.worlds[world].tell(channel, command)?;
        let answer = self.worlds[world].answer(channel).map_err(|fault| format!("{command}: {fault}"))?;
        self.log.push(format!("{channel} {command} -> {} {answer}", NAMES[world]));
        Ok(answer)
    }

    /// Gives both worlds a command that blocks.
    pub(crate) fn tell(&mut self, channel: usize, command: &str) -> Result<(), Fault> {
        self.worlds.iter_mut().try_for_each(|world| world.tell(channel, command))
    }

    /// Waits for the answers to a command.
    pub(crate) fn answers(&mut self, channel: usize, command: &str) -> Result<[String; 2], Fault> {
        let mut answers = [String::new(), String::new()];
        for ((world, answer), name) in self.worlds.iter_mut().zip(&mut answers).zip(NAMES) {
            *answer = world.answer(channel).map_err(|fault| {
                self.log.push(format!("{channel} {command} -> {name}: {fault}"));
                format!("{command}: {name} {fault}")
            })?;
        }
        let [plain, weft] = &answers;
        self.log.push(match plain == weft {
            true => format!("{channel} {command} -> {plain}"),
            false => format!("{channel} {command} -> plain {plain}, weft {weft}"),
        });
        Ok(answers)
    }

    /// Sends some signals to a process of each world.
    pub(crate) fn interrupt(processes: &[String; 2]) -> Result<(), Fault> {
        for process in processes {
            for _ in 0..3 {
                signal(process)?;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Waits for the answers to a command, which signals end.
    pub(crate) fn interrupted(
        &mut self,
        channel: usize,
        command: &str,
        processes: &[String; 2],
    ) -> Result<[String; 2], Fault> {
        for (world, process) in self.worlds.iter().zip(processes) {
            for _ in 0..SIGNALS {
                signal(process)?;
                if world.has_answer(channel, &MOMENT)? {
                    break;
                }
            }
        }
        self.answers(channel, command)
    }

    /// Returns how many octets the kernel was given to send by a descriptor of the world with the library.
    pub(crate) fn kernel_octets(&self, agent: usize, fd: i32) -> Option<u64> {
        let pid = Pid::from_raw(self.worlds[1].agents.get(agent)?.id() as i32)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let socket = pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).ok()?;
        kernel_octets(socket.as_raw_fd())
    }

    /// Returns how many agents there are, without their forked children.
    pub(crate) fn agents(&self) -> usize {
        self.worlds[1].agents.len()
    }

    /// Ends all agents. An agent that ends in another way than by its last command has failed.
    pub(crate) fn finish(mut self, mains: &[usize]) -> Result<(), Fault> {
        for &channel in mains {
            self.ask(channel, "exit")?;
        }
        for (world, name) in self.worlds.iter_mut().zip(NAMES) {
            for agent in &mut world.agents {
                let status = agent.wait().map_err(|error| error.to_string())?;
                if !status.success() {
                    return Err(format!("an agent of {name} ended: {status}"));
                }
            }
        }
        Ok(())
    }
}

impl World {
    fn start_agent(&mut self) -> std::io::Result<()> {
        let number = self.make_pipes()?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("--agent")
            .arg(&self.folder)
            .arg("--channel")
            .arg(number.to_string())
            .stdin(Stdio::null());
        command.env_remove("LD_PRELOAD");
        if let Some(library) = &self.library {
            command.env("WEFT_SOCKETS", "eager").env("WEFT_DAEMON", &library.daemon);
            if let Some(file) = &library.file {
                command.env("LD_PRELOAD", file);
            }
            if let Some(trace) = &library.trace {
                command.env("WEFT_SOCKETS_TRACE", trace);
            }
        }
        self.agents.push(command.spawn()?);
        self.open(number)
    }

    /// Makes the pipes of one more channel, and returns its number.
    fn make_pipes(&self) -> std::io::Result<usize> {
        let number = self.channels.len();
        std::fs::create_dir_all(&self.folder)?;
        for end in ["in", "out"] {
            let path = self.folder.join(format!("{number}.{end}"));
            mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        Ok(number)
    }

    fn open(&mut self, number: usize) -> std::io::Result<()> {
        // Both ways at once, so that the driver does not wait here for an agent that has failed.
        let path = |end: &str| self.folder.join(format!("{number}.{end}"));
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let commands = open(path("in"), flags, Mode::empty())?;
        let answers = open(path("out"), flags, Mode::empty())?;
        self.channels.push(Channel { commands: commands.into(), answers: answers.into(), left: Vec::new() });
        Ok(())
    }

    fn tell(&mut self, channel: usize, command: &str) -> Result<(), Fault> {
        self.channels[channel]
            .commands
            .write_all(format!("{command}\n").as_bytes())
            .map_err(|error| error.to_string())
    }

    /// True if a channel has something to read, or soon has.
    fn has_answer(&self, channel: usize, span: &Timespec) -> Result<bool, Fault> {
        let mut wanted = [PollFd::new(&self.channels[channel].answers, PollFlags::IN)];
        poll(&mut wanted, Some(span)).map(|ready| ready > 0).map_err(|error| error.to_string())
    }

    fn answer(&mut self, number: usize) -> Result<String, Fault> {
        let mut buffer = [0; 512];
        for _ in 0..PATIENCE {
            let channel = &mut self.channels[number];
            if let Some(end) = channel.left.iter().position(|octet| *octet == b'\n') {
                let rest = channel.left.split_off(end + 1);
                let line = core::mem::replace(&mut channel.left, rest);
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.has_answer(number, &SLICE)? {
                let channel = &mut self.channels[number];
                let len = channel.answers.read(&mut buffer).map_err(|error| error.to_string())?;
                channel.left.extend(&buffer[..len]);
            } else if let Some(status) =
                self.agents.iter_mut().find_map(|agent| agent.try_wait().ok().flatten())
            {
                return Err(format!("died: {status}"));
            }
        }
        Err("hangs".to_owned())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ended = agent.kill();
            let _reaped = agent.wait();
        }
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn differ(command: &str, plain: &str, weft: &str) -> Fault {
    format!("{command}: plain says {plain}, weft says {weft}")
}

/// Sends a signal to the process of this number.
fn signal(process: &str) -> Result<(), Fault> {
    let process = process.parse().ok().and_then(Pid::from_raw);
    let process = process.ok_or("there is no process to interrupt")?;
    kill_process(process, Signal::USR1).map_err(|error| error.to_string())
}

/// Signals until a call has to be interrupted, and the time between them.
const SIGNALS: u32 = 1000;
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
/// A wait for an answer: slices, each of which looks for agents that have died.
const PATIENCE: u32 = 100;
const SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NAMES: [&str; 2] = ["plain", "weft"];
