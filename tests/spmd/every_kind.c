// Every call of ranks.h on every backend, with results that do not depend on the order of a sum.
// Each phase prints one digest of all ranks' received data, so the outputs of two backends can be
// compared. Started like the examples: every_kind [--backend sim|mpi|nccl] [--ranks N].
#include <stdio.h>
#include <string.h>

#include "ranks/ranks.h"  // the inside of it, before launch.h has the public copy
#include "examples/launch.h"
#include "kernels/kernels.h"

#define ROOM 96  // elements of a buffer; ranks at most 8

typedef struct state {
    ls_rank *self;
    uint64_t digest;  // of this rank's received data in this phase
    uint64_t draws;
} state;

static const ls_dtype moved_types[] = {LS_F32, LS_BF16, LS_U8, LS_I64, LS_F64, LS_F8E4M3};
static const ls_dtype summed_types[] = {LS_F32, LS_I32, LS_F64, LS_BF16, LS_I64, LS_F16};

static void note(state *s, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        s->digest = (s->digest ^ at[i]) * UINT64_C(1099511628211);
    }
}

// Any bits at all.
static void any_bits(state *s, void *data, size_t bytes) {
    unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(256 * ls_rank_uniform(s->self, "bits", s->draws++));
    }
}

// Small whole numbers: sums of a few of them are exact in every type, and multiples of 8 divide.
static void whole(state *s, void *data, size_t count, ls_dtype dtype) {
    for (size_t i = 0; i < count; i++) {
        double value = (double)(int)(3 * ls_rank_uniform(s->self, "whole", s->draws++));
        ls_element_from_f64((char *)data + i * ls_dtype_bytes(dtype), dtype, value);
    }
}

// All data that this rank has received; unwritten bytes are zero.
typedef struct buffers {
    _Alignas(8) char in[ROOM * 8], out[ROOM * 8];
} buffers;

static void clear(buffers *b) {
    memset(b, 0, sizeof *b);
}

// ---- Calls that move ----------------------------------------------------------------------------
static int moves(state *s, ls_rank_comm *comm, ls_dtype dtype, bool in_place) {
    size_t n = (size_t)ls_comm_size(comm), own = (size_t)ls_comm_rank(comm);
    size_t count = 5, bytes = ls_dtype_bytes(dtype);
    int last = (int)n - 1;
    buffers b;
    clear(&b);
    any_bits(s, b.in, count * bytes);
    CHECK(ls_broadcast(b.in, in_place ? b.in : b.out, count, dtype, last, comm));
    note(s, in_place ? b.in : b.out, count * bytes);
    clear(&b);
    any_bits(s, b.out + own * count * bytes, count * bytes);
    memcpy(b.in, b.out + own * count * bytes, count * bytes);
    CHECK(ls_all_gather(in_place ? b.out + own * count * bytes : b.in, b.out, count, dtype, comm));
    note(s, b.out, n * count * bytes);
    clear(&b);
    any_bits(s, b.in, n * count * bytes);
    CHECK(ls_all_to_all(b.in, b.out, count, dtype, comm));
    note(s, b.out, n * count * bytes);
    clear(&b);
    any_bits(s, b.in, count * bytes);
    CHECK(ls_gather(b.in, b.out, count, dtype, last, comm));
    note(s, b.out, n * count * bytes);
    clear(&b);
    any_bits(s, b.in, n * count * bytes);
    bool root = own == 0;
    void *block = in_place && root ? (void *)b.in : (void *)b.out;
    CHECK(ls_scatter(b.in, block, count, dtype, 0, comm));
    note(s, block, count * bytes);
    return ls_barrier(comm);
}

