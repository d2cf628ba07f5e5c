//! The planned work of one lane's applications.

use weft_netif::Duration;

use super::draft::{Budget, Draft, Source};
use super::layout::{Role, WORD};
use super::plan::{EndPlan, Fate, HostPlan, LanePlan, Moment, Terms, micros};
use super::random::Random;
use super::request::{Bad, Change, Op, Receive, Request};

/// Draws a lane: two ends, their requests, and its fate.
pub(crate) fn lane(random: &mut Random, hosts: &[HostPlan], enhanced: bool, budget: &mut Budget) -> LanePlan {
    let first = random.below(hosts.len());
    let second = (first + random.between(1, hosts.len() - 1)) % hosts.len();
    let peer_to_peer = enhanced && random.percent(40);
    let depths = depths(random, enhanced, peer_to_peer);
    let mut drafts = [Draft::new(random), Draft::new(random)];
    for side in 0..2 {
        drafts[side].may_fetch = depths[side].1.min(depths[1 - side].0) > 0;
    }
    let mut left = [0, 0].map(|_: i32| random.pick(&[0, 1, 4, 10, 20, 40, 80]));
    // Without the peer-to-peer start the responder waits for the initiator (RFC 5044 section 7.1.2).
    left[0] = left[0].max(usize::from(!peer_to_peer));
    let fate = fate(random, left);
    let bad_at = if let Fate::Bad { by, request } = fate { Some((by, request)) } else { None };
    while left != [0, 0] {
        let side = if left[0] == 0 {
            1
        } else if left[1] == 0 {
            0
        } else {
            random.below(2)
        };
        left[side] -= 1;
        let [a, b] = &mut drafts;
        let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
        let wish = Wish {
            bad: bad_at == Some((side, own.requests.len())),
            // Otherwise the closing side could not know whether the last Writes of the other side have arrived.
            heard: left[side] == 0 && fate == Fate::Orderly { by: 1 - side },
        };
        draw(random, own, peer, budget, &wish);
        if let Some(last) = own.requests.last_mut().filter(|_| left[side] == 0) {
            // Without a signal the application could not know that it is done.
            last.signaled = true;
        }
    }
    let hosts_of = [first, second];
    let mut sides = drafts
        .into_iter()
        .zip(hosts_of)
        .zip(depths)
        .map(|((draft, host), depths)| end(random, draft, (host, &hosts[host]), depths));
    let ends = [(); 2].map(|()| sides.next());
    drop(sides);
    let [Some(initiator), Some(responder)] = ends else { unreachable!("two drafts make two ends") };
    let private = if enhanced { 508 } else { 512 };
    LanePlan {
        ends: [initiator, responder],
        terms: Terms {
            connect_at: micros(random.pick(&[0, 0, 10, 3000])),
            peer_to_peer,
            rejections: random.pick(&[0, 0, 0, 0, 0, 1, 2]),
            private_data: [private; 2].map(|most| {
                let len = random.pick(&[2, 2, 50, most]);
                random.octets(len)
            }),
            fate,
        },
    }
}

/// Draws IRD and ORD of both ends. Without negotiation the applications have to agree by themselves.
fn depths(random: &mut Random, enhanced: bool, peer_to_peer: bool) -> [(u16, u16); 2] {
    let least = u16::from(peer_to_peer);
    let mut depth = || u16::try_from(random.pick(&[0, 1, 1, 2, 4, 16, 64])).unwrap_or(1).max(least);
    let [mut a, mut b] = [(depth(), depth()), (depth(), depth())];
    if !enhanced {
        a.1 = a.1.min(b.0);
        b.1 = b.1.min(a.0);
    }
    [a, b]
}

