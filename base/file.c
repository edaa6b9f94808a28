// Whole files: input under a limit, output by temporary file and rename.
#define _XOPEN_SOURCE 700
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ls_file_read_at(void *out, size_t bytes, int fd, uint64_t offset, const char *path) {
    char *to = out;
    while (bytes != 0) {
        ssize_t got = pread(fd, to, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return LS_FAIL(ls_status_of_errno(errno), "cannot read '%s': %s", path,
                           strerror(errno));
        }
        if (got == 0) {
            return LS_FAIL(LS_ERR_FORMAT, "'%s' ends early", path);
        }
        to += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return LS_OK;
}

static int read_open(char **out, size_t *bytes, ls_arena *arena, int fd, const char *path,
                     size_t bytes_max) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot read '%s': %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is not a regular file", path);
    }
    if ((uint64_t)info.st_size > bytes_max) {
        return LS_FAIL(LS_ERR_LIMIT, "'%s' is larger than %zu bytes", path, bytes_max);
    }
    size_t size = (size_t)info.st_size;
    char *text = ls_arena_alloc(arena, size + 1, 1);
    LS_TRY_MEMORY(text != NULL);
    LS_TRY(ls_file_read_at(text, size, fd, 0, path));
    text[size] = 0;
    *out = text;
    *bytes = size;
    return LS_OK;
}

int ls_file_read(char **out, size_t *bytes, ls_arena *arena, const char *path, size_t bytes_max) {
    LS_ASSERT(out != NULL && bytes != NULL && arena != NULL);
    LS_ASSERT(path != NULL && bytes_max < SIZE_MAX);
    *out = NULL;
    *bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot open '%s': %s", path, strerror(errno));
    }
    int status = read_open(out, bytes, arena, fd, path, bytes_max);
    (void)close(fd);
    return status;
}

static int write_bytes(int fd, const char *path, const char *data, size_t bytes) {
    while (bytes != 0) {
        ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return LS_FAIL(ls_status_of_errno(errno), "cannot write '%s': %s", path,
                           strerror(errno));
        }
        data += written;
        bytes -= (size_t)written;
    }
    return LS_OK;
}

static int write_all(int fd, const char *path, const ls_file_part *parts, size_t part_count) {
    for (size_t i = 0; i < part_count; i++) {
        LS_TRY(write_bytes(fd, path, parts[i].data, parts[i].bytes));
    }
    return LS_OK;
}

static int write_direct(const char *path, const ls_file_part *parts, size_t part_count) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot open '%s': %s", path, strerror(errno));
    }
    int status = write_all(fd, path, parts, part_count);
    if (close(fd) != 0 && status == LS_OK) {
        status = LS_FAIL(ls_status_of_errno(errno), "cannot write '%s': %s", path, strerror(errno));
    }
    return status;
}

static int write_beside(const char *path, mode_t mode, const ls_file_part *parts,
                        size_t part_count) {
    char temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof temporary) {
        return LS_FAIL(LS_ERR_IO, "the path is too long: '%.100s...'", path);
    }
    int fd = mkstemp(temporary);
    if (fd < 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot create a file beside '%s': %s", path,
                       strerror(errno));
    }
    int status = write_all(fd, path, parts, part_count);
    if (status == LS_OK && (fchmod(fd, mode) != 0 || fsync(fd) != 0)) {
        status =
            LS_FAIL(ls_status_of_errno(errno), "cannot finish '%s': %s", path, strerror(errno));
    }
    if (close(fd) != 0 && status == LS_OK) {
        status =
            LS_FAIL(ls_status_of_errno(errno), "cannot finish '%s': %s", path, strerror(errno));
    }
    if (status == LS_OK && rename(temporary, path) != 0) {
        status =
            LS_FAIL(ls_status_of_errno(errno), "cannot rename to '%s': %s", path, strerror(errno));
    }
    if (status != LS_OK) {
        (void)unlink(temporary);
    }
    return status;
}

// A dangling link: its intended target is unknown, so nothing replaces it.
static int refuse_dangling(const char *path) {
    struct stat link, target;
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode) && stat(path, &target) != 0) {
        return LS_FAIL(LS_ERR_IO, "cannot write '%s': it is a link to nothing", path);
    }
    return LS_OK;
}

int ls_file_write(const char *path, const void *data, size_t bytes) {
    LS_ASSERT(data != NULL || bytes == 0);
    return ls_file_write_parts(path, &(ls_file_part){data, bytes}, 1);
}

int ls_file_write_parts(const char *path, const ls_file_part *parts, size_t part_count) {
    LS_ASSERT(path != NULL);
    struct stat info;
    LS_TRY(refuse_dangling(path));
    if (stat(path, &info) != 0) {
        mode_t mask = umask(0);
        (void)umask(mask);
        return write_beside(path, 0666 & ~mask, parts, part_count);
    }
    if (S_ISDIR(info.st_mode)) {
        return LS_FAIL(LS_ERR_IO, "cannot write '%s': it is a folder", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return write_direct(path, parts, part_count);
    }
    char real[PATH_MAX];
    if (realpath(path, real) == NULL) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot resolve '%s': %s", path, strerror(errno));
    }
    return write_beside(real, info.st_mode & 0777, parts, part_count);
}

int ls_file_write_check(const char *path) {
    LS_ASSERT(path != NULL);
    struct stat info;
    if (path[0] == 0) {
        return LS_FAIL(LS_ERR_IO, "cannot write '': the path is empty");
    }
    LS_TRY(refuse_dangling(path));
    bool exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
        return LS_FAIL(LS_ERR_IO, "cannot write '%s': it is a folder", path);
    }
    if (exists && access(path, W_OK) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot write '%s': %s", path, strerror(errno));
    }
    if (exists && !S_ISREG(info.st_mode)) {
        return LS_OK;
    }
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash == NULL
                     ? snprintf(folder, sizeof folder, ".")
                     : snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    if (length < 0 || (size_t)length >= sizeof folder) {
        return LS_FAIL(LS_ERR_IO, "the path is too long: '%.100s...'", path);
    }
    if (stat(folder, &info) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot write '%s': %s", path, strerror(errno));
    }
    if (!S_ISDIR(info.st_mode)) {
        return LS_FAIL(LS_ERR_IO, "cannot write '%s': '%s' is not a folder", path, folder);
    }
    if (access(folder, W_OK | X_OK) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot write '%s': %s", path, strerror(errno));
    }
    return LS_OK;
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *walk) {
    (void)about, (void)type, (void)walk;
    (void)remove(path);
    return 0;
}

int ls_file_remove_tree(const char *path) {
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 || access(path, F_OK) == 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot remove '%s': %s", path, strerror(errno));
    }
    return LS_OK;
}
