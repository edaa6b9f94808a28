// Publishing a recording: its directory moves to its place in one rename.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "collectives/recording_format.h"

int ls_recording_file_rank(const char *name) {
    size_t digits = 0;
    if (strncmp(name, "rank_", 5) != 0) {
        return -1;
    }
    while (name[5 + digits] >= '0' && name[5 + digits] <= '9') {
        digits += 1;
    }
    const char *suffix = name + 5 + digits;
    bool ours = strcmp(suffix, ".safetensors") == 0 || strcmp(suffix, ".calls.json") == 0;
    if (!ours || digits < 5 || strlen(name) >= 64) {
        return -1;
    }
    long rank = strtol(name + 5, NULL, 10);
    return rank < INT_MAX ? (int)rank : INT_MAX;
}

// Whether a name is one that a recording has.
static bool is_ours(const char *name) {
    return strcmp(name, "manifest.json") == 0 || strcmp(name, "scenario.yaml") == 0 ||
           ls_recording_file_rank(name) >= 0;
}

// Whether the entry is the folder of the scenario and its files: no link to one.
static bool is_inputs(int folder, const char *name) {
    struct stat info;
    return strcmp(name, LS_RECORDING_INPUTS) == 0 &&
           fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

static int remove_inputs(const char *dir) {
    char path[LS_RECORDING_PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", dir, LS_RECORDING_INPUTS);
    if (length < 0 || (size_t)length >= sizeof path) {
        return LS_FAIL(LS_ERR_LIMIT, "the path '%.100s...' is too long", dir);
    }
    return ls_file_remove_tree(path);
}

// Calls unlink on the files of a recording's directory, or only looks whether all are a
// recording's.
static int walk(const char *dir, bool remove_files) {
    DIR *open_dir = opendir(dir);
    if (open_dir == NULL) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot read folder '%s': %s", dir,
                       strerror(errno));
    }
    int status = LS_OK;
    bool manifest = false, any = false;
    for (struct dirent *entry; status == LS_OK && (entry = readdir(open_dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        any = true;
        manifest = manifest || strcmp(entry->d_name, "manifest.json") == 0;
        if (is_inputs(dirfd(open_dir), entry->d_name)) {
            status = remove_files ? remove_inputs(dir) : LS_OK;
        } else if (!is_ours(entry->d_name)) {
            status = LS_FAIL(LS_ERR_INVALID, "'%s' holds more than a recording: '%.100s'", dir,
                             entry->d_name);
        } else if (remove_files && unlinkat(dirfd(open_dir), entry->d_name, 0) != 0) {
            status = LS_FAIL(ls_status_of_errno(errno), "cannot remove '%s/%.100s': %s", dir,
                             entry->d_name, strerror(errno));
        }
    }
    (void)closedir(open_dir);
    if (status == LS_OK && any && !manifest) {
        status = LS_FAIL(LS_ERR_INVALID, "'%s' is not a recording: it has no manifest.json", dir);
    }
    return status;
}

static int remove_recording(const char *dir) {
    LS_TRY(walk(dir, true));
    if (rmdir(dir) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot remove '%s': %s", dir, strerror(errno));
    }
    return LS_OK;
}

// Swaps the two directories; where the file system cannot, moves the old one aside first.
static int replace(const char *made, const char *dir) {
    if (renameat2(AT_FDCWD, made, AT_FDCWD, dir, RENAME_EXCHANGE) == 0) {
        return remove_recording(made);
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot rename '%s' to '%s': %s", made, dir,
                       strerror(errno));
    }
    char aside[LS_RECORDING_PATH_MAX];
    int length = snprintf(aside, sizeof aside, "%s.old-%ld", dir, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof aside) {
        return LS_FAIL(LS_ERR_LIMIT, "the path '%.100s...' is too long", dir);
    }
    if (rename(dir, aside) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot rename '%s': %s", dir, strerror(errno));
    }
    if (rename(made, dir) != 0) {
        int reason = errno;
        (void)rename(aside, dir);
        return LS_FAIL(ls_status_of_errno(reason), "cannot rename '%s' to '%s': %s", made, dir,
                       strerror(reason));
    }
    return remove_recording(aside);
}

int ls_recording_publish(const char *made, const char *dir) {
    LS_ASSERT(made != NULL && dir != NULL);
    LS_TRY(walk(made, false));
    struct stat info;
    if (lstat(dir, &info) == 0) {
        if (!S_ISDIR(info.st_mode)) {
            return LS_FAIL(LS_ERR_INVALID, "'%s' is not a recording: it is not a folder", dir);
        }
        LS_TRY(walk(dir, false));
        return replace(made, dir);
    }
    if (rename(made, dir) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot rename '%s' to '%s': %s", made, dir,
                       strerror(errno));
    }
    return LS_OK;
}
