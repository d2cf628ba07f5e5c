//! An agent: a process that makes the calls that it is told. It reads commands from a channel, a line each, and answers
//! each with a line. Threads and forked children have channels of their own.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{read, write};

use crate::calls::{self, Returned};
use crate::{connections, handler, launch, stream};

/// A channel's two named pipes. They are opened and used past the libc, so that no hook sees them.
struct Channel {
    folder: PathBuf,
    commands: std::os::fd::OwnedFd,
    answers: std::os::fd::OwnedFd,
    left: Vec<u8>,
}

/// Serves a channel of a folder, and all that its commands open, until the driver has gone.
pub(crate) fn serve(folder: &Path, channel: i64, is_executed: bool) {
    calls::end_with_parent();
    if let Some(channel) = Channel::open(folder, channel) {
        if is_executed {
            let _told = write(&channel.answers, b"0\n");
        }
        channel.serve();
    }
}

impl Channel {
    fn open(folder: &Path, number: i64) -> Option<Self> {
        let flags = OFlags::CLOEXEC;
        let commands =
            open(folder.join(format!("{number}.in")), OFlags::RDONLY | flags, Mode::empty()).ok()?;
        let answers =
            open(folder.join(format!("{number}.out")), OFlags::WRONLY | flags, Mode::empty()).ok()?;
        Some(Self { folder: folder.to_path_buf(), commands, answers, left: Vec::new() })
    }

