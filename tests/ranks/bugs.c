// One SPMD program per defect; a clean run of it has none.
#include "bugs.h"

#include <string.h>

// The line of the call that the finding must name.
#define HERE(run, call) ((run)->line = __LINE__, (call))
#define WORLD           ls_rank_world(self)

static void fill(float *data, int count, int seed) {
    for (int i = 0; i < count; i++) {
        data[i] = (float)(seed + i);
    }
}

// ---- Collectives that disagree ----
int bug_kind(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float data[4] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 2 && !run->clean) {
        return HERE(run, ls_broadcast(data, data, 4, LS_F32, 0, WORLD));
    }
    return ls_all_reduce(data, data, 4, LS_F32, LS_SUM, WORLD);
}

int bug_counts(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float data[8] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 1 && !run->clean) {
        return HERE(run, ls_all_reduce(data, data, 5, LS_F32, LS_SUM, WORLD));
    }
    return ls_all_reduce(data, data, 4, LS_F32, LS_SUM, WORLD);
}

int bug_count_overflow(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float data[4] = {1, 2, 3, 4};
    int rows = ls_rank_id(self) == 3 && !run->clean ? 65536 : 2, columns = rows;
    int product = (int)((unsigned)rows * (unsigned)columns / 2u * 2u);
    product = product == 0 ? -4 : product;  // 65536 * 65536 does not fit an int
    return HERE(run, ls_all_reduce(data, data, (size_t)product, LS_F32, LS_SUM, WORLD));
}

int bug_dtype(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float data[4] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 0 && !run->clean) {
        return HERE(run, ls_all_reduce(data, data, 4, LS_I32, LS_SUM, WORLD));
    }
    return ls_all_reduce(data, data, 4, LS_F32, LS_SUM, WORLD);
}

int bug_op(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float data[4] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 2 && !run->clean) {
        return HERE(run, ls_all_reduce(data, data, 4, LS_F32, LS_MAX, WORLD));
    }
    return ls_all_reduce(data, data, 4, LS_F32, LS_SUM, WORLD);
}

int bug_root(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float data[4] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 3 && !run->clean) {
        return HERE(run, ls_broadcast(data, data, 4, LS_F32, 1, WORLD));
    }
    return ls_broadcast(data, data, 4, LS_F32, 0, WORLD);
}

int bug_root_range(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float data[4] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 3 && !run->clean) {
        return HERE(run, ls_broadcast(data, data, 4, LS_F32, 4, WORLD));
    }
    return ls_broadcast(data, data, 4, LS_F32, 0, WORLD);
}

// The splits that TorchRec's input_dist must swap for the way back.
int bug_splits_swapped(ls_rank *self, void *arg) {
    bug_run *run = arg;
    int r = ls_rank_id(self);
    float send[6] = {0}, recv[6] = {0};
    size_t out[2] = {r == 0 ? 1 : 2, r == 0 ? 3 : 1};  // 0 -> 0: 1, 0 -> 1: 3, 1 -> 0: 2, 1 -> 1: 1
    size_t in[2] = {r == 0 ? 1 : 3, r == 0 ? 2 : 1};
    LS_TRY(ls_all_to_all_v(send, recv, out, in, LS_F32, WORLD));
    if (!run->clean) {
        return HERE(run, ls_all_to_all_v(recv, send, in, r == 0 ? in : out, LS_F32, WORLD));
    }
    return ls_all_to_all_v(recv, send, in, out, LS_F32, WORLD);
}

int bug_group_members(ls_rank *self, void *arg) {
    bug_run *run = arg;
    const int right[2] = {0, 1}, wrong[2] = {0, 2};
    bool odd = ls_rank_id(self) == 2 && !run->clean;
    ls_rank_comm *comm = NULL;
    if (odd) {
        return HERE(run, ls_comm_subset(&comm, WORLD, wrong, 2));
    }
    LS_TRY(ls_comm_subset(&comm, WORLD, right, 2));
    return ls_comm_destroy(comm);
}

int bug_group_null(ls_rank *self, void *arg) {
    bug_run *run = arg;
    ls_rank_comm *comm = NULL;
    float data[2] = {1, 2};
    LS_TRY(ls_comm_split(&comm, WORLD, ls_rank_id(self) < 2 ? 0 : -1, 0));
    if (ls_rank_id(self) == 3 && !run->clean) {
        return HERE(run, ls_all_reduce(data, data, 2, LS_F32, LS_SUM, comm));
    }
    return ls_comm_destroy(comm);
}

int bug_order(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[2] = {1, 2};
    if (ls_rank_id(self) == 1 && !run->clean) {
        LS_TRY(HERE(run, ls_all_reduce(b, b, 2, LS_F32, LS_SUM, WORLD)));
        return ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD);
    }
    LS_TRY(ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD));
    return ls_all_reduce(b, b, 2, LS_F32, LS_SUM, WORLD);
}