// The forms with counts: member i has i + 1 elements, or none if i is odd and `gaps`.
static int uneven_moves(state *s, ls_rank_comm *comm, ls_dtype dtype, bool gaps) {
    size_t n = (size_t)ls_comm_size(comm), own = (size_t)ls_comm_rank(comm);
    size_t bytes = ls_dtype_bytes(dtype), counts[8], to[8], from[8];
    size_t total = 0, received = 0;
    for (size_t i = 0; i < n; i++) {
        counts[i] = gaps && i % 2 == 1 ? 0 : i + 1;
        total += counts[i];
        to[i] = (own + 2 * i) % 4;  // this rank's data for i
        from[i] = (i + 2 * own) % 4;
        received += from[i];
    }
    buffers b;
    clear(&b);
    any_bits(s, b.in, counts[own] * bytes);
    CHECK(ls_all_gather_v(b.in, b.out, counts[own], counts, dtype, comm));
    note(s, b.out, total * bytes);
    clear(&b);
    any_bits(s, b.in, sizeof b.in / 2);
    CHECK(ls_all_to_all_v(b.in, b.out, to, from, dtype, comm));
    note(s, b.out, received * bytes);
    int root = (int)n / 2;
    bool is_root = (int)own == root;
    clear(&b);
    any_bits(s, b.in, counts[own] * bytes);
    CHECK(ls_gather_at(__FILE__, __LINE__, b.in, b.out, counts[own], is_root ? counts : NULL, dtype,
                       root, comm, NULL));
    note(s, b.out, total * bytes);
    clear(&b);
    any_bits(s, b.in, total * bytes);
    CHECK(ls_scatter_at(__FILE__, __LINE__, b.in, b.out, counts[own], is_root ? counts : NULL,
                        dtype, root, comm, NULL));
    note(s, b.out, counts[own] * bytes);
    return LS_OK;
}

// ---- Calls that reduce --------------------------------------------------------------------------
static int reduces(state *s, ls_rank_comm *comm, ls_dtype dtype, ls_op op, bool in_place) {
    size_t n = (size_t)ls_comm_size(comm), own = (size_t)ls_comm_rank(comm);
    size_t count = 7, bytes = ls_dtype_bytes(dtype);
    int root = (int)n - 1;
    buffers b;
    clear(&b);
    whole(s, b.in, count, dtype);
    CHECK(ls_all_reduce(b.in, in_place ? b.in : b.out, count, dtype, op, comm));
    note(s, in_place ? b.in : b.out, count * bytes);
    clear(&b);
    whole(s, b.in, count, dtype);
    CHECK(ls_reduce(b.in, in_place ? b.in : b.out, count, dtype, op, root, comm));
    note(s, in_place ? b.in : b.out, (int)own == root ? count * bytes : 0);
    clear(&b);
    whole(s, b.in, count, dtype);
    CHECK(ls_scan(b.in, in_place ? b.in : b.out, count, dtype, op, comm));
    note(s, in_place ? b.in : b.out, count * bytes);
    clear(&b);
    whole(s, b.in, count, dtype);
    CHECK(ls_exscan(b.in, in_place ? b.in : b.out, count, dtype, op, comm));
    note(s, in_place ? b.in : b.out, count * bytes);
    clear(&b);
    whole(s, b.in, n * count, dtype);
    char *block = in_place ? b.in + own * count * bytes : b.out;
    CHECK(ls_reduce_scatter(b.in, block, count, dtype, op, comm));
    note(s, block, count * bytes);
    size_t counts[8], total = 0;
    for (size_t i = 0; i < n; i++) {
        counts[i] = i % 3;
        total += counts[i];
    }
    clear(&b);
    whole(s, b.in, total, dtype);
    CHECK(ls_reduce_scatter_v(b.in, b.out, counts[own], counts, dtype, op, comm));
    note(s, b.out, counts[own] * bytes);
    return LS_OK;
}

static int premultiplied(state *s, ls_rank_comm *comm) {
    buffers b;
    clear(&b);
    whole(s, b.in, 9, LS_F32);
    static const ls_kind kinds[] = {LS_ALL_REDUCE, LS_SCAN, LS_EXSCAN};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const ls_call call = {.kind = kinds[k],
                              .dtype = LS_F32,
                              .op = LS_PREMUL_SUM,
                              .premul = 1 + ls_comm_rank(comm),
                              .count = 9,
                              .send = b.in,
                              .recv = b.out};
        CHECK(ls_post_at(__FILE__, __LINE__, &call, comm, NULL));
        note(s, b.out, 9 * sizeof(float));
    }
    return LS_OK;
}

