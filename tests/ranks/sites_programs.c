// Programs whose equal calls match from different lines. Lines are given explicitly, so that one
// helper can act for any place of a program.
#include "sites.h"

#define WORLD ls_rank_world(self)
#define ID    ls_rank_id(self)

// The largest of a value of each rank, called from `line`.
static int largest(int line, float *data, ls_rank_comm *comm) {
    return ls_all_reduce_at("p.c", line, data, data, 1, LS_F32, LS_MAX, comm, NULL);
}

static int largest_async(int line, float *data, ls_rank_comm *comm, ls_request **request) {
    return ls_all_reduce_at("p.c", line, data, data, 1, LS_F32, LS_MAX, comm, request);
}

// ---- Another order -----------------------------------------------------------------------------
static int swapped_on(ls_rank *self, bool swap, int first, int second) {
    float a = 1, b = 100;
    LS_TRY(swap ? largest(second, &b, WORLD) : largest(first, &a, WORLD));
    return swap ? largest(first, &a, WORLD) : largest(second, &b, WORLD);
}

static int swapped(ls_rank *self, void *arg) {
    (void)arg;
    return swapped_on(self, ID == 1, 10, 11);
}

static int swapped_on_first(ls_rank *self, void *arg) {
    (void)arg;
    return swapped_on(self, ID == 0, 10, 11);
}

// Only in one iteration of a loop.
static int swapped_once_in_loop(ls_rank *self, void *arg) {
    (void)arg;
    for (int i = 0; i < 50; i++) {
        LS_TRY(swapped_on(self, ID == 2 && i == 40, 10, 11));
    }
    return LS_OK;
}

// In all iterations, also over many windows of the history.
static int swapped_in_loop(ls_rank *self, void *arg) {
    (void)arg;
    for (int i = 0; i < 70; i++) {
        LS_TRY(swapped_on(self, ID == 3, 10, 11));
    }
    return LS_OK;
}

// Two ranks at fault, the second after more findings of the first than are reported.
int site_two_at_once(ls_rank *self, void *arg) {
    LS_TRY(swapped_in_loop(self, arg));
    return swapped_on(self, ID == 1, 20, 21);
}

int site_twenty(ls_rank *self, void *arg) {
    (void)arg;
    for (int i = 1; i <= 20; i++) {
        LS_TRY(swapped_on(self, ID == 1, 10 * i, 10 * i + 1));
    }
    return LS_OK;
}

// One moved before two others.
static int moved(ls_rank *self, void *arg) {
    (void)arg;
    float data[3] = {1, 2, 3};
    const int orders[2][3] = {{0, 1, 2}, {2, 0, 1}};
    for (int i = 0; i < 3; i++) {
        int k = orders[ID == 2][i];
        LS_TRY(largest(10 + k, &data[k], WORLD));
    }
    return LS_OK;
}

// In reverse: the call in the middle matches itself.
static int backwards(ls_rank *self, void *arg) {
    (void)arg;
    float data[3] = {1, 2, 3};
    for (int i = 0; i < 3; i++) {
        int k = ID == 1 ? 2 - i : i;
        LS_TRY(largest(10 + k, &data[k], WORLD));
    }
    return LS_OK;
}

static int swapped_async(ls_rank *self, void *arg) {
    (void)arg;
    float data[2] = {1, 2};
    ls_request *requests[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        int k = ID == 4 ? 1 - i : i;
        LS_TRY(largest_async(10 + k, &data[k], WORLD, &requests[k]));
    }
    LS_TRY(ls_wait(requests[0]));
    return ls_wait(requests[1]);
}

static int swapped_in_group(ls_rank *self, void *arg) {
    (void)arg;
    float data[2] = {1, 2};
    LS_TRY(ls_group_start(self));
    for (int i = 0; i < 2; i++) {
        int k = ID == 1 ? 1 - i : i;
        LS_TRY(largest(10 + k, &data[k], WORLD));
    }
    return ls_group_end(self);
}

// On a communicator of the odd ranks 1, 3, 5.
static int swapped_on_split(ls_rank *self, void *arg) {
    (void)arg;
    ls_rank_comm *comm = NULL;
    float data[2] = {1, 2};
    LS_TRY(ls_comm_split(&comm, WORLD, ID % 2, 0));
    for (int i = 0; i < 2; i++) {
        int k = ID == 3 ? 1 - i : i;
        LS_TRY(largest(10 + k, &data[k], comm));
    }
    return ls_comm_destroy(comm);
}

// Between fixed branches of rank 0 and of the others.
static int swapped_among_branches(ls_rank *self, void *arg) {
    (void)arg;
    float data[3] = {1, 2, 3};
    for (int i = 0; i < 30; i++) {
        LS_TRY(largest(ID == 0 ? 20 : 21, &data[2], WORLD));
        LS_TRY(swapped_on(self, ID == 2 && i == 3, ID == 0 ? 30 : 10, ID == 0 ? 31 : 11));
        LS_TRY(largest(ID == 0 ? 22 : 23, &data[2], WORLD));
    }
    return LS_OK;
}

