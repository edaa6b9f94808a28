// See launch.h. Not part of the library: your program has its own main, and needs only the parts
// for its backends.
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LOCKSTEP_WITH_MPI
#include <lockstep/backends/mpi/mpi.h>
#endif
#ifdef LOCKSTEP_WITH_NCCL
#include <lockstep/backends/nccl/nccl.h>
#endif
#if defined(LOCKSTEP_WITH_MPI) && defined(LOCKSTEP_WITH_NCCL)
#include <lockstep/backends/nccl/nccl_mpi.h>
#endif

#if defined(LOCKSTEP_WITH_MPI)
#define DEFAULT_BACKEND "mpi"
#elif defined(LOCKSTEP_WITH_NCCL)
#define DEFAULT_BACKEND "nccl"
#else
#define DEFAULT_BACKEND "sim"
#endif

// The settings of a run, beside the program.
typedef struct job {
    example given;
    ls_world *world;
    ls_backend *backend;
    bool processes;  // this is one of several, with a rank of its own
} job;

static int parse(example *out, int argc, char **argv, int ranks) {
    *out = (example){.ranks = ranks, .seed = 7, .backend = DEFAULT_BACKEND};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--bug") == 0) {
            out->bug = true;
            continue;
        }
        if (value != NULL && strcmp(argv[i], "--ranks") == 0) {
            out->ranks = (int)strtol(value, NULL, 10);
        } else if (value != NULL && strcmp(argv[i], "--seed") == 0) {
            out->seed = strtoull(value, NULL, 10);
        } else if (value != NULL && strcmp(argv[i], "--backend") == 0) {
            out->backend = value;
        } else if (value != NULL && strcmp(argv[i], "--deadline") == 0) {
            out->deadline_seconds = strtod(value, NULL);
        } else {
            fprintf(stderr,
                    "usage: %s [--backend sim|mpi|nccl] [--ranks N] [--seed N] "
                    "[--deadline SECONDS] [--bug]\n",
                    argv[0]);
            return -1;
        }
        i += 1;
    }
    return 0;
}

static bool is(const char *name, const char *other) {
    return strcmp(name, other) == 0;
}

// ---- Backends -----------------------------------------------------------------------------------
#ifdef LOCKSTEP_WITH_NCCL
static int open_nccl(job *j) {
    ls_nccl_options options = {.deadline_seconds = j->given.deadline_seconds, .quiet_log = true};
#ifdef LOCKSTEP_WITH_MPI
    static ls_nccl_bootstrap bootstrap;
    CHECK(ls_nccl_mpi_bootstrap(&bootstrap));
    options.bootstrap = &bootstrap;
#endif
    return ls_backend_nccl_create(&j->backend, j->world, &options);
}
#endif

// This process's part of the world: all ranks, or, under mpiexec, its own.
static int open_job(job *j) {
    ls_world_options options = LS_OPTIONS(ls_world_options, .seed = j->given.seed);
#ifdef LOCKSTEP_WITH_MPI
    int rank = 0;
    if (!is(j->given.backend, "sim")) {
        CHECK(ls_mpi_init(&rank, &j->given.ranks));
        j->processes = true;
        options.held = &rank;
        options.held_count = 1;
    }
#endif
    options.mesh = LS_MESH(j->given.ranks);
    CHECK(ls_world_create(&j->world, &options));
    if (is(j->given.backend, "sim")) {
        return ls_backend_sim_create(&j->backend, j->world);
    }
#ifdef LOCKSTEP_WITH_MPI
    if (is(j->given.backend, "mpi")) {
        return ls_backend_mpi_create(&j->backend, j->world);
    }
#endif
#ifdef LOCKSTEP_WITH_NCCL
    if (is(j->given.backend, "nccl")) {
        return open_nccl(j);
    }
#endif
    return LS_FAIL(LS_ERR_BACKEND, "this build has no %s backend", j->given.backend);
}

static int close_job(job *j, int code) {
    ls_backend_free(j->backend);
    ls_world_free(j->world);
#ifdef LOCKSTEP_WITH_MPI
    if (j->processes) {
        if (code != 0) {
            ls_mpi_abort(code);  // the other ranks may wait for this one
        }
        ls_mpi_finalize();
    }
#endif
    return code;
}

// ---- Results ------------------------------------------------------------------------------------
// The exit code for a failure: 3 if the environment is at fault, else the program's.
static int fail(int status) {
    if (status == LS_OK) {
        return 0;
    }
    fprintf(stderr, "error: %s\n", ls_error_last()->text);
    bool environment = status == LS_ERR_BACKEND || status == LS_ERR_TIMEOUT ||
                       status == LS_ERR_MEMORY || status == LS_ERR_IO;
    return environment ? 3 : 1;
}

static void print_findings(const ls_spmd_result *result) {
    const ls_finding *finding;
    for (int i = 0; result != NULL && (finding = ls_spmd_finding(result, i)) != NULL; i++) {
        fprintf(stderr, "%s at %s\n%s", ls_finding_name(finding->id), finding->where,
                finding->text);
    }
}

int example_spmd(int argc, char **argv, ls_spmd_program program, int ranks) {
    job j = {0};
    if (parse(&j.given, argc, argv, ranks) != 0) {
        return 2;
    }
    ls_spmd_result *result = NULL;
    int status = open_job(&j);
    if (status == LS_OK && j.processes) {
        status = ls_spmd_run_backend(&result, program, &j.given, j.backend, NULL);
    } else if (status == LS_OK) {
        const ls_spmd_options options =
            LS_OPTIONS(ls_spmd_options, .ranks = j.given.ranks, .seed = j.given.seed,
                       .backend = is(j.given.backend, "sim") ? NULL : j.backend);
        status = ls_spmd_run(&result, program, &j.given, &options);
    }
    print_findings(result);
    int code = fail(status);
    ls_spmd_result_free(result);
    return close_job(&j, code);
}

int example_controller(int argc, char **argv,
                       int (*controller)(ls_backend *backend, const example *given), int ranks) {
    job j = {0};
    if (parse(&j.given, argc, argv, ranks) != 0) {
        return 2;
    }
    int status = open_job(&j);
    status = status == LS_OK ? controller(j.backend, &j.given) : status;
    return close_job(&j, fail(status));
}
