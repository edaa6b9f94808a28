// Shared by the files that execute programs: the state of a running program, its step buffers, and
// its outputs. Private to the runner.
#pragma once

#include "ranks/ranks.h"
#include "runner/program/program_oracle.h"
#include "runner/program/execute.h"

// A tensor by its name in the program. The newest of a name is used.
typedef struct ls_program_tensor {
    const char *name;
    ls_local_tensor *tensor;
    ls_known known;                    // its expected value; empty if not requested
    const ls_scenario_tensor *blocks;  // the place of its listed blocks; NULL: it has placements
} ls_program_tensor;

// One rank's call in a step on buffers, with its memory.
typedef struct ls_made_call {
    ls_call call;
    int times;                         // number of times it is made: 1, or by the exception
    const ls_scenario_except *except;  // NULL: none
    void *send, *recv;                 // separate memory; recv NULL: it is inside of send's
    size_t send_bytes, recv_bytes;     // of that memory
    size_t send_count, recv_count;     // capacity in elements
    void *values;                      // [send_count] a copy of the sent data, for the judge; NULL:
                                       // not kept
    int message;                       // of send_recv: the index of its pair
} ls_made_call;

// The calls of a step.
typedef struct ls_step_calls {
    ls_made_call *at;  // [count] of the held ranks, in the step's order
    int count, room;
    ls_rank_comm *comm;     // of a single rank; NULL: not a member
    ls_request **requests;  // [request_count] of a single rank, if the step is asynchronous
    int request_count;      //
    bool lost;              // they are never waited for, so the buffers are never freed
} ls_step_calls;

typedef struct ls_program {
    const ls_execution *execution;
    const ls_scenario *scenario;
    ls_rank *self;        // the rank whose thread runs it; NULL: a process that runs all ranks that
                          // it holds
    ls_backend *backend;  // NULL: of a rank whose program has no tensors
    ls_world *world;      // the backend's
    ls_arena *arena;
    ls_program_tensor *tensors;  // [tensor_count]
    int tensor_count;
    ls_step_calls *calls;  // [steps]
    ls_axis **axes;        // [mesh dimensions] communicators along each, NULL until first used
    ls_comm *all;          // every rank
    int step;              // the index of the current step
} ls_program;

// This rank's exception in a step, with its line. NULL and the step's line: none, or all held ranks
// run.
const ls_scenario_except *ls_program__except(const ls_program *program,
                                             const ls_scenario_step *step);
int ls_program__line(const ls_program *program, const ls_scenario_step *step);

// The call of a group's member, by the step or by its exception; counts are in `arena`, buffers are
// not set.
int ls_program__member_call(ls_made_call *out, const ls_program *program,
                            const ls_scenario_step *step, const ls_comm *comm, int member);

// ---- Scenarios with a thread for each rank: program_ranks.c, program_ranks_run.c ----------------
typedef struct ls_program_ranks_options {
    ls_schedule_kind schedule;
    int tries;                  // number of random schedules, from the scenario's seed on; 0: one,
                                // `schedule`
    const char *checks;         // NULL: the scenario's
    const char *order;          // of reductions; NULL: rank order
    struct ls_trace *trace;     // records the schedule; NULL: none
    const ls_stage_sink *sink;  // receives the ranks' stages; NULL: not wanted
    ls_backend *backend;        // holds every rank and has a separate order; NULL: the simulator
    struct ls_tally *tally;     // receives the calls of a run without data; NULL: with data. Ranks
                                // with equal calls then run as one, unless the options above need
                                // all
} ls_program_ranks_options;

typedef struct ls_program_outcome {
    ls_finding *findings;  // in the caller's arena, of the first schedule that has some
    int finding_count;     //
    uint64_t seed;         // of that schedule, or of the last one
    const char *missed;    // the first fault that was not injected: its line and the reason; NULL:
                           // none
} ls_program_outcome;

