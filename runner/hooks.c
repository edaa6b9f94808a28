// The function that debuggers stop at. The empty asm keeps calls of it from being optimised away.
#include "runner/hooks.h"

__attribute__((noinline, used)) void ls_gdb_hook_divergence(const ls_gdb_divergence *divergence) {
    __asm__ volatile("" ::"r"(divergence) : "memory");
}
