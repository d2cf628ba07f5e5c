//! The program is replaced, or starts another one.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};

use libc::pid_t;

use crate::boundary::answer_int;
use crate::environment::Environment;
use crate::exec::Search;
use crate::handover;
use crate::real::{self, Next, kernel};

/// An array of texts, with a null pointer behind the last one.
type Texts = *const *const c_char;

hooks! {
    fn execve(path: *const c_char, arguments: Texts, variables: Texts) -> c_int {
        handover::start();
        let mut environment = Environment::new();
        // SAFETY: as in the program's call.
        let variables = unsafe { complete(&mut environment, variables) };
        // SAFETY: the program's own call.
        answer_int(handover::hand_over(|| unsafe { kernel!(SYS_execve, path, arguments, variables) }))
    }

    fn execv(path: *const c_char, arguments: Texts) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { execve(path, arguments, environ) }
    }

    fn execvp(file: *const c_char, arguments: Texts) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { execvpe(file, arguments, environ) }
    }

    fn execvpe(file: *const c_char, arguments: Texts, variables: Texts) -> c_int {
        let mut environment = Environment::new();
        // SAFETY: as in the program's call.
        let (variables, name) = unsafe { (complete(&mut environment, variables), CStr::from_ptr(file)) };
        handover::start();
        let mut search = Search::new(name, real::variable(c"PATH"));
        while let Some(path) = search.next_path() {
            // SAFETY: as in the program's call.
            let mut result = handover::hand_over(|| unsafe {
                kernel!(SYS_execve, path.as_ptr(), arguments, variables)
            });
            if result == -(libc::ENOEXEC as isize) {
                // SAFETY: as in the program's call.
                result = unsafe { execute_script(path, arguments, variables) };
            }
            search.refused(result);
        }
        answer_int(search.result())
    }

    fn fexecve(descriptor: c_int, arguments: Texts, variables: Texts) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { execveat(descriptor, c"".as_ptr(), arguments, variables, libc::AT_EMPTY_PATH) }
    }

    fn execveat(folder: c_int, path: *const c_char, arguments: Texts, variables: Texts, flags: c_int) -> c_int {
        handover::start();
        let mut environment = Environment::new();
        // SAFETY: as in the program's call.
        let variables = unsafe { complete(&mut environment, variables) };
        // SAFETY: the program's own call.
        answer_int(handover::hand_over(|| unsafe {
            kernel!(SYS_execveat, folder, path, arguments, variables, flags)
        }))
    }

    fn posix_spawn_file_actions_adddup2(
        actions: *mut libc::posix_spawn_file_actions_t,
        descriptor: c_int,
        to: c_int,
    ) -> c_int {
        handover::prepare(descriptor);
        // SAFETY: the C library's function has this type.
        let next: Option<unsafe extern "C" fn(*mut libc::posix_spawn_file_actions_t, c_int, c_int) -> c_int> =
            unsafe { core::mem::transmute(ADD_DUP2.find()) };
        // SAFETY: as in the program's call.
        next.map_or(libc::ENOSYS, |next| unsafe { next(actions, descriptor, to) })
    }

    fn system(command: *const c_char) -> c_int {
        handover::start();
        // SAFETY: the C library's function has this type.
        let next: Option<unsafe extern "C" fn(*const c_char) -> c_int> =
            unsafe { core::mem::transmute(SYSTEM.find()) };
        // SAFETY: as in the program's call.
        next.map_or(-1, |next| unsafe { next(command) })
    }

    fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        handover::start();
        // SAFETY: the C library's function has this type.
        let next: Option<unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE> =
            unsafe { core::mem::transmute(POPEN.find()) };
        // SAFETY: as in the program's call.
        next.map_or(core::ptr::null_mut(), |next| unsafe { next(command, mode) })
    }

    fn posix_spawn(
        process: *mut pid_t,
        path: *const c_char,
        actions: *const libc::posix_spawn_file_actions_t,
        attributes: *const libc::posix_spawnattr_t,
        arguments: Texts,
        variables: Texts,
    ) -> c_int {
        let mut environment = Environment::new();
        // SAFETY: as in the program's call.
        unsafe {
            handover::start();
            let Some(next) = spawn(&SPAWN) else { return libc::ENOSYS };
            next(process, path, actions, attributes, arguments, complete(&mut environment, variables))
        }
    }

    fn posix_spawnp(
        process: *mut pid_t,
        file: *const c_char,
        actions: *const libc::posix_spawn_file_actions_t,
        attributes: *const libc::posix_spawnattr_t,
        arguments: Texts,
        variables: Texts,
    ) -> c_int {
        let mut environment = Environment::new();
        // SAFETY: as in the program's call.
        unsafe {
            handover::start();
            let Some(next) = spawn(&SPAWN_BY_NAME) else { return libc::ENOSYS };
            next(process, file, actions, attributes, arguments, complete(&mut environment, variables))
        }
    }
}