// A call that creates a communicator against one that does not.
int bug_verb(ls_rank *self, void *arg) {
    bug_run *run = arg;
    ls_rank_comm *comm = NULL;
    if (ls_rank_id(self) == 1 && !run->clean) {
        return HERE(run, ls_barrier(WORLD));
    }
    LS_TRY(ls_comm_split(&comm, WORLD, 0, 0));
    return ls_comm_destroy(comm);
}

// The same without looking ahead: the calls are asynchronous.
int bug_order_async(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[2] = {1, 2};
    ls_request *x = NULL, *y = NULL;
    if (ls_rank_id(self) == 1 && !run->clean) {
        LS_TRY(HERE(run, ls_all_reduce_async(b, b, 2, LS_F32, LS_SUM, WORLD, &y)));
        LS_TRY(ls_all_reduce_async(a, a, 4, LS_F32, LS_SUM, WORLD, &x));
    } else {
        LS_TRY(ls_all_reduce_async(a, a, 4, LS_F32, LS_SUM, WORLD, &x));
        LS_TRY(ls_all_reduce_async(b, b, 2, LS_F32, LS_SUM, WORLD, &y));
    }
    LS_TRY(ls_wait(x));
    return ls_wait(y);
}

int bug_left_out(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[2] = {1, 2};
    if (ls_rank_id(self) != 2 || run->clean) {
        LS_TRY(HERE(run, ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD)));
    }
    LS_TRY(ls_all_reduce(b, b, 2, LS_F32, LS_SUM, WORLD));
    return ls_barrier(WORLD);
}

// The same with equal calls: only at the end is one missing.
int bug_left_out_alike(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4};
    LS_TRY(ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD));
    if (ls_rank_id(self) != 2 || run->clean) {
        LS_TRY(HERE(run, ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD)));
    }
    return ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD);
}

int bug_extra(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4};
    LS_TRY(ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD));
    if (ls_rank_id(self) == 0 && !run->clean) {
        LS_TRY(HERE(run, ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD)));
    }
    return LS_OK;
}

int bug_extra_inside(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4};
    LS_TRY(ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD));
    if (ls_rank_id(self) == 0 && !run->clean) {
        LS_TRY(HERE(run, ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD)));
    }
    return ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD);
}

int bug_out_of_batches(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4};
    int batches = ls_rank_id(self) == 1 && !run->clean ? 4 : 5;
    for (int i = 0; i < batches; i++) {
        LS_TRY(HERE(run, ls_all_reduce(a, a, 4, LS_F32, LS_SUM, WORLD)));
    }
    return LS_OK;
}

// ---- Point to point ----
int bug_unmatched_send(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 0) {
        return HERE(run, ls_send(a, 4, LS_F32, 1, WORLD));
    }
    return run->clean ? ls_recv(a, 4, LS_F32, 0, WORLD) : LS_OK;
}

int bug_unmatched_recv(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 1) {
        return HERE(run, ls_recv(a, 4, LS_F32, 0, WORLD));
    }
    return run->clean ? ls_send(a, 4, LS_F32, 1, WORLD) : LS_OK;
}

int bug_p2p_count(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[8] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 0) {
        return HERE(run, ls_send(a, 3, LS_F32, 1, WORLD));
    }
    return ls_recv(a, run->clean ? 3 : 4, LS_F32, 0, WORLD);
}

int bug_p2p_dtype(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[8] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 0) {
        return HERE(run, ls_send(a, 4, LS_F32, 1, WORLD));
    }
    return ls_recv(a, 4, run->clean ? LS_F32 : LS_I32, 0, WORLD);
}

// Two tensors to one peer without tags, posted in another order on the two sides.
int bug_p2p_order(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[2] = {1, 2};
    LS_TRY(ls_group_start(self));
    if (ls_rank_id(self) == 0) {
        LS_TRY(HERE(run, ls_send(a, 4, LS_F32, 1, WORLD)));
        LS_TRY(ls_send(b, 2, LS_F32, 1, WORLD));
    } else if (run->clean) {
        LS_TRY(ls_recv(a, 4, LS_F32, 0, WORLD));
        LS_TRY(ls_recv(b, 2, LS_F32, 0, WORLD));
    } else {
        LS_TRY(ls_recv(b, 2, LS_F32, 0, WORLD));
        LS_TRY(ls_recv(a, 4, LS_F32, 0, WORLD));
    }
    return ls_group_end(self);
}

