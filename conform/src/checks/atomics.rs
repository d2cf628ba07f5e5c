//! Atomics on the target's buffer: their effect and their Responses (RFC 7306 sections 4 and 5).

use crate::atomic::{AtomicRequest, AtomicResponse, id, is_unknown_opcode};
use crate::check::Check;
use crate::finding::Stop;
use crate::octets::digits;
use crate::octets::{Place, read_request, write};
use crate::ping::Advertisement;
use crate::segment::Header;
use crate::stream::{Fpdu, Stream};
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "atomic-support",
        title: "the target knows both FetchAdd and CmpSwap, or neither and sends Terminate 0/2/06",
        ids: &["7306-1.1-1", "7306-1.1-4", "7306-5-3", "7306-5.2.1-2"],
        run: atomic_support,
    },
    Check {
        name: "fetch-add",
        title: "FetchAdd with and without mask: the Response's form, the former value, the sum, and nothing else changed",
        ids: &[
            "7306-4-1",
            "7306-4-2",
            "7306-4.1-1",
            "7306-4.1-2",
            "7306-4.1-3",
            "7306-4.1-5",
            "7306-4.2-1",
            "7306-5-5",
            "7306-5.1.1-6",
            "7306-5.1.1-7",
            "7306-5.2-1",
            "7306-5.2-2",
            "7306-5.2.1-3",
            "7306-5.2.1-9",
            "7306-5.2.1-16",
            "7306-5.2.2-1",
            "7306-5.2.2-2",
            "7306-5.2.2-3",
            "7306-5.2.2-4",
            "7306-5.2.2-5",
            "7306-10-1",
        ],
        run: fetch_add,
    },
    Check {
        name: "cmp-swap",
        title: "CmpSwap with masks swaps if the compared bits are equal, and returns the former value in either case",
        ids: &["7306-5.1.2-1", "7306-5.1.2-2", "7306-5.2.1-16"],
        run: cmp_swap,
    },
    Check {
        name: "atomic-ignored",
        title: "reserved bits, the Invalidate STag, and the fields that FetchAdd does not use are ignored",
        ids: &["7306-4.1-4", "7306-5.2.1-1", "7306-5.2.1-6"],
        run: atomic_ignored,
    },
];

fn atomic_support(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let place = Place(0x0BAD_0001, 0x1000);
    let requests =
        [AtomicRequest::fetch_add(2, place, 0, 0), AtomicRequest::cmp_swap(2, place, [0, 0], [0, u64::MAX])];
    let mut answers = Vec::new();
    let mut last = None;
    for request in requests {
        let mut stream = trial.open_alive()?;
        stream.send_ulpdu(&request.emit());
        let answer = stream.read_fpdu().ok().and_then(|fpdu| Terminate::parse(&fpdu.ulpdu));
        let what = "the target does not answer an Atomic to an STag that does not exist";
        answers.push(answer.ok_or_else(|| Stop::Unsuited(what.to_owned()))?);
        last = Some(stream);
    }
    let Some(stream) = last else { return Ok(()) };
    let are_known: Vec<bool> = answers.iter().map(|answer| !is_unknown_opcode(answer)).collect();
    let observed = format!("FetchAdd: {}; CmpSwap: {}", answers[0], answers[1]);
    let is_one = are_known[0] == are_known[1];
    trial.judge(&["7306-1.1-1"], &stream, is_one, ("both operations or neither", &observed));
    if are_known.contains(&true) {
        let words = ("an answer that knows either operation", &observed);
        trial.judge(&["7306-5-3", "7306-5.2.1-2"], &stream, is_one, words);
    } else {
        trial.leave(&["7306-5-3", "7306-5.2.1-2"], "the target has no Atomics");
    }
    if are_known == [true, true] {
        trial.leave(&["7306-1.1-4"], "the target has Atomics");
    } else {
        let is_said =
            answers.iter().zip(are_known).all(|(answer, known)| known || answer.code() == [0x02, 0x06]);
        let words = ("a Terminate 0206 for what the target does not have", &observed);
        trial.judge(&["7306-1.1-4"], &stream, is_said, words);
    }
    Ok(())
}

/// A word of the target's memory, between two others.
struct Memory {
    stream: Stream,
    buffer: Advertisement,
    msn: u32,
    /// True if the target's machine is little-endian.
    is_little: bool,
}

impl Memory {
    fn open(trial: &mut Trial<'_>) -> Result<Self, Stop> {
        let (stream, buffer) = trial.open_atomic()?;
        let mut memory = Self { stream, buffer, msn: 2, is_little: false };
        memory.set(0x0102_0304_0506_0708);
        let request = AtomicRequest::fetch_add(memory.next(), memory.place(), 0, 0);
        let response = memory.run(trial, &request)?;
        memory.is_little = response.value == 0x0807_0605_0403_0201;
        let is_right = memory.is_little || response.value == 0x0102_0304_0506_0708;
        let words = ("the word in one of the two orders", format!("{:016X}", response.value));
        trial.need(&["7306-5.1.1-7"], &memory.stream, is_right, words)?;
        Ok(memory)
    }