// The memory is the library's, and taken where it is used.
static int swapped_own_memory(ls_rank *self, void *arg) {
    (void)arg;
    for (int i = 0; i < 2; i++) {
        int k = ID == 1 ? 1 - i : i;
        float *data = ls_rank_alloc_at("p.c", 5 + k, self, sizeof *data);
        *data = (float)k;
        LS_TRY(largest(10 + k, data, WORLD));
        ls_rank_free(self, data);
    }
    return LS_OK;
}

// ---- Legal -------------------------------------------------------------------------------------
static int branch_of_rank_0(ls_rank *self, void *arg) {
    (void)arg;
    float data = 1;
    for (int i = 0; i < 70; i++) {
        LS_TRY(largest(ID == 0 ? 10 : 14, &data, WORLD));
    }
    return LS_OK;
}

static int branches_by_parity(ls_rank *self, void *arg) {
    (void)arg;
    float data[2] = {1, 2};
    for (int i = 0; i < 20; i++) {
        LS_TRY(largest(ID % 2 == 0 ? 10 : 14, &data[ID % 2], WORLD));
        LS_TRY(largest(ID % 2 == 0 ? 11 : 15, &data[1 - ID % 2], WORLD));
    }
    return LS_OK;
}

// Each in turn contributes a value, the others nothing.
static int turns(ls_rank *self, void *arg) {
    (void)arg;
    float own = 1, nothing = 0;
    for (int i = 0; i < ls_rank_count(self) * 3; i++) {
        bool mine = i % ls_rank_count(self) == ID;
        LS_TRY(largest(mine ? 10 : 14, mine ? &own : &nothing, WORLD));
    }
    return LS_OK;
}

// The same for two ranks, whose orders of lines are reversed: the calls use one buffer.
static int turns_in_one_buffer(ls_rank *self, void *arg) {
    (void)arg;
    float data = 1;
    for (int i = 0; i < 6; i++) {
        LS_TRY(largest((i + ID) % 2 == 0 ? 10 : 14, &data, WORLD));
    }
    return LS_OK;
}

// The same into a separate place for each turn.
static int turns_along_a_buffer(ls_rank *self, void *arg) {
    (void)arg;
    float data[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 6; i++) {
        LS_TRY(largest((i + ID) % 2 == 0 ? 10 : 14, &data[i], WORLD));
    }
    return LS_OK;
}

static int turns_in_own_memory(ls_rank *self, void *arg) {
    (void)arg;
    for (int i = 0; i < 6; i++) {
        float *data = ls_rank_alloc_at("p.c", 5, self, sizeof *data);
        *data = 1;
        LS_TRY(largest((i + ID) % 2 == 0 ? 10 : 14, data, WORLD));
        ls_rank_free(self, data);
    }
    return LS_OK;
}

// Two ranks take turns, each with its own data, and one remains.
static int three_turns(ls_rank *self, void *arg) {
    (void)arg;
    float own = 1, nothing = 0;
    for (int i = 0; i < 3; i++) {
        bool mine = (i + ID) % 2 == 0;
        LS_TRY(largest(mine ? 10 : 14, mine ? &own : &nothing, WORLD));
    }
    return LS_OK;
}

// A rank without a batch sends zeros; the data determine which one that is.
static int without_a_batch(ls_rank *self, void *arg) {
    (void)arg;
    float grad = 1, zero = 0;
    for (int i = 0; i < 60; i++) {
        bool empty = (i * 7 + ID * 5) % 11 == 0;
        LS_TRY(largest(empty ? 14 : 10, empty ? &zero : &grad, WORLD));
        LS_TRY(largest(20, &grad, WORLD));
    }
    return LS_OK;
}

// All calls from one line of a helper: neither users nor lines distinguish them.
static int helper(ls_rank *self, void *arg) {
    (void)arg;
    float data[2] = {1, 2};
    for (int i = 0; i < 2; i++) {
        LS_TRY(largest(10, &data[ID == 1 ? 1 - i : i], WORLD));
    }
    return LS_OK;
}

// Even ranks are at line 10 first, odd ones at 11, on separate communicators.
static int other_communicators(ls_rank *self, void *arg) {
    (void)arg;
    ls_rank_comm *comm = NULL;
    float data[2] = {1, 2};
    LS_TRY(ls_comm_split(&comm, WORLD, ID % 2, 0));
    for (int i = 0; i < 10; i++) {
        int k = ID % 2 == 0 ? i % 2 : 1 - i % 2;
        LS_TRY(largest(10 + k, &data[k], comm));
    }
    return ls_comm_destroy(comm);
}

// Sizes distinguish them: calls of different sizes come from the lines that the other has swapped.
static int other_sizes(ls_rank *self, void *arg) {
    (void)arg;
    float data[4] = {1, 2, 3, 4};
    for (int i = 0; i < 2; i++) {
        int line = ID == 0 ? 10 + i : 11 - i;
        LS_TRY(ls_all_reduce_at("p.c", line, data, data, (size_t)(i + 1), LS_F32, LS_MAX, WORLD,
                                NULL));
    }
    return LS_OK;
}

