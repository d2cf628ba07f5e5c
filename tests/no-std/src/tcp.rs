//! Two TCP connections that open, carry one segment and know it.

use weft_tcp::{
    Config, Connection, Frame, HalfOpen, Interval, Micros, Opening, Segment, Sent, Seq, State, Token,
    Transmit, Unsent,
};

type Tcp = Connection<[Sent; 4], [Interval; 4]>;

/// Carries ten octets from the active side to the passive one. Returns 0 if all went well, else the step that failed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn weft_tcp_pair() -> u32 {
    match pair() {
        Ok(()) => 0,
        Err(step) => step as u32,
    }
}

/// The step at which the pair failed.
#[derive(Clone, Copy)]
enum Step {
    Syn = 1,
    Opening,
    Segment,
    Data,
    End,
}

fn pair() -> Result<(), Step> {
    let (config, now) = (Config::new(1500, false), Micros(0));
    let nothing = Interval { start: Seq(0), end: Seq(0) };
    let storage = || ([Sent::default(); 4], [nothing; 4]);
    let mut active: Tcp = Connection::connect(&config, Seq(7), 0, storage(), now);
    let syn = send(&mut active, 0, now).ok_or(Step::Syn)?;
    let mut half = HalfOpen::new(&config, &syn, Seq(9), 0, now);
    active.handle(&half.syn_ack(&config, now), now);
    half.sent(now);
    let ack = send(&mut active, 0, now).ok_or(Step::Syn)?;
    if half.handle(&config, &ack, now) != Opening::Opened {
        return Err(Step::Opening);
    }
    let mut passive: Tcp = Connection::accept(&config, &half, &ack, storage(), now);
    active.offer(Unsent { octets: 10, first: 10 }, now);
    let data = send(&mut active, 10, now).ok_or(Step::Segment)?;
    if passive.handle(&data, now).received.ready != 10 {
        return Err(Step::Data);
    }
    passive.close(now);
    let fin = send(&mut passive, 0, now).ok_or(Step::Segment)?;
    let is_acknowledged = active.handle(&fin, now).acked == 10 && active.released() == Some(Token(1));
    if is_acknowledged && active.state() == State::CloseWait { Ok(()) } else { Err(Step::End) }
}

/// Sends the next segment, with so many octets if it has any.
fn send(tcp: &mut Tcp, len: u16, now: Micros) -> Option<Segment> {
    let mut outgoing = tcp.poll_transmit(now)?;
    let frame = Frame { token: Token(1), offset: 0, len, segment: len, ends: true };
    if matches!(outgoing.transmit, Some(Transmit::New { .. })) {
        outgoing.segment.len = len.into();
    }
    tcp.sent(&outgoing, Some(&frame), now);
    Some(outgoing.segment)
}
