// Redistributes and scatters local tensors between real MPI processes, each of which holds only its
// rank's shard, against sharding the same tensor locally. Exits 0 if nothing differs.
#include <stdio.h>
#include <string.h>

#include "backends/mpi/mpi.h"

static float values[64];
static int failures, checks;

static void expect(bool holds, int rank, const char *what) {
    checks += 1;
    if (!holds) {
        failures += 1;
        fprintf(stderr, "rank %d: %s: %s\n", rank, what, ls_error_last()->text);
    }
}

static void compare(ls_local_tensor *got, ls_local_tensor *expected, int rank, const char *what) {
    if (got == NULL || expected == NULL) {
        expect(false, rank, what);
        return;
    }
    const ls_shard *a = ls_local_tensor_shard(got, rank, 0);
    const ls_shard *b = ls_local_tensor_shard(expected, rank, 0);
    expect(a->count == b->count, rank, what);
    expect(a->count != b->count || a->count == 0 ||
               memcmp(a->data, b->data, a->count * sizeof(float)) == 0,
           rank, what);
}

static void run_pairs(ls_world *world, ls_backend *backend, int rank, int size, int mesh_dims) {
    const ls_placement menu[] = {LS_REPLICATE, LS_SHARD(0), LS_SHARD(1), LS_PARTIAL(LS_SUM)};
    const ls_shape shape = LS_SHAPE(7, 5);
    int combinations = mesh_dims == 2 ? 16 : 4;
    for (int pair = 0; pair < combinations * combinations; pair++) {
        int a = pair % combinations, b = pair / combinations;
        ls_placements from = {.count = mesh_dims}, to = {.count = mesh_dims};
        for (int d = 0; d < mesh_dims; d++) {
            from.at[d] = menu[d == 0 ? a % 4 : a / 4];
            to.at[d] = menu[d == 0 ? b % 4 : b / 4];
        }
        ls_local_tensor *in = NULL, *out = NULL, *expected = NULL, *scattered = NULL;
        char text[2][64], what[160];
        ls_placements_format(text[0], sizeof text[0], &from);
        ls_placements_format(text[1], sizeof text[1], &to);
        snprintf(what, sizeof what, "[%s] to [%s]", text[0], text[1]);
        expect(ls_local_tensor_distribute(&in, world, values, &shape, LS_F32, &from) == LS_OK, rank,
               what);
        expect(ls_local_tensor_distribute(&expected, world, values, &shape, LS_F32, &to) == LS_OK,
               rank, what);
        expect(ls_tensor_redistribute(&out, backend, in, &to) == LS_OK, rank, what);
        compare(out, expected, rank, what);
        if (a == 0) {
            int source = b % size;
            expect(ls_tensor_scatter(&scattered, backend, rank == source ? values : NULL, source,
                                     &shape, LS_F32, &to) == LS_OK,
                   rank, "scatter");
            compare(scattered, expected, rank, "scatter");
            float full[35] = {0};
            expect(ls_tensor_full(full, sizeof full, backend, out) == LS_OK &&
                       memcmp(full, values, sizeof full) == 0,
                   rank, "full");
        }
        ls_local_tensor_free(in);
        ls_local_tensor_free(out);
        ls_local_tensor_free(expected);
        ls_local_tensor_free(scattered);
    }
}

// Shards whose sizes the other processes learn only by a query.
static void run_ragged(ls_world *world, ls_backend *backend, int rank, int size) {
    ls_axis *axis = NULL;
    ls_local_tensor *in = NULL, *out = NULL;
    const ls_shape shape = LS_SHAPE(rank + 1, 2);
    const void *data = values + 2 * (rank * (rank + 1) / 2);
    expect(ls_axis_create(&axis, backend, 0) == LS_OK, rank, "axis");
    expect(ls_local_tensor_from_shards(&in, world, LS_F32, NULL, 1, &shape, &data) == LS_OK, rank,
           "shards");
    expect(ls_tensor_all_gather(&out, in, 0, axis) == LS_OK, rank, "ragged all_gather");
    if (out != NULL) {
        const ls_shard *shard = ls_local_tensor_shard(out, rank, 0);
        size_t count = (size_t)(size * (size + 1));
        expect(shard->count == count && memcmp(shard->data, values, count * sizeof(float)) == 0,
               rank, "ragged all_gather's result");
    }
    ls_local_tensor_free(in);
    ls_local_tensor_free(out);
    ls_axis_free(axis);
}

int main(void) {
    int rank = 0, size = 0;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    if (ls_mpi_init(&rank, &size) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_last()->text);
        return 1;
    }
    for (int i = 0; i < 64; i++) {
        values[i] = (float)(i + 1);
    }
    ls_world_options options = {.mesh = LS_MESH(size), .held = &rank, .held_count = 1};
    if (size == 4) {
        options.mesh = LS_MESH(2, 2);
    }
    if (ls_world_create(&world, &options) != LS_OK ||
        ls_backend_mpi_create(&backend, world) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_last()->text);
        ls_mpi_abort(1);
    }
    run_pairs(world, backend, rank, size, options.mesh.ndim);
    if (size != 4) {
        run_ragged(world, backend, rank, size);
    }
    printf("rank %d of %d: %d checks, %d failures\n", rank, size, checks, failures);
    ls_backend_free(backend);
    ls_world_free(world);
    ls_mpi_finalize();
    return failures != 0;
}
