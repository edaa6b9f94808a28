// Softmax, cross entropy and norms over a dimension that may be sharded, without gathering it: an
// all_reduce of the largest values and one of the sums of what is left, as loss parallel does; of
// smoothed labels one more, and of losses over samples one; of a norm one of the sums of powers.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "collectives/tensor.h"
#include "kernels/element.h"

typedef struct lines {
    size_t outer, length, inner;  // of a shard, along dim
} lines;

static lines lines_of(const ls_shape *shape, int dim) {
    lines of = {1, (size_t)shape->dim[dim], 1};
    for (int d = 0; d < shape->ndim; d++) {
        of.outer *= d < dim ? (size_t)shape->dim[d] : 1;
        of.inner *= d > dim ? (size_t)shape->dim[d] : 1;
    }
    return of;
}

static double value_at(const ls_shard *shard, ls_dtype dtype, size_t index) {
    return ls_element_to_f64((const char *)shard->data + index * ls_dtype_bytes(dtype), dtype);
}

static void set_value(const ls_shard *shard, ls_dtype dtype, size_t index, double value) {
    ls_element_from_f64((char *)shard->data + index * ls_dtype_bytes(dtype), dtype, value);
}

// Partial values along the mesh dimensions that sharded `dim`, reduced everywhere.
static int reduce(ls_local_tensor **tensor, ls_backend *backend) {
    ls_placements whole = *ls_local_tensor_placements(*tensor);
    ls_local_tensor *reduced = NULL;
    for (int d = 0; d < whole.count; d++) {
        whole.at[d] = whole.at[d].kind == LS_PLACE_PARTIAL ? LS_REPLICATE : whole.at[d];
    }
    LS_TRY(ls_tensor_redistribute(&reduced, backend, *tensor, &whole));
    ls_local_tensor_free(*tensor);
    *tensor = reduced;
    return LS_OK;
}

static int check_input(int *dim, const ls_local_tensor *in) {
    const ls_shape *shape = ls_local_tensor_shape(in);
    const ls_placements *placements = ls_local_tensor_placements(in);
    ls_dtype dtype = ls_local_tensor_dtype(in);
    if (placements == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "the tensor has no placements");
    }
    if (dtype != LS_F32 && dtype != LS_F64) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "in f32 or f64, not %s", ls_dtype_name(dtype));
    }
    if (*dim < -shape->ndim || *dim >= shape->ndim) {
        return LS_FAIL(LS_ERR_INVALID, "dimension %d of a tensor with %d", *dim, shape->ndim);
    }
    for (int d = 0; d < placements->count; d++) {
        if (placements->at[d].kind == LS_PLACE_PARTIAL) {
            return LS_FAIL(LS_ERR_INVALID, "partial values must be reduced first");
        }
    }
    *dim += *dim < 0 ? shape->ndim : 0;
    return LS_OK;
}

// The largest value of each line over all ranks, and the sum of exp(x - largest): each as `in`
// without dim.
static int normalisers(ls_local_tensor **largest, ls_local_tensor **sums, ls_backend *backend,
                       const ls_local_tensor *in, int dim) {
    ls_local_tensor *powers = NULL;
    ls_dtype dtype = ls_local_tensor_dtype(in);
    LS_TRY(ls_local_tensor_reduce(largest, in, dim, LS_MAX));
    LS_TRY(reduce(largest, backend));
    LS_TRY(ls_local_tensor_clone(&powers, in));
    for (int i = 0; i < ls_local_tensor_rank_count(in); i++) {
        int rank = ls_local_tensor_ranks(in)[i];
        const ls_shard *x = ls_local_tensor_shard(powers, rank, 0);
        const ls_shard *m = ls_local_tensor_shard(*largest, rank, 0);
        lines of = lines_of(&x->block.size, dim);
        for (size_t k = 0; k < x->count; k++) {
            size_t line = k / (of.length * of.inner) * of.inner + k % of.inner;
            set_value(x, dtype, k, exp(value_at(x, dtype, k) - value_at(m, dtype, line)));
        }
    }
    int status = ls_local_tensor_reduce(sums, powers, dim, LS_SUM);
    ls_local_tensor_free(powers);
    return status == LS_OK ? reduce(sums, backend) : status;
}