    const fn next(&mut self) -> u32 {
        self.msn += 1;
        self.msn - 1
    }

    const fn place(&self) -> Place {
        self.buffer.place(8)
    }

    const fn octets(&self, value: u64) -> [u8; 8] {
        if self.is_little { value.to_le_bytes() } else { value.to_be_bytes() }
    }

    /// Writes the word, and its two neighbours.
    fn set(&mut self, value: u64) {
        let octets = [[NEIGHBOR; 8], self.octets(value), [NEIGHBOR; 8]].concat();
        self.stream.send_ulpdu(&write(self.buffer.stag, self.buffer.to, &octets));
    }

    /// Sends an Atomic and waits for its Response. Any other answer breaks the rule that each Request is answered.
    fn run(&mut self, trial: &mut Trial<'_>, request: &AtomicRequest) -> Result<AtomicResponse, Stop> {
        self.stream.send_ulpdu(&request.emit());
        let ids = &["7306-5.2.1-9", "7306-5.2.1-16"];
        let fpdu = trial.expect_fpdu(ids, &mut self.stream, "an Atomic Response")?;
        let observed = digits(&fpdu.ulpdu, 80);
        let response = AtomicResponse::parse(&fpdu);
        trial.need(ids, &self.stream, response.is_some(), ("an Atomic Response", &observed))?;
        response.inspect(|response| judge_form(trial, &self.stream, response, &fpdu)).ok_or(Stop::Judged)
    }

    /// Reads the three words, which have to hold the expected values. Judges `ids` by it.
    fn expect(&mut self, trial: &mut Trial<'_>, ids: &[&'static str], value: u64) -> Result<(), Stop> {
        let wanted = [[NEIGHBOR; 8], self.octets(value), [NEIGHBOR; 8]].concat();
        let msn = self.next();
        self.stream.send_ulpdu(&read_request(msn, Place(1, 0), 24, self.buffer.place(0)));
        // Reads and Atomics share one sequence of MSNs. A target that counts them separately does not answer this
        // Read.
        let fpdu = trial.expect_fpdu(&["7306-5.2-1"], &mut self.stream, "a Read Response")?;
        let is_read = fpdu.ulpdu.get(1).is_some_and(|octet| octet & 0x0F == 2);
        let observed = digits(&fpdu.ulpdu, 60);
        trial.need(&["7306-5.2-1"], &self.stream, is_read, ("a Read Response", &observed))?;
        let is_right = fpdu.ulpdu.get(14..) == Some(&wanted[..]);
        let expected = format!("a Read Response with {}", digits(&wanted, 24));
        trial.judge(ids, &self.stream, is_right, (expected, &observed));
        Ok(())
    }
}

/// Judges the rules that hold for each Atomic Response.
fn judge_form(trial: &mut Trial<'_>, stream: &Stream, response: &AtomicResponse, fpdu: &Fpdu) {
    let observed = digits(&fpdu.ulpdu, 60);
    let segment = &response.segment;
    let mut judge = |ids: &[&'static str], is_right: bool, expected: &str| {
        trial.judge(ids, stream, is_right, (expected, &observed));
    };
    judge(&["7306-4-1", "7306-4.2-1", "7306-5.2.2-1"], fpdu.ulpdu.len() == 30, "a header of 12 octets");
    judge(&["7306-4.1-1"], segment.rdmap & 0xC0 == 0x40, "RV of 01");
    judge(&["7306-4.1-2", "7306-10-1"], segment.rdmap & 0x0F == 0x0B, "opcode B");
    judge(&["7306-5.2.2-2", "7306-5.2.2-3", "7306-5-5"], !segment.is_tagged(), "T=0");
    if let Header::Untagged { invalidate, queue, .. } = segment.header {
        judge(&["7306-4.1-3"], invalidate == 0, "an Invalidate STag of zero");
        let ids = &[
            "7306-4-2",
            "7306-4.1-5",
            "7306-5-5",
            "7306-5.2-2",
            "7306-5.2.2-4",
            "7306-5.2.2-5",
            "7306-10-1",
        ];
        judge(ids, queue == 3, "QN 3");
    }
}

