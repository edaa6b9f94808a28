// Shared by the files that execute programs: the state of a running program, its step buffers, and
// the emission of outputs. Private to the runner.
#ifndef LS_RUNNER_PROGRAM_PROGRAM_H
#define LS_RUNNER_PROGRAM_PROGRAM_H

#include "ranks/ranks.h"
#include "runner/program/program_oracle.h"
#include "runner/program/execute.h"

// A tensor by its name in the program. The newest of a name is the one that counts.
typedef struct ls_program_tensor {
    const char *name;
    ls_local_tensor *tensor;
    ls_known known;                    // what it must hold; nothing where that is not asked for
    const ls_scenario_tensor *blocks;  // where its blocks are listed; NULL: it has placements
} ls_program_tensor;

// One rank's call in a step on buffers, with its memory.
typedef struct ls_made_call {
    ls_call call;
    int times;                         // how often it is made: 1, or as the exception says
    const ls_scenario_except *except;  // NULL: none
    void *send, *recv;                 // memory of its own; recv NULL: it lies in send's
    size_t send_bytes, recv_bytes;     // of that memory
    size_t send_count, recv_count;     // elements that there is room for
    void *values;                      // [send_count] what was sent, for the judge; NULL: not kept
    int message;                       // of send_recv: which of its pairs
} ls_made_call;

// The calls of a step.
typedef struct ls_step_calls {
    ls_made_call *at;  // [count] of the ranks held, as the step lists them
    int count, room;
    ls_rank_comm *comm;     // a rank's own; NULL: not a member
    ls_request **requests;  // [request_count] a rank's, where the step is asynchronous
    int request_count;      //
    bool lost;              // they are never waited for, and so the buffers never free
} ls_step_calls;

typedef struct ls_program {
    const ls_execution *execution;
    const ls_scenario *scenario;
    ls_rank *self;        // whose thread runs it; NULL: a process that runs all ranks that it holds
    ls_backend *backend;  // NULL: of a rank whose program has no tensors
    ls_world *world;      // the backend's
    ls_arena *arena;
    ls_program_tensor *tensors;  // [tensor_count]
    int tensor_count;
    ls_step_calls *calls;  // [steps]
    ls_axis **axes;        // [mesh dimensions] communicators along each, NULL until first used
    ls_comm *all;          // every rank
    int step;              // the index of the one that runs
} ls_program;

// This rank's exception in a step, and the line where it is said. NULL, and the step's own line:
// nothing, or all held ranks run.
const ls_scenario_except *ls_program__except(const ls_program *program,
                                             const ls_scenario_step *step);
int ls_program__line(const ls_program *program, const ls_scenario_step *step);

// The call of a member of a group as the step says, or as what it does differently; counts are in
// `arena`, buffers are not set.
int ls_program__member_call(ls_made_call *out, const ls_program *program,
                            const ls_scenario_step *step, const ls_comm *comm, int member);

// ---- Scenarios with a thread for each rank: program_ranks.c, program_ranks_run.c ----------------
typedef struct ls_program_ranks_options {
    ls_schedule_kind schedule;  //
    int tries;                  // random schedules, from the scenario's seed on; 0: one `schedule`
    const char *checks;         // NULL: by the scenario
    const char *order;          // of reductions; NULL: rank order
    struct ls_trace *trace;     // of the one schedule; NULL: none
    const ls_stage_sink *sink;  // gets what the ranks' stages give; NULL: not wanted
    ls_backend *backend;        // holds every rank and has its own order; NULL: the simulator
    struct ls_tally *tally;     // sees the calls of a run without data; NULL: with data. Ranks that
                                // call alike then run as one, unless more is asked for above
} ls_program_ranks_options;

typedef struct ls_program_outcome {
    ls_finding *findings;  // in the caller's arena, of the first schedule that has some
    int finding_count;     //
    uint64_t seed;         // that schedule's, or the last one's
    const char *missed;    // the first fault that was not injected: its line, and why; NULL: none
} ls_program_outcome;

