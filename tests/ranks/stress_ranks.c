// Every call on several ranks, all the bugs and hostile programs, as a plain program: under TSan in
// parallel mode, under ASan and valgrind under the run token.
#include <stdio.h>
#include <string.h>

#include "bugs.h"

// The same if the caller's backend completes the calls.
static int run_elsewhere(ls_spmd_program program, void *arg, ls_spmd_options options) {
    ls_world *world = NULL;
    ls_spmd_result *result = NULL;
    const ls_world_options world_options = {.mesh = LS_MESH(options.ranks), .seed = options.seed};
    int status = ls_world_create(&world, &world_options);
    status = status == LS_OK ? ls_backend_sim_create(&options.backend, world) : status;
    status = status == LS_OK ? ls_spmd_run(&result, program, arg, &options) : status;
    ls_spmd_result_free(result);
    ls_backend_free(options.backend);
    ls_world_free(world);
    return status;
}

int main(int argc, char **argv) {
    bool token_only = argc > 1 && strcmp(argv[1], "token") == 0;
    int rounds = 2;
    for (int schedule = 0; schedule <= LS_SCHEDULE_PARALLEL; schedule++) {
        if (token_only && schedule == LS_SCHEDULE_PARALLEL) {
            continue;
        }
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 6,
                                         .mesh = LS_MESH_NAMED(("all"), 6),
                                         .seed = 5,
                                         .schedule = (ls_schedule_kind)schedule,
                                         .checks = "all"};
        int status = ls_spmd_run(&result, every_call, &rounds, &options);
        status = status == LS_OK ? run_elsewhere(every_call, &rounds, options) : status;
        if (status != LS_OK) {
            (void)fprintf(stderr, "schedule %d: %s\n", schedule, ls_error_last()->text);
            return 1;
        }
        ls_spmd_result_free(result);
    }
    for (int i = 0; i < bug_count; i++) {
        bug_run run = {0};
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {
            .ranks = bugs[i].ranks, .checks = bugs[i].checks, .lookahead = bugs[i].lookahead};
        if (ls_spmd_run(&result, bugs[i].program, &run, &options) == LS_OK) {
            (void)fprintf(stderr, "%s: nothing was found\n", bugs[i].name);
            return 1;
        }
        ls_spmd_result_free(result);
    }
    for (uint64_t seed = 0; seed < 200; seed++) {
        int schedule = (int)(seed % (token_only ? 3 : 4));
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 3,
                                         .seed = seed,
                                         .schedule = (ls_schedule_kind)schedule,
                                         .checks = seed % 2 == 0 ? "all" : NULL};
        (void)ls_spmd_run(&result, hostile, &seed, &options);
        ls_spmd_result_free(result);
        (void)run_elsewhere(hostile, &seed, options);
    }
    return 0;
}