int ls_tensor_softmax(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in,
                      int dim, bool logarithm) {
    LS_ASSERT(out != NULL && backend != NULL && in != NULL);
    ls_local_tensor *largest = NULL, *sums = NULL;
    ls_dtype dtype = ls_local_tensor_dtype(in);
    *out = NULL;
    if (check_input(&dim, in) != LS_OK) {
        return ls_error_wrap("softmax");
    }
    int status = normalisers(&largest, &sums, backend, in, dim);
    status = status == LS_OK ? ls_local_tensor_clone(out, in) : status;
    for (int i = 0; i < ls_local_tensor_rank_count(in) && status == LS_OK; i++) {
        int rank = ls_local_tensor_ranks(in)[i];
        const ls_shard *x = ls_local_tensor_shard(*out, rank, 0);
        const ls_shard *m = ls_local_tensor_shard(largest, rank, 0);
        const ls_shard *s = ls_local_tensor_shard(sums, rank, 0);
        lines of = lines_of(&x->block.size, dim);
        for (size_t k = 0; k < x->count; k++) {
            size_t line = k / (of.length * of.inner) * of.inner + k % of.inner;
            double above = value_at(x, dtype, k) - value_at(m, dtype, line);
            double sum = value_at(s, dtype, line);
            set_value(x, dtype, k, logarithm ? above - log(sum) : exp(above) / sum);
        }
    }
    ls_local_tensor_free(largest);
    ls_local_tensor_free(sums);
    return status == LS_OK ? LS_OK : ls_error_wrap("softmax");
}

// ---- Cross entropy ------------------------------------------------------------------------------
// One call's: per sample, of all ranks once reduced.
typedef struct losses {
    const ls_local_tensor *logits, *targets;
    const ls_loss_options *options;
    ls_backend *backend;
    ls_local_tensor *largest, *sums;  // the lines' normalisers
    ls_local_tensor *picked;          // the target's logit; then the losses
    ls_local_tensor *spread;          // of smoothed labels: sum of w[c] (x[c] - largest)
    ls_local_tensor *counted;         // of a mean: w[target], 0 where it is ignored
} losses;

static void losses_free(losses *l) {
    ls_local_tensor_free(l->largest);
    ls_local_tensor_free(l->sums);
    ls_local_tensor_free(l->picked);
    ls_local_tensor_free(l->spread);
    ls_local_tensor_free(l->counted);
}

static double weight_of(const losses *l, int rank, int64_t class) {
    const ls_local_tensor *weights = l->options->weights;
    return weights == NULL ? 1
                           : value_at(ls_local_tensor_shard(weights, rank, 0),
                                      ls_local_tensor_dtype(weights), (size_t) class);
}

static int check_losses(const losses *l) {
    const ls_loss_options *o = l->options;
    int dim = 1;
    LS_TRY(check_input(&dim, l->logits));
    const ls_shape *shape = ls_local_tensor_shape(l->logits);
    if (shape->ndim != 2 || ls_local_tensor_dtype(l->targets) != LS_I64 ||
        ls_local_tensor_placements(l->targets) == NULL) {
        return LS_FAIL(LS_ERR_INVALID,
                       "logits [samples, classes] and placed i64 targets are needed");
    }
    if (!(o->smoothing >= 0 && o->smoothing <= 1)) {
        return LS_FAIL(LS_ERR_INVALID, "a label smoothing of %g is not from 0 to 1", o->smoothing);
    }
    if (o->weights == NULL) {
        return LS_OK;
    }
    const ls_placements *lie = ls_local_tensor_placements(o->weights);
    const ls_shape *of = ls_local_tensor_shape(o->weights);
    bool whole = lie != NULL && of->ndim == 1 && of->dim[0] == shape->dim[1] &&
                 ls_local_tensor_dtype(o->weights) == ls_local_tensor_dtype(l->logits);
    for (int d = 0; whole && d < lie->count; d++) {
        whole = lie->at[d].kind == LS_PLACE_REPLICATE;
    }
    return whole ? LS_OK
                 : LS_FAIL(LS_ERR_INVALID,
                           "the classes' weights must be replicated, one of the logits' type for "
                           "each of %" PRId64 " classes",
                           shape->dim[1]);
}

static int check_targets(const losses *l, int rank, const ls_shard *x, size_t samples) {
    int64_t classes = ls_local_tensor_shape(l->logits)->dim[1];
    const ls_shard *t = ls_local_tensor_shard(l->targets, rank, 0);
    if (t == NULL || t->count != samples ||
        (samples > 0 && t->block.offset.dim[0] != x->block.offset.dim[0])) {
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d has targets and logits of different samples", rank);
    }
    for (size_t k = 0; k < samples; k++) {
        int64_t target = ((const int64_t *)t->data)[k];
        if (target != l->options->ignored && (target < 0 || target >= classes)) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                "rank %d: target %" PRId64 " of sample %zu is not one of %" PRId64
                                " classes",
                                rank, target, k, classes);
        }
    }
    return LS_OK;
}

