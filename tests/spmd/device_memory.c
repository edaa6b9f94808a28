// An SPMD program whose buffers are in the memory of its rank's GPU, on NCCL: calls use them
// directly, and the checks read them. --bug: a NaN in one of them.
#include <math.h>
#include <stdio.h>

#include "backends/nccl/nccl.h"
#include "ranks/ranks.h"  // the inside of it, before launch.h has the public copy
#include "examples/launch.h"

#define COUNT 4099  // no multiple of anything

static float host[8][COUNT];

typedef struct device {
    ls_backend *backend;
    int rank;
} device;

static int get(float *out, const device *d, const void *from) {
    return ls_nccl_copy_out(d->backend, d->rank, out, from, COUNT * sizeof(float));
}

// Every element at `at` must be `expected`.
static int expect(const device *d, const void *at, float expected, const char *what) {
    CHECK(get(host[d->rank], d, at));
    for (int i = 0; i < COUNT; i++) {
        if (host[d->rank][i] != expected) {
            return LS_FAIL_RANK(LS_ERR_INVALID, d->rank, "%s: element %d is %g, not %g", what, i,
                                (double)host[d->rank][i], (double)expected);
        }
    }
    return LS_OK;
}

static int fill(const device *d, void *to, float value) {
    for (int i = 0; i < COUNT; i++) {
        host[d->rank][i] = value;
    }
    return ls_nccl_copy_in(d->backend, d->rank, to, host[d->rank], COUNT * sizeof(float));
}

static int calls(ls_rank *self, const device *d, void *send, void *recv) {
    static float mixed[8][COUNT];
    ls_rank_comm *world = ls_rank_world(self), *part = NULL;
    int n = ls_rank_count(self), next = (d->rank + 1) % n, before = (d->rank + n - 1) % n;
    CHECK(ls_all_reduce(send, recv, COUNT, LS_F32, LS_SUM, world));
    CHECK(expect(d, recv, (float)(n * (n + 1)) / 2, "all_reduce"));
    CHECK(ls_check_replica(recv, COUNT, LS_F32, world));
    // From the GPU into ordinary memory, and back.
    CHECK(ls_broadcast(send, mixed[d->rank], COUNT, LS_F32, n - 1, world));
    for (int i = 0; i < COUNT; i++) {
        mixed[d->rank][i] += 1;
    }
    CHECK(ls_all_reduce(mixed[d->rank], recv, COUNT, LS_F32, LS_MAX, world));
    CHECK(expect(d, recv, (float)n + 1, "mixed memory"));
    CHECK(ls_group_start(self));
    CHECK(ls_send(send, COUNT, LS_F32, next, world));
    CHECK(ls_recv(recv, COUNT, LS_F32, before, world));
    CHECK(ls_group_end(self));
    CHECK(expect(d, recv, (float)before + 1, "a ring"));
    CHECK(ls_comm_split(&part, world, d->rank % 2, 0));
    CHECK(ls_all_reduce(send, send, COUNT, LS_F32, LS_MIN, part));
    CHECK(expect(d, send, (float)(d->rank % 2 + 1), "a part, in place"));
    return ls_comm_destroy(part);
}

static int program(ls_rank *self, void *arg) {
    const example *given = arg;
    device d = {ls_comm_of(ls_rank_world(self))->backend, ls_rank_id(self)};
    void *send = NULL, *recv = NULL;
    if (ls_rank_count(self) > 8) {
        return LS_ERR_LIMIT;
    }
    CHECK(ls_nccl_alloc(&send, d.backend, d.rank, COUNT * sizeof(float)));
    CHECK(ls_nccl_alloc(&recv, d.backend, d.rank, COUNT * sizeof(float)));
    CHECK(fill(&d, send, given->bug && d.rank == 1 ? NAN : (float)d.rank + 1));
    CHECK(calls(self, &d, send, recv));
    ls_nccl_free(d.backend, d.rank, send);
    ls_nccl_free(d.backend, d.rank, recv);
    if (d.rank == 0) {
        printf("all calls used the GPUs' memory\n");
    }
    return LS_OK;
}

int main(int argc, char **argv) {
    return example_spmd(argc, argv, program, 4);
}
