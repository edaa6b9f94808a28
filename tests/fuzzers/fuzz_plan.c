// Plan files, lockstep's own and TorchRec's, machines and measured times: each is valid or an
// error. A valid one is written and read again as the same.
#include "fuzzers.h"
#include "planner/plan_file.h"
#include "planner/topology.h"
#include "runner/plan/stage_times.h"

// Measured times: a parsed file can be written and read again.
static void read_times(ls_arena *arena, const char *text, size_t size) {
    ls_stage_times times;
    ls_text errors = {0};
    ls_text written = {0};
    int status = ls_stage_times_read(&times, arena, &errors, "fuzz.json", text, size);
    LS_ASSERT(status != LS_ERR_FORMAT || errors.length > 0);
    if (status == LS_OK && ls_stage_times_write(&written, &times) == LS_OK) {
        status =
            ls_stage_times_read(&times, arena, &errors, "again.json", written.data, written.length);
        LS_ASSERT(status == LS_OK);
    }
    ls_text_free(&errors);
    ls_text_free(&written);
}

static void read_plan(ls_arena *arena, const char *text, size_t size) {
    ls_text errors = {0};
    ls_text written = {0};
    ls_plan plan;
    ls_plan again;
    int status = ls_plan_read(&plan, arena, &errors, "fuzz.yaml", text, size);
    LS_ASSERT(status != LS_ERR_FORMAT || errors.length > 0);
    if (status == LS_OK) {
        LS_ASSERT(ls_plan_check(&plan) == LS_OK);
        LS_ASSERT(ls_plan_write(&written, &plan) == LS_OK);
        status = ls_plan_read(&again, arena, &errors, "again.yaml", written.data, written.length);
        LS_ASSERT(status == LS_OK && ls_plan_diff(&errors, &plan, &again) == 0);
    }
    ls_text_free(&written);
    ls_text_free(&errors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    ls_arena *arena;
    if (size == 0 || ls_arena_create(&arena) != LS_OK) {
        return 0;
    }
    read_plan(arena, text, size);
    ls_topology topology = {.ranks = 4, .ranks_per_host = 2};
    ls_text errors = {0};
    int status = ls_topology_parse(&topology, &errors, "fuzz.yaml", text, size);
    LS_ASSERT(status != LS_ERR_FORMAT || errors.length > 0);
    LS_ASSERT(status != LS_OK || ls_topology_check(&topology) == LS_OK);
    ls_text_free(&errors);
    read_times(arena, text, size);
    ls_plan plan;
    if (ls_plan_read_torchrec(&plan, arena, text, size, 4, 2, NULL, 0) == LS_OK) {
        LS_ASSERT(ls_plan_check(&plan) == LS_OK);
    }
    ls_arena_free(arena);
    return 0;
}
