// Runs that hang. Each rank writes its place to a page that it has mapped from a file of the
// watched directory, which costs no system call. The launcher compares the pages with the places
// where the simulation stays, and reports the differences after a deadline.
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/time.h"
#include "collectives/collectives.h"
#include "runner/launch/launch_internal.h"
#include "process/processes.h"

#define LOOK_SECONDS    0.5   // between checks for stopped processes
#define STOPPED_SECONDS 10.0  // for a launcher that is stopped before all ranks have started
#define SEEN_MAX        8     // ranks that are listed individually

// ---- The ranks' side ----------------------------------------------------------------------------
int ls_launch_place_open(void **page, const char *watch_dir, int rank) {
    char path[LS_LAUNCH_PATH_BYTES];
    *page = NULL;
    int fd =
        ls_launch__mark(path, watch_dir, rank, "place") ? open(path, O_RDWR | O_CREAT, 0666) : -1;
    void *memory = fd >= 0 && ftruncate(fd, sizeof(ls_place)) == 0
                       ? mmap(NULL, sizeof(ls_place), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                       : MAP_FAILED;
    int code = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (memory == MAP_FAILED) {
        return LS_FAIL_RANK(LS_ERR_BACKEND, rank, "cannot write \"%s\": %s", path, strerror(code));
    }
    *page = memory;
    return LS_OK;
}

void ls_launch_place_close(void *page) {
    if (page != NULL) {
        (void)munmap(page, sizeof(ls_place));
    }
}

// A reader may see half of a write. Safe because only a place that has not changed for a while is
// used.
void ls_launch_place(void *page, const ls_place *place) {
    memcpy(page, place, sizeof *place);
}

// ---- The launcher's -----------------------------------------------------------------------------
ls_place ls_launch__place(const char *dir, int rank) {
    char path[LS_LAUNCH_PATH_BYTES];
    ls_place place = {.state = LS_PLACE_UNKNOWN};
    FILE *file = ls_launch__mark(path, dir, rank, "place") ? fopen(path, "r") : NULL;
    if (file != NULL) {
        if (fread(&place, sizeof place, 1, file) != 1) {
            place = (ls_place){.state = LS_PLACE_UNKNOWN};
        }
        (void)fclose(file);
    }
    place.what[sizeof place.what - 1] = 0;
    return place;
}

static bool in_place(const ls_watch *watch, int rank) {
    const ls_watched_rank *watched = &watch->rank[rank];
    if (watched->pid == 0 || watched->gone) {
        return false;
    }
    ls_place place = ls_launch__place(watch->dir, rank);
    return ls_place_equal(&place, &watch->hang->places[rank]);
}

static void begin_quiet(ls_watch *watch, double now) {
    watch->quiet_since = now;
    for (int r = 0; r < watch->ranks; r++) {
        ls_process process;
        bool read = ls_process_read(&process, watch->rank[r].pid);
        watch->rank[r].cpu_seconds_before = read ? process.cpu_seconds : 0;
    }
}

// A rank enters a place only once. If it is there now, it has been there since `quiet_since`.
static bool looked_enough(const ls_watch *watch) {
    for (int r = 0; r < watch->ranks; r++) {
        ls_process process;
        if (watch->hang->places[r].state != LS_PLACE_WAITS) {
            continue;
        }
        if (!ls_process_read(&process, watch->rank[r].pid) || process.ending ||
            process.cpu_seconds < watch->rank[r].cpu_seconds_before + watch->hang->cpu_seconds) {
            return false;
        }
    }
    return true;
}

bool ls_launch__hangs(ls_watch *watch) {
    if (watch->hang == NULL || watch->hang->places == NULL) {
        return false;
    }
    for (int r = 0; r < watch->ranks; r++) {
        if (!in_place(watch, r)) {
            watch->quiet_since = 0;
            return false;
        }
    }
    double now = ls_time_now();
    ls_process stopped;
    if (watch->quiet_since == 0) {
        begin_quiet(watch, now);
    }
    if (now - watch->quiet_since < watch->hang->quiet_seconds || !looked_enough(watch)) {
        return false;
    }
    if (ls_processes_stopped(&stopped, watch->home)) {
        begin_quiet(watch, now);
        return false;
    }
    return true;
}

bool ls_launch__never_starts(ls_watch *watch) {
    double now = ls_time_now();
    ls_process stopped;
    if (now - watch->looked < LOOK_SECONDS) {
        return false;
    }
    watch->looked = now;
    bool any = ls_processes_stopped(&stopped, watch->home);
    watch->stopped_since = watch->stopped_since > 0 ? watch->stopped_since : now;
    if (!any) {
        watch->stopped_since = 0;
    }
    return any && now - watch->stopped_since > STOPPED_SECONDS;
}

static void see_missing(ls_text *out, const ls_watch *watch) {
    int *missing = calloc((size_t)watch->ranks, sizeof *missing), count = 0;
    char ranks[128];
    for (int r = 0; missing != NULL && r < watch->ranks; r++) {
        if (watch->rank[r].pid == 0) {
            missing[count++] = r;
        }
    }
    if (count > 0) {
        ls_ranks_format(ranks, sizeof ranks, missing, count);
        ls_text_printf(out, "rank%s %s never started; ", count > 1 ? "s" : "", ranks);
    }
    free(missing);
}

static void see_elsewhere(ls_text *out, const ls_watch *watch) {
    int told = 0, more = 0;
    for (int r = 0; r < watch->ranks; r++) {
        if (watch->rank[r].pid == 0 || in_place(watch, r)) {
            continue;
        }
        if (told++ >= SEEN_MAX) {
            more += 1;
            continue;
        }
        char is[256], ought[256];
        ls_place place = ls_launch__place(watch->dir, r);
        ls_place_format(is, sizeof is, &place);
        ls_place_format(ought, sizeof ought, &watch->hang->places[r]);
        ls_text_printf(out, "rank %d %s; simulated: it %s; ", r,
                       watch->rank[r].gone ? "is gone" : is, ought);
    }
    if (more > 0) {
        ls_text_printf(out, "%d more ranks differ from the simulation; ", more);
    }
}

void ls_launch__see(ls_text *out, const ls_watch *watch) {
    ls_process stopped;
    see_missing(out, watch);
    if (ls_processes_stopped(&stopped, watch->home)) {
        ls_text_printf(out, "process %ld (%s) is stopped; ", (long)stopped.pid, stopped.name);
    }
    if (watch->hang != NULL && watch->hang->places != NULL) {
        see_elsewhere(out, watch);
    }
}
