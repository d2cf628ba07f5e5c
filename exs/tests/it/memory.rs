//! Memory that several operations share, and memory of the caller's.

use weft_exs::{Error, Memory, Messages, Options, Stream};
use weft_rnic::RegisterError;

use crate::world::{PATIENCE, World, octets};

#[test]
fn operations_of_both_kinds_share_memory() {
    let world = World::new();
    let options = Options::default();
    let messages = world.connect::<Messages>(&options, &options);
    let streams = world.connect::<Stream>(&options, &options);
    let (from, to) = (world.client.memory(9000).unwrap(), world.server.memory(20_000).unwrap());
    from.write(0, &octets(1, 9000)).unwrap();
    assert!(!from.is_in_use());
    // Two messages, by Read and immediate, and a stream: all of the same octets at a time.
    let receives = [
        messages.1.recv(to.clone(), ..9000),
        messages.1.recv(to.clone(), 9000..9500),
        streams.1.recv_all(to.clone(), 10_000..19_000),
    ];
    let sends = [
        messages.0.send(from.clone(), ..),
        messages.0.send(from.clone(), 300..800),
        streams.0.send(from.clone(), ..),
    ];
    for (op, len) in receives.into_iter().chain(sends).zip([9000, 500, 9000].into_iter().cycle()) {
        let (outcome, memory) = op.wait_timeout(PATIENCE).unwrap();
        assert_eq!(outcome.map(|outcome| outcome.octets), Ok(len));
        assert!([9000, 20_000].contains(&memory.len()));
    }
    let mut came = vec![0; 20_000];
    to.read(0, &mut came).unwrap();
    assert!(came[..9000] == octets(1, 9000) && came[9000..9500] == octets(1, 9000)[300..800]);
    assert!(came[10_000..19_000] == octets(1, 9000));
    assert!([&came[9500..10_000], &came[19_000..]].concat().iter().all(|octet| *octet == 0));
    assert!(!from.is_in_use() && !to.is_in_use());
    assert_eq!(to.read(19_999, &mut [0; 2]), Err(Error::Range));
    assert_eq!(to.write(usize::MAX, &[0; 2]), Err(Error::Range));
}

#[test]
fn memory_is_in_use_until_its_operations_have_ended() {
    let world = World::new();
    let options = Options::default();
    let (_ours, theirs) = world.connect::<Messages>(&options, &options);
    let memory = world.server.memory(10).unwrap();
    let receiving = theirs.recv(memory.clone(), ..);
    let canceler = receiving.canceler();
    drop(receiving);
    assert!(memory.is_in_use() && canceler.cancel());
    assert!(!memory.is_in_use());
}

#[test]
fn memory_of_another_context_is_refused() {
    let world = World::new();
    let options = Options::default();
    let (ours, _theirs) = world.connect::<Messages>(&options, &options);
    let (foreign, buf) = (world.server.memory(10).unwrap(), world.server.buffer(10).unwrap());
    assert_eq!(ours.send(foreign, ..).wait().0, Err(Error::ForeignMemory));
    assert_eq!(ours.recv(buf, ..).wait().0, Err(Error::ForeignMemory));
    // The connection goes on.
    assert!(ours.addresses().is_some());
}

#[test]
fn memory_of_the_caller_is_sent_and_received_where_it_is() {
    #![allow(unsafe_code)]
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let message: &'static mut [u8] = octets(2, 5000).leak();
    let room: &'static mut [u8] = vec![0; 6000].leak();
    // SAFETY: both are never freed, and reached by nothing else until the operations have ended.
    let (from, to) = unsafe {
        let from = Memory::raw(&world.client, message.as_mut_ptr(), 5000, false).unwrap();
        (from, Memory::raw(&world.server, room.as_mut_ptr(), 6000, true).unwrap())
    };
    for len in [5000, 40] {
        let (receiving, sending) = (theirs.recv(to.clone(), 1000..), ours.send(from.clone(), ..len));
        let (received, _) = receiving.wait_timeout(PATIENCE).unwrap();
        assert_eq!(received.map(|outcome| outcome.octets as usize), Ok(len));
        assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok());
    }
    // What cannot be written takes nothing, and memory that is not there is not registered.
    assert_eq!(ours.recv(from.clone(), ..).wait().0, Err(Error::Memory(RegisterError::Fault)));
    assert_eq!(from.write(0, &[1]), Err(Error::Range));
    // SAFETY: it is not there, and is not reached.
    let nothing = unsafe { Memory::raw(&world.client, core::ptr::without_provenance_mut(4096), 10, false) };
    assert_eq!(nothing.err(), Some(Error::Memory(RegisterError::Fault)));
    drop((from, to));
    assert!(room[1000..] == message[..] && room[..1000].iter().all(|octet| *octet == 0));
}
