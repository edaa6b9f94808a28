// A sharded embedding before experts: four ranks own rows of a table and an expert each. Ids go to
// their owners and rows come back (uneven), tokens go to experts in slots of a fixed capacity
// (even, padded), and replicated parameters are averaged.
#include <stdlib.h>

#include "trainers.h"

enum { RANKS = 4, BATCH = 6, DIM = 4, ROWS = 20, CAPACITY = 3, STEPS = 3 };
enum {
    LENGTHS,
    IDS,
    ROWS_BACK,
    DISPATCH,
    COMBINE,
    ROUTER,
    AUX,
    SUBSET,
    EXPERT,
    STATS,
    DECLARE,
    ALLOC,
    FREE
};

typedef struct layer {
    ls_rank *self;
    ls_rank_comm *world, *pair;
    float *table, *router, *router_grad;           // [ROWS / RANKS][DIM], [DIM][RANKS]
    float *rows, *owned, *slots, *arrived, *back;  // [BATCH][DIM], ..., [RANKS][CAPACITY][DIM]
    int *ids, *wanted;                             // ascending by owner; the ids that others
                                                   // request from it
} layer;

static float *numbers(ls_rank *self, trainer_run *run, size_t count, bool written) {
    float *out = AT(ALLOC, ls_rank_alloc(self, count * sizeof *out));
    for (size_t i = 0; out != NULL && written && i < count; i++) {
        out[i] = (float)ls_rank_uniform(self, "numbers", i) - 0.5f;
    }
    return out;
}

static int open_layer(layer *l, ls_rank *self, trainer_run *run) {
    const int rank = ls_rank_id(self);
    const size_t slots = (size_t)RANKS * CAPACITY * DIM;
    *l = (layer){.self = self, .world = ls_rank_world(self)};
    l->table = numbers(self, run, ROWS / RANKS * DIM, true);
    l->router = numbers(self, run, DIM * RANKS, true);
    l->router_grad = numbers(self, run, DIM * RANKS, true);
    l->rows = numbers(self, run, BATCH * DIM, false);
    l->owned = numbers(self, run, (size_t)RANKS * BATCH * DIM, false);
    l->slots = numbers(self, run, slots, false);
    l->arrived = numbers(self, run, slots, false);
    l->back = numbers(self, run, slots, false);
    l->ids = ls_rank_alloc(self, BATCH * sizeof *l->ids);
    l->wanted = ls_rank_alloc(self, RANKS * BATCH * sizeof *l->wanted);
    // Ranks that share a host keep statistics together.
    int members[2] = {rank / 2 * 2, rank / 2 * 2 + 1};
    if (BUG("members_exchanged") && rank == 3) {
        members[0] = 3;
        members[1] = 2;
    }
    for (int host = 0; host < 2; host++) {
        ls_rank_comm *made = NULL;
        int both[2] = {2 * host, 2 * host + 1};
        bool own = rank / 2 == host;
        LS_TRY(AT(SUBSET, ls_comm_subset(&made, l->world, own ? members : both, 2)));
        l->pair = own ? made : l->pair;
    }
    if (!BUG("router_not_broadcast")) {
        LS_TRY(ls_broadcast(l->router, l->router, DIM * RANKS, LS_F32, 0, l->world));
    }
    return AT(DECLARE, ls_replica_declare(l->router, DIM * RANKS, LS_F32, l->world));
}

