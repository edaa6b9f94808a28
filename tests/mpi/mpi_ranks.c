// SPMD programs on real MPI processes. Without arguments: one that makes every call and checks the
// results. With the name of a bug: that bug under MPI, which may hang; after "clean" its corrected
// version, which must not; after "explain" the bug in the simulator.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ranks/bugs.h"
#include "backends/mpi/mpi.h"

static const bug *find(const char *name) {
    for (int i = 0; i < bug_count; i++) {
        if (strcmp(bugs[i].name, name) == 0) {
            return &bugs[i];
        }
    }
    (void)fprintf(stderr, "no bug is called %s\n", name);
    exit(2);
}

static int explain(const bug *b) {
    bug_run run = {0};
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = b->ranks, .lookahead = b->lookahead};
    int status = ls_spmd_run(&result, b->program, &run, &options);
    printf("%s: %s\n%s", b->name, ls_error_last()->text,
           status != LS_OK ? ls_spmd_finding(result, 0)->text : "nothing\n");
    ls_spmd_result_free(result);
    return status != LS_OK ? 0 : 1;
}

// The last rank declares that the replica, equal bit for bit, has another type; size > 1.
static int replica_of_another_type(ls_rank *self, void *arg) {
    (void)arg;
    const int32_t zeros[4] = {0};
    bool last = ls_rank_id(self) == ls_rank_count(self) - 1;
    return ls_check_replica(zeros, 4, last ? LS_I32 : LS_F32, ls_rank_world(self));
}

// The length of a finding about the call; the histories after it are of the held ranks.
static size_t told(const char *text) {
    const char *histories = strstr(text, "last calls");
    return histories != NULL ? (size_t)(histories - text) : strlen(text);
}

// Every process must reach the simulator's finding: types of other ranks are unknown until they are
// reported.
static int check_types(ls_backend *backend, int size) {
    ls_spmd_result *real = NULL, *simulated = NULL;
    const ls_spmd_options options = {.ranks = size};
    int expected = ls_spmd_run(&simulated, replica_of_another_type, NULL, &options);
    int status = ls_spmd_run_backend(&real, replica_of_another_type, NULL, backend, NULL);
    bool found = expected == LS_ERR_FINDING && status == LS_ERR_FINDING &&
                 ls_spmd_finding_count(real) == 1 && ls_spmd_finding_count(simulated) == 1;
    if (found) {
        const ls_finding *a = ls_spmd_finding(real, 0), *b = ls_spmd_finding(simulated, 0);
        found = a->id == LS_FINDING_DTYPE_MISMATCH && b->id == a->id && a->rank_count == 1 &&
                b->rank_count == 1 && a->ranks[0] == b->ranks[0] && a->ranks[0] == size - 1 &&
                strcmp(a->where, b->where) == 0 && strncmp(a->text, b->text, told(a->text)) == 0;
    }
    if (!found) {
        (void)fprintf(stderr, "a replica of another type: %d, simulated %d\n", status, expected);
    }
    ls_spmd_result_free(real);
    ls_spmd_result_free(simulated);
    return found ? LS_OK : LS_ERR_MISMATCH;
}

// Of two declared replicas the second differs; size > 1.
static int check_declared(ls_backend *backend) {
    bug_run run = {0};
    ls_spmd_result *result = NULL;
    int status = ls_spmd_run_backend(&result, bug_replica_asked, &run, backend, NULL);
    bool found = status == LS_ERR_FINDING && ls_spmd_finding_count(result) == 1 &&
                 ls_spmd_finding(result, 0)->id == LS_FINDING_REPLICA_DIVERGED;
    if (!found) {
        (void)fprintf(stderr, "a declared replica that differs: %d\n", status);
    }
    ls_spmd_result_free(result);
    return found ? LS_OK : LS_ERR_MISMATCH;
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "explain") == 0) {
        return explain(find(argv[2]));
    }
    int rank = 0, size = 0, rounds = 3;
    ls_spmd_result *result = NULL;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    if (ls_mpi_init(&rank, &size) != LS_OK) {
        (void)fprintf(stderr, "%s\n", ls_error_last()->text);
        return 1;
    }
    const ls_world_options options = {.mesh = LS_MESH(size), .held = &rank, .held_count = 1};
    if (ls_world_create(&world, &options) != LS_OK ||
        ls_backend_mpi_create(&backend, world) != LS_OK) {
        (void)fprintf(stderr, "%s\n", ls_error_last()->text);
        ls_mpi_abort(1);
    }
    bug_run run = {.clean = argc > 2 && strcmp(argv[1], "clean") == 0};
    int status = LS_OK;
    if (argc > 1) {
        // Hangs must hang: no agreement and no check.
        const ls_spmd_options unchecked = {.checks = "-*"};
        ls_backend_mpi_trust(backend);
        status =
            ls_spmd_run_backend(&result, find(argv[argc - 1])->program, &run, backend, &unchecked);
    } else {
        status = ls_spmd_run_backend(&result, every_call, &rounds, backend, NULL);
    }
    if (status != LS_OK) {
        (void)fprintf(stderr, "rank %d: %s\n", rank, ls_error_last()->text);
    }
    for (int i = 0; result != NULL && i < ls_spmd_finding_count(result); i++) {
        const ls_finding *finding = ls_spmd_finding(result, i);
        (void)fprintf(stderr, "rank %d: %s at %s\n%s", rank, ls_finding_name(finding->id),
                      finding->where, finding->text);
    }
    if (argc == 1 && size > 1 && status == LS_OK) {
        status = check_types(backend, size);
        status = status == LS_OK ? check_declared(backend) : status;
    }
    ls_spmd_result_free(result);
    ls_backend_free(backend);
    ls_world_free(world);
    ls_mpi_finalize();
    return status != LS_OK;
}