// Averages of multiples of all small numbers of ranks are exact.
static int averages(state *s, ls_rank_comm *comm) {
    double in[4], out[4];
    for (int i = 0; i < 4; i++) {
        in[i] = 840.0 * (double)(int)(5 * ls_rank_uniform(s->self, "average", s->draws++));
    }
    CHECK(ls_all_reduce(in, out, 4, LS_F64, LS_AVG, comm));
    note(s, out, sizeof out);
    CHECK(ls_scan(in, out, 4, LS_F64, LS_AVG, comm));
    note(s, out, sizeof out);
    CHECK(ls_exscan(in, out, 4, LS_F64, LS_AVG, comm));
    note(s, out, sizeof out);
    return LS_OK;
}

// ---- Messages -----------------------------------------------------------------------------------
// Back and forth between two ranks, in every form that fits its other end.
static int pairs(state *s, ls_rank_comm *comm, bool grouped) {
    int own = ls_comm_rank(comm), n = ls_comm_size(comm), peer = own ^ 1;
    buffers b;
    clear(&b);
    any_bits(s, b.in, sizeof b.in / 2);
    if (peer >= n) {
        return LS_OK;
    }
    // One side makes asynchronously the calls that the other makes one after the other, or both
    // form a group.
    if (own % 2 == 0 && grouped) {
        CHECK(ls_group_start(s->self));
        CHECK(ls_recv(b.out, 3, LS_F64, peer, comm));
        CHECK(ls_send(b.in, 11, LS_U8, peer, comm));
        CHECK(ls_recv(b.out + 64, 2, LS_F32, peer, comm));
        CHECK(ls_group_end(s->self));
    } else if (own % 2 == 0) {
        ls_request *requests[3];
        CHECK(ls_recv_async(b.out, 3, LS_F64, peer, comm, &requests[0]));
        CHECK(ls_send_async(b.in, 11, LS_U8, peer, comm, &requests[1]));
        CHECK(ls_recv_async(b.out + 64, 2, LS_F32, peer, comm, &requests[2]));
        CHECK(ls_wait(requests[2]));
        CHECK(ls_wait(requests[0]));
        CHECK(ls_wait(requests[1]));
    } else {
        CHECK(grouped ? ls_group_start(s->self) : LS_OK);
        CHECK(ls_recv(b.out, 11, LS_U8, peer, comm));
        CHECK(ls_send(b.in, 3, LS_F64, peer, comm));
        CHECK(ls_send(b.in + 32, 2, LS_F32, peer, comm));
        CHECK(grouped ? ls_group_end(s->self) : LS_OK);
    }
    note(s, b.out, sizeof b.out);
    return LS_OK;
}

// Around a ring, and to itself.
static int ring(state *s, ls_rank_comm *comm) {
    int own = ls_comm_rank(comm), n = ls_comm_size(comm);
    double in[2] = {own + 0.5, 0}, out[2] = {0, 0}, self[2] = {0, 0};
    CHECK(ls_group_start(s->self));
    CHECK(ls_send(in, 2, LS_F64, (own + 1) % n, comm));
    CHECK(ls_recv(out, 2, LS_F64, (own + n - 1) % n, comm));
    CHECK(ls_group_end(s->self));
    CHECK(ls_group_start(s->self));
    CHECK(ls_send(in, 2, LS_F64, own, comm));
    CHECK(ls_recv(self, 2, LS_F64, own, comm));
    CHECK(ls_group_end(s->self));
    note(s, out, sizeof out);
    note(s, self, sizeof self);
    return LS_OK;
}

// ---- Asynchronous calls and groups --------------------------------------------------------------
// Ranks wait at different places, and in different orders, for calls that all make in one order.
static int asynchronous(state *s, ls_rank_comm *comm) {
    int own = ls_comm_rank(comm);
    double in[4], out[4] = {0};
    ls_request *requests[4];
    for (int i = 0; i < 4; i++) {
        in[i] = own * 10 + i;
        CHECK(ls_all_reduce_async(&in[i], &out[i], 1, LS_F64, LS_SUM, comm, &requests[i]));
        if (own % 2 == 1) {
            CHECK(ls_wait(requests[i]));
        }
    }
    for (int i = 3; i >= 0 && own % 2 == 0; i--) {
        CHECK(ls_wait(requests[i]));
    }
    note(s, out, sizeof out);
    return LS_OK;
}

