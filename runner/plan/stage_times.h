// Measured times of the stages of a planned scenario's step, for each rank, in a file and compared
// with the planner's cost model for the same plan.
#pragma once

#include "planner/planner.h"
#include "runner/plan/work.h"

#define LS_STAGE_TIMES_SAMPLES 11

typedef struct ls_stage_time {
    double median_ms, least_ms;
} ls_stage_time;

// One collective; ranks outside of it have 0.
typedef struct ls_work_time {
    ls_work_stage stage;
    const char *what, *kind;
    uint64_t *sent_bytes;  // [ranks]
    ls_stage_time *ranks;  // [ranks]
} ls_work_time;

typedef struct ls_stage_times {
    int ranks;
    uint64_t seed;
    const char *scenario;            // name
    const char *backend, *versions;  // "nccl", "nccl 2.28.9, cuda 13.0, 4 GPUs: ..."
    ls_plan plan;                    // the scenario
    int stage_count;                 // LS_WORK_STAGE_COUNT, or LS_WORK_FORWARD_STAGES
    ls_stage_time *stages;           // [ranks][LS_WORK_STAGE_COUNT], sums over their steps
    ls_work_time *steps;             // [step_count]
    int step_count;
} ls_stage_times;

// The backend that executes and times the steps. The functions execute the work a few times
// unmeasured, check its result (ls_work_check_...; of updates the first one's), and return the
// seconds of LS_STAGE_TIMES_SAMPLES repetitions.
typedef struct ls_work_runner {
    void *arg;
    const char *backend, *versions;
    // samples [LS_STAGE_TIMES_SAMPLES][collective->size], by member.
    int (*collective)(void *arg, const ls_work_collective *collective, double *samples);
    // All lookups of every rank: samples [LS_STAGE_TIMES_SAMPLES][ranks].
    int (*lookups)(void *arg, double *samples);
    int (*updates)(void *arg, double *samples);               // likewise
    void (*progress)(const char *what, int done, int total);  // may be NULL
} ls_work_runner;

// Executes and times every step. *out and all in it are in `arena`; the plan is borrowed.
int ls_stage_times_measure(ls_stage_times *out, const ls_work *steps, const ls_plan *plan,
                           const ls_work_runner *runner, ls_arena *arena);
// The same in the simulator: one thread does the work of all ranks, and each gets an equal share of
// a collective. For testing the path; the times say nothing about GPUs.
int ls_stage_times_simulate(ls_stage_times *out, const ls_work *steps, const ls_plan *plan,
                            ls_arena *arena);

// As a JSON file (docs/reference.md).
int ls_stage_times_write(ls_text *out, const ls_stage_times *times);
// Reads it back; everything is in `arena`. LS_ERR_FORMAT: every error is appended to `errors` as
// FILE:LINE:COL: error: ..., the line and a caret. `file` appears in messages only.
int ls_stage_times_read(ls_stage_times *out, ls_arena *arena, ls_text *errors, const char *file,
                        const char *text, size_t bytes);
// Checks that they were measured with this scenario: its name, seed, ranks and tables.
// LS_ERR_INVALID.
int ls_stage_times_check(const ls_stage_times *times, const ls_scenario *scenario);

// Prints predicted [ranks] with the medians and errors (predicted / measured - 1), as text and as
// JSON (docs/reference.md).
int ls_stage_times_report_text(ls_text *out, const ls_stage_times *times,
                               const ls_planner_stages *predicted, const char *machine);
int ls_stage_times_report_json(ls_text *out, const ls_stage_times *times,
                               const ls_planner_stages *predicted, const char *machine);
