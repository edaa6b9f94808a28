// Tensor parallel with sequence parallel inside of data parallel: four ranks, 2 x 2. Activations
// are sharded along the sequence; a block gathers them, multiplies by its columns and rows, and
// scatters the sums. Gradients are averaged over the data axis during the backward.
#include "trainers.h"

enum { SEQ = 8, DIM = 6, HIDDEN = 10, TP = 2, DP = 2, STEPS = 3 };
enum { GATHER, SCATTER, GRAD, NORM_GRAD, BROADCAST, DECLARE, LOSS, TWICE };

typedef struct block {
    ls_rank *self;
    ls_rank_comm *tp, *dp;
    int t, d;
    float *up, *down, *scale;  // [DIM][HIDDEN / TP], [HIDDEN / TP][DIM], [DIM] replicated
    float *up_grad, *down_grad, *scale_grad;
    float *x, *whole, *partial, *y;  // [SEQ / TP][DIM], [SEQ][DIM], [SEQ][DIM], [SEQ / TP][DIM]
} block;

static float *zeroed(ls_rank *self, size_t count) {
    float *out = ls_rank_alloc(self, count * sizeof *out);
    for (size_t i = 0; out != NULL && i < count; i++) {
        out[i] = 0;
    }
    return out;
}

static int open_block(block *b, ls_rank *self, trainer_run *run) {
    int rank = ls_rank_id(self);
    *b = (block){.self = self, .t = rank % TP, .d = rank / TP};
    LS_TRY(ls_rank_axis(&b->dp, self, 0));
    LS_TRY(ls_rank_axis(&b->tp, self, 1));
    if (BUG("axes_exchanged") && rank == 1) {
        ls_rank_comm *kept = b->dp;
        b->dp = b->tp;
        b->tp = kept;
    }
    const size_t columns = HIDDEN / TP, rows = SEQ / TP;
    b->up = zeroed(self, DIM * columns);
    b->down = zeroed(self, columns * DIM);
    b->scale = ls_rank_alloc(self, DIM * sizeof(float));
    b->up_grad = zeroed(self, DIM * columns);
    b->down_grad = zeroed(self, columns * DIM);
    b->scale_grad = zeroed(self, DIM);
    b->x = zeroed(self, rows * DIM);
    b->whole = ls_rank_alloc(self, SEQ * DIM * sizeof(float));
    b->partial = zeroed(self, SEQ * DIM);
    b->y = ls_rank_alloc(self, rows * DIM * sizeof(float));
    for (size_t i = 0; i < DIM * columns; i++) {
        b->up[i] = (float)ls_rank_uniform_shared(self, "up", (uint64_t)b->t * 100 + i) - 0.5f;
        b->down[i] = (float)ls_rank_uniform_shared(self, "down", (uint64_t)b->t * 100 + i) - 0.5f;
    }
    for (size_t i = 0; i < DIM && !(BUG("scale_not_written") && rank == 0); i++) {
        bool own = BUG("own_draw");
        b->scale[i] = (float)(own ? ls_rank_uniform(self, "scale", i)
                                  : ls_rank_uniform_shared(self, "scale", i));
    }
    if (!BUG("own_draw")) {
        int root = BUG("root_of_axis") && rank == 3 ? 1 : 0;
        ls_rank_comm *world = ls_rank_world(self);
        LS_TRY(AT(BROADCAST, ls_broadcast(b->scale, b->scale, DIM, LS_F32, root, world)));
    }
    return AT(DECLARE, ls_replica_declare(b->scale, DIM, LS_F32, ls_rank_world(self)));
}

static int forward(block *b, trainer_run *run, int step) {
    const size_t rows = SEQ / TP, columns = HIDDEN / TP;
    const int rank = ls_rank_id(b->self);
    for (size_t i = 0; i < rows * DIM; i++) {
        b->x[i] =
            (float)ls_rank_uniform(b->self, "x", (uint64_t)step * 1000 + i) * b->scale[i % DIM];
    }
    if (BUG("nan_in_x") && rank == 2 && step == 1) {
        b->x[5] = 0.0f / (b->x[5] * 0);
    }
    size_t count = rows * DIM;
    count -= BUG("last_rows_forgotten") && rank == 3 ? DIM : 0;
    ls_request *request = NULL;
    if (BUG("gather_read_early")) {
        LS_TRY(AT(GATHER, ls_all_gather_async(b->x, b->whole, count, LS_F32, b->tp, &request)));
    } else {
        bool skip = BUG("cached_gather") && rank == 1 && step == 2;
        LS_TRY(skip ? LS_OK : AT(GATHER, ls_all_gather(b->x, b->whole, count, LS_F32, b->tp)));
    }
    for (size_t s = 0; s < SEQ; s++) {
        for (size_t o = 0; o < DIM; o++) {
            b->partial[s * DIM + o] = 0;
        }
        for (size_t h = 0; h < columns; h++) {
            float v = 0;
            for (size_t i = 0; i < DIM; i++) {
                v += b->whole[s * DIM + i] * b->up[i * columns + h];
            }
            for (size_t o = 0; o < DIM; o++) {
                b->partial[s * DIM + o] += v * b->down[h * DIM + o];
            }
        }
    }
    LS_TRY(request != NULL ? ls_wait(request) : LS_OK);
    ls_op op = BUG("max_of_partials") && rank == 2 ? LS_MAX : LS_SUM;
    return AT(SCATTER, ls_reduce_scatter(b->partial, b->y, rows * DIM, LS_F32, op,
                                         BUG("scatter_on_data_axis") && rank == 0 ? b->dp : b->tp));
}

