// STAND_IN(name, tells): replaces the function `name`, whatever its arguments are. The replacement
// calls `tells` and jumps to the library's function, which returns to the program. It is aligned,
// since a pointer to a member function of C++ marks virtual ones by its lowest bit.
#pragma once

// clang-format off
#if defined(__x86_64__)
#define STAND_IN(name, tells)                                                                      \
    __asm__(".text\n.p2align 4\n.weak __real_" #name "\n.globl __wrap_" #name "\n"                 \
            ".type __wrap_" #name ", @function\n__wrap_" #name ":\n"                               \
            "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\npush %rax\n"          \
            "call " #tells "@PLT\n"                                                                \
            "pop %rax\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"                 \
            "jmp *__real_" #name "@GOTPCREL(%rip)\n");
#elif defined(__aarch64__)
#define STAND_IN(name, tells)                                                                      \
    __asm__(".text\n.p2align 4\n.weak __real_" #name "\n.globl __wrap_" #name "\n"                 \
            ".type __wrap_" #name ", %function\n__wrap_" #name ":\n"                               \
            "stp x0, x1, [sp, #-80]!\nstp x2, x3, [sp, #16]\nstp x4, x5, [sp, #32]\n"              \
            "stp x6, x7, [sp, #48]\nstp x8, x30, [sp, #64]\n"                                      \
            "bl " #tells "\n"                                                                      \
            "ldp x2, x3, [sp, #16]\nldp x4, x5, [sp, #32]\nldp x6, x7, [sp, #48]\n"                \
            "ldp x8, x30, [sp, #64]\nldp x0, x1, [sp], #80\n"                                      \
            "adrp x16, :got:__real_" #name "\n"                                                    \
            "ldr x16, [x16, :got_lo12:__real_" #name "]\nbr x16\n");
#endif
// clang-format on
