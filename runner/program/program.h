// What the files that execute programs share: the state of a running program, its step buffers, and
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

typedef struct ls_program {
    const ls_execution *execution;
    const ls_scenario *scenario;
    ls_backend *backend;
    ls_world *world;
    ls_arena *arena;
    ls_program_tensor *tensors;  // [tensor_count]
    int tensor_count;
    ls_axis **axes;  // [mesh dimensions] communicators along each, NULL until first used
    ls_comm *all;    // every rank
} ls_program;

// The call that a member makes in a step, as the step says. Counts are in `arena`; buffers are not
// set.
int ls_program__step_call(ls_call *out, ls_arena *arena, const ls_scenario *scenario,
                          const ls_scenario_step *step, const ls_comm *comm, int member);
// What it does differently: how often it makes the call (0, 1 or 2), and the exception (NULL:
// none).
typedef struct ls_program_call {
    ls_call call;
    int times;
    const ls_scenario_except *except;
} ls_program_call;
int ls_program__member_call(ls_program_call *out, ls_arena *arena, const ls_scenario *scenario,
                            const ls_scenario_step *step, const ls_comm *comm, int member);
// What `rank` does differently in a step; false: nothing.
bool ls_program__except_of(const ls_scenario_except **out, const ls_scenario_step *step, int rank);
// A collective on buffers, not on a tensor.
bool ls_program__on_buffers(const ls_scenario_step *step);

// ---- Scenarios with a thread for each rank: program_ranks.c, program_ranks_run.c ----------------
typedef struct ls_program_ranks_options {
    ls_schedule_kind schedule;  //
    int tries;                  // random schedules, from the scenario's seed on; 0: one `schedule`
    const char *checks;         // NULL: by the scenario
    const char *order;          // of reductions; NULL: rank order
    struct ls_trace *trace;     // of the one schedule; NULL: none
    const ls_stage_sink *sink;  // gets what the ranks' stages give; NULL: not wanted
    ls_backend *backend;        // holds every rank and has its own order; NULL: the simulator
} ls_program_ranks_options;

typedef struct ls_program_outcome {
    ls_finding *findings;  // in the caller's arena, of the first schedule that has some
    int finding_count;     //
    uint64_t seed;         // that schedule's, or the last one's
    const char *missed;    // the first fault that was not planted: its line, and why; NULL: none
} ls_program_outcome;

// Whether the program has collectives on buffers, which the ranks then call for themselves.
bool ls_program_has_ranks(const ls_scenario *scenario);
// Runs the scenario as an SPMD program, each rank its own thread: what it plants, and of a program
// without tensors what else only ranks of their own can do. LS_OK also when something is found; an
// error of a rank's where nothing is planted that explains it.
int ls_program_ranks(ls_program_outcome *out, const ls_scenario *scenario, ls_arena *arena,
                     const ls_program_ranks_options *options);
// Runs the ranks of it that a backend holds, one or all, with what is planted. LS_ERR_FINDING: what
// this rank's checks or the backend found, also in ls_check_last; LS_OK: nothing.
int ls_program_rank_real(const ls_scenario *scenario, ls_backend *backend,
                         const ls_stage_sink *sink, ls_arena *arena);

// What the ranks of a run share; one of them runs at a time.
typedef struct ls_program_run {
    const ls_scenario *scenario;
    const ls_stage_sink *sink;  // or NULL
    ls_arena *arena;            // of what is found
    ls_finding finding;         // of a module: an id out of range
    bool found;
    ls_error error;  // of the first rank that failed by itself; code LS_OK: none did
} ls_program_run;
// What one rank does; arg is an ls_program_run.
int ls_program__rank_main(ls_rank *self, void *arg);

// The faults [fault_count] of its ranks; NULL: no memory.
const ls_fault *ls_program__faults(const ls_scenario *scenario, ls_arena *arena);

// The state of a running program.
int ls_program__open(ls_program *program, const ls_execution *execution, ls_arena *arena);
void ls_program__close(ls_program *program);
// One collective on raw per-rank buffers.
int ls_program__collective(ls_program *program, const ls_scenario_step *step);
// One operation on tensors, or a collective on one.
int ls_program__tensor_step(ls_program *program, const ls_scenario_step *step);
// Makes the scenario's tensors.
int ls_program__create_tensors(ls_program *program);

// fulls [held ranks]: the whole of a tensor made of blocks, on every held rank.
int ls_program__gather_blocks(void *const *fulls, ls_program *program, const ls_scenario_step *step,
                              const ls_scenario_tensor *tensor, const ls_local_tensor *in);

// The communicators along a mesh axis, made when first asked for.
int ls_program__axis(ls_axis **out, ls_program *program, int axis);

// Emits one array of a rank to `sink` (NULL: nothing happens).
int ls_program__emit(const ls_stage_sink *sink, const ls_scenario_step *step, const char *table,
                     const char *field, int rank, ls_dtype dtype, const ls_shape *shape,
                     const void *data, bool reduces);
// The same for memory [count] of the backend, which may be a device's; nothing for no elements.
int ls_program__emit_memory(const ls_stage_sink *sink, ls_arena *arena, ls_backend *backend,
                            const ls_scenario_step *step, const char *field, int rank,
                            const void *memory, size_t count, ls_dtype dtype, bool reduces);
// Emits what an array must be; floats: within their bounds, and as they may overflow (NULL: not).
// Integers and what only moves: exact NULL, as in `data`.
int ls_program__emit_expected(const ls_program *program, const ls_scenario_step *step,
                              const char *table, const char *field, int rank, ls_dtype dtype,
                              const ls_shape *shape, const void *data, const double *exact,
                              const double *bounds, const unsigned char *overflow);

#endif