// Each rank's part of the targets' logits: partial where classes are sharded.
static int pick(losses *l) {
    ls_dtype dtype = ls_local_tensor_dtype(l->logits);
    LS_TRY(ls_local_tensor_reduce(&l->picked, l->logits, 1, LS_SUM));  // for its placement
    for (int i = 0; i < ls_local_tensor_rank_count(l->logits); i++) {
        int rank = ls_local_tensor_ranks(l->logits)[i];
        const ls_shard *x = ls_local_tensor_shard(l->logits, rank, 0);
        const ls_shard *to = ls_local_tensor_shard(l->picked, rank, 0);
        int64_t first = x->block.offset.dim[1], own = x->block.size.dim[1];
        LS_TRY(check_targets(l, rank, x, to->count));
        const int64_t *targets = ls_local_tensor_shard(l->targets, rank, 0)->data;
        for (size_t k = 0; k < to->count; k++) {
            bool here = targets[k] >= first && targets[k] - first < own;
            size_t at = k * (size_t)own + (size_t)(targets[k] - first);
            set_value(to, dtype, k, here ? value_at(x, dtype, at) : 0);
        }
    }
    return reduce(&l->picked, l->backend);
}

// The sum over all classes that a smoothed label needs, in one all_reduce more.
static int spread(losses *l) {
    ls_dtype dtype = ls_local_tensor_dtype(l->logits);
    LS_TRY(ls_local_tensor_reduce(&l->spread, l->logits, 1, LS_SUM));  // for its placement
    for (int i = 0; i < ls_local_tensor_rank_count(l->logits); i++) {
        int rank = ls_local_tensor_ranks(l->logits)[i];
        const ls_shard *x = ls_local_tensor_shard(l->logits, rank, 0);
        const ls_shard *m = ls_local_tensor_shard(l->largest, rank, 0);
        const ls_shard *to = ls_local_tensor_shard(l->spread, rank, 0);
        size_t own = (size_t)x->block.size.dim[1];
        for (size_t k = 0; k < to->count; k++) {
            double sum = 0, largest = value_at(m, dtype, k);
            for (size_t c = 0; c < own; c++) {
                double below = value_at(x, dtype, k * own + c) - largest;
                sum += weight_of(l, rank, x->block.offset.dim[1] + (int64_t)c) * below;
            }
            set_value(to, dtype, k, sum);
        }
    }
    return reduce(&l->spread, l->backend);
}

// picked becomes the losses. The weights of all classes are replicated, and added up by each rank.
static void settle_rank(const losses *l, int rank) {
    ls_dtype dtype = ls_local_tensor_dtype(l->logits);
    int64_t classes = ls_local_tensor_shape(l->logits)->dim[1];
    const ls_shard *to = ls_local_tensor_shard(l->picked, rank, 0);
    const ls_shard *m = ls_local_tensor_shard(l->largest, rank, 0);
    const ls_shard *s = ls_local_tensor_shard(l->sums, rank, 0);
    const int64_t *targets = ls_local_tensor_shard(l->targets, rank, 0)->data;
    double smoothing = l->options->smoothing, all = 0;
    for (int64_t c = 0; c < classes && smoothing > 0; c++) {
        all += weight_of(l, rank, c);
    }
    for (size_t k = 0; k < to->count; k++) {
        bool counts = targets[k] != l->options->ignored;
        double weight = counts ? weight_of(l, rank, targets[k]) : 0, loss = 0;
        if (counts) {
            double log_sum = log(value_at(s, dtype, k));
            loss = weight * (log_sum + value_at(m, dtype, k) - value_at(to, dtype, k));
            if (smoothing > 0) {
                double below = value_at(ls_local_tensor_shard(l->spread, rank, 0), dtype, k);
                loss =
                    (1 - smoothing) * loss + smoothing / (double)classes * (all * log_sum - below);
            }
        }
        set_value(to, dtype, k, loss);
        if (l->counted != NULL) {
            set_value(ls_local_tensor_shard(l->counted, rank, 0), dtype, k, weight);
        }
    }
}

// Over the samples, wherever they are.
static int add_up(ls_local_tensor **out, losses *l, const ls_local_tensor *each) {
    LS_TRY(ls_local_tensor_reduce(out, each, 0, LS_SUM));
    return reduce(out, l->backend);
}

