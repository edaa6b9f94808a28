// The launcher's reading of ranks' files: the place of a rank, its finding and its error. The same
// bytes are used for each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzers.h"
#include "runner/launch/launch_internal.h"

#define RANKS 2

static char folder[] = "/tmp/lockstep_fuzz_XXXXXX";
static const char *const suffixes[] = {"place", "finding", "error", "too_few"};

#define SUFFIXES (sizeof suffixes / sizeof suffixes[0])

static void forget(void) {
    char path[LS_LAUNCH_PATH_BYTES];
    for (size_t i = 0; i < SUFFIXES; i++) {
        (void)(ls_launch__mark(path, folder, 1, suffixes[i]) && unlink(path));
    }
    (void)rmdir(folder);
}

static void leave(const char *suffix, const uint8_t *data, size_t bytes) {
    char path[LS_LAUNCH_PATH_BYTES];
    FILE *file = ls_launch__mark(path, folder, 1, suffix) ? fopen(path, "wb") : NULL;
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static bool made;
    if (!made) {
        made = mkdtemp(folder) != NULL && atexit(forget) == 0;
        LS_ASSERT(made);
    }
    for (size_t i = 0; i < SUFFIXES; i++) {
        leave(suffixes[i], data, bytes);
    }
    char text[256];
    int code = LS_OK;
    ls_place place = ls_launch__place(folder, 1);
    ls_place_format(text, sizeof text, &place);
    LS_ASSERT(ls_place_equal(&place, &place) && text[0] != 0);
    (void)ls_launch_error(&code, text, sizeof text, folder, RANKS, &(struct timespec){0});
    (void)ls_launch_too_few(text, sizeof text, folder, RANKS);
    ls_arena *arena = NULL;
    ls_finding finding;
    LS_ASSERT(ls_arena_create(&arena) == LS_OK);
    if (ls_launch_finding(&finding, folder, RANKS, arena)) {
        LS_ASSERT(ls_finding_name(finding.id) != NULL);
        for (int i = 0; i < finding.rank_count; i++) {
            LS_ASSERT(finding.ranks[i] >= 0 && finding.ranks[i] < RANKS);
        }
    }
    ls_arena_free(arena);
    return 0;
}