// One rank groups its two messages, the other makes them one after the other.
int bug_grouped_on_one_rank(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[4];
    int peer = 1 - ls_rank_id(self);
    bool grouped = run->clean || peer == 1;
    LS_TRY(grouped ? ls_group_start(self) : LS_OK);
    LS_TRY(ls_send(a, 4, LS_F32, peer, WORLD));
    LS_TRY(grouped ? ls_recv(b, 4, LS_F32, peer, WORLD)
                   : HERE(run, ls_recv(b, 4, LS_F32, peer, WORLD)));
    return grouped ? ls_group_end(self) : LS_OK;
}

// ---- Deadlocks ----
// Messages too large for any buffer.
int bug_ring(ls_rank *self, void *arg) {
    enum { COUNT = 1 << 17 };
    bug_run *run = arg;
    int r = ls_rank_id(self), n = ls_rank_count(self);
    float *a = ls_rank_alloc(self, COUNT * sizeof(float));
    float *b = ls_rank_alloc(self, COUNT * sizeof(float));
    bool receive_first = run->clean && r % 2 == 1;
    fill(a, COUNT, r);
    if (receive_first) {
        LS_TRY(ls_recv(b, COUNT, LS_F32, (r + n - 1) % n, WORLD));
    }
    LS_TRY(HERE(run, ls_send(a, COUNT, LS_F32, (r + 1) % n, WORLD)));
    if (!receive_first) {
        LS_TRY(ls_recv(b, COUNT, LS_F32, (r + n - 1) % n, WORLD));
    }
    ls_rank_free(self, a);
    ls_rank_free(self, b);
    return LS_OK;
}

int bug_self_send(ls_rank *self, void *arg) {
    bug_run *run = arg;
    int r = ls_rank_id(self);
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    if (run->clean) {
        LS_TRY(ls_group_start(self));
        LS_TRY(ls_send(a, 4, LS_F32, r, WORLD));
        LS_TRY(ls_recv(b, 4, LS_F32, r, WORLD));
        return ls_group_end(self);
    }
    LS_TRY(HERE(run, ls_send(a, 4, LS_F32, r, WORLD)));
    return ls_recv(b, 4, LS_F32, r, WORLD);
}

static int two_comms(ls_rank_comm **a, ls_rank_comm **b, ls_rank *self) {
    LS_TRY(ls_comm_split(a, WORLD, 0, ls_rank_id(self)));
    return ls_comm_split(b, WORLD, 0, ls_rank_id(self));
}

int bug_cross(ls_rank *self, void *arg) {
    bug_run *run = arg;
    ls_rank_comm *a = NULL, *b = NULL;
    float x[2] = {1, 2};
    LS_TRY(two_comms(&a, &b, self));
    bool swapped = ls_rank_id(self) == 1 && !run->clean;
    LS_TRY(HERE(run, ls_all_reduce(x, x, 2, LS_F32, LS_SUM, swapped ? b : a)));
    LS_TRY(ls_all_reduce(x, x, 2, LS_F32, LS_SUM, swapped ? a : b));
    LS_TRY(ls_comm_destroy(a));
    return ls_comm_destroy(b);
}

// It runs to its end by luck.
int bug_cross_survives(ls_rank *self, void *arg) {
    bug_run *run = arg;
    ls_rank_comm *a = NULL, *b = NULL;
    ls_request *p = NULL, *q = NULL;
    float x[2] = {1, 2}, y[2] = {1, 2};
    LS_TRY(two_comms(&a, &b, self));
    bool swapped = ls_rank_id(self) == 1 && !run->clean;
    LS_TRY(ls_all_reduce_async(x, x, 2, LS_F32, LS_SUM, swapped ? b : a, &p));
    LS_TRY(ls_all_reduce_async(y, y, 2, LS_F32, LS_SUM, swapped ? a : b, &q));
    LS_TRY(ls_wait(p));
    LS_TRY(ls_wait(q));
    LS_TRY(ls_comm_destroy(a));
    return ls_comm_destroy(b);
}

// ---- Buffers ----
int bug_overlap(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float data[8] = {1, 2, 3, 4};
    float *out = ls_rank_id(self) == 1 && !run->clean ? data + 2 : data;
    return HERE(run, ls_all_reduce(data, out, 4, LS_F32, LS_SUM, WORLD));
}

int bug_shared_memory(ls_rank *self, void *arg) {
    static float shared[4];
    bug_run *run = arg;
    float own[4] = {1, 2, 3, 4};
    return HERE(run, ls_all_reduce(own, run->clean ? own : shared, 4, LS_F32, LS_SUM, WORLD));
}