// The owner of each shard in turn is at the line of the sender.
static int owners_broadcast(ls_rank *self, void *arg) {
    (void)arg;
    float own = 1, others = 2;
    for (int root = 0; root < ls_rank_count(self); root++) {
        float *data = root == ID ? &own : &others;
        LS_TRY(
            ls_broadcast_at("p.c", root == ID ? 10 : 14, data, data, 1, LS_F32, root, WORLD, NULL));
    }
    return LS_OK;
}

// One waits for the other's file, each in turn.
static int barriers(ls_rank *self, void *arg) {
    (void)arg;
    for (int turn = 0; turn < 2; turn++) {
        LS_TRY(ls_barrier_at("p.c", turn == ID ? 10 : 14, WORLD, NULL));
    }
    return LS_OK;
}

// Messages ordered by parity, so that they match.
static int messages(ls_rank *self, void *arg) {
    (void)arg;
    float data[2] = {1, 2};
    int peer = ID ^ 1;
    for (int i = 0; i < 4; i++) {
        if ((i + ID) % 2 == 0) {
            LS_TRY(ls_send_at("p.c", 10, &data[0], 1, LS_F32, peer, WORLD, NULL));
        } else {
            LS_TRY(ls_recv_at("p.c", 14, &data[1], 1, LS_F32, peer, WORLD, NULL));
        }
    }
    return LS_OK;
}

// Branches whose calls are complete in another order than they are made.
static int branches_async(ls_rank *self, void *arg) {
    (void)arg;
    float data[2] = {1, 2};
    for (int i = 0; i < 10; i++) {
        ls_request *requests[2] = {NULL, NULL};
        for (int k = 0; k < 2; k++) {
            LS_TRY(largest_async((ID % 2 == 0 ? 10 : 14) + k, &data[k], WORLD, &requests[k]));
        }
        LS_TRY(ls_wait(requests[ID % 2]));
        LS_TRY(ls_wait(requests[1 - ID % 2]));
    }
    return LS_OK;
}

// The same file name in another string.
static int same_file_name(ls_rank *self, void *arg) {
    (void)arg;
    static char names[8][4] = {"p.c", "p.c", "p.c", "p.c", "p.c", "p.c", "p.c", "p.c"};
    float data[2] = {1, 2};
    for (int k = 0; k < 2; k++) {
        LS_TRY(ls_all_reduce_at(names[ID], 10 + k, &data[k], &data[k], 1, LS_F32, LS_MAX, WORLD,
                                NULL));
    }
    return LS_OK;
}

const site_case site_cases[] = {
    {"swapped", swapped, 4, 1, 11, 10},
    {"swapped of two", swapped, 2, 1, 11, 10},
    {"swapped on the first", swapped_on_first, 7, 0, 11, 10},
    {"swapped once in a loop", swapped_once_in_loop, 7, 2, 11, 10},
    {"swapped in a loop", swapped_in_loop, 4, 3, 11, 10},
    {"moved", moved, 4, 2, 12, 10},
    {"backwards", backwards, 3, 1, 12, 10},
    {"swapped asynchronous", swapped_async, 7, 4, 11, 10},
    {"swapped in a group", swapped_in_group, 4, 1, 11, 10},
    {"swapped on a split", swapped_on_split, 6, 3, 11, 10},
    {"swapped among branches", swapped_among_branches, 5, 2, 11, 10},
    {"swapped, own memory", swapped_own_memory, 3, 1, 11, 10},
    {"swapped of two, own memory", swapped_own_memory, 2, 1, 11, 10},
    {"branch of rank 0", branch_of_rank_0, 4, -1, 0, 0},
    {"branch of rank 0 of two", branch_of_rank_0, 2, -1, 0, 0},
    {"branches by parity", branches_by_parity, 5, -1, 0, 0},
    {"branches by parity of two", branches_by_parity, 2, -1, 0, 0},
    {"turns", turns, 4, -1, 0, 0},
    {"turns of three", turns, 3, -1, 0, 0},
    {"turns in one buffer", turns_in_one_buffer, 2, -1, 0, 0},
    {"turns in one buffer of three", turns_in_one_buffer, 3, -1, 0, 0},
    {"turns along a buffer", turns_along_a_buffer, 2, -1, 0, 0},
    {"turns in own memory", turns_in_own_memory, 3, -1, 0, 0},
    {"three turns", three_turns, 2, -1, 0, 0},
    {"without a batch", without_a_batch, 2, -1, 0, 0},
    {"without a batch of four", without_a_batch, 4, -1, 0, 0},
    {"helper", helper, 4, -1, 0, 0},
    {"other communicators", other_communicators, 6, -1, 0, 0},
    {"other sizes", other_sizes, 2, -1, 0, 0},
    {"owners broadcast", owners_broadcast, 2, -1, 0, 0},
    {"barriers", barriers, 2, -1, 0, 0},
    {"messages", messages, 4, -1, 0, 0},
    {"branches, asynchronous", branches_async, 5, -1, 0, 0},
    {"same file name", same_file_name, 4, -1, 0, 0},
};
const int site_case_count = (int)(sizeof site_cases / sizeof site_cases[0]);
