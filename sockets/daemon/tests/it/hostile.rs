//! Processes that send what they should not. Others are served all the same.

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, getpid, kill_process};
use weft_sockets::end::{Phase, allocate};
use weft_sockets::layout::{ENDS, SLAB_LEN};
use weft_sockets::sync::Ordering;
use weft_sockets::{Digests, Link, Reason, RingPlace, ToDaemon, ToProcess, VERSION, WaiterName};

use crate::client::{Client, tcp};
use crate::puppet::{DaemonProcess, Puppet};
use crate::run::Running;

/// The daemon still serves.
fn is_well(daemon: &Running) {
    Client::registered(&daemon.address.to_string());
}

#[test]
fn garbage_ends_the_port_of_its_sender_only() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let claim = ToDaemon::Claim { slot: 0, generation: 0, digests: Digests::default() };
    let descriptor = std::fs::File::open("/dev/null").expect("a file");
    let files = [descriptor.as_fd(); 8];
    let long = [7; 100];
    let cases: [(&[u8], usize); 8] = [
        (b"", 0),
        (b"\xff", 0),
        (b"\x01", 3),
        (&long, 0),
        // Before it has registered.
        (&claim.encode(), 1),
        // With too few descriptors, or too many.
        (&claim.encode(), 0),
        (&claim.encode(), 2),
        (&claim.encode(), 8),
    ];
    for (octets, descriptors) in cases {
        let client = Client::connect(&address);
        client.send_octets(octets, &files[..descriptors]).expect("sent");
        client.hear_end();
    }
    is_well(&daemon);
}

#[test]
fn a_process_cannot_register_as_another_or_with_wrong_memory() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let puppet = Puppet::new(&address);
    let client = Client::connect(&address);
    client.register(VERSION, puppet.pid());
    client.hear_end();
    for (place, file) in [(1, unsealed(4096)), (2, unsealed(SLAB_LEN)), (2, sealed()), (0, unsealed(0))] {
        let client = Client::connect(&address);
        let pidfd =
            rustix::process::pidfd_open(getpid(), rustix::process::PidfdFlags::empty()).expect("a pidfd");
        let mut descriptors = [pidfd.as_fd(), client.status_file.as_fd(), client.slab_file.as_fd()];
        descriptors[place] = file.as_fd();
        client.send(ToDaemon::Register { oldest: VERSION, newest: VERSION, member: 0 }, &descriptors);
        client.hear_end();
    }
    // The place belongs to a relative, so somebody else cannot have it, and there is no such place.
    let client = Client::connect(&address);
    let pidfd = rustix::process::pidfd_open(getpid(), rustix::process::PidfdFlags::empty()).expect("a pidfd");
    let descriptors = [pidfd.as_fd(), client.status_file.as_fd(), client.slab_file.as_fd()];
    client.send(ToDaemon::Register { oldest: VERSION, newest: VERSION, member: u16::MAX }, &descriptors);
    client.hear_end();
    is_well(&daemon);
}

fn unsealed(len: u64) -> OwnedFd {
    let file = memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, len).expect("memory");
    file
}

/// A slab that can no longer be written to.
fn sealed() -> OwnedFd {
    let file = unsealed(SLAB_LEN);
    let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE;
    fcntl_add_seals(&file, seals).expect("sealed");
    file
}

#[test]
fn wrong_claims_are_refused() {
    let daemon = Running::new();
    let client = Client::registered(&daemon.address.to_string());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    client.claim(&listener);
    assert!(matches!(client.mail().message, ToProcess::Dropped { reason: Reason::Short, .. }));
    client.claim(std::fs::File::open("/dev/null").expect("a file"));
    assert!(matches!(client.mail().message, ToProcess::Dropped { reason: Reason::Option, .. }));
    // A claim of the same end twice is one claim: it does not match itself.
    let (one, other) = tcp();
    client.claim(&one);
    client.claim(&one);
    assert!(matches!(client.mail().message, ToProcess::Dropped { reason: Reason::NoPartner, .. }));
    client.claim(&other);
    while !matches!(client.mail().message, ToProcess::Offer { .. }) {}
    client.send(ToDaemon::Claim { slot: ENDS, generation: 0, digests: Digests::default() }, &[one.as_fd()]);
    client.hear_end();
    is_well(&daemon);
}

#[test]
fn a_process_cannot_speak_for_links_of_others() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut puppets = [Puppet::new(&address), Puppet::new(&address)];
    let mut streams = Vec::new();
    for puppet in &mut puppets {
        puppet.order(&format!("connect {}", listener.local_addr().expect("an address")));
        streams.push(listener.accept().expect("a connection").0);
    }
    let client = Client::registered(&address);
    client.claim(&streams[0]);
    puppets[0].order("claim");
    let (link, channel, party) = loop {
        let mail = client.mail().message;
        if matches!(mail, ToProcess::Offer { .. }) {
            break client.take_offer(mail);
        }
    };
    let ring = RingPlace::new(64, 16).expect("a place");
    let sleeper = Some(WaiterName { member: 5, line: 5 });
    // Of a link that does not exist, or a ring that it does not have: nothing happens.
    client.send(ToDaemon::Closed { slot: 0, generation: 1, link: 1, channel, party }, &[]);
    client.send(ToDaemon::ReturnRing { link, channel: 77, party, ring }, &[]);
    client.send(ToDaemon::Ring { link, party, sleeper }, &[]);
    client.send(ToDaemon::WantRing { link, channel, party, log2: 16 }, &[]);
    while !matches!(client.mail().message, ToProcess::RingMade { .. }) {}
    // For the other party, or none: the port ends.
    let of_the_other = ToDaemon::Closed { slot: 0, generation: 1, link, channel, party: 1 - party };
    client.send(of_the_other, &[]);
    client.hear_end();
    is_well(&daemon);
}

