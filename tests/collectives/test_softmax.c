// Softmax, its logarithm, cross entropy and norms over sharded classes, against plain loops over
// the whole. One sample has large logits, which overflow unless the largest is subtracted. Also
// counts the calls.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "collectives/collectives.h"

enum { SAMPLES = 5, CLASSES = 11 };

static double logits[SAMPLES * CLASSES];
static const int64_t targets[SAMPLES] = {0, 10, 4, -100, 7};

static void fill(void) {
    for (int i = 0; i < SAMPLES * CLASSES; i++) {
        logits[i] = (double)(i * 13 % 29) * 0.25 - 3 + (i / CLASSES == 2 ? 900 : 0);
    }
}

TestSuite(softmax, .init = fill);

static int counted;

static void count_call(void *arg, const ls_call *call) {
    (void)arg;
    cr_expect(call->kind == LS_ALL_REDUCE, "no class is gathered");
    counted += 1;
}

static double log_softmax(int sample, int class) {
    double largest = -INFINITY, sum = 0;
    for (int c = 0; c < CLASSES; c++) {
        largest = fmax(largest, logits[sample * CLASSES + c]);
    }
    for (int c = 0; c < CLASSES; c++) {
        sum += exp(logits[sample * CLASSES + c] - largest);
    }
    return logits[sample * CLASSES + class] - largest - log(sum);
}

static void check(ls_backend *backend, const ls_local_tensor *in, bool logarithm) {
    ls_local_tensor *out = NULL;
    cr_assert(ls_tensor_softmax(&out, backend, in, -1, logarithm) == LS_OK, "%s",
              ls_error_last()->text);
    cr_assert(ls_local_tensor_check(out) == LS_OK);
    for (int rank = 0; rank < 6; rank++) {
        const ls_shard *shard = ls_local_tensor_shard(out, rank, 0);
        for (size_t i = 0; i < shard->count; i++) {
            int64_t columns = shard->block.size.dim[1];
            int sample = (int)(shard->block.offset.dim[0] + (int64_t)i / columns);
            int class = (int)(shard->block.offset.dim[1] + (int64_t)i % columns);
            double want = log_softmax(sample, class), has = ((const double *)shard->data)[i];
            want = logarithm ? want : exp(want);
            cr_expect(fabs(has - want) <= 1e-12 * fmax(1, fabs(want)), "rank %d, %d, %d: %g, %g",
                      rank, sample, class, has, want);
        }
    }
    ls_local_tensor_free(out);
}

static void check_loss(ls_backend *backend, const ls_local_tensor *in, const char *placed) {
    ls_local_tensor *loss = NULL, *classes = NULL;
    ls_placements placements;
    ls_world *world = ls_local_tensor_world(in);
    cr_assert(ls_placements_parse(&placements, placed) == LS_OK);
    cr_assert(ls_local_tensor_distribute(&classes, world, targets, &LS_SHAPE(SAMPLES), LS_I64,
                                         &placements) == LS_OK);
    cr_assert(ls_tensor_cross_entropy(&loss, backend, in, classes,
                                      &(ls_loss_options){.ignored = -100}) == LS_OK,
              "%s", ls_error_last()->text);
    for (int rank = 0; rank < 6; rank++) {
        const ls_shard *shard = ls_local_tensor_shard(loss, rank, 0);
        for (size_t i = 0; i < shard->count; i++) {
            int sample = (int)(shard->block.offset.dim[0] + (int64_t)i);
            double want = targets[sample] == -100 ? 0 : -log_softmax(sample, (int)targets[sample]);
            cr_expect(fabs(((const double *)shard->data)[i] - want) <= 1e-12 * fmax(1, want),
                      "rank %d, sample %d", rank, sample);
        }
    }
    ls_local_tensor_free(loss);
    cr_expect(ls_tensor_cross_entropy(&loss, backend, in, classes,
                                      &(ls_loss_options){.ignored = -1}) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "target -100 of sample") != NULL);
    ls_local_tensor_free(classes);
}

// torch's formula, by plain loops.
static double smoothed(int sample, double smoothing, const double *w) {
    double all = 0;
    if (targets[sample] == -100) {
        return 0;
    }
    for (int c = 0; c < CLASSES; c++) {
        all -= w[c] * log_softmax(sample, c);
    }
    int target = (int)targets[sample];
    return -(1 - smoothing) * w[target] * log_softmax(sample, target) + smoothing / CLASSES * all;
}

static double reduced(ls_loss_reduction reduction, double smoothing, const double *w) {
    double sum = 0, by = 0;
    for (int s = 0; s < SAMPLES; s++) {
        sum += smoothed(s, smoothing, w);
        by += targets[s] == -100 ? 0 : w[targets[s]];
    }
    return reduction == LS_LOSS_MEAN ? sum / by : sum;
}

static ls_local_tensor *spread_out(ls_world *world, const double *values, int64_t count,
                                   const char *placed) {
    ls_local_tensor *out = NULL;
    ls_placements placements;
    cr_assert(ls_placements_parse(&placements, placed) == LS_OK);
    cr_assert(ls_local_tensor_distribute(&out, world, values, &LS_SHAPE(count), LS_F64,
                                         &placements) == LS_OK);
    return out;
}

