//! A newer epoch begins while a session works.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_group::{
    Answer, Done, Limits, Member, OpId, Options, Refusal, Seal, Sealed, Server, Session, SessionError,
    Topology,
};
use weft_rnic::{Progress, Region};

use crate::hosts::{LEN, device, options};

/// A server that is sealed from outside. It ends when `orders` is dropped.
struct Host {
    member: Member,
    memory: Arc<Region>,
    orders: Option<Sender<u64>>,
    sealed: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    fn new(seed: u64) -> Self {
        let memory = Arc::new(Region::owned(LEN).unwrap());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let device = device(seed, Progress::Thread);
        let parts = (Arc::clone(&memory), LEN as u64);
        let mut server = Server::new(&device, parts, address, Limits::default()).unwrap();
        let member = server.member();
        let (orders, ordered) = channel();
        let (done, sealed) = channel();
        let thread = std::thread::spawn(move || {
            loop {
                let [notices, announcements] = server.descriptors();
                let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
                let moment = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                poll(&mut [readable(notices), readable(announcements)], Some(&moment)).unwrap();
                server.handle();
                match ordered.try_recv() {
                    Ok(epoch) => {
                        done.send(server.seal(Seal { epoch, base: epoch - 1 })).unwrap();
                    }
                    Err(std::sync::mpsc::TryRecvError::Empty) => {}
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
                }
            }
        });
        Self { member, memory, orders: Some(orders), sealed, thread: Some(thread) }
    }

    fn seal(&self, epoch: u64) -> Answer {
        self.orders.as_ref().unwrap().send(epoch).unwrap();
        self.sealed.recv().unwrap()
    }

    fn contents(&self) -> Vec<u8> {
        let mut octets = vec![0; LEN];
        assert!(self.memory.copy_out(0, &mut octets));
        octets
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.orders.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Each replica in turn is sealed while the client writes. It places nothing more, the client hears of the epoch, and a
/// session of the new epoch opens when all are sealed.
#[test]
fn a_sealed_replica_ends_older_sessions() {
    for topology in [Topology::Chain, Topology::Fan] {
        for first in 0..3 {
            let hosts: Vec<Host> = (0..3).map(Host::new).collect();
            let client = device(9, Progress::Thread);
            let members: Vec<Member> = hosts.iter().map(|host| host.member).collect();
            let open = |epoch| Session::open(&client, &members, &Options { epoch, ..options(topology) });
            let refused = open(1).unwrap_err().to_string();
            assert!(refused.ends_with("the member is sealed with epoch 0"), "{refused}");
            let seal = |host: &Host, epoch| {
                let sealed = Sealed {
                    incarnation: host.member.incarnation.unwrap(),
                    size: LEN as u64,
                    is_stored: false,
                };
                assert_eq!(host.seal(epoch), Answer::Sealed(sealed));
            };
            hosts.iter().for_each(|host| seal(host, 1));
            let mut session = open(1).unwrap();
            for word in 0..8 {
                session.write(word * 8, b"under it").unwrap();
            }
            seal(&hosts[first], 2);
            let before = hosts[first].contents();
            let mut done = [Done { id: OpId(0), originals: [0; 16] }; 8];
            let end = loop {
                match session.write(100, b"behind").and_then(|id| session.wait(id)) {
                    Ok(_) => {}
                    // The window is full.
                    Err(SessionError::Op(_)) => {
                        if let Err(end) = session.poll(&mut done) {
                            break end;
                        }
                    }
                    Err(end) => break end,
                }
            };
            assert!(matches!(end, SessionError::Lost(_) | SessionError::Sealed { epoch: 2 }), "{end}");
            let told = session.why_over().unwrap();
            assert_eq!(told, SessionError::Sealed { epoch: 2 }, "{topology:?}, {first}");
            let refused = open(1).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("replica {first} at ")), "{refused}");
            assert!(refused.ends_with("the member is sealed with epoch 2"), "{refused}");
            assert!(hosts[first].contents() == before, "{topology:?}, {first}");
            hosts.iter().for_each(|host| seal(host, 2));
            assert_eq!(hosts[first].seal(1), Answer::Denied(Refusal::Sealed { epoch: 2 }));
            let mut session = open(2).unwrap();
            assert_eq!(session.why_over(), None);
            let id = session.write(0, b"new").unwrap();
            session.wait(id).unwrap();
        }
    }
}
