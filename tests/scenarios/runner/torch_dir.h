// A folder of torch's results that a test creates and replays.
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/replay/import.h"

static inline ls_results *replay(const char *dir, int *status) {
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "replay") == LS_OK);
    const ls_run_options options = {.reproduce = "lockstep replay", .reproduce_of = dir};
    bool recording = true;
    *status = ls_import_dir(results, NULL, &recording, dir, &options);
    cr_expect(!recording);
    return results;
}

static inline char *make_dir(void) {
    static char dir[64];
    snprintf(dir, sizeof dir, "/tmp/lockstep_torch_XXXXXX");
    cr_assert(mkdtemp(dir));
    return dir;
}

static inline void write_text(const char *dir, const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static inline void remove_dir(const char *dir) {
    static const char *const names[] = {"manifest.json", "bag.safetensors", "dtensor_x.json"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}
