//! Scripts and how they are run.

use weft_tcp::{Config, Micros, Seq};

use crate::call::{asks, call};
use crate::host::Host;
use crate::text::{self, Isns, Shown};

pub(crate) struct Script<'a> {
    /// The number of the first line in its file, and the lines.
    first: usize,
    lines: Vec<&'a str>,
}

impl<'a> Script<'a> {
    pub(crate) fn read_all(text: &'a str) -> Vec<Self> {
        let mut scripts: Vec<Self> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.starts_with("== ") || scripts.is_empty() {
                scripts.push(Self { first: index + 1, lines: Vec::new() });
            }
            if let Some(script) = scripts.last_mut() {
                script.lines.push(line);
            }
        }
        scripts
    }

    /// Runs the script with these ISNs of the host and its peer.
    pub(crate) fn run(&self, (own, peer): (u32, u32)) -> Result<(), String> {
        let title = self.lines.first().copied().unwrap_or_default();
        if !title.starts_with("== RFC ") {
            return Err(format!("{}: it names no section of an RFC", self.first));
        }
        let mut config = Config { timestamps: false, ..Config::new(1500, false) };
        config.send.pacing = false;
        let mut run =
            Run { host: Host::new(config, Seq(own)), peer: Seq(peer), now: Micros(0), in_turn: false };
        for (index, line) in self.lines.iter().enumerate().skip(1) {
            let line = line.split("//").next().unwrap_or_default().trim();
            if !line.is_empty() {
                let at = |failure| format!("{}: {line}\n    {failure}\n    in {title}", self.first + index);
                run.follow(line).map_err(at)?;
            }
        }
        run.expect_silence()
            .map_err(|failure| format!("{}: {failure} at the end\n    in {title}", self.first))
    }
}

struct Run {
    host: Host,
    peer: Seq,
    now: Micros,
    /// A segment has arrived in a turn that goes on.
    in_turn: bool,
}

impl Run {
    fn follow(&mut self, line: &str) -> Result<(), String> {
        let (time, what) = line.split_once(char::is_whitespace).ok_or("no time")?;
        let time = self.now + micros(time).ok_or("no time")?;
        let what = what.trim();
        if let Some(peer) = what.strip_prefix("open ") {
            self.advance(time);
            return self.open(peer);
        }
        if let Some(segment) = what.strip_prefix("> ") {
            return self.expect(segment, time);
        }
        if !self.in_turn || time > self.now {
            self.advance(time);
        }
        if asks(what) {
            return call(&mut self.host, what, self.now);
        }
        self.expect_silence()?;
        self.in_turn = what.starts_with("<<");
        let isns = Isns { own: self.host.iss, peer: self.peer };
        match what.split_once(' ') {
            Some(("<<", segment)) => {
                self.host.arrive(&text::read(segment, isns.mirrored())?.0, self.now);
                return Ok(());
            }
            Some(("<", segment)) => self.host.arrive(&text::read(segment, isns.mirrored())?.0, self.now),
            _ => call(&mut self.host, what, self.now)?,
        }
        self.host.transmit(self.now);
        Ok(())
    }

    /// Lets a peer open a connection: `RTT-IN-MS MSS WINDOW OPTIONS`.
    fn open(&mut self, peer: &str) -> Result<(), String> {
        let mut words = peer.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (rtt, mss, window, options) = (word(), word(), word(), word());
        let stamps = options.find("TS").and_then(|at| options.get(at..)).unwrap_or_default();
        self.follow("+0 listen")?;
        self.follow(&format!("+0 < S 0:0(0) win {window} <mss {mss},{options}>"))?;
        self.follow("+0 > S. 0:0(0) ack 1")?;
        self.follow(&format!("+0.{rtt:0>3} < . 1:1(0) ack 1 win {window} <{stamps}>"))
    }

    /// Lets the time pass. What happens on the way is done at its time.
    fn advance(&mut self, until: Micros) {
        while let Some(timeout) = self.host.next_timeout().filter(|&timeout| timeout <= until) {
            let (before, gone) = (self.now.max(timeout), self.host.gone.len());
            let next = self.host.next_timeout();
            self.now = before;
            self.host.expire(self.now);
            self.host.transmit(self.now);
            assert!(
                self.host.gone.len() > gone || self.host.next_timeout() != next,
                "a timer does nothing at {timeout:?}"
            );
        }
        self.now = self.now.max(until);
    }

    fn expect(&mut self, wanted: &str, time: Micros) -> Result<(), String> {
        self.advance(time);
        let isns = Isns { own: self.host.iss, peer: self.peer };
        let (segment, shown) = text::read(wanted, isns)?;
        if self.host.gone.is_empty() {
            return Err(format!("nothing is sent up to {:?}", self.now));
        }
        let (at, is) = self.host.gone.remove(0);
        let (is, wanted) = (text::write(&is, isns, shown), text::write(&segment, isns, shown));
        if is == wanted && at == time {
            Ok(())
        } else {
            Err(format!("it is {is} at {at:?}, not at {time:?}"))
        }
    }

    fn expect_silence(&self) -> Result<(), String> {
        let isns = Isns { own: self.host.iss, peer: self.peer };
        let shown = Shown { window: true, options: true, raw: false };
        match self.host.gone.first() {
            Some((at, segment)) => {
                Err(format!("not expected: {} at {at:?}", text::write(segment, isns, shown)))
            }
            None => Ok(()),
        }
    }
}

/// Reads `+SECONDS` with at most six places behind the point.
fn micros(text: &str) -> Option<Micros> {
    let (seconds, fraction) =
        text.strip_prefix('+')?.split_once('.').unwrap_or((text.strip_prefix('+')?, ""));
    let seconds: u64 = if seconds.is_empty() { 0 } else { seconds.parse().ok()? };
    let fraction = format!("{fraction:0<6}").parse::<u64>().ok().filter(|_| fraction.len() <= 6)?;
    Some(Micros(seconds * 1_000_000 + fraction))
}
