// Runs a scenario: simulates it, runs it for real on request, compares, judges, and fills in
// results. The library part of `lockstep run`, `compare` and `record`.
#ifndef LS_RUNNER_COMPARE_RUN_H
#define LS_RUNNER_COMPARE_RUN_H

#include "backends/kinds.h"
#include "collectives/recording.h"
#include "ranks/ranks.h"
#include "runner/result.h"
#include "runner/scenario/load.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_run_options {
    size_t size;              // sizeof this struct (LS_OPTIONS); 0: the size in this header
    const char *order;        // reduction order, replaces the scenario's; NULL: the scenario's
    double deadline_seconds;  // for real runs
    const char *program_dir;  // folder of this program and lockstep-mpi
    const char *mpiexec;      // path of mpiexec; NULL: this build has no MPI
    // For ranks that make their own calls; a scenario that sets one of these runs that way.
    ls_schedule_kind schedule;  // not PARALLEL
    int explore;                // number of random schedules to try; 0: runs `schedule` once
    const char *checks;         // globs of the checks; NULL: the scenario's
    const char *keep_dir;       // keeps recordings of its runs here; NULL: does not
    const char *checkpoint;     // saves simulated tables there after the last step; NULL: does not
    bool shape_only;            // simulated calls without data, for programs on buffers
    bool allow_outside;         // paths in the scenarios of recordings may leave their folder
    bool skip_too_few_gpus;     // skips scenarios that need more GPUs than there are
    bool resharded;             // replays imported training also with other shardings
    bool processes;             // NCCL: a process for each rank instead of a thread
    int spread;  // simulates in this many MPI processes (at most one for each rank), each with a
                 // block of the ranks. Ranks as threads and the plain references of programs still
                 // run in this process. 0: all in this process
    const char *reproduce;     // the command without the file, "lockstep compare --real mpi"
    const char *reproduce_of;  // replaces the file in it; NULL: the scenario's
    // Inside the library: 3 words
    struct ls_device *device;      // memory of the simulator's buffers; NULL: ordinary memory
    struct ls_process_pool *pool;  // processes of real runs that later runs reuse; NULL: none
    struct ls_trace *trace;        // receives the simulated calls, see trace.h; NULL: none
} ls_run_options;

// Simulates the scenario and judges it against its oracle: adds one case.
LS_API int ls_run_simulated(ls_results *results, const ls_scenario *scenario,
                            const ls_run_options *options);

// Simulates the scenario with numbers of a field in place of its floats, drawn twice, and judges it
// against its oracle. Adds one case: proved, wrong or, with the reason, unjudged. The scenario
// stays changed.
LS_API int ls_run_proved(ls_results *results, ls_scenario *scenario, const ls_run_options *options);

// Runs the scenario on a backend other than the simulator and judges that against the oracle.
LS_API int ls_run_real(ls_results *results, const ls_scenario *scenario,
                       const ls_backend_kind *backend, const ls_run_options *options);

// Another system's result for a scenario: a recording in memory, with some of the outputs and no
// calls. Only these outputs are compared.
typedef struct ls_imported {
    void *arg;
    int (*read)(void *arg, const ls_stage_sink *sink);  // passes every output to the sink
    const char *order;                                  // order of the first call; NULL: unknown
    int channels;  // channels of this call; 0: by the order's rule
} ls_imported;

// The source of the real run.
typedef struct ls_real_source {
    const ls_backend_kind *backend;  // runs on it; NULL: reads recordings
    const char *dir;                 // folder of a recording, or of one for each scenario
    const ls_imported *imported;     // takes precedence over both; NULL: none
} ls_real_source;

// Simulates the scenario, runs it on a backend or reads a recording, and compares stage by stage.
LS_API int ls_run_compared(ls_results *results, const ls_scenario *scenario,
                           const ls_real_source *real, const ls_run_options *options);

// Runs the scenario on any backend and keeps the recording in its folder of options->keep_dir. That
// folder must not exist, or be an earlier recording of a scenario of that name. Adds one case:
// bit_exact without stages, or the error.
LS_API int ls_run_recorded(ls_results *results, const ls_scenario *scenario,
                           const ls_backend_kind *backend, const ls_run_options *options);

#ifdef __cplusplus
}
#endif
#endif
