// A program that makes every call of ranks.h and checks the results.
#include <string.h>

#include "bugs.h"

#define WORLD ls_rank_world(self)
#define EXPECT(x)                                                                                  \
    do {                                                                                           \
        if (!(x))                                                                                  \
            return __LINE__;                                                                       \
    } while (0)

static int collectives(ls_rank *self, ls_rank_comm *comm) {
    int r = ls_comm_rank(comm), n = ls_comm_size(comm);
    float *a = ls_rank_alloc(self, (size_t)n * sizeof(float));
    float *b = ls_rank_alloc(self, (size_t)n * sizeof(float));
    EXPECT(a != NULL && b != NULL);
    float sum = (float)(n * (n - 1)) / 2.0f;
    for (int i = 0; i < n; i++) {
        a[i] = (float)r;
    }
    LS_TRY(ls_all_reduce(a, b, (size_t)n, LS_F32, LS_SUM, comm));
    EXPECT(b[0] == sum && b[n - 1] == sum);
    LS_TRY(ls_reduce(a, b, 1, LS_F32, LS_MAX, n - 1, comm));
    EXPECT(r != n - 1 || b[0] == (float)(n - 1));
    LS_TRY(ls_broadcast(a, b, 1, LS_F32, n - 1, comm));
    EXPECT(b[0] == (float)(n - 1));
    LS_TRY(ls_all_gather(a, b, 1, LS_F32, comm));
    EXPECT(b[n / 2] == (float)(n / 2));
    LS_TRY(ls_reduce_scatter(a, b, 1, LS_F32, LS_SUM, comm));
    EXPECT(b[0] == sum);
    LS_TRY(ls_all_to_all(a, b, 1, LS_F32, comm));
    EXPECT(b[n - 1] == (float)(n - 1));
    LS_TRY(ls_scan(a, b, 1, LS_F32, LS_SUM, comm));
    EXPECT(b[0] == (float)(r * (r + 1)) / 2.0f);
    LS_TRY(ls_exscan(a, b, 1, LS_F32, LS_SUM, comm));
    EXPECT(b[0] == (float)(r * (r - 1)) / 2.0f);
    LS_TRY(ls_gather(a, b, 1, LS_F32, 0, comm));
    EXPECT(r != 0 || b[n - 1] == (float)(n - 1));
    for (int i = 0; i < n; i++) {
        a[i] = (float)i;
    }
    LS_TRY(ls_scatter(a, b, 1, LS_F32, 0, comm));
    EXPECT(b[0] == (float)r);
    const ls_call max = {
        .kind = LS_ALL_REDUCE, .send = a, .recv = b, .count = 1, .dtype = LS_F32, .op = LS_MAX};
    LS_TRY(ls_post_at(__FILE__, __LINE__, &max, comm, NULL));
    EXPECT(b[0] == 0 && ls_comm_of(comm)->size == n);
    LS_TRY(ls_barrier(comm));
    LS_TRY(ls_check_replica(a, (size_t)n, LS_F32, comm));
    LS_TRY(ls_replica_declare(a, (size_t)n, LS_F32, comm));
    LS_TRY(ls_check_replicas(comm));
    LS_TRY(ls_all_reduce(b, a, 1, LS_F32, LS_SUM, comm));
    LS_TRY(ls_replica_forget(a, comm));
    ls_rank_free(self, a);
    ls_rank_free(self, b);
    return LS_OK;
}