static int grouped(state *s, ls_rank_comm *a, ls_rank_comm *b) {
    float in[2] = {1, 2}, out[4] = {0};
    CHECK(ls_group_start(s->self));
    CHECK(ls_all_reduce(in, out, 2, LS_F32, LS_SUM, a));
    CHECK(ls_all_reduce(in, out + 2, 2, LS_F32, LS_SUM, b));
    CHECK(ls_group_end(s->self));
    note(s, out, sizeof out);
    return LS_OK;
}

// ---- The phases ---------------------------------------------------------------------------------
static int all_calls(state *s, ls_rank_comm *comm) {
    for (size_t i = 0; i < sizeof moved_types / sizeof *moved_types; i++) {
        CHECK(moves(s, comm, moved_types[i], i % 2 == 1));
        CHECK(uneven_moves(s, comm, moved_types[i], i % 2 == 0));
    }
    for (size_t i = 0; i < sizeof summed_types / sizeof *summed_types; i++) {
        for (int op = LS_SUM; op <= LS_MIN; op++) {
            CHECK(reduces(s, comm, summed_types[i], (ls_op)op, (i + (size_t)op) % 2 == 1));
        }
    }
    CHECK(premultiplied(s, comm));
    CHECK(averages(s, comm));
    CHECK(ring(s, comm));
    CHECK(pairs(s, comm, true));
    CHECK(pairs(s, comm, false));
    CHECK(asynchronous(s, comm));
    double same[3] = {1, 2, 3};
    return ls_check_replica(same, 3, LS_F64, comm);
}

// One line: the digests of all ranks, in one.
static int report(state *s, const char *phase) {
    uint64_t all[8] = {0};
    ls_rank_comm *world = ls_rank_world(s->self);
    CHECK(ls_gather(&s->digest, all, 1, LS_U64, 0, world));
    if (ls_rank_id(s->self) == 0) {
        printf("%-28s", phase);
        for (int r = 0; r < ls_rank_count(s->self); r++) {
            printf(" %016llx", (unsigned long long)all[r]);
        }
        printf("\n");
    }
    s->digest = UINT64_C(14695981039346656037);
    return LS_OK;
}

static int phase(state *s, ls_rank_comm *comm, const char *name) {
    if (comm != NULL) {
        // Its number, after the #, depends on what other ranks have created meanwhile.
        note(s, ls_comm_of(comm)->name, strcspn(ls_comm_of(comm)->name, "#"));
        CHECK(all_calls(s, comm));
    }
    return report(s, name);
}

static int every_kind(ls_rank *self, void *arg) {
    (void)arg;
    int own = ls_rank_id(self), n = ls_rank_count(self);
    state s = {.self = self, .digest = UINT64_C(14695981039346656037)};
    ls_rank_comm *world = ls_rank_world(self), *axis = NULL, *half = NULL, *few = NULL;
    ls_rank_comm *part = NULL, *back = NULL;
    if (n > 8) {
        return LS_ERR_LIMIT;
    }
    CHECK(phase(&s, world, "world"));
    CHECK(ls_rank_axis(&axis, self, 0));
    CHECK(phase(&s, axis, "axis"));
    CHECK(ls_comm_split(&half, world, own % 2, -own));
    CHECK(phase(&s, half, "split by parity, backwards"));
    CHECK(ls_comm_split(&part, half, ls_comm_rank(half) == 0 ? -1 : 0, 0));
    CHECK(phase(&s, part, "split of a split"));
    const int members[3] = {n - 1, 0, n / 2};
    CHECK(ls_comm_subset(&few, world, members, n > 2 ? 3 : 1));
    CHECK(phase(&s, few, "subset"));
    CHECK(ls_comm_subset(&back, half, (const int[1]){0}, 1));
    CHECK(phase(&s, back, "subset of a split"));
    CHECK(grouped(&s, world, half));
    CHECK(report(&s, "two communicators in a group"));
    CHECK(ls_comm_destroy(half));
    CHECK(phase(&s, world, "world again"));
    CHECK(ls_comm_destroy(few));
    CHECK(ls_comm_destroy(part));
    return ls_comm_destroy(back);
}

int main(int argc, char **argv) {
    return example_spmd(argc, argv, every_kind, 4);
}