// Weights of classes, smoothed labels, sum and mean, all over sharded classes and samples.
static void check_options(ls_backend *backend, const ls_local_tensor *in, const char *placed) {
    static const double types[] = {0, 0.25, 1};
    double w[CLASSES];
    for (int c = 0; c < CLASSES; c++) {
        w[c] = 0.5 + c % 4;
    }
    ls_local_tensor *loss = NULL, *classes = NULL;
    ls_placements placements;
    ls_world *world = ls_local_tensor_world(in);
    cr_assert(ls_placements_parse(&placements, placed) == LS_OK);
    cr_assert(ls_local_tensor_distribute(&classes, world, targets, &LS_SHAPE(SAMPLES), LS_I64,
                                         &placements) == LS_OK);
    ls_local_tensor *weights = spread_out(world, w, CLASSES, "R, R");
    ls_loss_options options = {.ignored = -100, .weights = weights};
    for (int k = 0; k < 9; k++) {
        options.smoothing = types[k / 3];
        options.reduction = (ls_loss_reduction)(k % 3);
        cr_assert(ls_tensor_cross_entropy(&loss, backend, in, classes, &options) == LS_OK, "%s",
                  ls_error_last()->text);
        cr_expect(ls_local_tensor_shape(loss)->ndim == (k % 3 == 0));
        for (int rank = 0; rank < 6; rank++) {
            const ls_shard *shard = ls_local_tensor_shard(loss, rank, 0);
            cr_expect(k % 3 == 0 || shard->count == 1);
            for (size_t i = 0; i < shard->count; i++) {
                double want = reduced(options.reduction, options.smoothing, w);
                if (k % 3 == 0) {
                    want = smoothed((int)(shard->block.offset.dim[0] + (int64_t)i),
                                    options.smoothing, w);
                }
                double has = ((const double *)shard->data)[i];
                cr_expect(fabs(has - want) <= 1e-12 * fmax(1, fabs(want)), "%d: rank %d: %g, %g", k,
                          rank, has, want);
            }
        }
        ls_local_tensor_free(loss);
    }
    options.smoothing = 1.5;
    cr_expect(ls_tensor_cross_entropy(&loss, backend, in, classes, &options) == LS_ERR_INVALID);
    ls_local_tensor *sharded = spread_out(world, w, CLASSES, "R, S(0)");
    options = (ls_loss_options){.ignored = -100, .weights = sharded};
    cr_expect(ls_tensor_cross_entropy(&loss, backend, in, classes, &options) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "weights must be replicated") != NULL);
    ls_local_tensor_free(sharded);
    ls_local_tensor_free(weights);
    ls_local_tensor_free(classes);
}

static double norm_of(int sample, double p) {
    double sum = 0;
    for (int c = 0; c < CLASSES; c++) {
        double size = fabs(logits[sample * CLASSES + c]);
        sum = isinf(p) ? fmax(sum, size) : sum + pow(size, p);
    }
    return isinf(p) ? sum : pow(sum, 1 / p);
}

// In f32, each norm rounded once, on the ranks that have the sample.
static void check_norms(ls_backend *backend, const ls_local_tensor *in) {
    static const double types[] = {1, 2, 3, INFINITY};
    ls_local_tensor *narrow = NULL, *out = NULL;
    cr_assert(ls_local_tensor_cast(&narrow, in, LS_F32) == LS_OK);
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        cr_assert(ls_tensor_norm(&out, backend, narrow, 1, types[k]) == LS_OK, "%s",
                  ls_error_last()->text);
        cr_assert(ls_local_tensor_dtype(out) == LS_F32 && ls_local_tensor_check(out) == LS_OK);
        for (int rank = 0; rank < 6; rank++) {
            const ls_shard *shard = ls_local_tensor_shard(out, rank, 0);
            for (size_t i = 0; i < shard->count; i++) {
                double want = norm_of((int)(shard->block.offset.dim[0] + (int64_t)i), types[k]);
                cr_expect(fabs(((const float *)shard->data)[i] - want) <= 0x1p-23 * want,
                          "rank %d, %g-norm %zu", rank, types[k], i);
            }
        }
        ls_local_tensor_free(out);
    }
    cr_expect(ls_tensor_norm(&out, backend, narrow, 1, 0.5) == LS_ERR_INVALID);
    cr_expect(ls_tensor_norm(&out, backend, narrow, 2, 2) == LS_ERR_INVALID);
    ls_local_tensor_free(narrow);
}

// Classes over three ranks (4, 4, 3) and samples over two, each separately, both, and classes over
// all six, of which the last has none.
Test(softmax, sharded_classes) {
    static const struct {
        const char *placed, *targets;
        int calls;  // of a softmax: two all_reduces of each rank along each sharded dimension
    } cases[] = {{"R, R", "R, R", 0},
                 {"S(0), R", "S(0), R", 0},
                 {"R, S(1)", "R, R", 12},
                 {"S(0), S(1)", "S(0), R", 12},
                 {"S(1), S(1)", "R, R", 24}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ls_world *world = NULL;
        ls_backend *backend = NULL;
        ls_local_tensor *in = NULL;
        ls_placements placements;
        cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = LS_MESH(2, 3)}) == LS_OK);
        cr_assert(ls_backend_sim_create(&backend, world) == LS_OK);
        backend->observer = count_call;
        cr_assert(ls_placements_parse(&placements, cases[c].placed) == LS_OK);
        cr_assert(ls_local_tensor_distribute(&in, world, logits, &LS_SHAPE(SAMPLES, CLASSES),
                                             LS_F64, &placements) == LS_OK);
        counted = 0;
        check(backend, in, false);
        cr_expect(counted == cases[c].calls, "%s: %d calls", cases[c].placed, counted);
        check(backend, in, true);
        check_loss(backend, in, cases[c].targets);
        check_options(backend, in, cases[c].targets);
        check_norms(backend, in);
        ls_local_tensor_free(in);
        ls_backend_free(backend);
        ls_world_free(world);
    }
}
