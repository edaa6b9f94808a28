// Files: whole ones, read under a limit, and written so that they appear complete or not at all.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"

// The whole of a regular file of at most bytes_max bytes, in `arena` and with a 0 behind it.
// LS_ERR_IO when it cannot be read, LS_ERR_FORMAT when it is no regular file (a pipe is not waited
// for), LS_ERR_LIMIT when it is larger.
int ls_file_read(char **out, size_t *bytes, ls_arena *arena, const char *path, size_t bytes_max);

// Reads exactly `bytes` bytes of an open file, from `offset` on; `path` is used only in messages.
// LS_ERR_FORMAT: the file ends before.
int ls_file_read_at(void *out, size_t bytes, int fd, uint64_t offset, const char *path);

// Writes `bytes` bytes to `path`. A regular file is written beside its place and renamed, so that a
// reader sees the old content or the new, never a part; a link is followed, one that
// leads nowhere refused; a device or pipe is
// written to directly. LS_ERR_IO with the reason; an existing file is then untouched.
int ls_file_write(const char *path, const void *data, size_t bytes);

// The same for a file in several parts, one after another.
typedef struct ls_file_part {
    const void *data;
    size_t bytes;
} ls_file_part;
int ls_file_write_parts(const char *path, const ls_file_part *parts, size_t part_count);

// Removes a folder and all that is in it, following no link. LS_ERR_IO with the reason, when some
// of it stays.
int ls_file_remove_tree(const char *path);

// Whether ls_file_write(path) could succeed: the folder exists and is writable, and the path does
// not name a folder. LS_ERR_IO otherwise. For saying so before long work, not a promise.
int ls_file_write_check(const char *path);
