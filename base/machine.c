// The resources of the machine, from /proc and the control groups. See machine.h.
#define _DEFAULT_SOURCE
#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LINE_MAX_BYTES    512
#define MAPPINGS_OF_OWN   1024  // that a process has without threads of ours: libraries, heaps
#define MAPPINGS_A_THREAD 2     // its stack and the guard below

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

// The number behind `key` in a file ("" : the file's first word); UINT64_MAX where there is none.
static uint64_t number_in(const char *path, const char *key) {
    char line[LINE_MAX_BYTES];
    uint64_t found = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return found;
    }
    while (found == UINT64_MAX && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            char *end = NULL;
            unsigned long long value = strtoull(line + strlen(key), &end, 10);
            found = end == line + strlen(key) ? UINT64_MAX : value;
            break;
        }
    }
    (void)fclose(file);
    return found;
}

// The least limit of the control groups that this process is in, in both of their forms.
static uint64_t group_limit(const char *controller, const char *old_file, const char *new_file) {
    char line[LINE_MAX_BYTES];
    char path[2 * LINE_MAX_BYTES];
    uint64_t limit = UINT64_MAX;
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL) {
        line[strcspn(line, "\n")] = 0;
        char *name = strchr(line, ':');
        char *group = name == NULL ? NULL : strchr(name + 1, ':');
        if (group == NULL) {
            continue;
        }
        *group++ = 0;
        name++;
        bool unified = name[0] == 0;
        if (!unified && strcmp(name, controller) != 0) {
            continue;
        }
        // Every folder from the group's own up: a limit holds for all below.
        for (char *cut = group + strlen(group); cut != NULL; cut = strrchr(group, '/')) {
            *cut = 0;
            (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s%s%s/%s", unified ? "" : "/",
                           unified ? "" : controller, group, unified ? new_file : old_file);
            limit = least(limit, number_in(path, ""));
        }
    }
    if (groups != NULL) {
        (void)fclose(groups);
    }
    return limit;
}

uint64_t ls_machine_memory(void) {
    uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    uint64_t half = kib == UINT64_MAX ? UINT64_MAX : kib * 1024 / 2;
    return least(half, group_limit("memory", "memory.limit_in_bytes", "memory.max"));
}

uint64_t ls_machine_threads(void) {
    struct rlimit user;
    uint64_t threads = number_in("/proc/sys/kernel/threads-max", "");
    threads = least(threads, number_in("/proc/sys/kernel/pid_max", ""));
    threads = least(threads, group_limit("pids", "pids.max", "pids.max"));
    // The kernel holds everyone to it but root.
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &user) == 0 && user.rlim_cur != RLIM_INFINITY) {
        threads = least(threads, (uint64_t)user.rlim_cur);
    }
    uint64_t mappings = number_in("/proc/sys/vm/max_map_count", "");
    if (mappings != UINT64_MAX) {
        mappings -= least(mappings, MAPPINGS_OF_OWN);
        threads = least(threads, mappings / MAPPINGS_A_THREAD);
    }
    return threads;
}