static int by_owner(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

// Ids go to their owners, rows come back.
static int lookup(layer *l, trainer_run *run, int step) {
    const int rank = ls_rank_id(l->self);
    size_t out[RANKS] = {0}, in[RANKS] = {0}, out_rows[RANKS], in_rows[RANKS];
    int64_t lengths[RANKS] = {0}, theirs[RANKS] = {0};
    for (int i = 0; i < BATCH; i++) {
        l->ids[i] = (rank * 7 + step * 3 + i * i * 5) % ROWS;
    }
    qsort(l->ids, BATCH, sizeof *l->ids, by_owner);
    for (int i = 0; i < BATCH; i++) {
        lengths[l->ids[i] / (ROWS / RANKS)] += 1;
    }
    if (BUG("lengths_skipped") && rank == 2 && step == 1) {
        return LS_OK;
    }
    LS_TRY(AT(LENGTHS, ls_all_to_all(lengths, theirs, 1, LS_I64, l->world)));
    size_t total = 0;
    for (int p = 0; p < RANKS; p++) {
        out[p] = (size_t)lengths[p];
        in[p] = (size_t)theirs[p];
        in_rows[p] = out[p] * DIM;
        out_rows[p] = in[p] * DIM;
        total += in[p];
    }
    if (BUG("splits_transposed") && rank == 1) {
        in[0] += in[3] + 1;
    }
    if (BUG("splits_of_last_step") && rank == 0 && step == 1) {
        out[0] = out[0] > 0 ? out[0] - 1 : 1;
        out[1] += 1;
    }
    LS_TRY(AT(IDS, ls_all_to_all_v(l->ids, l->wanted, out, in, LS_I32, l->world)));
    for (size_t i = 0; i < total && i < RANKS * BATCH; i++) {
        memcpy(l->owned + i * DIM, l->table + l->wanted[i] % (ROWS / RANKS) * DIM,
               DIM * sizeof(float));
    }
    const size_t *sent = BUG("dim_forgotten") && rank == 2 ? in : out_rows;
    return AT(ROWS_BACK, ls_all_to_all_v(l->owned, l->rows, sent, in_rows, LS_F32, l->world));
}

// Tokens go to experts in slots, some of them unused; the unused ones hold nothing.
static int dispatch(layer *l, trainer_run *run, int step) {
    const int rank = ls_rank_id(l->self);
    size_t used[RANKS] = {0}, count = CAPACITY * DIM;
    int64_t counts[RANKS], theirs[RANKS];
    ls_request *request = NULL;
    for (int t = 0; t < BATCH; t++) {
        size_t e = (size_t)(t * 7 + rank + step) % RANKS;
        if (used[e] < CAPACITY) {
            memcpy(l->slots + (e * CAPACITY + used[e]++) * DIM, l->rows + t * DIM,
                   DIM * sizeof(float));
        }
    }
    for (int e = 0; e < RANKS; e++) {
        counts[e] = (int64_t)used[e];
    }
    LS_TRY(ls_all_to_all(counts, theirs, 1, LS_I64, l->world));
    count -= BUG("capacity_differs") && rank == 3 ? DIM : 0;
    LS_TRY(AT(DISPATCH, ls_all_to_all(l->slots, l->arrived, count, LS_F32, l->world)));
    for (int p = 0; p < RANKS; p++) {
        size_t rows = BUG("padding_computed") && rank == 1 ? CAPACITY : (size_t)theirs[p];
        for (size_t i = 0; i < rows * DIM; i++) {
            float *at = l->arrived + (size_t)p * CAPACITY * DIM + i;
            *at *= 2;
        }
    }
    if (BUG("expert_summed") || BUG("padding_computed")) {
        float sum = 0;
        size_t rows = BUG("padding_computed") && rank == 1 ? CAPACITY : (size_t)theirs[2];
        for (size_t i = 0; i < rows * DIM; i++) {
            sum += l->arrived[2 * CAPACITY * DIM + i];
        }
        LS_TRY(AT(EXPERT, ls_all_reduce(&sum, &sum, 1, LS_F32, LS_SUM, l->world)));
    }
    LS_TRY(AT(COMBINE, ls_all_to_all_async(l->arrived, l->back, CAPACITY * DIM, LS_F32, l->world,
                                           &request)));
    if (BUG("arrived_reused") && rank == 2) {
        l->arrived[0] = 1;
    }
    if (BUG("freed_in_flight") && rank == 0 && step == 2) {
        AT(FREE, ls_rank_free(l->self, l->back));
        l->back = NULL;
    }
    if (BUG("other_request") && rank == 1) {
        ls_request *other = NULL;
        LS_TRY(ls_barrier_async(l->pair, &other));
        return ls_wait(other);
    }
    LS_TRY(BUG("other_request") && rank == 0 ? ls_barrier(l->pair) : LS_OK);
    return ls_wait(request);
}

static int update(layer *l, trainer_run *run, int step) {
    const int rank = ls_rank_id(l->self);
    for (size_t i = 0; i < DIM * RANKS; i++) {
        l->router_grad[i] = l->rows[i % (BATCH * DIM)];
    }
    ls_op op = BUG("sum_for_average") && rank == 3 ? LS_SUM : LS_AVG;
    ls_dtype dtype = BUG("half_on_one") && rank == 0 ? LS_BF16 : LS_F32;
    LS_TRY(
        AT(ROUTER, ls_all_reduce(l->router_grad, l->router_grad,
                                 DIM * RANKS * (dtype == LS_BF16 ? 2 : 1), dtype, op, l->world)));
    for (size_t i = 0; i < DIM * RANKS; i++) {
        l->router[i] -= 0.125f * l->router_grad[i] / (BUG("divided_again") && rank == 2 ? 4 : 1);
    }
    float aux[2] = {l->router[0], (float)step};
    if (!(BUG("no_tokens_no_loss") && rank == 1 && step == 1)) {
        LS_TRY(AT(AUX, ls_all_reduce(aux, aux, 2, LS_F32, LS_SUM, l->world)));
    }
    float stats = 1;
    int root = BUG("world_rank_as_root") && rank == 3 ? 0 : 1;
    return AT(STATS, ls_reduce(&stats, &stats, 1, LS_F32, LS_SUM, root, l->pair));
}

static int train(ls_rank *self, void *arg) {
    trainer_run *run = arg;
    layer l;
    LS_TRY(open_layer(&l, self, run));
    for (int step = 0; step < STEPS; step++) {
        LS_TRY(lookup(&l, run, step));
        LS_TRY(dispatch(&l, run, step));
        LS_TRY(update(&l, run, step));
    }
    void *all[] = {l.table, l.router,  l.router_grad, l.rows, l.owned,
                   l.slots, l.arrived, l.back,        l.ids,  l.wanted};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ls_rank_free(self, all[i]);
    }
    return BUG("comm_kept") && ls_rank_id(self) == 1 ? LS_OK : ls_comm_destroy(l.pair);
}

