//! The functions of x86-64. Each returns 0 in EAX.
//!
//! They touch neither the stack nor registers that belong to their caller, so that after a fault in the middle of one a
//! jump to [`gone`] returns 1 instead.

use core::arch::naked_asm;

/// See [`copy_in`](super::copy_in).
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn copy_in(octets: &[u8], to: *mut u8) -> bool {
    // SAFETY: as the caller promises.
    unsafe { copy(octets.as_ptr(), to, octets.len()) }
}

/// See [`copy_out`](super::copy_out).
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn copy_out(from: *const u8, octets: &mut [u8]) -> bool {
    // SAFETY: as the caller promises.
    unsafe { copy(from, octets.as_mut_ptr(), octets.len()) }
}

/// Copies octets either way.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
    let is_wide = len > WIDE && is_x86_feature_detected!("avx");
    // SAFETY: as the caller promises, and the CPU has AVX where it is needed.
    let fault = unsafe { if is_wide { copy_32(to, from, len) } else { copy_16(to, from, len) } };
    fault == 0
}

/// Puts `new` at `at` if `expected` is there, as one atomic step, and returns what was there.
///
/// # Safety
/// As for [`update`](super::update).
pub(crate) unsafe fn compare_exchange(at: *mut u64, expected: u64, new: u64) -> Option<u64> {
    let mut seen = 0;
    // SAFETY: as the caller promises; `seen` is this function's own.
    (unsafe { exchange(at, expected, new, &raw mut seen) } == 0).then_some(seen)
}

/// Has the thread in `context` go on behind the access at which it has faulted, if that was one of the section.
pub(crate) fn resume(context: &mut libc::ucontext_t) -> bool {
    let at = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let section = (&raw const START).addr() as i64..(&raw const STOP).addr() as i64;
    let is_ours = section.contains(at);
    if is_ours {
        *at = (gone as *const ()).addr() as i64;
    }
    is_ours
}

/// Whether [`resume`] can.
pub(crate) const IS_GUARDED: bool = true;

/// Copies of any length, in steps of 16 octets. The last steps may overlap those before.
#[unsafe(naked)]
#[unsafe(link_section = "weft_guarded")]
unsafe extern "C" fn copy_16(to: *mut u8, from: *const u8, len: usize) -> u32 {
    naked_asm!(
        "cmp rdx, 16",
        "jb 5f",
        "cmp rdx, 32",
        "ja 2f",
        "movdqu xmm0, [rsi]",
        "movdqu xmm1, [rsi + rdx - 16]",
        "movdqu [rdi], xmm0",
        "movdqu [rdi + rdx - 16], xmm1",
        "xor eax, eax",
        "ret",
        "2:",
        "movdqu xmm2, [rsi + rdx - 32]",
        "movdqu xmm3, [rsi + rdx - 16]",
        "lea rcx, [rdi + rdx - 32]",
        "3:",
        "movdqu xmm0, [rsi]",
        "movdqu xmm1, [rsi + 16]",
        "movdqu [rdi], xmm0",
        "movdqu [rdi + 16], xmm1",
        "add rsi, 32",
        "add rdi, 32",
        "cmp rdi, rcx",
        "jb 3b",
        "movdqu [rcx], xmm2",
        "movdqu [rcx + 16], xmm3",
        "xor eax, eax",
        "ret",
        "5:",
        "cmp edx, 8",
        "jb 6f",
        "mov rax, [rsi]",
        "mov rcx, [rsi + rdx - 8]",
        "mov [rdi], rax",
        "mov [rdi + rdx - 8], rcx",
        "xor eax, eax",
        "ret",
        "6:",
        "cmp edx, 4",
        "jb 7f",
        "mov eax, [rsi]",
        "mov ecx, [rsi + rdx - 4]",
        "mov [rdi], eax",
        "mov [rdi + rdx - 4], ecx",
        "xor eax, eax",
        "ret",
        // 1 to 3 octets: the first, that in the middle, and the last.
        "7:",
        "test edx, edx",
        "jz 8f",
        "mov ecx, edx",
        "shr ecx, 1",
        "movzx eax, byte ptr [rsi]",
        "movzx r8d, byte ptr [rsi + rcx]",
        "movzx r9d, byte ptr [rsi + rdx - 1]",
        "mov [rdi], al",
        "mov [rdi + rcx], r8b",
        "mov [rdi + rdx - 1], r9b",
        "8:",
        "xor eax, eax",
        "ret",
    )
}

/// Copies of more than [`WIDE`] octets, in steps of 32 by AVX. The last steps may overlap those before.
#[unsafe(naked)]
#[unsafe(link_section = "weft_guarded")]
unsafe extern "C" fn copy_32(to: *mut u8, from: *const u8, len: usize) -> u32 {
    naked_asm!(
        "vmovdqu ymm4, [rsi + rdx - 128]",
        "vmovdqu ymm5, [rsi + rdx - 96]",
        "vmovdqu ymm6, [rsi + rdx - 64]",
        "vmovdqu ymm7, [rsi + rdx - 32]",
        "lea rcx, [rdi + rdx - 128]",
        "2:",
        "vmovdqu ymm0, [rsi]",
        "vmovdqu ymm1, [rsi + 32]",
        "vmovdqu ymm2, [rsi + 64]",
        "vmovdqu ymm3, [rsi + 96]",
        "vmovdqu [rdi], ymm0",
        "vmovdqu [rdi + 32], ymm1",
        "vmovdqu [rdi + 64], ymm2",
        "vmovdqu [rdi + 96], ymm3",
        "sub rsi, -128",
        "sub rdi, -128",
        "cmp rdi, rcx",
        "jb 2b",
        "vmovdqu [rcx], ymm4",
        "vmovdqu [rcx + 32], ymm5",
        "vmovdqu [rcx + 64], ymm6",
        "vmovdqu [rcx + 96], ymm7",
        "vzeroupper",
        "xor eax, eax",
        "ret",
    )
}

/// Puts `new` at `at` if `expected` is there, and what was there to `seen`.
#[unsafe(naked)]
#[unsafe(link_section = "weft_guarded")]
unsafe extern "C" fn exchange(at: *mut u64, expected: u64, new: u64, seen: *mut u64) -> u32 {
    naked_asm!("mov rax, rsi", "lock cmpxchg [rdi], rdx", "mov [rcx], rax", "xor eax, eax", "ret",)
}

/// Returns 1 to the caller of a function of the section: that function goes on here when memory is not there.
#[unsafe(naked)]
#[unsafe(link_section = "weft_guarded")]
extern "C" fn gone() -> u32 {
    naked_asm!("mov eax, 1", "ret")
}

unsafe extern "C" {
    /// The linker's names for the first octet of the section and the first behind it.
    #[link_name = "__start_weft_guarded"]
    static START: u8;
    #[link_name = "__stop_weft_guarded"]
    static STOP: u8;
}

/// From more octets than this on [`copy_32`] is faster.
const WIDE: usize = 128;