fn fetch_add(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut memory = Memory::open(trial)?;
    for [old, add, mask, new] in SUMS {
        memory.set(old);
        let request = AtomicRequest::fetch_add(memory.next(), memory.place(), add, mask);
        let response = memory.run(trial, &request)?;
        let words = ("the Request's identifier", format!("{:08X}", response.id));
        trial.judge(&["7306-5.2.1-3"], &memory.stream, response.id == id(request.msn), words);
        let words = (format!("the former value {old:016X}"), format!("{:016X}", response.value));
        trial.judge(&["7306-5.1.1-7", "7306-5.2.2-1"], &memory.stream, response.value == old, words);
        let ids: &[&'static str] =
            if mask == 0 { &["7306-5.1.1-6", "7306-5.1.1-7"] } else { &["7306-5.1.1-6"] };
        memory.expect(trial, ids, new)?;
    }
    Ok(())
}

fn cmp_swap(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut memory = Memory::open(trial)?;
    for [old, swap, swap_mask, compare, compare_mask, new] in SWAPS {
        memory.set(old);
        let request = AtomicRequest::cmp_swap(
            memory.next(),
            memory.place(),
            [swap, swap_mask],
            [compare, compare_mask],
        );
        let response = memory.run(trial, &request)?;
        let words = (format!("the former value {old:016X}"), format!("{:016X}", response.value));
        trial.judge(&["7306-5.1.2-1"], &memory.stream, response.value == old, words);
        memory.expect(trial, &["7306-5.1.2-1", "7306-5.1.2-2"], new)?;
    }
    Ok(())
}

/// Changes a Request and its Invalidate STag.
type Change = fn(&mut AtomicRequest, &mut [u8; 4]);

fn atomic_ignored(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut memory = Memory::open(trial)?;
    let cases: [(&'static str, Change); 3] = [
        ("7306-5.2.1-1", |request, _| request.code |= 0xFFFF_FFF0),
        ("7306-5.2.1-6", |request, _| request.compare = [0x1234_5678_9ABC_DEF0, 0x0F0F_0F0F_F0F0_F0F0]),
        ("7306-4.1-4", |_, invalidate| *invalidate = [0xFF; 4]),
    ];
    for (id, change) in cases {
        memory.set(0x37);
        let mut request = AtomicRequest::fetch_add(memory.next(), memory.place(), 5, 0);
        let mut invalidate = [0; 4];
        change(&mut request, &mut invalidate);
        let mut ulpdu = request.emit();
        ulpdu[2..6].copy_from_slice(&invalidate);
        memory.stream.send_ulpdu(&ulpdu);
        let fpdu = trial.expect_fpdu(&[id], &mut memory.stream, "an Atomic Response")?;
        let is_right = AtomicResponse::parse(&fpdu).is_some_and(|response| response.value == 0x37);
        let words = ("an Atomic Response with the former value 37", digits(&fpdu.ulpdu, 60));
        trial.need(&[id], &memory.stream, is_right, words)?;
        memory.expect(trial, &[id], 0x3C)?;
    }
    Ok(())
}

const NEIGHBOR: u8 = 0xA5;
/// Former value, Add Data, Add Mask, sum.
const SUMS: [[u64; 4]; 9] = [
    [0x37, 5, 0, 0x3C],
    [u64::MAX, 1, 0, 0],
    [0x0000_0000_FFFF_FFFF, 1, 0x0000_0000_8000_0000, 0],
    [0x0000_0000_FFFF_FFFF, 1, 0, 0x0000_0001_0000_0000],
    [0x00FF_00FF_00FF_00FF, 0x0001_0001_0001_0001, 0x8000_8000_8000_8000, 0x0100_0100_0100_0100],
    [u64::MAX, 0x0001_0001_0001_0001, 0x8000_8000_8000_8000, 0],
    [0x7F, 1, 0x80, 0x80],
    [0xFF, 1, 0x80, 0],
    // With this mask each bit is added alone, which is an exclusive or.
    [0x0F0F_0F0F_0F0F_0F0F, 0x00FF_00FF_00FF_00FF, u64::MAX, 0x0FF0_0FF0_0FF0_0FF0],
];
/// Former value, Swap Data, Swap Mask, Compare Data, Compare Mask, value afterwards.
const SWAPS: [[u64; 6]; 6] = [
    [5, 9, u64::MAX, 5, u64::MAX, 9],
    [5, 9, u64::MAX, 6, u64::MAX, 5],
    [0x1122_3344_5566_7788, 0xAAAA_AAAA_AAAA_AAAA, 0xFFFF, 0x7788, 0xFFFF, 0x1122_3344_5566_AAAA],
    [0x1122_3344_5566_7788, 0xAAAA_AAAA_AAAA_AAAA, 0xFFFF, 0x7789, 0xFFFF, 0x1122_3344_5566_7788],
    [7, 0x1234, u64::MAX, 0, 0, 0x1234],
    [0x8000_0000_0000_0001, 0, u64::MAX, 1, u64::MAX >> 1, 0],
];