/// A daemon of root serves other users. They give doorbells that cannot block it.
#[test]
fn another_user_cannot_block_the_daemon() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run programs of another user");
        return;
    }
    let daemon = Running::new();
    let address = daemon.address.to_string();
    // The other user may not look into the folder of this program.
    let copy = std::env::temp_dir().join(format!("weft-puppet-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().expect("this program"), &copy).expect("a copy");
    let command = || {
        let mut command = std::process::Command::new(&copy);
        command.uid(65_534).gid(65_534).current_dir("/");
        command
    };
    let mut puppet = Puppet::start(&mut command(), &address);
    std::fs::remove_file(&copy).expect("the copy");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    puppet.order(&format!("connect {}", listener.local_addr().expect("an address")));
    let (stream, _) = listener.accept().expect("a connection");
    let client = Client::registered(&address);
    client.claim(&stream);
    puppet.order("claim");
    puppet.order("offer");
    // The doorbells of another user are not passed on.
    let (link, _, party) = loop {
        match client.mail().message {
            offer @ ToProcess::Offer { .. } => break client.take_offer(offer),
            ToProcess::PeerBell { .. } => panic!("a doorbell of another user"),
            _ => {}
        }
    };
    puppet.order("sleep");
    client.send(ToDaemon::Ring { link, party, sleeper: Some(WaiterName { member: 0, line: 0 }) }, &[]);
    puppet.order("rung");
    puppet.order("eventfd");
    is_well(&daemon);
}

#[test]
fn doorbells_that_could_block_are_refused() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let (_read, write) = std::io::pipe().expect("a pipe");
    let client = Client::registered(&address);
    client.send(ToDaemon::Bell { line: 1 }, &[write.as_fd()]);
    client.hear_end();
    let client = Client::registered(&address);
    client.send(ToDaemon::Bell { line: 64 }, &[client.bell.as_fd()]);
    client.hear_end();
    is_well(&daemon);
}

#[test]
fn a_process_that_reads_nothing_holds_nobody_up() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let flood = Client::registered(&address);
    let (one, other) = tcp();
    rustix::io::ioctl_fionbio(&flood.port, true).expect("a mode");
    let mut refused = 0;
    // Each pair of claims makes mail. At last the daemon reads no more from this port.
    for slot in 0..20_000_u32 {
        let socket = if slot % 2 == 0 { &one } else { &other };
        let message = ToDaemon::Claim { slot: slot % ENDS, generation: 1, digests: Digests::default() };
        refused += u32::from(flood.send_octets(&message.encode(), &[socket.as_fd()]).is_err());
    }
    assert!(refused > 0, "the daemon has kept all of it in its memory");
    drop(flood);
    is_well(&daemon);
}

/// The last close of such a socket waits until its octets have arrived. The process leaves it to the daemon.
#[test]
fn a_socket_that_lingers_holds_nobody_up() {
    let daemon = DaemonProcess::new();
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).expect("a number")).expect("a process");
    for garbage in [&[][..], &[0xff]] {
        let client = Client::registered(&daemon.address);
        let (mut lingers, _unread) = tcp();
        set_socket_linger(&lingers, Some(Duration::from_secs(1000))).expect("an option");
        lingers.set_nonblocking(true).expect("a mode");
        while lingers.write(&[0; 0x10000]).is_ok() {}
        // Until this process has closed its own descriptor, the daemon's is not the last one.
        kill_process(pid, Signal::STOP).expect("a process");
        if !garbage.is_empty() {
            // The port is closed with the message behind it unread.
            client.send_octets(garbage, &[]).expect("sent");
        }
        client.send(
            ToDaemon::Claim { slot: 0, generation: 0, digests: Digests::default() },
            &[lingers.as_fd()],
        );
        drop(lingers);
        kill_process(pid, Signal::CONT).expect("a process");
        Client::registered(&daemon.address);
    }
}

#[test]
fn a_user_has_a_share_of_the_daemons_descriptors() {
    let daemon = DaemonProcess::with_descriptors(60);
    let refused = |client: &Client| {
        while client.mail().message != (ToProcess::Refused { reason: Reason::Limit }) {}
        client.hear_end();
    };
    let client = Client::registered(&daemon.address);
    for line in 0..64 {
        // The daemon may have closed the port.
        let _sent = client.send_octets(&ToDaemon::Bell { line }.encode(), &[client.rope.as_fd()]);
    }
    refused(&client);
    // The process may come back, and have others.
    let client = Client::registered(&daemon.address);
    for link in 1..=64 {
        let (slot, state) = allocate(&client.slab, 0).expect("a place");
        let end = client.slab.end(slot).expect("an end");
        end.identity.link.store(link, Ordering::Relaxed);
        assert!(end.advance(state, Phase::Offered));
        let file = Link::create().expect("memory");
        let _sent = client.send_octets(&ToDaemon::ShowLink { link, party: 0 }.encode(), &[file.as_fd()]);
    }
    refused(&client);
}

