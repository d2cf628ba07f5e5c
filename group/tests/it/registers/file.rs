//! A file as a register, and the file with a state of a member.

use std::fs;

use weft_group::{FileRegister, Keeper, KeeperError, MAX_RECORD, Membership, Record, Refusal};

use super::{Folder, epochs_are_taken_once, record};

#[test]
fn a_file_gives_each_epoch_once() {
    let folder = Folder::new("file");
    epochs_are_taken_once(&FileRegister::new(folder.0.join("g")));
}

#[test]
fn each_wrong_file_has_its_own_error() {
    let folder = Folder::new("wrong");
    let path = folder.0.join("g");
    let register = FileRegister::new(&path);
    let good = record(2, 2).to_json();
    assert_eq!(Record::from_json(&good), Ok(record(2, 2)));
    let long = " ".repeat(MAX_RECORD + 1);
    let wrong = [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        (long.as_str(), "longer than 64 KiB"),
        (&good.replace("\"fan\"", "\"ring\""), "not \"chain\" or \"fan\""),
        (&good.replace("\"next_epoch\":1", "\"next_epoch\":0"), "does not follow"),
        (&good.replace("\"next_epoch\":1", "\"next_epoch\":-1"), "\"next_epoch\" is no number"),
        (&good.replace("\"epoch\":0", "\"epoch\":1"), "does not follow"),
        (&good.replace("\"members\":[]", "\"members\":{}"), "\"members\" is no list"),
        (&good.replace("\"members\":[]", "\"members\":[{\"id\":\"a\",\"addr\":\"b\"}]"), "16 hexadecimal"),
        (&good.replace("\"h1\"", "\"h0\""), "\"h0\" is there twice"),
        (&good.replace("\"h1\"", "\"\""), "\"id\" is no text"),
        (&good.replace("\"replicas\":2", "\"replicas\":17"), "\"replicas\" 17"),
        (&good.replace("\"size\"", "\"sise\""), "\"size\" is no number"),
    ];
    for (text, reason) in wrong {
        assert_ne!(text, good, "{reason}");
        fs::write(&path, text).unwrap();
        let error = register.get().unwrap_err().0;
        assert!(error.contains(reason) && error.contains("/g: "), "{error}, not {reason}");
        assert_eq!(register.swap(Some(&record(2, 2)), &record(2, 2)).unwrap_err().0, error);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "a file that is not understood is left alone");
    }
    fs::write(&path, [0xFF, 0xFE]).unwrap();
    assert!(register.get().unwrap_err().0.contains("no text"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(register.get().unwrap_err().0.contains("cannot read"));
    let nowhere = FileRegister::new(folder.0.join("no/g"));
    assert!(nowhere.swap(None, &record(2, 2)).unwrap_err().0.contains("cannot open"));
}

#[test]
fn a_record_that_cannot_be_true_is_not_written() {
    let folder = Folder::new("untrue");
    let register = FileRegister::new(folder.0.join("g"));
    let untrue = Record { epoch: 1, next_epoch: 2, ..record(2, 2) };
    assert!(register.swap(None, &untrue).is_err());
    assert_eq!(register.get(), Ok(None));
}

#[test]
fn a_member_keeps_what_it_has_promised() {
    let folder = Folder::new("keeper");
    let path = folder.0.join("state");
    let mut keeper = Keeper::open(&path, 7).unwrap();
    keeper.change(|state| state.seal(4, 3)).unwrap();
    keeper.change(|state| state.open(4, 7)).unwrap();
    let refused = keeper.change(|state| state.seal(5, 3));
    assert!(matches!(refused, Err(KeeperError::Refused(Refusal::Served { epoch: 4 }))));
    assert!(keeper.is_stored());
    drop(keeper);
    let mut keeper = Keeper::open(&path, 8).unwrap();
    let state = *keeper.state();
    assert_eq!((state.incarnation, state.sealed, state.served), (8, 4, 4));
    keeper.spoil(9).unwrap();
    drop(keeper);
    let mut keeper = Keeper::open(&path, 10).unwrap();
    assert!(!keeper.is_stored(), "a restart does not bring back what a flush has lost");
    keeper
        .change(|state| {
            state.mend();
            Ok(())
        })
        .unwrap();
    assert!(Keeper::open(&path, 11).unwrap().is_stored());
    assert!(!Keeper::volatile(7).is_stored());
}

#[test]
fn a_state_that_cannot_be_stored_is_not_taken() {
    let folder = Folder::new("unstored");
    let path = folder.0.join("inner/state");
    fs::create_dir(folder.0.join("inner")).unwrap();
    let mut keeper = Keeper::open(&path, 7).unwrap();
    fs::remove_dir_all(folder.0.join("inner")).unwrap();
    assert!(matches!(keeper.change(|state| state.seal(1, 0)), Err(KeeperError::Io(_))));
    assert_eq!(keeper.state().sealed, 0);
    for text in ["", "{}", "{\"incarnation\":1,\"sealed\":1,\"served\":2,\"spoiled\":false}"] {
        let path = folder.0.join("wrong");
        fs::write(&path, text).unwrap();
        assert_eq!(Keeper::open(&path, 7).unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    }
}
