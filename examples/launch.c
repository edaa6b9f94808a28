// See launch.h. Not part of the library: a program of yours has its own main.
#include "examples/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LOCKSTEP_WITH_MPI
#include "collectives/backend/mpi.h"
#endif

static int parse(example *out, int argc, char **argv, int ranks) {
    *out = (example){.ranks = ranks, .seed = 7};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bug") == 0) {
            out->bug = true;
        } else if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc) {
            out->ranks = (int)strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            out->seed = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--ranks N] [--seed N] [--bug]\n", argv[0]);
            return -1;
        }
    }
    return 0;
}

static int fail(void) {
    fprintf(stderr, "error: %s\n", ls_error_last()->text);
    return 1;
}

#ifdef LOCKSTEP_WITH_MPI
// This process's world: its own rank of them all.
static int open_backend(ls_backend **backend, ls_world **world, example *given) {
    int rank = 0;
    CHECK(ls_mpi_init(&rank, &given->ranks));
    const ls_world_options options = {
        .mesh = LS_MESH(given->ranks), .seed = given->seed, .held = &rank, .held_count = 1};
    CHECK(ls_world_create(world, &options));
    return ls_backend_mpi_create(backend, *world);
}

static int end(int code) {
    if (code != 0) {
        ls_mpi_abort(code);
    }
    ls_mpi_finalize();
    return code;
}

int example_spmd(int argc, char **argv, ls_spmd_program program, int ranks) {
    example given;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    if (parse(&given, argc, argv, ranks) != 0) {
        return 2;
    }
    int exit_status = 0, code = 0;
    if (open_backend(&backend, &world, &given) != LS_OK ||
        ls_spmd_run_backend(&exit_status, program, &given, backend) != LS_OK || exit_status != 0) {
        code = fail();
    }
    ls_backend_free(backend);
    ls_world_free(world);
    return end(code);
}
#else
static int open_backend(ls_backend **backend, ls_world **world, example *given) {
    const ls_world_options options = {.mesh = LS_MESH(given->ranks), .seed = given->seed};
    CHECK(ls_world_create(world, &options));
    return ls_backend_sim_create(backend, *world);
}

static int end(int code) {
    return code;
}

int example_spmd(int argc, char **argv, ls_spmd_program program, int ranks) {
    example given;
    if (parse(&given, argc, argv, ranks) != 0) {
        return 2;
    }
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = given.ranks, .seed = given.seed};
    int status = ls_spmd_run(&result, program, &given, &options);
    for (int i = 0; result != NULL && i < ls_spmd_finding_count(result); i++) {
        const ls_finding *finding = ls_spmd_finding(result, i);
        fprintf(stderr, "%s at %s\n%s", ls_finding_name(finding->id), finding->where,
                finding->text);
    }
    int code = status == LS_OK ? 0 : fail();
    ls_spmd_result_free(result);
    return code;
}
#endif

int example_controller(int argc, char **argv,
                       int (*controller)(ls_backend *backend, const example *given), int ranks) {
    example given;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    if (parse(&given, argc, argv, ranks) != 0) {
        return 2;
    }
    int code = 0;
    if (open_backend(&backend, &world, &given) != LS_OK || controller(backend, &given) != LS_OK) {
        code = fail();
    }
    ls_backend_free(backend);
    ls_world_free(world);
    return end(code);
}