// Everything uneven: rank r has r + 1 elements.
static int uneven(ls_rank *self, ls_rank_comm *comm) {
    int r = ls_comm_rank(comm), n = ls_comm_size(comm);
    size_t *counts = ls_rank_alloc(self, (size_t)n * sizeof *counts);
    size_t *same = ls_rank_alloc(self, (size_t)n * sizeof *same);
    size_t total = (size_t)(n * (n + 1)) / 2;
    float *own = ls_rank_alloc(self, total * sizeof(float));
    float *all = ls_rank_alloc(self, total * sizeof(float));
    EXPECT(counts != NULL && same != NULL && own != NULL && all != NULL);
    for (int i = 0; i < n; i++) {
        counts[i] = (size_t)i + 1;
        same[i] = (size_t)r + 1;
    }
    for (size_t i = 0; i < total; i++) {
        own[i] = (float)r;
    }
    LS_TRY(ls_all_gather_v(own, all, (size_t)r + 1, counts, LS_F32, comm));
    EXPECT(all[total - 1] == (float)(n - 1));
    LS_TRY(ls_reduce_scatter_v(own, all, (size_t)r + 1, counts, LS_F32, LS_SUM, comm));
    EXPECT(all[r] == (float)(n * (n - 1)) / 2.0f);
    float *wide = ls_rank_alloc(self, (size_t)(n * (r + 1)) * sizeof(float));
    EXPECT(wide != NULL);
    LS_TRY(ls_all_to_all_v(own, wide, counts, same, LS_F32, comm));
    EXPECT(wide[n * (r + 1) - 1] == (float)(n - 1));
    ls_rank_free(self, wide);
    ls_rank_free(self, all);
    ls_rank_free(self, own);
    ls_rank_free(self, same);
    ls_rank_free(self, counts);
    return LS_OK;
}

static int point_to_point(ls_rank *self) {
    int r = ls_rank_id(self), n = ls_rank_count(self);
    int next = (r + 1) % n, before = (r + n - 1) % n;
    float out = (float)r, in = -1, in2 = -1;
    ls_request *send = NULL, *recv = NULL;
    LS_TRY(ls_recv_async(&in, 1, LS_F32, before, WORLD, &recv));
    LS_TRY(ls_send_async(&out, 1, LS_F32, next, WORLD, &send));
    LS_TRY(ls_wait(send));
    LS_TRY(ls_wait(recv));
    EXPECT(in == (float)before);
    LS_TRY(ls_group_start(self));
    LS_TRY(ls_group_start(self));
    LS_TRY(ls_send(&out, 1, LS_F32, before, WORLD));
    LS_TRY(ls_group_end(self));
    LS_TRY(ls_recv(&in2, 1, LS_F32, next, WORLD));
    LS_TRY(ls_group_end(self));
    EXPECT(in2 == (float)next);
    if (n > 1 && r < 2) {
        LS_TRY(r == 0 ? ls_send(&out, 1, LS_F32, 1, WORLD) : ls_recv(&in, 1, LS_F32, 0, WORLD));
    }
    return LS_OK;
}

static int asynchronous(ls_rank *self) {
    enum { CALLS = 12 };
    int n = ls_rank_count(self);
    size_t *ones = ls_rank_alloc(self, (size_t)n * sizeof *ones);
    float *a = ls_rank_alloc(self, (size_t)(n * CALLS) * sizeof(float));
    float *b = ls_rank_alloc(self, (size_t)(n * CALLS) * sizeof(float));
    EXPECT(a != NULL && b != NULL && ones != NULL);
    for (int i = 0; i < n * CALLS; i++) {
        a[i] = 1;
        b[i] = 0;
    }
    for (int i = 0; i < n; i++) {
        ones[i] = 1;
    }
    ls_request *q[CALLS] = {0};
    LS_TRY(ls_all_reduce_async(a, b, 1, LS_F32, LS_SUM, WORLD, &q[0]));
    LS_TRY(ls_reduce_async(a + n, b + n, 1, LS_F32, LS_SUM, 0, WORLD, &q[1]));
    LS_TRY(ls_broadcast_async(a + 2 * n, b + 2 * n, 1, LS_F32, 0, WORLD, &q[2]));
    LS_TRY(ls_all_gather_async(a + 3 * n, b + 3 * n, 1, LS_F32, WORLD, &q[3]));
    LS_TRY(ls_reduce_scatter_async(a + 4 * n, b + 4 * n, 1, LS_F32, LS_SUM, WORLD, &q[4]));
    LS_TRY(ls_all_to_all_async(a + 5 * n, b + 5 * n, 1, LS_F32, WORLD, &q[5]));
    LS_TRY(ls_gather_async(a + 6 * n, b + 6 * n, 1, LS_F32, 0, WORLD, &q[6]));
    LS_TRY(ls_scatter_async(a + 7 * n, b + 7 * n, 1, LS_F32, 0, WORLD, &q[7]));
    LS_TRY(ls_barrier_async(WORLD, &q[8]));
    LS_TRY(ls_all_to_all_v_async(a + 9 * n, b + 9 * n, ones, ones, LS_F32, WORLD, &q[9]));
    LS_TRY(ls_scan_async(a + 10 * n, b + 10 * n, 1, LS_F32, LS_SUM, WORLD, &q[10]));
    LS_TRY(ls_exscan_async(a + 11 * n, b + 11 * n, 1, LS_F32, LS_SUM, WORLD, &q[11]));
    for (int i = CALLS - 1; i >= 0; i--) {
        LS_TRY(ls_wait(q[i]));
    }
    LS_TRY(ls_reads(self, b, (size_t)(n * CALLS) * sizeof(float)));
    LS_TRY(ls_writes(self, a, (size_t)(n * CALLS) * sizeof(float)));
    EXPECT(b[0] == (float)n && b[4 * n] == (float)n && b[5 * n + n - 1] == 1);
    EXPECT(b[9 * n + n - 1] == 1 && b[10 * n] == (float)(ls_rank_id(self) + 1));
    EXPECT(b[11 * n] == (float)ls_rank_id(self));
    ls_rank_free(self, ones);
    ls_rank_free(self, a);
    ls_rank_free(self, b);
    return LS_OK;
}

