//! The functions of `weft_group.h`, which describes them.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};

use weft_group::{Copy, Done, Fresh, MAX_REPLICAS, Op, Options, Swap};

use super::boundary::{answer, lent, lent_mut, read, size, store, string, write};
use crate::abi;
use crate::failure::{Failure, Outcome, last};
use crate::group::Group;
use crate::groups::GROUPS;
use crate::options::{self, Target};

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_open(given: *const abi::Options) -> *mut abi::Group {
    answer(core::ptr::null_mut(), || {
        // SAFETY: the program's argument.
        let (target, options) = unsafe { target(given) }?;
        Ok(core::ptr::without_provenance_mut(GROUPS.open(&target, &options)?))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_change_epoch(
    given: *const abi::Options,
    from: u64,
    epoch: *mut u64,
) -> c_int {
    answer(-1, || {
        // SAFETY: the program's argument.
        let (target, options) = unsafe { target(given) }?;
        let begun = GROUPS.change_epoch(&target, &options, from)?;
        // SAFETY: the program's place for the epoch.
        Ok(unsafe { self::begun(epoch, begun) })
    })
}

/// Reads the options of a program.
///
/// # Safety
/// `given` is NULL, or points to a struct of the size that stands in it, whose strings are strings.
unsafe fn target(given: *const abi::Options) -> Outcome<(Target, Options)> {
    // SAFETY: as the caller says.
    let given = unsafe { read(given, size(given, abi::LEAST_OPTIONS, "options")?, "options") }?;
    // SAFETY: as the caller says.
    let (members, key_file) = unsafe { (string(given.members), string(given.key_file)) };
    // SAFETY: as the caller says.
    let register_name = unsafe { string(given.register_name) };
    let options = options::options(&given, key_file)?;
    Ok((options::target(members, register_name, &options)?, options))
}

#[unsafe(no_mangle)]
extern "C" fn weft_group_close(group: *mut abi::Group) -> c_int {
    answer(-1, || GROUPS.close(group.addr()).map(|()| 0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_terms(group: *mut abi::Group, terms: *mut abi::Terms) -> c_int {
    with(group, -1, |group| {
        // SAFETY: the program's place for the terms, of the size that it has stored there.
        unsafe {
            let size = size(terms, abi::LEAST_TERMS, "terms")?;
            write(terms, size, &abi::Terms { struct_size: size as u64, ..group.terms() });
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_write(
    group: *mut abi::Group,
    at: u64,
    octets: *const c_void,
    len: u64,
    id: *mut u64,
) -> c_int {
    with(group, -1, |group| {
        // SAFETY: the program's octets.
        let octets = unsafe { lent(octets, len) }?;
        let number = group.begin(|session| session.write(at, octets))?;
        // SAFETY: the program's place for the number.
        Ok(unsafe { begun(id, number) })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_copy(
    group: *mut abi::Group,
    from: u64,
    to: u64,
    len: u64,
    id: *mut u64,
) -> c_int {
    with(group, -1, |group| {
        let number = group.copy(from, to, len)?;
        // SAFETY: the program's place for the number.
        Ok(unsafe { begun(id, number) })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_compare_swap(
    group: *mut abi::Group,
    at: u64,
    compare: u64,
    swap: u64,
    on: u64,
    id: *mut u64,
) -> c_int {
    with(group, -1, |group| {
        let on = group.replicas(on)?;
        let number = group.begin(|session| session.compare_swap(at, compare, swap, on))?;
        // SAFETY: the program's place for the number.
        Ok(unsafe { begun(id, number) })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_flush(group: *mut abi::Group, at: u64, len: u64, id: *mut u64) -> c_int {
    with(group, -1, |group| {
        let range = at..end(at, len)?;
        let number = group.begin(|session| session.flush(range))?;
        // SAFETY: the program's place for the number.
        Ok(unsafe { begun(id, number) })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_submit(group: *mut abi::Group, ops: *mut abi::Op, n: u64) -> i64 {
    with(group, -1, |group| {
        if n == 0 {
            return Ok(0);
        }
        // SAFETY: the program's array has an element at least.
        let stride = unsafe { size(ops, abi::LEAST_OP, "ops") }?;
        let mut count = 0;
        for index in 0..elements(n, stride)? {
            // SAFETY: the program's array has so many elements of this size.
            match unsafe { submit(group, ops.byte_add(index * stride), stride) } {
                Ok(()) => count += 1,
                Err(failure) if count == 0 => return Err(failure),
                Err(_) => break,
            }
        }
        Ok(count)
    })
}

/// # Safety
/// `op` points to a struct of this size.
unsafe fn submit(group: &mut Group, op: *mut abi::Op, stride: usize) -> Outcome<()> {
    // SAFETY: as the caller says.
    let given = unsafe { read(op, stride, "ops") }?;
    if given.struct_size != stride as u64 {
        return Err(Failure::invalid("ops: the elements have different values of struct_size"));
    }
    if given.parts & !(abi::WRITE | abi::COPY | abi::SWAP | abi::FLUSH) != 0 {
        return Err(Failure::invalid(format_args!("ops: {:#x} has parts that do not exist", given.parts)));
    }
    let has = |part| given.parts & part != 0;
    let (mut wanted, mut octets) = (Op::default(), &[][..]);
    if has(abi::WRITE) {
        wanted.write = Some(given.write_at..end(given.write_at, given.write_len)?);
        // SAFETY: the program's octets.
        octets = unsafe { lent(given.write_octets, given.write_len) }?;
    }
    if has(abi::COPY) {
        let len = group.len_of_copy(given.copy_from, given.copy_to, given.copy_len)?;
        wanted.copy = Some(Copy { from: given.copy_from, to: given.copy_to, len });
    }
    if has(abi::SWAP) {
        let on = group.replicas(given.swap_on)?;
        wanted.swap =
            Some(Swap { at: given.swap_at, compare: given.swap_compare, swap: given.swap_value, on });
    }
    if has(abi::FLUSH) {
        wanted.flush = Some(given.flush_at..end(given.flush_at, given.flush_len)?);
    }
    let id = group.submit(&wanted, octets)?;
    // SAFETY: as the caller says; each version of the struct has this field.
    unsafe { (&raw mut (*op).id).write_unaligned(id) };
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_poll(group: *mut abi::Group, done: *mut abi::Done, n: u64) -> i64 {
    with(group, -1, |group| {
        if n == 0 {
            return Ok(0);
        }
        // SAFETY: the program's array has an element at least.
        let stride = unsafe { size(done, abi::LEAST_DONE, "done") }?;
        let mut count = 0;
        for (index, Done { id, originals }) in group.poll(elements(n, stride)?)?.enumerate() {
            let told = abi::Done { struct_size: stride as u64, id: id.0, originals };
            // SAFETY: the program's array has so many elements of this size.
            unsafe { write(done.byte_add(index * stride), stride, &told) };
            count += 1;
        }
        Ok(count)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_wait(
    group: *mut abi::Group,
    id: u64,
    originals: *mut [u64; MAX_REPLICAS],
    ms: i64,
) -> c_int {
    with(group, -1, |group| {
        let found = group.wait(id, ms)?;
        // SAFETY: the program's place for what the replicas have found.
        unsafe { store(originals, found) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weft_group_read(
    group: *mut abi::Group,
    at: u64,
    out: *mut c_void,
    len: u64,
    fresh: c_int,
) -> c_int {
    with(group, -1, |group| {
        let fresh = match fresh {
            abi::CONFIRMED => Fresh::Confirmed,
            abi::MAYBE => Fresh::Maybe,
            other => {
                return Err(Failure::invalid(format_args!("fresh: {other} is neither confirmed nor maybe")));
            }
        };
        // SAFETY: the program's place for the octets.
        group.read(at, unsafe { lent_mut(out, len) }?, fresh).map(|()| 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn weft_group_fd(group: *mut abi::Group) -> c_int {
    with(group, -1, |group| Ok(group.descriptor()))
}

#[unsafe(no_mangle)]
extern "C" fn weft_group_strerror() -> *const c_char {
    last()
}

/// Runs a call on the group of this name.
fn with<T>(group: *mut abi::Group, instead: T, act: impl FnOnce(&mut Group) -> Outcome<T>) -> T {
    answer(instead, || GROUPS.with(group.addr(), act))
}

/// Stores the number of an operation that was begun.
///
/// # Safety
/// `id` is null, or points to a number that may be written.
unsafe fn begun(id: *mut u64, number: u64) -> c_int {
    // SAFETY: as the caller says.
    unsafe { store(id, number) };
    0
}

/// Returns the offset behind the last octet.
fn end(at: u64, len: u64) -> Outcome<u64> {
    at.checked_add(len).ok_or_else(|| weft_group::OpError::Bounds.into())
}

/// Returns how many elements an array has, if it can have as many.
fn elements(n: u64, stride: usize) -> Outcome<usize> {
    let fits = |n: &usize| n.checked_mul(stride).is_some_and(|len| len <= isize::MAX.unsigned_abs());
    let count = usize::try_from(n).ok().filter(fits);
    count.ok_or_else(|| Failure::invalid(format_args!("no array has {n} elements")))
}