static int settle(ls_local_tensor **out, losses *l) {
    ls_local_tensor *weights = NULL;
    if (l->options->reduction == LS_LOSS_MEAN) {
        LS_TRY(ls_local_tensor_clone(&l->counted, l->picked));
    }
    for (int i = 0; i < ls_local_tensor_rank_count(l->logits); i++) {
        settle_rank(l, ls_local_tensor_ranks(l->logits)[i]);
    }
    if (l->options->reduction == LS_LOSS_EACH) {
        *out = l->picked;
        l->picked = NULL;
        return LS_OK;
    }
    LS_TRY(add_up(out, l, l->picked));
    int status = l->counted != NULL ? add_up(&weights, l, l->counted) : LS_OK;
    for (int i = 0; status == LS_OK && weights != NULL && i < ls_local_tensor_rank_count(*out);
         i++) {
        int rank = ls_local_tensor_ranks(*out)[i];
        const ls_shard *sum = ls_local_tensor_shard(*out, rank, 0);
        const ls_shard *by = ls_local_tensor_shard(weights, rank, 0);
        ls_dtype dtype = ls_local_tensor_dtype(*out);
        set_value(sum, dtype, 0, value_at(sum, dtype, 0) / value_at(by, dtype, 0));
    }
    ls_local_tensor_free(weights);
    return status;
}

int ls_tensor_cross_entropy(ls_local_tensor **out, ls_backend *backend,
                            const ls_local_tensor *logits, const ls_local_tensor *targets,
                            const ls_loss_options *options) {
    LS_ASSERT(out != NULL && backend != NULL && logits != NULL && targets != NULL &&
              options != NULL);
    ls_loss_options own;
    losses l = {.logits = logits, .targets = targets, .options = &own, .backend = backend};
    *out = NULL;
    LS_TRY(ls_options_take(&own, sizeof own, options));
    int status = check_losses(&l);
    status = status == LS_OK ? pick(&l) : status;
    status = status == LS_OK ? normalisers(&l.largest, &l.sums, backend, logits, 1) : status;
    status = status == LS_OK && own.smoothing > 0 ? spread(&l) : status;
    status = status == LS_OK ? settle(out, &l) : status;
    losses_free(&l);
    if (status != LS_OK) {
        ls_local_tensor_free(*out);
        *out = NULL;
        return ls_error_wrap("cross_entropy");
    }
    return LS_OK;
}

// ---- Norms --------------------------------------------------------------------------------------
// The powers of a tensor's absolute values, in f64.
static int powers_of(ls_local_tensor **out, const ls_local_tensor *in, double p) {
    LS_TRY(ls_local_tensor_cast(out, in, LS_F64));
    for (int i = 0; i < ls_local_tensor_rank_count(in); i++) {
        const ls_shard *x = ls_local_tensor_shard(*out, ls_local_tensor_ranks(in)[i], 0);
        for (size_t k = 0; x != NULL && k < x->count; k++) {
            double size = fabs(((double *)x->data)[k]);
            ((double *)x->data)[k] = isinf(p) ? size : pow(size, p);
        }
    }
    return LS_OK;
}

int ls_tensor_norm(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in, int dim,
                   double p) {
    LS_ASSERT(out != NULL && backend != NULL && in != NULL);
    ls_local_tensor *powers = NULL, *sums = NULL;
    *out = NULL;
    if (!(p >= 1)) {
        return LS_FAIL(LS_ERR_INVALID, "norm: p is %g; it must be at least 1 or infinity", p);
    }
    if (!ls_dtype_is_float(ls_local_tensor_dtype(in))) {
        return LS_FAIL(LS_ERR_INVALID, "norm: the tensor must hold floats, not %s",
                       ls_dtype_name(ls_local_tensor_dtype(in)));
    }
    int status = powers_of(&powers, in, p);
    status = status == LS_OK ? check_input(&dim, powers) : status;
    ls_op op = isinf(p) ? LS_MAX : LS_SUM;
    status = status == LS_OK ? ls_local_tensor_reduce(&sums, powers, dim, op) : status;
    status = status == LS_OK ? reduce(&sums, backend) : status;
    for (int i = 0; status == LS_OK && i < ls_local_tensor_rank_count(in); i++) {
        const ls_shard *s = ls_local_tensor_shard(sums, ls_local_tensor_ranks(in)[i], 0);
        for (size_t k = 0; k < s->count; k++) {
            double *value = &((double *)s->data)[k];
            *value = isinf(p) ? fmax(*value, 0) : pow(*value, 1 / p);
        }
    }
    status = status == LS_OK ? ls_local_tensor_cast(out, sums, ls_local_tensor_dtype(in)) : status;
    ls_local_tensor_free(powers);
    ls_local_tensor_free(sums);
    return status == LS_OK ? LS_OK : ls_error_wrap("norm");
}