// The uneven forms, waited for together, one by one and by polling.
static int uneven_and_waits(ls_rank *self) {
    enum { MOST = 64, CALLS = 4 };
    int n = ls_rank_count(self), id = ls_rank_id(self), index = -1;
    size_t ones[MOST];
    float own[MOST], root[2][MOST], one[1] = {(float)id}, got[CALLS][MOST] = {{0}};
    ls_request *q[CALLS] = {0};
    bool done = false;
    EXPECT(n <= MOST);
    for (int i = 0; i < n; i++) {
        ones[i] = 1;
        own[i] = (float)i;
    }
    LS_TRY(ls_gather_v(one, root[0], 1, ones, LS_F32, 0, WORLD));
    LS_TRY(ls_scatter_v(own, root[1], 1, ones, LS_F32, 0, WORLD));
    EXPECT(root[1][0] == (float)id && (id != 0 || root[0][n - 1] == (float)(n - 1)));
    LS_TRY(ls_all_gather_v_async(one, got[0], 1, ones, LS_F32, WORLD, &q[0]));
    LS_TRY(ls_reduce_scatter_v_async(own, got[1], 1, ones, LS_F32, LS_SUM, WORLD, &q[1]));
    LS_TRY(ls_gather_v_async(one, got[2], 1, ones, LS_F32, 0, WORLD, &q[2]));
    LS_TRY(ls_scatter_v_async(own, got[3], 1, ones, LS_F32, 0, WORLD, &q[3]));
    while (!done) {
        LS_TRY(ls_test(&done, &q[0]));
    }
    LS_TRY(ls_wait_any(&index, q, CALLS));
    EXPECT(index >= 1 && q[index] == NULL);
    LS_TRY(ls_wait_all(q, CALLS));
    EXPECT(got[0][n - 1] == (float)(n - 1) && got[1][0] == (float)(n * id));
    EXPECT(got[3][0] == (float)id && (id != 0 || got[2][n - 1] == (float)(n - 1)));
    // A thread that runs a rank cannot run another; after it has left the rank it can.
    EXPECT(ls_rank_attach(self) == LS_ERR_INVALID);
    ls_rank_detach(self);
    LS_TRY(ls_rank_attach(self));
    double shared = ls_rank_uniform_shared(self, "test", 1), largest = shared;
    LS_TRY(ls_all_reduce(&largest, &largest, 1, LS_F64, LS_MAX, WORLD));
    EXPECT(shared == largest && shared >= 0 && shared < 1);
    return LS_OK;
}

