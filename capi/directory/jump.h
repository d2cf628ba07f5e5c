/* A function that jumps to its own name with `weft_` in front, in libibverbs.so.1. It passes all arguments on. */
#if defined(__x86_64__)
#define JUMP(name) FUNCTION(name, "jmp *weft_" #name "@GOTPCREL(%rip)")
#elif defined(__aarch64__)
#define JUMP(name) FUNCTION(name, "adrp x16, :got:weft_" #name "\n ldr x16, [x16, :got_lo12:weft_" #name "]\n br x16")
#else
#error "how does this processor jump by the global offset table?"
#endif

#define FUNCTION(name, body)                                                                                           \
    __asm__(".text\n .globl " #name "\n .type " #name ", %function\n" #name ":\n " body "\n .size " #name ", . - " #name);