fn fate(random: &mut Random, counts: [usize; 2]) -> Fate {
    let by = if counts[1] == 0 {
        0
    } else if counts[0] == 0 {
        1
    } else {
        random.below(2)
    };
    let mut moment = |side: usize| Moment {
        posted: random.below(counts[side] + 1),
        delay: Duration::from_micros(random.pick(&[0, 1, 30, 1000, 40_000])),
    };
    let (at, other) = (moment(by), moment(1 - by));
    match random.below(20) {
        0..=8 => Fate::Orderly { by: random.below(2) },
        9 | 10 => Fate::Disconnect { by, at },
        11 => {
            Fate::Both { first: if by == 0 { at } else { other }, second: if by == 0 { other } else { at } }
        }
        12 => Fate::Destroy { by, at },
        13 => {
            let roles = [Role::Source, Role::Sink, Role::Exposed, Role::Readable, Role::Mixed, Role::Words];
            Fate::Deregister { by, region: random.pick(&roles) as usize, at }
        }
        _ if counts[by] > 0 => Fate::Bad { by, request: random.below(counts[by]) },
        _ => Fate::Orderly { by },
    }
}

fn end(random: &mut Random, draft: Draft, host: (usize, &HostPlan), depths: (u16, u16)) -> EndPlan {
    let mut receives = draft.receives;
    match draft.receives_end {
        Some(end) => receives.truncate(end),
        None => receives.extend((0..random.below(3)).map(|_| Receive::default())),
    }
    EndPlan {
        host: host.0,
        domain: random.below(2),
        cqs: [random.below(host.1.cqs), random.below(host.1.cqs)],
        capacity: draft.capacity,
        signal_all: draft.signal_all,
        quota: draft.quota,
        ird: depths.0,
        ord: depths.1,
        regions: draft.layout.finish(random),
        requests: draft.requests,
        receives,
        words: draft.words,
        think: random.pick(&[0, 0, 20, 500, 20_000]),
        burst: random.pick(&[1, 2, 8, 100]),
    }
}

/// The required properties of a request.
struct Wish {
    bad: bool,
    /// The peer gets a completion for it, or its own side does.
    heard: bool,
}

/// Draws one request of `own`, and the memory and receives that it needs at the peer.
fn draw(random: &mut Random, own: &mut Draft, peer: &mut Draft, budget: &mut Budget, wish: &Wish) {
    // A bad request without octets would do no harm.
    let len = budget.size(random).max(2 * usize::from(wish.bad));
    let mut request = match random.between(3 * usize::from(wish.heard), 11) {
        0..=2 => write(random, own, peer, len),
        3..=5 if own.may_fetch => read(random, own, peer, len),
        6 | 7 if own.may_fetch => atomic(random, own, peer),
        8 => immediate(random, peer),
        _ => send(random, own, peer, len),
    };
    if request.receive().is_some() {
        request.solicited = random.percent(30);
    }
    if let Op::Send { invalidate, .. } = &mut request.op
        && random.percent(30)
    {
        *invalidate = Some(peer.layout.window(random));
    }
    if wish.bad {
        spoil(random, own, peer, &mut request);
    }
    own.push(random, request);
}

fn request(op: Op, source: Source) -> Request {
    let Source { local, inline, data, fence, scribble } = source;
    Request { op, local, inline, data, signaled: true, fence, solicited: false, scribble, bad: None }
}

fn write(random: &mut Random, own: &mut Draft, peer: &mut Draft, len: usize) -> Request {
    let role = if random.percent(50) { Role::Exposed } else { Role::Mixed };
    let source = own.source(random, len);
    let to = peer.layout.take(role, source.data.len(), random);
    request(Op::Write { to }, source)
}

fn send(random: &mut Random, own: &mut Draft, peer: &mut Draft, len: usize) -> Request {
    let source = own.source(random, len);
    let room = source.data.len() + random.pick(&[0, 0, 1, 50]);
    let places = peer.pieces(random, Role::Sink, room, peer.capacity.recv_sge);
    peer.receives.push(Receive { places, bad: false });
    request(Op::Send { receive: peer.receives.len() - 1, invalidate: None }, source)
}

fn immediate(random: &mut Random, peer: &mut Draft) -> Request {
    let room = random.pick(&[0, 0, 8, 20]);
    let places = peer.pieces(random, Role::Sink, room, peer.capacity.recv_sge);
    peer.receives.push(Receive { places, bad: false });
    let source = Source { data: random.octets(8), ..Source::default() };
    request(Op::Immediate { receive: peer.receives.len() - 1 }, source)
}