// Functions for the ranks that a process holds work for this single rank: a tensor is gathered, and
// two calls of one group match those of the other ranks.
static int on_own_backend(ls_rank *self) {
    ls_backend *own = NULL;
    ls_local_tensor *rows = NULL, *all = NULL;
    ls_comm *reversed = NULL;
    int n = ls_rank_count(self), id = ls_rank_id(self), members[64];
    const ls_placements split = LS_PLACE(LS_SHARD(0)), whole = LS_PLACE(LS_REPLICATE);
    float full[64] = {0}, sum[2] = {0, 0};
    const float mine[2] = {1, (float)id};
    EXPECT(n <= 64);
    for (int i = 0; i < n; i++) {
        full[i] = (float)(i * i);
        members[i] = n - 1 - i;
    }
    LS_TRY(ls_rank_backend_create(&own, self, __FILE__, __LINE__));
    ls_rank_backend_at(own, __FILE__, __LINE__);
    EXPECT(ls_world_held_count(own->world) == 1 && ls_world_held(own->world)[0] == id);
    LS_TRY(ls_local_tensor_distribute(&rows, own->world, full, &LS_SHAPE(n), LS_F32, &split));
    LS_TRY(ls_tensor_redistribute(&all, own, rows, &whole));
    EXPECT(memcmp(ls_local_tensor_shard(all, id, 0)->data, full, (size_t)n * sizeof *full) == 0);
    LS_TRY(ls_comm_create(&reversed, own, members, n, "reversed"));
    ls_call calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = (ls_call){.kind = LS_ALL_REDUCE,
                             .comm = reversed,
                             .rank = id,
                             .dtype = LS_F32,
                             .op = LS_SUM,
                             .count = 1,
                             .send = &mine[i],
                             .recv = &sum[i],
                             LS_HERE};
    }
    LS_TRY(ls_backend_run(own, calls, 2));
    EXPECT(sum[0] == (float)n && sum[1] == (float)(n * (n - 1) / 2));
    ls_comm_free(reversed);
    ls_local_tensor_free(rows);
    ls_local_tensor_free(all);
    ls_backend_free(own);
    return LS_OK;
}

int every_call(ls_rank *self, void *arg) {
    const int *rounds = arg;
    for (int round = 0; round < *rounds; round++) {
        ls_rank_comm *axis = NULL, *half = NULL, *few = NULL;
        const int members[2] = {1, 0}, alone[1] = {0}, n = ls_rank_count(self);
        LS_TRY(ls_rank_axis(&axis, self, 0));
        if (strncmp(ls_comm_name(axis), "all[", 4) == 0) {
            ls_rank_comm *named = NULL;
            LS_TRY(ls_rank_axis_named(&named, self, "all"));
            EXPECT(named == axis);
        }
        LS_TRY(ls_comm_split(&half, WORLD, ls_rank_id(self) % 2, -ls_rank_id(self)));
        LS_TRY(ls_comm_set_name(half, "half"));
        EXPECT(strcmp(ls_comm_name(half), "half") == 0);
        LS_TRY(ls_comm_subset(&few, WORLD, n > 1 ? members : alone, n > 1 ? 2 : 1));
        EXPECT((few != NULL) == (ls_rank_id(self) < 2));
        EXPECT(few == NULL || n == 1 || ls_comm_rank(few) == 1 - ls_rank_id(self));
        LS_TRY(collectives(self, WORLD));
        LS_TRY(collectives(self, axis));
        LS_TRY(collectives(self, half));
        LS_TRY(few != NULL ? collectives(self, few) : LS_OK);
        LS_TRY(uneven(self, half));
        LS_TRY(point_to_point(self));
        LS_TRY(asynchronous(self));
        LS_TRY(uneven_and_waits(self));
        LS_TRY(ls_comm_destroy(half));
        LS_TRY(ls_comm_destroy(few));
        LS_TRY(on_own_backend(self));
        double u = ls_rank_uniform(self, "test", (uint64_t)round);
        EXPECT(u >= 0 && u < 1);
    }
    return 0;
}