    fn serve(mut self) {
        while let Some(line) = self.line() {
            let words: Vec<&str> = line.split(' ').collect();
            let answer = match words.as_slice() {
                ["thread", number] => {
                    let (folder, number) = (self.folder.clone(), number.parse().unwrap_or(0));
                    std::thread::spawn(move || Self::open(&folder, number).map(Self::serve));
                    "0".to_owned()
                }
                ["fork", number] => match calls::fork() {
                    Ok(0) => {
                        calls::end_with_parent();
                        let Some(channel) = Self::open(&self.folder, number.parse().unwrap_or(0)) else {
                            calls::exit()
                        };
                        channel.serve();
                        calls::exit()
                    }
                    Ok(_) => "0".to_owned(),
                    error => plain(error),
                },
                ["spawn", number] => plain(launch::spawn(&self.folder, number)),
                ["vfork", number] => plain(launch::vfork(&self.folder, number)),
                ["exec", number] => plain(launch::exec(&self.folder, number)),
                ["bind"] => plain(launch::bind(&self.folder)),
                ["give", fd] => plain(launch::give(&self.folder, fd.parse().unwrap_or(-1))),
                ["exit"] => {
                    let _gone = write(&self.answers, b"0\n");
                    calls::exit()
                }
                words => obey(words),
            };
            if write(&self.answers, format!("{answer}\n").as_bytes()).is_err() {
                return;
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut buffer = [0; 1024];
        loop {
            if let Some(end) = self.left.iter().position(|octet| *octet == b'\n') {
                let rest = self.left.split_off(end + 1);
                let line = core::mem::replace(&mut self.left, rest);
                return String::from_utf8(line[..end].to_vec()).ok();
            }
            match read(&self.commands, &mut buffer[..]) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return None,
                Ok(len) => self.left.extend(&buffer[..len]),
            }
        }
    }
}

fn obey(words: &[&str]) -> String {
    let (name, words) = (words[0], &words[1..]);
    let number =
        |place: usize| words.get(place).and_then(|word| word.parse::<i64>().ok()).unwrap_or_default();
    let fd = number(0) as i32;
    match (name, words) {
        ("in", [_, how, ..]) => receive(fd, how, number(2) as i32, &lens(how, number(3), number(4))),
        ("out", [_, how, ..]) => {
            let mut pieces = stream::pieces(number(5), number(6) as u64, &lens(how, number(3), number(4)));
            plain(calls::send(how, fd, number(2) as i32, &mut pieces))
        }
        ("push", [_, how, ..]) => push(fd, how, [number(2), number(3), number(4), number(5)]),
        ("pull", [_, how, ..]) => pull(fd, how, number(2) as usize, number(3) as usize),
        ("pump", _) => pump(fd, number(1) as i32, [number(2), number(3), number(4), number(5)]),
        ("poll", [how, rest @ ..]) => poll(how, rest),
        ("epctl", _) => plain(calls::epoll_ctl(
            fd,
            number(1) as i32,
            number(2) as i32,
            number(3) as u32,
            number(4) as u64,
        )),
        ("epwait", [_, how, ..]) => {
            let (returned, told) = calls::epoll_wait(how, fd, number(2) as i32);
            let told: Vec<String> = told.iter().map(|(data, events)| format!("{data}:{events:x}")).collect();
            format!("{} {}", plain(returned), told.join(","))
        }
        ("ioctl", _) => plain(calls::ioctl(fd, number(1) as u64, number(2) as i32)),
        ("setopt", _) => plain(calls::set_option(fd, number(1) as i32, number(2) as i32, number(3))),
        ("getopt", _) => plain(calls::option(fd, number(1) as i32, number(2) as i32)),
        ("listen", _) => match connections::listen(number(0) == 6) {
            Ok((listener, port)) => format!("{listener} {port}"),
            Err(errno) => format!("-1 {errno}"),
        },
        ("connect", _) => plain(connections::connect(number(0) == 6, number(1) as u16)),
        ("accept", _) => plain(connections::accept(fd, number(1) as i32)),
        ("take", _) => plain(launch::take(fd)),
        ("handle", [how, ..]) => {
            plain(handler::handle(how, number(1) != 0, number(2) as i32, [number(3), number(4), number(5)]))
        }
        ("handled", _) => handler::handled(),
        ("sleep", _) => {
            std::thread::sleep(std::time::Duration::from_micros(number(0) as u64));
            "0".to_owned()
        }
        (name, words) => {
            let numbers: Vec<i64> = words.iter().filter_map(|word| word.parse().ok()).collect();
            plain(calls::simple(name, &numbers))
        }
    }
}

fn plain(returned: Returned) -> String {
    returned.map_or_else(|errno| format!("-1 {errno}"), |value| value.to_string())
}

/// Returns the lengths of this many pieces of `len` octets, which are not the same. A function without a list has one.
fn lens(how: &str, len: i64, pieces: i64) -> Vec<usize> {
    let has_list = how.ends_with('v') || how.ends_with("v2") || how.ends_with("msg");
    let (len, pieces) = (len as usize, if has_list { pieces.clamp(1, 8) as usize } else { 1 });
    let mut lens: Vec<usize> = (1..pieces).map(|place| len * place / (pieces * 2)).collect();
    lens.push(len - lens.iter().sum::<usize>());
    lens
}

fn receive(fd: i32, how: &str, flags: i32, lens: &[usize]) -> String {
    let mut pieces: Vec<Vec<u8>> = lens.iter().map(|len| vec![0; *len]).collect();
    let returned = calls::receive(how, fd, flags, &mut pieces);
    let hash = match returned {
        Ok(len) if len > 0 && flags & libc::MSG_TRUNC == 0 => {
            stream::hash(stream::START, pieces.iter().flatten().take(len as usize))
        }
        _ => 0,
    };
    format!("{} {hash:x}", plain(returned))
}

/// Sends so many octets, however long that takes: `[len, chunk, stream, position]`.
fn push(fd: i32, how: &str, [len, chunk, stream, position]: [i64; 4]) -> String {
    let mut sent = 0;
    while sent < len {
        let lens = lens(how, chunk.min(len - sent), 1 + sent % 3);
        let mut pieces = stream::pieces(stream, (position + sent) as u64, &lens);
        match calls::send(how, fd, libc::MSG_NOSIGNAL, &mut pieces) {
            Ok(more) => sent += more,
            Err(libc::EAGAIN) => drop(calls::poll("poll", PATIENCE, &[(fd, libc::POLLOUT)])),
            Err(errno) => return format!("-1 {errno} {sent}"),
        }
    }
    sent.to_string()
}

/// Receives so many octets, and returns their hash.
fn pull(fd: i32, how: &str, len: usize, chunk: usize) -> String {
    let (mut done, mut hash) = (0, stream::START);
    while done < len {
        let lens = lens(how, chunk.min(len - done) as i64, 1 + (done % 3) as i64);
        let mut pieces: Vec<Vec<u8>> = lens.into_iter().map(|len| vec![0; len]).collect();
        match calls::receive(how, fd, 0, &mut pieces) {
            Ok(0) => return format!("{done} end"),
            Ok(more) => {
                hash = stream::hash(hash, pieces.iter().flatten().take(more as usize));
                done += more as usize;
            }
            Err(libc::EAGAIN) => drop(calls::poll("poll", PATIENCE, &[(fd, libc::POLLIN)])),
            Err(errno) => return format!("-1 {errno} {done}"),
        }
    }
    format!("{done} {hash:x}")
}

/// Sends and receives so many octets in one thread, which never waits: `[len, chunk, stream, position]`.
fn pump(out: i32, inward: i32, [len, chunk, stream, position]: [i64; 4]) -> String {
    let (mut sent, mut done, mut hash, mut idle) = (0, 0, stream::START, 0);
    while done < len {
        let mut moved = false;
        if sent < len {
            let mut pieces =
                stream::pieces(stream, (position + sent) as u64, &[chunk.min(len - sent) as usize]);
            match calls::send("send", out, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, &mut pieces) {
                Ok(more) => (sent, moved) = (sent + more, true),
                Err(libc::EAGAIN) => {}
                Err(errno) => return format!("-1 {errno} {sent} {done}"),
            }
        }
        let mut pieces = [vec![0; (chunk * 2) as usize]];
        match calls::receive("recv", inward, libc::MSG_DONTWAIT, &mut pieces) {
            Ok(0) => return format!("{done} end"),
            Ok(more) => {
                hash = stream::hash(hash, pieces[0].iter().take(more as usize));
                (done, moved) = (done + more, true);
            }
            Err(libc::EAGAIN) => {}
            Err(errno) => return format!("-1 {errno} {sent} {done}"),
        }
        idle = if moved { 0 } else { idle + 1 };
        if idle > 3 {
            let both = [(out, if sent < len { libc::POLLOUT } else { 0 }), (inward, libc::POLLIN)];
            drop(calls::poll("poll", PATIENCE, &both));
        }
    }
    format!("{done} {hash:x}")
}

fn poll(how: &str, words: &[&str]) -> String {
    let numbers: Vec<i64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let wanted: Vec<(i32, i16)> =
        numbers[1..].chunks_exact(2).map(|pair| (pair[0] as i32, pair[1] as i16)).collect();
    let (returned, told) = calls::poll(how, numbers[0] as i32, &wanted);
    let told: Vec<String> = told.iter().map(|events| format!("{events:x}")).collect();
    format!("{} {}", plain(returned), told.join(","))
}

/// Milliseconds after which a wait within a transfer looks again. Only a lost event lets it run out.
const PATIENCE: i32 = 3000;