/// Draws a Read of initial memory, or of memory that an earlier Write of the same end has filled.
fn read(random: &mut Random, own: &mut Draft, peer: &mut Draft, len: usize) -> Request {
    let mixed = Role::Mixed as usize;
    let readable = |earlier: &&Request| {
        earlier.bad.is_none() && matches!(earlier.op, Op::Write { to } if to.region == mixed && to.len > 0)
    };
    let written = own.requests.iter().rev().find(readable).filter(|_| random.percent(30));
    let (from, data) = match written {
        Some(Request { op: Op::Write { to }, data, .. }) => (*to, data.clone()),
        _ => {
            let role = if random.percent(60) { Role::Readable } else { Role::Mixed };
            let from = peer.layout.take(role, len, random);
            (from, peer.layout.contents(&from).to_vec())
        }
    };
    let local = own.pieces(random, Role::Sink, data.len(), own.capacity.send_sge);
    request(Op::Read { from }, Source { local, data, ..Source::default() })
}

fn atomic(random: &mut Random, own: &mut Draft, peer: &mut Draft) -> Request {
    if peer.words.is_empty() || random.percent(20) {
        let place = peer.layout.take(Role::Words, WORD, random);
        let mut value = [0; WORD];
        value.copy_from_slice(peer.layout.contents(&place));
        peer.words.push((place, vec![u64::from_ne_bytes(value)]));
    }
    let word = random.below(peer.words.len());
    let values = &mut peer.words[word].1;
    let (step, value) = (values.len() - 1, values[values.len() - 1]);
    let any = random.octets(24);
    let any =
        |index: usize| any[8 * index..].iter().take(8).fold(0, |word, &octet| word << 8 | u64::from(octet));
    let change = if random.percent(50) {
        let mask = random.pick(&[0, 1 << 63, 0x8000_8000_8000_8000, any(0)]);
        Change::FetchAdd { add: random.pick(&[1, u64::MAX, any(1)]), mask }
    } else {
        Change::CompareSwap {
            swap: any(0),
            swap_mask: random.pick(&[u64::MAX, 0xFFFF_0000, any(1)]),
            compare: random.pick(&[value, value, any(2)]),
            compare_mask: random.pick(&[u64::MAX, 0, 0xFF, any(1)]),
        }
    };
    values.push(change.apply(value));
    let sink = own.layout.take(random.pick(&[Role::Sink, Role::Sink, Role::Mixed]), WORD, random);
    let source = Source { local: vec![sink], data: value.to_ne_bytes().to_vec(), ..Source::default() };
    request(Op::Atomic { word, step, change }, source)
}

/// Gives the request one of the faults that its kind may have.
fn spoil(random: &mut Random, own: &mut Draft, peer: &mut Draft, request: &mut Request) {
    let invalidates = |request: &Request| matches!(request.op, Op::Send { invalidate: Some(_), .. });
    let possible = |bad: &Bad| match bad {
        Bad::Invalidated => own.requests.iter().any(invalidates),
        Bad::Wrap => request.data.len() > 1,
        Bad::CannotInvalidate => invalidates(request),
        Bad::ReceiveStag => peer.capacity.recv_sge > 1,
        _ => !bad.is_local() || request.local.iter().any(|place| place.len > 0),
    };
    let choice: Vec<Bad> = Bad::choice(request.opcode()).into_iter().filter(possible).collect();
    let bad = random.pick(&choice);
    request.bad = Some(bad);
    if request.fetches() && !bad.is_local() {
        // The sink is one piece, and the peer sends no octet of it.
        request.local = vec![own.layout.take(Role::Sink, request.data.len(), random)];
    }
    if bad == Bad::Rights {
        // Only the right is to be missing.
        let role = bad.region(&request.op);
        peer.layout.take(role, request.data.len(), random);
    }
    match (bad, request.receive()) {
        (Bad::NoReceive, Some(receive)) => peer.receives_end = Some(receive),
        (Bad::ShortReceive | Bad::ReceiveStag, Some(receive)) => {
            let room = random.below(request.data.len());
            let most = (peer.capacity.recv_sge - 1).max(1);
            let places = peer.pieces(random, Role::Sink, room, most);
            peer.receives[receive] = Receive { places, bad: bad == Bad::ReceiveStag };
        }
        _ => {}
    }
}