#[test]
fn a_slab_that_lies_does_no_harm() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    {
        let mut puppet = Puppet::new(&address);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        puppet.order(&format!("connect {}", listener.local_addr().expect("an address")));
        let (stream, _) = listener.accept().expect("a connection");
        let client = Client::registered(&address);
        client.claim(&stream);
        puppet.order("claim");
        let mail = std::iter::repeat_with(|| client.mail().message);
        let offer = mail.into_iter().find(|mail| matches!(mail, ToProcess::Offer { .. })).expect("an offer");
        let (_, _, party) = client.take_offer(offer);
        client.slab.header().ends.store(u32::MAX, Ordering::Relaxed);
        for slot in 0..64 {
            let end = client.slab.end(slot).expect("an end");
            end.identity.party.store(u32::from(party) + 7, Ordering::Relaxed);
            end.identity.channel.store(u32::MAX, Ordering::Relaxed);
            end.identity.state.store(0x1ff, Ordering::Relaxed);
        }
        client.slab.header().members.iter().for_each(|member| member.pid.store(u32::MAX, Ordering::Relaxed));
        // The same process registers with another slab, which ends the family of this one.
        Client::registered(&address);
    }
    is_well(&daemon);
}

/// The messages of a process that has nothing, with numbers of any size.
fn of_others(number: u64) -> [ToDaemon; 7] {
    let [slot, channel] = [u32::MAX - 1, u32::MAX].map(|most| u32::try_from(number).unwrap_or(most));
    let party = u8::try_from(number).unwrap_or(u8::MAX);
    let (link, generation, ring) = (number, slot, RingPlace::new(16_383, 16).expect("a place"));
    [
        ToDaemon::Withdraw { slot, generation },
        ToDaemon::WantRing { link, channel, party, log2: party },
        ToDaemon::ReturnRing { link, channel, party, ring },
        ToDaemon::Closed { slot, generation, link, channel, party },
        ToDaemon::Ring { link, party, sleeper: None },
        ToDaemon::Ring { link, party, sleeper: Some(WaiterName { member: 1019, line: 63 }) },
        ToDaemon::Register { oldest: party.into(), newest: 0, member: party.into() },
    ]
}

#[test]
fn messages_at_any_time_with_any_numbers_cost_their_sender_only() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let null = std::fs::File::open("/dev/null").expect("a file");
    for number in [0, 1, 2, 255, u64::from(u32::MAX), u64::MAX] {
        for message in of_others(number) {
            for client in [Client::connect(&address), Client::registered(&address)] {
                let descriptors = vec![null.as_fd(); message.descriptors()];
                // The daemon may have ended the port at the first one.
                let _sent = client.send_octets(&message.encode(), &descriptors);
                let _again = client.send_octets(&message.encode(), &descriptors);
            }
        }
    }
    // Registered twice.
    let client = Client::registered(&address);
    client.register(VERSION, getpid());
    client.hear_end();
    is_well(&daemon);
}

#[test]
fn nobody_takes_the_memory_of_a_link_away_and_no_third_process_hears_of_it() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    let mut puppets = [Puppet::new(&address), Puppet::new(&address)];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    puppets[0].order(&format!("connect {}", listener.local_addr().expect("an address")));
    let (stream, _) = listener.accept().expect("a connection");
    let client = Client::registered(&address);
    client.claim(&stream);
    puppets[0].order("claim");
    let mut mail = std::iter::repeat_with(|| client.mail());
    let made = mail.find(|mail| matches!(mail.message, ToProcess::LinkMade { .. })).expect("a link");
    let (file, link) = (&made.descriptors[0], made.message);
    assert_eq!([0, 4096, 2 << 30].map(|len| ftruncate(file, len)), [Err(Errno::PERM); 3]);
    for seal in [SealFlags::FUTURE_WRITE, SealFlags::WRITE, SealFlags::SEAL] {
        assert_eq!(fcntl_add_seals(file, seal), Err(Errno::PERM), "{seal:?}");
    }
    drop(Link::map(file).expect("a relative maps it later"));
    // A process that asks for somebody else's link is told nothing.
    let ToProcess::LinkMade { link, .. } = link else { unreachable!("it is one") };
    puppets[1].order(&format!("speak {link}"));
    is_well(&daemon);
}

/// The kernel does not tell the daemon who the process is. So it cannot be watched.
#[test]
fn a_process_that_the_daemon_cannot_see_is_turned_away() {
    let Some(daemon) = DaemonProcess::elsewhere() else {
        println!("skipped: this user can make no namespace of processes");
        return;
    };
    let client = Client::connect(&daemon.address);
    client.hear_end();
}
