//! Seeds of what processes, commands and daemons say to each other: one of each kind with fields.

use core::net::SocketAddr;

use weft_sockets::far::{Letter, Notice};
use weft_sockets::{
    Answer, Cause, Denial, Digests, Order, Prefixes, Reason, Record, RingPlace, ToDaemon, ToProcess,
    WaiterName,
};

use crate::sockets;

/// Names and octets of a target's seeds.
pub(crate) fn all(target: &str) -> Vec<(String, Vec<u8>)> {
    let made = match target {
        "sockets_message" => prefixed("to-daemon-", to_daemon()).chain(prefixed("to-process-", to_process())),
        "sockets_letter" => prefixed("letter-", letters()).chain(prefixed("", vec![("notices", notices())])),
        "sockets_order" => prefixed("", orders()).chain(prefixed("", Vec::new())),
        "sockets_answer" => prefixed("", answers()).chain(prefixed("", Vec::new())),
        "sockets_record" => prefixed("", records()).chain(prefixed("", Vec::new())),
        "sockets_session" => prefixed("", sessions()).chain(prefixed("", Vec::new())),
        _ => unreachable!("no seeds of talk"),
    };
    let chance = (1..=4).map(|seed| (format!("chance-{seed}"), sockets::chance(seed)));
    made.chain(chance).collect()
}

fn prefixed(prefix: &str, seeds: Vec<(&str, Vec<u8>)>) -> std::vec::IntoIter<(String, Vec<u8>)> {
    let named = seeds.into_iter().map(|(name, octets)| (format!("{prefix}{name}"), octets));
    named.collect::<Vec<_>>().into_iter()
}

fn ring() -> RingPlace {
    RingPlace::new(80, 18).expect("a place")
}

fn digests() -> Digests {
    Digests { written: Prefixes::of(&[1; 64]), received: Prefixes::of(&[2; 256]) }
}

/// What a process tells its daemon.
fn to_daemon() -> Vec<(&'static str, Vec<u8>)> {
    let (link, channel, party, slot, generation, ring) = (0x1234_5678_0000_0009, 7, 1, 11, 12, ring());
    let sleeper = Some(WaiterName { member: 3, line: 9 });
    let messages = [
        ("register", ToDaemon::Register { oldest: 1, newest: 2, member: 3 }),
        ("bell", ToDaemon::Bell { line: 5 }),
        ("claim", ToDaemon::Claim { slot, generation, digests: digests() }),
        ("withdraw", ToDaemon::Withdraw { slot, generation }),
        ("want-ring", ToDaemon::WantRing { link, channel, party, log2: 18 }),
        ("return-ring", ToDaemon::ReturnRing { link, channel, party, ring }),
        ("closed", ToDaemon::Closed { slot, generation, link, channel, party }),
        ("ring", ToDaemon::Ring { link, party, sleeper }),
        ("show-link", ToDaemon::ShowLink { link, party: 0 }),
        ("network", ToDaemon::Network {}),
        ("ask", ToDaemon::Ask { slot, generation }),
    ];
    messages.map(|(name, message)| (name, message.encode().to_vec())).into()
}

/// What a daemon tells a process.
fn to_process() -> Vec<(&'static str, Vec<u8>)> {
    let (link, channel, party, slot, generation, ring) = (0x1234_5678_0000_0009, 7, 1, 11, 12, ring());
    let waiter = WaiterName { member: 3, line: 9 };
    let messages = [
        ("welcome", ToProcess::Welcome { version: 2, family: 5, epoch: 6 }),
        ("refused", ToProcess::Refused { reason: Reason::Version }),
        ("link", ToProcess::LinkMade { link, peer: 5, far: 1 }),
        ("link-gone", ToProcess::LinkGone { link }),
        ("status", ToProcess::PeerStatus { family: 5, member: 3 }),
        ("bell", ToProcess::PeerBell { family: 5, waiter }),
        ("gone", ToProcess::PeerGone { family: 5, member: 3 }),
        ("offer", ToProcess::Offer { slot, generation, link, channel, party, ring, secret: [8, 9] }),
        ("ring-made", ToProcess::RingMade { link, channel, party, ring }),
        ("dropped", ToProcess::Dropped { slot, generation, reason: Reason::NoPartner }),
    ];
    messages.map(|(name, message)| (name, message.encode().to_vec())).into()
}

