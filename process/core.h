// A core file of a running process, with only the memory that a debugger needs.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define LS_CORE_BYTES_MAX (20 * 1000 * 1000)  // of a file

typedef struct ls_core_written {
    uint64_t bytes;     // of the file
    uint64_t left_out;  // bytes of memory for which the file has no room
} ls_core_written;

// Writes the new file `path` for `process`, whose threads stop meanwhile; `first` is the thread
// that a debugger selects. The caller must be another process that may trace it. Pages that were
// never written are not in the file: a debugger reads them from the program's files, or as zeros.
// Stacks come first, then globals, then other memory, up to LS_CORE_BYTES_MAX. On an error there is
// no file.
int ls_core_write(ls_core_written *out, const char *path, pid_t process, pid_t first);
