// The mutant that runs: the number in LOCKSTEP_MUTANT; 0, none; -1 ends every program, which
// reveals a test that does not pass the variable on. Included only by files that mutants.py
// rewrote.
#pragma once

#include <stdlib.h>

// Swapped arguments of different types are no mutant.
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wdiscarded-qualifiers"

// One copy in each program and library.
__attribute__((weak, visibility("hidden"))) int ls_mutant_now;

__attribute__((weak, visibility("hidden"), constructor)) void ls_mutant_choose(void) {
    const char *number = getenv("LOCKSTEP_MUTANT");
    ls_mutant_now = number != NULL ? (int)strtol(number, NULL, 10) : 0;
    if (ls_mutant_now == -1) {
        abort();
    }
}

#define LS_MUTANT(number) __builtin_expect(ls_mutant_now == (number), 0)