/// The type of `posix_spawn`.
type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const libc::posix_spawn_file_actions_t,
    *const libc::posix_spawnattr_t,
    Texts,
    Texts,
) -> c_int;

/// Returns a function of the C library.
///
/// # Safety
/// The function has this type.
unsafe fn spawn(next: &Next) -> Option<Spawn> {
    // SAFETY: as the caller promises.
    unsafe { core::mem::transmute(next.find()) }
}

/// Returns the environment for the next program.
///
/// # Safety
/// `variables` is null, or an array of texts.
unsafe fn complete(environment: &mut Environment, variables: Texts) -> Texts {
    // SAFETY: as the caller promises.
    let given = unsafe { texts(variables) }.map(|text| unsafe { CStr::from_ptr(text) });
    environment.complete(given).unwrap_or(variables)
}

/// Has the shell execute a file that the kernel does not know how to execute.
///
/// # Safety
/// As in `execve`.
unsafe fn execute_script(path: &CStr, arguments: Texts, variables: Texts) -> isize {
    let mut with_shell: [*const c_char; ARGUMENTS] = [core::ptr::null(); ARGUMENTS];
    // SAFETY: as the caller promises.
    let given = unsafe { texts(arguments) };
    let all = [SHELL.as_ptr(), path.as_ptr()].into_iter().chain(given.clone().skip(1));
    if all.clone().count() >= ARGUMENTS {
        return -(libc::E2BIG as isize);
    }
    with_shell.iter_mut().zip(all).for_each(|(place, argument)| *place = argument);
    // SAFETY: as the caller promises.
    handover::hand_over(|| unsafe { kernel!(SYS_execve, SHELL.as_ptr(), with_shell.as_ptr(), variables) })
}

/// Walks over an array of texts.
///
/// # Safety
/// `array` is null, or an array of texts.
unsafe fn texts(array: Texts) -> impl Iterator<Item = *const c_char> + Clone {
    let places = if array.is_null() { 0 } else { usize::MAX };
    // SAFETY: the walk ends at the null pointer behind the last text.
    (0..places).map(move |at| unsafe { *array.add(at) }).take_while(|text| !text.is_null())
}

/// Exports a function with a list of arguments, which ends with a null pointer, as `execl` has it. The arguments in
/// registers are put before those on the stack, so that all are an array.
macro_rules! lists {
    ($($name:ident => $gathered:ident;)+) => {$(
        #[cfg(target_arch = "x86_64")]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                "pop rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rax",
                "call {gathered}",
                "pop rdx",
                "add rsp, 40",
                "push rdx",
                "ret",
                gathered = sym $gathered,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                "sub sp, sp, #64",
                "str x30, [sp]",
                "stp x1, x2, [sp, #8]",
                "stp x3, x4, [sp, #24]",
                "stp x5, x6, [sp, #40]",
                "str x7, [sp, #56]",
                "add x1, sp, #8",
                "bl {gathered}",
                "ldr x30, [sp]",
                "add sp, sp, #64",
                "ret",
                gathered = sym $gathered,
            )
        }
    )+};
}

lists! {
    execl => execute_list;
    execlp => execute_list_by_name;
    execle => execute_list_with_variables;
}

unsafe extern "C" fn execute_list(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as in the program's call.
    unsafe { execv(path, arguments) }
}

unsafe extern "C" fn execute_list_by_name(file: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as in the program's call.
    unsafe { execvp(file, arguments) }
}

unsafe extern "C" fn execute_list_with_variables(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as in the program's call: behind the null pointer stands the array of variables.
    unsafe { execve(path, arguments, *arguments.add(texts(arguments).count() + 1).cast()) }
}

unsafe extern "C" {
    static environ: Texts;
}

static ADD_DUP2: Next = Next::new(c"posix_spawn_file_actions_adddup2");
static POPEN: Next = Next::new(c"popen");
static SYSTEM: Next = Next::new(c"system");
static SPAWN: Next = Next::new(c"posix_spawn");
static SPAWN_BY_NAME: Next = Next::new(c"posix_spawnp");
const SHELL: &CStr = c"/bin/sh";
/// Arguments of a script.
const ARGUMENTS: usize = 1024;
