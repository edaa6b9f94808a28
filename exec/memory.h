// The memory of a job: one unnamed file that the coordinator and all processes map as a whole, so a
// place in it has the same offset for all. Each takes large pieces of it, and cuts them up for
// calls. A stretch that others still read when its owner is done is lent: it is free when they have
// reported the end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_exec_gap ls_exec_gap;

// One process's part of it. Not for several threads at once.
typedef struct ls_exec_memory {
    char *base;  // of the file; offsets count from here
    size_t bytes;
    uint64_t pieces;  // bytes of this process's pieces
    int file;
    ls_exec_gap *free, *lent;
    int (*made)(void *arg, void *at, size_t bytes);  // called for each piece; NULL: not
    void *made_arg;
} ls_exec_memory;

// A list of free stretches: takes the first one of this size, or returns some.
bool ls_exec_gap__take(uint64_t *offset, ls_exec_gap **list, uint64_t bytes);
void ls_exec_gap__put(ls_exec_gap **list, uint64_t offset, uint64_t bytes);

// A new one, with room for all that the machine has.
int ls_exec_memory__create(ls_exec_memory *out);
// The one of that descriptor, which it owns from here on.
int ls_exec_memory__open(ls_exec_memory *out, int file);
void ls_exec_memory__close(ls_exec_memory *memory);

// A stretch of `bytes` at *offset that is not read; returned with the same numbers.
int ls_exec_memory__take(uint64_t *offset, ls_exec_memory *memory, size_t bytes);
void ls_exec_memory__give(ls_exec_memory *memory, uint64_t offset, size_t bytes);
// How many are still to read the stretch at `offset`; of a mapping of the file.
uint32_t *ls_exec_memory__readers(char *base, uint64_t offset);
// Whether a stretch of this size can begin there, in used memory.
bool ls_exec_memory__holds(const ls_exec_memory *memory, uint64_t offset, uint64_t bytes);