/// What daemons tell each other by Sends.
fn letters() -> Vec<(&'static str, Vec<u8>)> {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let claim = |local, peer| Letter::Claim {
        id: 1,
        local: address(local),
        peer: address(peer),
        own_scale: 7,
        peer_scale: 9,
        options: 7,
        written: 100,
        consumed: 200,
        digests: digests(),
    };
    let (channel, stag, ring) = (7, 0x1234_5601, ring());
    let letters = [
        ("claim", claim("10.0.0.2:5000", "10.0.0.1:80")),
        ("claim-v6", claim("[fd00::2]:5000", "[fd00::1]:80")),
        ("withdraw", Letter::Withdraw { id: 1 }),
        ("open", Letter::Open { id: 1, channel, stag, ring, secret: [8, 9] }),
        ("opened", Letter::Opened { channel, own: 8, stag, ring }),
        ("refused", Letter::Refused { channel }),
        ("leg", Letter::Leg { channel, number: 1, ring, start: 20 }),
        ("final", Letter::Final { channel, end: 1020 }),
        ("want-ring", Letter::WantRing { channel, log2: 18 }),
        ("ring-made", Letter::RingMade { channel, ring }),
        ("return-ring", Letter::ReturnRing { channel, ring }),
        ("ask", Letter::Ask { secret: [8, 9] }),
        ("stays", Letter::Stays { secret: [8, 9] }),
    ];
    letters.map(|(name, letter)| (name, letter.encode().to_vec())).into()
}

/// A notice of each kind.
fn notices() -> Vec<u8> {
    let kinds = (0..16).filter_map(|kind: u8| Notice::decode([0, 0, 1, 0, 7, 0, 0, kind << 4]));
    kinds.flat_map(Notice::encode).collect()
}

/// Steps of senders. Each tells who sends, how much time passes before, a file, the length, and the octets.
fn orders() -> Vec<(&'static str, Vec<u8>)> {
    const COMMAND: u8 = 2;
    let step = |sender: u8, file: u8, octets: &[u8]| [&[sender, file, low(octets.len())], octets].concat();
    let order = |order: Order| step(COMMAND, 0, &order.encode());
    let all_orders = [
        order(Order::HasLanes {}),
        order(Order::Drain { pid: 3 }),
        order(Order::Replaced {}),
        order(Order::Replace {}),
        order(Order::Replaced {}),
    ];
    let by_process = [step(0, 0, &Order::HasLanes {}.encode()), step(1, 0, &Order::Replace {}.encode())];
    let messages: Vec<u8> = to_daemon()
        .into_iter()
        .enumerate()
        .flat_map(|(at, (_, octets))| step(low(at % 2), low(at), &octets))
        .collect();
    let by_command: Vec<u8> =
        to_daemon().into_iter().flat_map(|(_, octets)| step(COMMAND, 4, &octets)).collect();
    // A link of an earlier daemon, shown by both of its parties.
    let (link, channel, party) = (9, 0, 0);
    let said = [
        step(0, 1, &ToDaemon::ShowLink { link, party }.encode()),
        step(1, 1, &ToDaemon::ShowLink { link, party: 1 }.encode()),
        step(0, 0, &ToDaemon::WantRing { link, channel, party, log2: 16 }.encode()),
        step(0, 0, &ToDaemon::Ring { link, party, sleeper: None }.encode()),
        step(200, 0, &ToDaemon::Closed { slot: 0, generation: 1, link, channel, party }.encode()),
        step(0, 0, &ToDaemon::Ring { link, party: 1, sleeper: None }.encode()),
    ];
    let cut = to_daemon().into_iter().flat_map(|(_, octets)| step(0, 0xff, &octets[..octets.len() - 1]));
    vec![
        ("orders", all_orders.concat()),
        ("orders-of-a-process", by_process.concat()),
        ("messages", messages),
        ("messages-of-a-command", by_command),
        ("links", said.concat()),
        ("cut", cut.collect()),
    ]
}

