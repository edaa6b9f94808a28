// The memory of a stopped process as the parts of its core file.
#pragma once

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ls_core_mapping ls_core_mapping;

typedef struct ls_core_memory {
    pid_t process;
    int memory, pages;  // its /proc files
    ls_core_mapping *mappings;
    size_t count, capacity;
    ElfW(Phdr) * parts;
    size_t part_count;
    int file;
    uint64_t end;       // of what was written
    uint64_t zeros;     // where the file has zeros for all parts that need them; 0: not yet
    uint64_t left_out;  // bytes
    char *buffer;
} ls_core_memory;

// Writes `data` [bytes] into the file at `at`.
int ls_core_memory__put(int file, const void *data, size_t bytes, uint64_t at);
int ls_core_memory__open(ls_core_memory *m);
void ls_core_memory__close(ls_core_memory *m);
// Writes a thread's stack from its stack pointer on; `threads` share the room.
int ls_core_memory__stack(ls_core_memory *m, uintptr_t pointer, size_t threads);
// Writes what is not written yet: globals, then other memory of the process, then shared memory.
int ls_core_memory__rest(ls_core_memory *m);
