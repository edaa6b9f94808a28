// Running a scenario: simulate it, run it for real where asked, compare, judge, and put the outcome
// into results. What `lockstep run`, `compare` and `record` do, without the command line.
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
    size_t size;        // sizeof this struct (LS_OPTIONS); 0: as this header has it
    const char *order;  // reduction order, replaces the scenario's; NULL: as the scenario says
    double deadline_seconds;  // for real runs
    const char *program_dir;  // where this program and lockstep-mpi lie
    const char *mpiexec;      // path of mpiexec; NULL: this build has no MPI
    // Of ranks that make their own calls; what one of these asks for is run so, whatever it is.
    ls_schedule_kind schedule;  // not PARALLEL
    int explore;                // tries so many random schedules; 0: runs `schedule` once
    const char *checks;         // globs of the checks; NULL: by the scenario
    const char *keep_dir;       // keeps recordings of what runs here; NULL: nowhere
    const char *checkpoint;     // simulated tables are saved there after the last step; NULL: not
    bool shape_only;            // simulated calls without data: of programs on buffers
    bool allow_outside;         // paths in the scenarios of recordings may leave their folder
    struct ls_device *device;   // where the simulator's buffers lie; NULL: in ordinary memory
    bool skip_too_few_gpus;     // scenarios that need more GPUs than there are: skipped, not failed
    bool resharded;             // replays others' training also with tables cut in other ways
    bool processes;             // NCCL: a process per rank, not a thread of one process
    int spread;  // simulates in so many MPI processes (or one per rank, where there are fewer),
                 // each with a block of the ranks; what needs ranks as threads, and the plain
                 // references of programs, in this one all the same. 0: all in this one
    struct ls_process_pool
        *pool;                 // processes of real runs, for the runs that follow; NULL: none stay
    struct ls_trace *trace;    // sees the simulated calls, see trace.h; NULL: none
    const char *reproduce;     // the command without the file, "lockstep compare --real mpi"
    const char *reproduce_of;  // what stands there for the file; NULL: the scenario's
} ls_run_options;

// Simulates the scenario and judges it against its oracle: adds one case.
LS_API int ls_run_simulated(ls_results *results, const ls_scenario *scenario,
                            const ls_run_options *options);

// Simulates the scenario with numbers of a field, drawn twice, in the place of its floats, and
// judges it against its oracle: adds one case, proved, wrong or, with the reason, unjudged. The
// scenario is changed for good.
LS_API int ls_run_proved(ls_results *results, ls_scenario *scenario, const ls_run_options *options);

// Runs the scenario on a backend other than the simulator and judges that against the oracle.
LS_API int ls_run_real(ls_results *results, const ls_scenario *scenario,
                       const ls_backend_kind *backend, const ls_run_options *options);

// What another system returned for a scenario: a recording in memory that may hold some of the
// outputs alone; those are compared, and no calls.
typedef struct ls_imported {
    void *arg;
    int (*read)(void *arg, const ls_stage_sink *sink);  // gives every output to the sink
    const char *order;  // of the first call, which it summed in; NULL: not known
    int channels;       // that this call used; 0: as the order says
} ls_imported;

// What the simulation is compared with.
typedef struct ls_real_source {
    const ls_backend_kind *backend;  // runs on it; NULL: reads recordings
    const char *dir;                 // of a recording, or of one per scenario
    const ls_imported *imported;     // instead of both, where it is not NULL
} ls_real_source;

// Simulates the scenario, runs it on a backend or reads a recording, and compares stage by stage.
LS_API int ls_run_compared(ls_results *results, const ls_scenario *scenario,
                           const ls_real_source *real, const ls_run_options *options);

// Runs the scenario on a backend, the simulator or another, and keeps the recording in its folder
// of options->keep_dir, which must not exist or be an earlier recording of a scenario of that name.
// Adds one case: bit_exact without stages, or what went wrong.
LS_API int ls_run_recorded(ls_results *results, const ls_scenario *scenario,
                           const ls_backend_kind *backend, const ls_run_options *options);

#ifdef __cplusplus
}
#endif
#endif