/// Messages to a command and to a process, each with its length before it.
fn answers() -> Vec<(&'static str, Vec<u8>)> {
    let step = |octets: &[u8]| [&[low(octets.len())], octets].concat();
    let answers = [
        Answer::Lanes { has: 1 },
        Answer::Drained { done: 5, left: 1 },
        Answer::Listener {},
        Answer::Denied { why: Denial::User },
        Answer::Denied { why: Denial::Busy },
    ];
    let to_command = answers.iter().flat_map(|answer| step(&answer.encode())).collect();
    let all = to_process().iter().flat_map(|(_, octets)| step(octets)).collect();
    let offer = |slot, channel, party, unit, log2| {
        let ring = RingPlace::new(unit, log2).expect("a place");
        step(
            &ToProcess::Offer { slot, generation: 1, link: 1, channel, party, ring, secret: [1, 2] }.encode(),
        )
    };
    let made = |channel, party, unit, log2| {
        let ring = RingPlace::new(unit, log2).expect("a place");
        step(&ToProcess::RingMade { link: 1, channel, party, ring }.encode())
    };
    let grown = [offer(0, 3, 0, 64, 16), made(3, 0, 128, 18), made(3, 1, 128, 18), made(9, 0, 256, 22)];
    let far_off =
        [offer(0, 4031, 255, 16_383, 16), offer(1, 4032, 0, 64, 22), offer(u32::MAX, u32::MAX, 2, 64, 16)];
    vec![
        ("to-command", to_command),
        ("to-process", all),
        ("grown", grown.concat()),
        ("far-off", far_off.concat()),
    ]
}

/// A secret, the position of a reader, and the kernel's stream.
fn records() -> Vec<(&'static str, Vec<u8>)> {
    const SECRET: [u64; 2] = [0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09];
    let scene = |consumed: u64, stream: &[u8]| {
        let words = [SECRET[0], SECRET[1], consumed << 1].map(u64::to_le_bytes);
        [words.as_flattened(), stream].concat()
    };
    let record = |position, cause| Record { position, cause }.encode(SECRET);
    let mut unknown = record(1000, Cause::Lost);
    unknown[23] = 9;
    vec![
        ("lost", scene(1000, &record(1000, Cause::Lost))),
        ("ended", scene(5000, &[&record(1000, Cause::Ended)[..], &[7; 40]].concat())),
        ("drained", scene(5000, &record(4999, Cause::Drained))),
        ("refused", scene(5000, &record(5000, Cause::Refused))),
        ("ahead", scene(1000, &record(1001, Cause::Lost))),
        ("far-behind", scene(1 << 40, &record(1000, Cause::Lost))),
        ("unknown-cause", scene(1000, &unknown)),
        ("cut", scene(1000, &record(1000, Cause::Lost)[..23])),
        ("behind-octets", scene(1000, &[&[7; 5][..], &record(1000, Cause::Lost)].concat())),
        ("no-secret", [0; 60].to_vec()),
    ]
}

/// Steps of a session: the kind, and a number.
fn sessions() -> Vec<(&'static str, Vec<u8>)> {
    const PUSH: u8 = 0;
    const POST: u8 = 1;
    const COMPLETE: u8 = 2;
    const ACKNOWLEDGE: u8 = 3;
    const RESUME: u8 = 4;
    const RECEIVE: u8 = 5;
    const TELL: u8 = 6;
    // In a number near those that are right, 2 is the first.
    let steps = |steps: &[(u8, u64)]| -> Vec<u8> {
        steps.iter().flat_map(|(kind, value)| [&[*kind][..], &value.to_le_bytes()].concat()).collect()
    };
    let lost = [(PUSH, 9), (POST, 5), (COMPLETE, 3), (ACKNOWLEDGE, 4), (RESUME, 5), (POST, 63), (RESUME, 2)];
    let wide = [(PUSH, 63), (POST, 63), (0x80 | ACKNOWLEDGE, 1 << 31), (ACKNOWLEDGE, 66), (RESUME, 66)];
    let false_ones = [(PUSH, 3), (POST, 1), (ACKNOWLEDGE, 5), (RESUME, 5), (0x80 | RESUME, u64::MAX)];
    let told = [(RECEIVE, 254), (TELL, 0), (TELL, 1), (RECEIVE, 255), (TELL, 0), (TELL, 1)];
    vec![
        ("lost", steps(&lost)),
        ("wide", steps(&wide)),
        ("false", steps(&false_ones)),
        ("told", steps(&told)),
    ]
}

fn low(number: usize) -> u8 {
    u8::try_from(number).expect("a small number")
}