// Whether the program has collectives on buffers, which ranks as threads then call themselves.
bool ls_program_has_ranks(const ls_scenario *scenario);
// Runs the scenario as an SPMD program with a thread for each rank: for injected defects, and for
// checks of programs without tensors that need such ranks. LS_OK also with a finding; an error of a
// rank only if no injected defect explains it.
int ls_program_ranks(ls_program_outcome *out, const ls_scenario *scenario, ls_arena *arena,
                     const ls_program_ranks_options *options);
// Runs the ranks that a backend holds, one or all, with the injected defects. LS_ERR_FINDING: found
// by this rank's checks or the backend, also in ls_check_last; LS_OK: none.
int ls_program_rank_real(const ls_scenario *scenario, ls_backend *backend,
                         const ls_stage_sink *sink, ls_arena *arena);

// ---- Calls without data, of one rank for all that have the same part in every step: classes.c ---
#define LS_PROGRAM_CLASSES_MAX 4096  // limit on ranks; more do not pay
// Whether no finding of the program needs ranks as threads.
bool ls_program__is_plain(const ls_scenario *scenario);
// Reports the tally of the calls. *done false: the program is not plain, or its calls are wrong,
// which the ranks must show.
int ls_program__classes(bool *done, const ls_scenario *scenario, struct ls_tally *tally,
                        ls_arena *arena);

// Shared by the ranks of a run. Invariant: one of them runs at a time.
typedef struct ls_program_run {
    const ls_scenario *scenario;
    const ls_stage_sink *sink;  // or NULL
    bool shape_only;            //
    ls_arena *arena;            // of the finding
    ls_finding finding;         // of a module: an id out of range
    bool found;
    ls_error error;  // of the first rank that failed without a finding; code LS_OK: none
} ls_program_run;
// The program of one rank; arg is an ls_program_run.
int ls_program__rank_main(ls_rank *self, void *arg);

// The faults [fault_count] of its ranks; NULL: no memory.
const ls_fault *ls_program__faults(const ls_scenario *scenario, ls_arena *arena);

// Steps on buffers: the ranks' calls, their results, and the expected results (with
// execution->expected).
int ls_program__call_step(ls_program *program, const ls_scenario_step *step);
int ls_program__emit_received(const ls_program *program, const ls_scenario_step *step);
int ls_program__expect_received(const ls_program *program, const ls_scenario_step *step);
// "recv", or "recv[2]" of the third message that a rank receives.
void ls_program__field_of(char out[32], const ls_step_calls *calls, int index);
// The communicators of a rank, created before its first step; and the end of all that its steps
// leave.
int ls_program__open_comms(ls_program *program);
void ls_program__free_calls(ls_program *program);

// Steps on tensors: the kind's `make`, and the shards that its result has on each rank.
int ls_program__tensor_step(ls_program *program, const ls_scenario_step *step);
// A step on tensors, repeated and changed as this rank's exceptions say.
int ls_program__as_excepted(ls_program *program, const ls_scenario_step *step,
                            int (*once)(ls_program *program, const ls_scenario_step *step));
// Makes the scenario's tensors.
int ls_program__create_tensors(ls_program *program);
// The newest tensor of a name; LS_ERR_NOT_FOUND.
int ls_program__tensor(ls_program_tensor **out, const ls_program *program, const char *name);
int ls_program__check_replicas(const ls_program *program, const ls_scenario_step *step,
                               const char *name);

// The communicators along a mesh axis, created at the first use.
int ls_program__axis(ls_axis **out, ls_program *program, int axis);

// Passes one array of a rank to `sink` (NULL: no effect).
int ls_program__emit(const ls_stage_sink *sink, const ls_stage_output *output);
// Passes cells to the sink as an expected array.
int ls_program__emit_cells(const ls_program *program, const ls_scenario_step *step,
                           const char *table, const char *field, int rank, const ls_cells *cells,
                           ls_dtype dtype);
// Passes an expected array to the sink; floats: with bounds and allowed overflow (NULL: none).
// Integers and moved data: exact NULL, the bits of `data`.
int ls_program__emit_expected(const ls_program *program, ls_stage_output output);
