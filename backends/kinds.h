// The table of backends: every difference between them. Code passes a row's pointer; its name is
// only for options, files and reports.
#ifndef LS_BACKENDS_KINDS_H
#define LS_BACKENDS_KINDS_H

#include "collectives/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

// "sim", "mpi", "nccl". NULL: there is none of that name.
typedef struct ls_backend_kind ls_backend_kind;
LS_API const ls_backend_kind *ls_backend_kind_named(const char *name);

// ---- Inside the library -------------------------------------------------------------------------
// What a backend does is ls_backend_ops.
struct ls_backend_kind {
    const char *name;  // "sim", "mpi", "nccl"
    const char
        *about;  // for doctor: a description; if `open` is NULL, the part that the build lacks
    // Opens it for a world of all ranks, which run in the calling process; device: of the buffers,
    // may be NULL. NULL: its runs are real ones, with started ranks.
    int (*open)(ls_backend **out, ls_world *world, struct ls_device *device);
    // Beside the running program: what mpiexec starts, a process per rank; and what runs all ranks,
    // a thread each (NULL: none), unless processes are asked for.
    const char *program, *threads_program;
    bool timed;  // bench, calibrate and plan can measure it
    // A run that is to hang does when nothing moves for so long, in which each rank had so much of
    // a processor.
    double quiet_seconds, cpu_seconds;
};

extern const ls_backend_kind ls_backend_kind_sim, ls_backend_kind_mpi, ls_backend_kind_nccl;

// All of them, and their names in the same order; both end with NULL.
extern const ls_backend_kind *const ls_backend_kinds[];
extern const char *const ls_backend_names[];
// The names of the backends that can be measured.
extern const char *const ls_backend_names_timed[];

#ifdef __cplusplus
}
#endif
#endif