int bug_too_small(ls_rank *self, void *arg) {
    bug_run *run = arg;
    size_t room = ls_rank_id(self) == 0 && !run->clean ? 8 : 12;
    float *all = ls_rank_alloc(self, room * sizeof(float));
    float mine[4] = {1, 2, 3, 4};
    LS_TRY(HERE(run, ls_all_gather(mine, all + 4, 4, LS_F32, WORLD)));
    ls_rank_free(self, all);
    return LS_OK;
}

int bug_uninitialised(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float *grad = ls_rank_alloc(self, 64 * sizeof(float));
    fill(grad, ls_rank_id(self) == 1 && !run->clean ? 63 : 64, 1);
    LS_TRY(HERE(run, ls_all_reduce(grad, grad, 64, LS_F32, LS_SUM, WORLD)));
    ls_rank_free(self, grad);
    return LS_OK;
}

int bug_modified(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    ls_request *request = NULL;
    if (ls_rank_id(self) == 1) {  // late: rank 0's data is in flight for long
        LS_TRY(ls_recv(b, 1, LS_F32, 0, WORLD));
        LS_TRY(ls_all_reduce_async(a, b, 4, LS_F32, LS_SUM, WORLD, &request));
        return ls_wait(request);
    }
    LS_TRY(HERE(run, ls_all_reduce_async(a, b, 4, LS_F32, LS_SUM, WORLD, &request)));
    float next[1] = {7};
    if (!run->clean) {
        a[1] = next[0];
    }
    LS_TRY(ls_send(next, 1, LS_F32, 1, WORLD));
    return ls_wait(request);
}

int bug_use_before_wait(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[4] = {0}, c[4];
    ls_request *request = NULL;
    LS_TRY(ls_all_reduce_async(a, b, 4, LS_F32, LS_SUM, WORLD, &request));
    if (run->clean) {
        LS_TRY(ls_wait(request));
    }
    LS_TRY(HERE(run, ls_all_gather(b, c, 1, LS_F32, WORLD)));
    return run->clean ? LS_OK : ls_wait(request);
}

int bug_read_before_wait(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    ls_request *request = NULL;
    LS_TRY(ls_all_reduce_async(a, b, 4, LS_F32, LS_SUM, WORLD, &request));
    LS_TRY(ls_reads(self, a, sizeof a));  // reading a send buffer is correct
    if (run->clean) {
        LS_TRY(ls_wait(request));
    }
    if (ls_rank_id(self) == 1) {
        LS_TRY(HERE(run, ls_reads(self, b, sizeof b)));
    }
    return run->clean ? LS_OK : ls_wait(request);
}

// ---- Handles ----
int bug_request_leak(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    ls_request *request = NULL;
    LS_TRY(HERE(run, ls_all_reduce_async(a, b, 4, LS_F32, LS_SUM, WORLD, &request)));
    return ls_rank_id(self) != 1 || run->clean ? ls_wait(request) : LS_OK;
}

int bug_comm_leak(ls_rank *self, void *arg) {
    bug_run *run = arg;
    ls_rank_comm *comm = NULL;
    LS_TRY(HERE(run, ls_comm_split(&comm, WORLD, 0, 0)));
    return ls_rank_id(self) == 1 && !run->clean ? LS_OK : ls_comm_destroy(comm);
}

int bug_memory_leak(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float *data = HERE(run, ls_rank_alloc(self, 16));
    fill(data, 4, 0);
    if (ls_rank_id(self) != 1 || run->clean) {
        ls_rank_free(self, data);
    }
    return LS_OK;
}

int bug_wait_twice(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    ls_request *request = NULL;
    LS_TRY(ls_all_reduce_async(a, b, 4, LS_F32, LS_SUM, WORLD, &request));
    LS_TRY(ls_wait(request));
    if (ls_rank_id(self) == 1 && !run->clean) {
        return HERE(run, ls_wait(request));
    }
    return LS_OK;
}

int bug_comm_after_destroy(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4};
    ls_rank_comm *comm = NULL;
    LS_TRY(ls_comm_split(&comm, WORLD, 0, 0));
    if (run->clean || ls_rank_id(self) != 1) {
        LS_TRY(ls_all_reduce(a, a, 4, LS_F32, LS_SUM, comm));
        return ls_comm_destroy(comm);
    }
    LS_TRY(ls_comm_destroy(comm));
    return HERE(run, ls_all_reduce(a, a, 4, LS_F32, LS_SUM, comm));
}

int bug_buffer_after_free(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float *data = ls_rank_alloc(self, 16);
    fill(data, 4, 0);
    bool early = ls_rank_id(self) == 1 && !run->clean;
    if (early) {
        ls_rank_free(self, data);
    }
    LS_TRY(HERE(run, ls_all_reduce(data, data, 4, LS_F32, LS_SUM, WORLD)));
    ls_rank_free(self, data);
    return LS_OK;
}
