//! Files as octets of a stream.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

use rustix::io::Errno;
use weft_exs::{Error, Options, Plain, Stream};

use crate::world::{PATIENCE, World, octets};

const LEN: usize = 3_000_001;

/// A file without a name, with these octets.
fn file(octets: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("weft-exs-file-{}", std::process::id()));
    let path = path.with_extension(format!("{:?}", std::thread::current().id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(octets).unwrap();
    // The position does not count.
    file.seek(SeekFrom::Start(7)).unwrap();
    file
}

#[test]
fn octets_of_a_file_come_as_they_are_there() {
    let world = World::new();
    let content = octets(1, LEN);
    let file = file(&content);
    for plain in [Plain::Off, Plain::Always] {
        let options = Options { plain, ..Options::default() };
        let (ours, theirs) = world.connect::<Stream>(&options, &options);
        // All, a part in the middle, one that begins behind the first buffer, nothing, and more than there is.
        let end = LEN as u64;
        for (start, stop) in
            [(0, u64::MAX), (5, 6), (700_000, 1_300_000), (9, 9), (end - 10, end + 10), (end + 1, end + 2)]
        {
            let place = |octet: u64| usize::try_from(octet.min(end)).unwrap();
            let all = &content[place(start)..place(stop)];
            let receiving = theirs.recv_all(world.server.buffer(all.len()).unwrap(), ..);
            assert_eq!(ours.send_file(file.try_clone().unwrap(), start..stop).wait(), Ok(all.len() as u64));
            let (received, buf) = receiving.wait_timeout(PATIENCE).unwrap();
            assert!(received.is_ok() && buf[..] == all[..], "{plain:?} {start}..{stop}");
        }
        #[expect(clippy::reversed_empty_ranges, reason = "a caller may err")]
        let reversed = 9..4;
        assert_eq!(ours.send_file(file.try_clone().unwrap(), reversed).wait(), Ok(0));
    }
}

/// Tasks do not block, and what comes in front of it and behind it keeps its order.
#[tokio::test]
async fn a_task_sends_a_file_between_other_octets() {
    let world = World::new();
    let content = octets(2, LEN);
    let (ours, theirs) = world.connect::<Stream>(&Options::default(), &Options::default());
    let receiving = theirs.recv_all(world.server.buffer(LEN + 20).unwrap(), ..);
    let word = |octet| {
        let mut buf = world.client.buffer(10).unwrap();
        buf.fill(octet);
        ours.send(buf, ..)
    };
    let first = word(1);
    assert_eq!(ours.send_file(file(&content), ..).await, Ok(LEN as u64));
    word(2).await.0.unwrap();
    first.await.0.unwrap();
    let (received, buf) = receiving.await;
    assert_eq!(received.map(|outcome| outcome.octets as usize), Ok(LEN + 20));
    assert!(buf[..10] == [1; 10] && buf[10..LEN + 10] == content && buf[LEN + 10..] == [2; 10]);
}

#[test]
fn what_cannot_be_read_or_sent_is_an_error() {
    let world = World::new();
    let (ours, theirs) = world.connect::<Stream>(&Options::default(), &Options::default());
    let folder = File::open(std::env::temp_dir()).unwrap();
    assert_eq!(ours.send_file(folder, ..).wait(), Err(Error::System(Errno::ISDIR)));
    let sending = ours.send_file(file(&octets(3, LEN)), ..);
    world.server.device().shutdown(std::time::Duration::ZERO);
    assert_eq!(sending.wait(), Err(Error::Reset));
    drop(theirs);
    ours.shutdown();
    assert!(ours.send_file(file(b"late"), ..).wait().is_err());
}
