//! Streams by the traits of runtimes.

use core::future::poll_fn;
use core::pin::Pin;
use std::io::ErrorKind;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use weft_exs::{ByteStream, Options, Stream};

use crate::world::{PATIENCE, World, octets};

/// Runs a task on this thread until it has ended.
fn run<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task)
}

/// Returns the two ends of a stream.
fn ends(world: &World) -> (ByteStream, ByteStream) {
    let options = Options { ring: 16 << 10, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    (ByteStream::new(&world.client, ours).unwrap(), ByteStream::new(&world.server, theirs).unwrap())
}

#[test]
fn octets_go_both_ways_at_a_time_and_the_end_is_told() {
    let world = World::new();
    let (ours, mut theirs) = ends(&world);
    let sent = octets(1, 1_000_000);
    let received = run(async {
        let (mut reading, mut writing) = tokio::io::split(ours);
        let (mut from, mut to) = tokio::io::split(&mut theirs);
        let write = async {
            writing.write_all(&sent).await.unwrap();
            writing.shutdown().await.unwrap();
        };
        let echo = async {
            assert_eq!(tokio::io::copy(&mut from, &mut to).await.unwrap(), 1_000_000);
            to.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let read = async { reading.read_to_end(&mut received).await.unwrap() };
        tokio::join!(write, echo, read);
        received
    });
    assert!(received == sent);
}

#[test]
fn lines_are_read_from_the_buffer() {
    let world = World::new();
    let (mut ours, mut theirs) = ends(&world);
    run(async {
        ours.write_all(b"one\ntwo\nthree").await.unwrap();
        ours.shutdown().await.unwrap();
        let mut lines = Vec::new();
        let mut line = String::new();
        while theirs.read_line(&mut line).await.unwrap() > 0 {
            lines.push(core::mem::take(&mut line));
        }
        assert_eq!(lines, ["one\n", "two\n", "three"]);
    });
}

#[test]
fn an_end_by_the_peer_is_an_error_of_reads_and_of_later_writes() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    let mut ours = ByteStream::new(&world.client, ours).unwrap();
    run(async {
        ours.write_all(b"half of it is read").await.unwrap();
        ours.flush().await.unwrap();
    });
    let (received, _buf) = theirs.recv(world.server.buffer(9).unwrap(), ..).wait_timeout(PATIENCE).unwrap();
    assert_eq!(received.unwrap().octets, 9);
    let addresses = ours.socket().addresses().unwrap();
    assert_eq!(theirs.addresses().unwrap(), [addresses[1], addresses[0]]);
    theirs.close().wait_timeout(PATIENCE).unwrap().unwrap();
    run(async {
        let read = ours.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(read.kind(), ErrorKind::ConnectionReset, "{read}");
        let written = async {
            loop {
                ours.write_all(b"more").await?;
            }
        };
        let written: std::io::Result<()> = written.await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn the_traits_of_futures_io_do_the_same() {
    use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};

    let world = World::new();
    let (mut ours, mut theirs) = ends(&world);
    let sent = octets(2, 10_000);
    run(async {
        let written = poll_fn(|task| AsyncWrite::poll_write(Pin::new(&mut ours), task, &sent)).await.unwrap();
        assert_eq!(written, sent.len());
        poll_fn(|task| AsyncWrite::poll_flush(Pin::new(&mut ours), task)).await.unwrap();
        poll_fn(|task| AsyncWrite::poll_close(Pin::new(&mut ours), task)).await.unwrap();
        let mut received = vec![0; 1000];
        let read = poll_fn(|task| AsyncRead::poll_read(Pin::new(&mut theirs), task, &mut received)).await;
        assert_eq!(read.unwrap(), 1000);
        loop {
            let there = poll_fn(|task| {
                AsyncBufRead::poll_fill_buf(Pin::new(&mut theirs), task).map_ok(<[u8]>::to_vec)
            });
            let there = there.await.unwrap();
            if there.is_empty() {
                break;
            }
            received.extend_from_slice(&there);
            AsyncBufRead::consume(Pin::new(&mut theirs), there.len());
        }
        assert!(received == sent);
    });
}