// Whether the program has collectives on buffers, which the ranks then call for themselves.
bool ls_program_has_ranks(const ls_scenario *scenario);
// Runs the scenario as an SPMD program, each rank its own thread: what it injects, and of a program
// without tensors what else only ranks of their own can do. LS_OK also when something is found; an
// error of a rank's where nothing is injected that explains it.
int ls_program_ranks(ls_program_outcome *out, const ls_scenario *scenario, ls_arena *arena,
                     const ls_program_ranks_options *options);
// Runs the ranks of it that a backend holds, one or all, with what is injected. LS_ERR_FINDING:
// what this rank's checks or the backend found, also in ls_check_last; LS_OK: nothing.
int ls_program_rank_real(const ls_scenario *scenario, ls_backend *backend,
                         const ls_stage_sink *sink, ls_arena *arena);

// ---- Calls without data, of one rank for all that have the same part in every step: classes.c ---
#define LS_PROGRAM_CLASSES_MAX 4096  // of ranks; more are not worth it
// Whether the program leaves nothing to find that takes the ranks themselves.
bool ls_program__is_plain(const ls_scenario *scenario);
// Tells the tally of the calls. *done false: the program is not plain, or something is wrong with
// its calls after all, which the ranks must show.
int ls_program__classes(bool *done, const ls_scenario *scenario, struct ls_tally *tally,
                        ls_arena *arena);

// Shared by the ranks of a run; one of them runs at a time.
typedef struct ls_program_run {
    const ls_scenario *scenario;
    const ls_stage_sink *sink;  // or NULL
    bool shape_only;            //
    ls_arena *arena;            // of what is found
    ls_finding finding;         // of a module: an id out of range
    bool found;
    ls_error error;  // of the first rank that failed by itself; code LS_OK: none did
} ls_program_run;
// The program of one rank; arg is an ls_program_run.
int ls_program__rank_main(ls_rank *self, void *arg);

// The faults [fault_count] of its ranks; NULL: no memory.
const ls_fault *ls_program__faults(const ls_scenario *scenario, ls_arena *arena);

// Steps on buffers: the ranks' calls, what they received, and what that must be (with
// execution->expected).
int ls_program__call_step(ls_program *program, const ls_scenario_step *step);
int ls_program__emit_received(const ls_program *program, const ls_scenario_step *step);
int ls_program__expect_received(const ls_program *program, const ls_scenario_step *step);
// "recv", or "recv[2]" of the third message that a rank receives.
void ls_program__field_of(char out[32], const ls_step_calls *calls, int index);
// The communicators of a rank, before its first step; and all that its steps leave, at the end.
int ls_program__open_comms(ls_program *program);
void ls_program__free_calls(ls_program *program);

// Steps on tensors: the kind's `make`, and the shards that its result has on each rank.
int ls_program__tensor_step(ls_program *program, const ls_scenario_step *step);
// A step on tensors as often as this rank makes it, and with what it says otherwise.
int ls_program__as_excepted(ls_program *program, const ls_scenario_step *step,
                            int (*once)(ls_program *program, const ls_scenario_step *step));
// Makes the scenario's tensors.
int ls_program__create_tensors(ls_program *program);
// The newest tensor of a name; LS_ERR_NOT_FOUND.
int ls_program__tensor(ls_program_tensor **out, const ls_program *program, const char *name);
int ls_program__check_replicas(const ls_program *program, const ls_scenario_step *step,
                               const char *name);

// The communicators along a mesh axis, made when first asked for.
int ls_program__axis(ls_axis **out, ls_program *program, int axis);

// Emits one array of a rank to `sink` (NULL: nothing happens).
int ls_program__emit(const ls_stage_sink *sink, const ls_stage_output *output);
// Emits cells as what an array must be.
int ls_program__emit_cells(const ls_program *program, const ls_scenario_step *step,
                           const char *table, const char *field, int rank, const ls_cells *cells,
                           ls_dtype dtype);
// Emits what an array must be; floats: within their bounds, and as they may overflow (NULL: not).
// Integers and what only moves: exact NULL, as in `data`.
int ls_program__emit_expected(const ls_program *program, ls_stage_output output);

#endif