static const injected_bug bugs[] = {
    {"members_exchanged", LS_FINDING_GROUP_MISMATCH, 8, SUBSET},
    {"router_not_broadcast", LS_FINDING_REPLICA_DIVERGED, 0xe, DECLARE},
    {"lengths_skipped", LS_FINDING_DTYPE_MISMATCH, 4, DISPATCH},
    {"splits_transposed", LS_FINDING_SPLIT_MISMATCH, 3, IDS},
    {"splits_of_last_step", LS_FINDING_SPLIT_MISMATCH, 1, IDS},
    {"dim_forgotten", LS_FINDING_SPLIT_MISMATCH, 4, ROWS_BACK},
    {"capacity_differs", LS_FINDING_COUNT_MISMATCH, 8, DISPATCH},
    {"padding_computed", LS_FINDING_BUFFER_UNINITIALISED, 5, ALLOC},
    {"arrived_reused", LS_FINDING_BUFFER_USE_BEFORE_WAIT, 4, COMBINE},
    {"freed_in_flight", LS_FINDING_BUFFER_USE_BEFORE_WAIT, 1, FREE},
    {"other_request", LS_FINDING_HANDLE_LEAK, 2, COMBINE},
    {"sum_for_average", LS_FINDING_OP_MISMATCH, 8, ROUTER},
    {"half_on_one", LS_FINDING_DTYPE_MISMATCH, 1, ROUTER},
    {"divided_again", LS_FINDING_REPLICA_DIVERGED, 4, AUX},
    {"no_tokens_no_loss", LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR, 2, STATS},
    {"world_rank_as_root", LS_FINDING_ROOT_MISMATCH, 8, STATS},
    {"comm_kept", LS_FINDING_HANDLE_LEAK, 2, SUBSET},
};

const trainer experts_trainer = {.name = "experts",
                                 .program = train,
                                 .mesh = {.ndim = 1, .dim = {RANKS}},
                                 .bugs = bugs,
                                 .bug_count = (int)(sizeof bugs / sizeof *bugs)};