static int backward(block *b, trainer_run *run, int step) {
    const size_t rows = SEQ / TP, columns = HIDDEN / TP, weights = DIM * columns;
    const int rank = ls_rank_id(b->self);
    ls_request *up = NULL, *down = NULL;
    for (size_t i = 0; i < weights; i++) {
        b->down_grad[i] = b->y[i % (rows * DIM)] * 0.125f;
    }
    LS_TRY(AT(GRAD, ls_all_reduce_async(b->down_grad, b->down_grad, weights, LS_F32, LS_AVG, b->dp,
                                        &down)));
    if (BUG("bucket_written_in_flight") && rank == 1) {
        b->down_grad[3] += 1;
    }
    for (size_t i = 0; i < weights; i++) {
        b->up_grad[i] = b->y[i % (rows * DIM)] * 0.25f;
    }
    LS_TRY(ls_all_reduce_async(b->up_grad, b->up_grad, weights, LS_F32, LS_AVG, b->dp, &up));
    for (size_t i = 0; i < DIM; i++) {
        b->scale_grad[i] = b->y[i] / (BUG("scale_forgotten") && rank == 2 ? 1.0f : TP);
    }
    if (!BUG("scale_grad_of_part")) {  // each rank sees replicated parameters with a part of the
                                       // sequence
        LS_TRY(AT(NORM_GRAD, ls_all_reduce(b->scale_grad, b->scale_grad, DIM, LS_F32, LS_AVG,
                                           ls_rank_world(b->self))));
    }
    if (BUG("clip_by_own_norm")) {
        float norm = 0;
        for (size_t i = 0; i < weights; i++) {
            norm += b->up[i] * b->up[i];
        }
        for (size_t i = 0; i < DIM; i++) {
            b->scale_grad[i] /= 1 + norm;
        }
    }
    if (!(BUG("request_dropped") && rank == 3)) {
        LS_TRY(ls_wait(down));
    }
    LS_TRY(ls_wait(BUG("waited_twice") && rank == 2 && step == 1 ? AT(TWICE, down) : up));
    for (size_t i = 0; i < weights; i++) {
        b->up[i] -= 0.125f * b->up_grad[i];
        b->down[i] -= BUG("request_dropped") ? 0 : 0.125f * b->down_grad[i];
    }
    for (size_t i = 0; i < DIM; i++) {
        b->scale[i] -= (BUG("another_rate") && rank == 1 ? 0.25f : 0.125f) * b->scale_grad[i];
    }
    return LS_OK;
}

static int train(ls_rank *self, void *arg) {
    trainer_run *run = arg;
    block b;
    LS_TRY(open_block(&b, self, run));
    for (int step = 0; step < STEPS; step++) {
        if (BUG("one_step_less") && ls_rank_id(self) == 3 && step == STEPS - 1) {
            break;
        }
        LS_TRY(forward(&b, run, step));
        LS_TRY(backward(&b, run, step));
        float loss = b.y[0];
        if (!BUG("loss_on_rank_0") || ls_rank_id(self) == 0) {
            LS_TRY(AT(LOSS, ls_all_reduce(&loss, &loss, 1, LS_F32, LS_SUM, ls_rank_world(self))));
        }
    }
    float *all[] = {b.up,         b.down, b.scale, b.up_grad, b.down_grad,
                    b.scale_grad, b.x,    b.whole, b.partial, b.y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ls_rank_free(self, all[i]);
    }
    return LS_OK;
}

static const injected_bug bugs[] = {
    {"axes_exchanged", LS_FINDING_KIND_MISMATCH, 2, GATHER},
    {"scale_not_written", LS_FINDING_BUFFER_UNINITIALISED, 1, BROADCAST},
    {"own_draw", LS_FINDING_REPLICA_DIVERGED, 0xe, DECLARE},
    {"root_of_axis", LS_FINDING_ROOT_MISMATCH, 8, BROADCAST},
    {"nan_in_x", LS_FINDING_VALUE_NAN_FIRST, 0xc, SCATTER},
    {"last_rows_forgotten", LS_FINDING_COUNT_MISMATCH, 8, GATHER},
    {"gather_read_early", LS_FINDING_BUFFER_USE_BEFORE_WAIT, 0xf, GATHER},
    {"cached_gather", LS_FINDING_KIND_MISMATCH, 2, SCATTER},
    {"max_of_partials", LS_FINDING_OP_MISMATCH, 4, SCATTER},
    {"scatter_on_data_axis", LS_FINDING_KIND_MISMATCH, 1, SCATTER},
    {"bucket_written_in_flight", LS_FINDING_BUFFER_USE_BEFORE_WAIT, 2, GRAD},
    {"scale_grad_of_part", LS_FINDING_REPLICA_DIVERGED, 0xe, LOSS},
    {"clip_by_own_norm", LS_FINDING_REPLICA_DIVERGED, 0xa, LOSS},
    {"request_dropped", LS_FINDING_HANDLE_LEAK, 8, GRAD},
    {"waited_twice", LS_FINDING_HANDLE_USE_AFTER_FREE, 4, TWICE},
    {"another_rate", LS_FINDING_REPLICA_DIVERGED, 2, LOSS},
    {"one_step_less", LS_FINDING_RANK_EXITED_EARLY, 8, LOSS},
    {"loss_on_rank_0", LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR, 1, LOSS},
};

const trainer sequence_parallel_trainer = {.name = "sequence_parallel",
                                           .program = train,
                                           .mesh = {.ndim = 2, .dim = {DP, TP}},
                                           .bugs = bugs,
                                           .bug_count = (int)(sizeof bugs / sizeof *bugs)};
