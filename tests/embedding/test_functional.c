// embedding and embedding_bag as functions on local tensors: every way, by rows and columns,
// against plain loops over the whole weight. Values are small integers, so every order of a sum is
// exact. Also max_norm against its formula, and refused calls.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "embedding/functional.h"

enum { ROWS = 10, COLUMNS = 17, RANKS = 4, BAGS = 4, EACH = 6 };

static float full[ROWS * COLUMNS];
static int64_t ids_of[RANKS][BAGS * EACH];
static float weights_of[RANKS][BAGS * EACH];

static void fill(void) {
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        full[i] = (float)(i * 7 % 31 - 15);
    }
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < BAGS * EACH; i++) {
            ids_of[r][i] = (i * 5 + r * 3 + i / 7) % ROWS;
            weights_of[r][i] = (float)((i + r) % 4 - 1);
        }
    }
}

TestSuite(functional, .init = fill);

typedef struct fixture {
    ls_world *world;
    ls_backend *backend;
    ls_axis *axis;
} fixture;

static void open_ranks(fixture *f) {
    *f = (fixture){0};
    cr_assert(ls_world_create(&f->world, &(ls_world_options){.mesh = LS_MESH(RANKS)}) == LS_OK);
    cr_assert(ls_backend_sim_create(&f->backend, f->world) == LS_OK);
    cr_assert(ls_axis_create(&f->axis, f->backend, 0) == LS_OK);
}

static void close_ranks(fixture *f) {
    ls_axis_free(f->axis);
    ls_backend_free(f->backend);
    ls_world_free(f->world);
}

static ls_local_tensor *weight_by(const fixture *f, int dim) {
    ls_local_tensor *weight = NULL;
    cr_assert(ls_local_tensor_distribute(&weight, f->world, full, &LS_SHAPE(ROWS, COLUMNS), LS_F32,
                                         &LS_PLACE(LS_SHARD(dim))) == LS_OK);
    return weight;
}

// A tensor with different numbers on each rank, or rank 0's on all, which is then replicated.
static ls_local_tensor *each(const fixture *f, ls_dtype dtype, ls_shape shape, const void *numbers,
                             size_t stride, bool replicated) {
    ls_local_tensor *tensor = NULL;
    ls_shape shapes[RANKS];
    const void *data[RANKS];
    for (int r = 0; r < RANKS; r++) {
        shapes[r] = shape;
        data[r] = (const char *)numbers + (replicated ? 0 : (size_t)r * stride);
    }
    if (replicated) {
        cr_assert(ls_local_tensor_distribute(&tensor, f->world, numbers, &shape, dtype,
                                             &LS_PLACE(LS_REPLICATE)) == LS_OK);
    } else {
        cr_assert(ls_local_tensor_from_shards(&tensor, f->world, dtype, NULL, RANKS, shapes,
                                              data) == LS_OK);
    }
    return tensor;
}

static const struct {
    int dim;
    ls_rows_way way;
    const char *name;
} ways[] = {{0, LS_ROWS_MASKED, "rows, masked"},
            {0, LS_ROWS_EXCHANGED, "rows, exchanged"},
            {1, LS_ROWS_MASKED, "columns"}};

// Rows of 4 x 6 ids on each rank, as in torch's own example, or the same ids on all.
Test(functional, embedding) {
    fixture f;
    open_ranks(&f);
    for (int c = 0; c < 6; c++) {
        bool replicated = c >= 3;
        ls_local_tensor *weight = weight_by(&f, ways[c % 3].dim), *out = NULL;
        ls_local_tensor *ids =
            each(&f, LS_I64, LS_SHAPE(BAGS, EACH), ids_of, sizeof *ids_of, replicated);
        const ls_functional_options options = {.way = ways[c % 3].way};
        cr_assert(ls_tensor_embedding(&out, ids, weight, &options, f.axis) == LS_OK, "%s: %s",
                  ways[c % 3].name, ls_error_last()->text);
        for (int r = 0; r < RANKS; r++) {
            const ls_shard *shard = ls_local_tensor_shard(out, r, 0);
            cr_assert(ls_shape_equal(&shard->block.size, &LS_SHAPE(BAGS, EACH, COLUMNS)));
            for (int i = 0; i < BAGS * EACH * COLUMNS; i++) {
                int64_t id = ids_of[replicated ? 0 : r][i / COLUMNS];
                cr_assert(((const float *)shard->data)[i] == full[id * COLUMNS + i % COLUMNS],
                          "%s: rank %d, element %d", ways[c % 3].name, r, i);
            }
        }
        cr_expect((ls_local_tensor_placements(out) != NULL) == replicated);
        ls_local_tensor_free(out);
        ls_local_tensor_free(ids);
        ls_local_tensor_free(weight);
    }
    close_ranks(&f);
}

// Exchanged rows may be uneven, also without ids; the other ways give the reason to refuse.
Test(functional, uneven_ids) {
    fixture f;
    open_ranks(&f);
    const ls_shape shapes[RANKS] = {LS_SHAPE(5), LS_SHAPE(0), LS_SHAPE(24), LS_SHAPE(1)};
    const void *data[RANKS] = {ids_of[0], NULL, ids_of[2], ids_of[3]};
    ls_local_tensor *ids = NULL, *out = NULL;
    cr_assert(ls_local_tensor_from_shards(&ids, f.world, LS_I64, NULL, RANKS, shapes, data) ==
              LS_OK);
    for (int c = 0; c < 3; c++) {
        ls_local_tensor *weight = weight_by(&f, ways[c].dim);
        const ls_functional_options options = {.way = ways[c].way};
        int status = ls_tensor_embedding(&out, ids, weight, &options, f.axis);
        if (c != 1) {
            cr_expect(status == LS_ERR_INVALID);
            cr_expect_str_eq(ls_error_last()->text,
                             "embedding: rank 0 asks for 5 of 30 along dimension 0, where equal "
                             "chunks would be 8: only exchanged rows may be uneven");
        } else {
            cr_assert(status == LS_OK, "%s", ls_error_last()->text);
            for (int r = 0; r < RANKS; r++) {
                const ls_shard *shard = ls_local_tensor_shard(out, r, 0);
                for (size_t i = 0; i < shard->count; i++) {
                    int64_t id = ids_of[r][i / COLUMNS];
                    cr_assert(((const float *)shard->data)[i] ==
                              full[id * COLUMNS + (int64_t)i % COLUMNS]);
                }
            }
            ls_local_tensor_free(out);
        }
        ls_local_tensor_free(weight);
    }
    ls_local_tensor_free(ids);
    close_ranks(&f);
}

// The value of a bag [from, to) of a rank's ids in one column, by plain code.
static float pooled(const int64_t *ids, const float *weights, int64_t from, int64_t to, int column,
                    ls_pooling mode, int64_t padding) {
    double sum = 0, most = -INFINITY;
    int count = 0;
    for (int64_t k = from; k < to; k++) {
        if (ids[k] == padding) {
            continue;
        }
        double value = full[ids[k] * COLUMNS + column];
        sum += value * (weights != NULL ? weights[k] : 1);
        most = fmax(most, value);
        count += 1;
    }
    return count == 0             ? 0
           : mode == LS_POOL_MAX  ? (float)most
           : mode == LS_POOL_MEAN ? (float)(sum / count)
                                  : (float)sum;
}

// Every way, replicated or not, of every mode, with and without padding and weights, with bags as
// rows and as offsets (including an empty bag), with the last offset and without.
Test(functional, embedding_bag) {
    static const int64_t offsets[BAGS + 1] = {0, 7, 7, 20, BAGS * EACH};
    fixture f;
    open_ranks(&f);
    for (int c = 0; c < 3 * 2 * 4 * 2 * 3; c++) {
        int way = c % 3, kind = c / 6 % 4, shape = c / 48;
        bool replicated = c / 3 % 2 != 0, padded = c / 24 % 2 != 0, weighted = kind == 3;
        ls_local_tensor *weight = weight_by(&f, ways[way].dim), *out = NULL, *at = NULL, *of = NULL;
        ls_shape flat = shape == 0 ? LS_SHAPE(BAGS, EACH) : LS_SHAPE(BAGS * EACH);
        ls_local_tensor *ids = each(&f, LS_I64, flat, ids_of, sizeof *ids_of, replicated);
        if (shape > 0) {
            at = each(&f, LS_I64, LS_SHAPE(shape == 1 ? BAGS : BAGS + 1), offsets, 0, replicated);
        }
        if (weighted) {
            of = each(&f, LS_F32, flat, weights_of, sizeof *weights_of, replicated);
        }
        const ls_functional_options options = {.way = ways[way].way,
                                               .mode = kind == 1   ? LS_POOL_MEAN
                                                       : kind == 2 ? LS_POOL_MAX
                                                                   : LS_POOL_SUM,
                                               .has_padding_id = padded,
                                               .padding_id = 3,
                                               .offsets = at,
                                               .include_last_offset = shape == 2,
                                               .weights = of};
        cr_assert(ls_tensor_embedding_bag(&out, ids, weight, &options, f.axis) == LS_OK,
                  "%s, case %d: %s", ways[way].name, c, ls_error_last()->text);
        for (int i = 0; i < RANKS * BAGS * COLUMNS; i++) {
            int r = i / (BAGS * COLUMNS), bag = i / COLUMNS % BAGS, own = replicated ? 0 : r;
            int64_t from = shape == 0 ? bag * EACH : offsets[bag];
            int64_t to = shape == 0 ? from + EACH : offsets[bag + 1];
            float want = pooled(ids_of[own], weighted ? weights_of[own] : NULL, from, to,
                                i % COLUMNS, options.mode, padded ? 3 : -1);
            float has =
                ((const float *)ls_local_tensor_shard(out, r, 0)->data)[i % (BAGS * COLUMNS)];
            cr_assert(has == want, "%s, case %d: rank %d, bag %d: %g, not %g", ways[way].name, c, r,
                      bag, has, want);
        }
        ls_local_tensor *const made[] = {out, ids, at, of, weight};
        for (int i = 0; i < 5; i++) {
            ls_local_tensor_free(made[i]);
        }
    }
    close_ranks(&f);
}

// Looked-up rows above max_norm are scaled in place, others not; by rows with torch's epsilon, by
// columns without; of any norm type.
Test(functional, max_norm) {
    static const double types[] = {0, 1, 3, INFINITY};
    fixture f;
    open_ranks(&f);
    for (int c = 0; c < 12; c++) {
        double p = types[c / 3] == 0 ? 2 : types[c / 3], limit = isinf(p) ? 10 : 30;
        ls_local_tensor *weight = weight_by(&f, ways[c % 3].dim), *out = NULL;
        static const int64_t asked[RANKS][2] = {{0, 4}, {4, 9}, {9, 0}, {4, 4}};
        ls_local_tensor *ids = each(&f, LS_I64, LS_SHAPE(2), asked, sizeof *asked, false);
        const ls_functional_options options = {.way = ways[c % 3].way,
                                               .has_max_norm = true,
                                               .max_norm = limit,
                                               .norm_type = types[c / 3]};
        cr_assert(ls_tensor_embedding(&out, ids, weight, &options, f.axis) == LS_OK, "%s",
                  ls_error_last()->text);
        for (int r = 0; r < RANKS; r++) {
            const ls_shard *shard = ls_local_tensor_shard(weight, r, 0);
            for (size_t i = 0; i < shard->count; i++) {
                int64_t columns = shard->block.size.dim[1];
                int64_t row = shard->block.offset.dim[0] + (int64_t)i / columns;
                int64_t column = shard->block.offset.dim[1] + (int64_t)i % columns;
                double norm = 0, factor = 1, has = ((const float *)shard->data)[i];
                for (int k = 0; k < COLUMNS; k++) {
                    double size = fabs((double)full[row * COLUMNS + k]);
                    norm = isinf(p) ? fmax(norm, size) : norm + pow(size, p);
                }
                norm = isinf(p) ? norm : pow(norm, 1 / p);
                if ((row == 0 || row == 4 || row == 9) && norm > limit) {
                    factor = limit / (norm + (ways[c % 3].dim == 0 ? 1e-7 : 0));
                }
                double want = full[row * COLUMNS + column] * factor;
                cr_assert(fabs(has - want) <= 2e-6 * fabs(want), "%s, p %g: row %d: %.9g, not %.9g",
                          ways[c % 3].name, p, (int)row, has, want);
            }
        }
        float first = ((const float *)ls_local_tensor_shard(out, 0, 0)->data)[1];
        cr_expect(first == ((const float *)ls_local_tensor_shard(weight, 0, 0)->data)[1]);
        ls_local_tensor_free(out);
        ls_local_tensor_free(ids);
        ls_local_tensor_free(weight);
    }
    close_ranks(&f);
}

typedef struct refusal {
    ls_functional_options options;
    int64_t id;             // of rank 2's second; -2: unchanged
    const char *placement;  // of the weight
    const char *says;
    bool bag, flat, offsets, float_ids;
} refusal;

static const refusal refusals[] = {
    {.id = -2, .float_ids = true, .says = "the ids are f32; they must be i64"},
    {.id = -2, .placement = "R", .says = "the weight is not sharded along the axis"},
    {.id = -2, .placement = "_S(0, 2)", .says = "rank 0 has 2 shards of the weights, not one"},
    {.id = -1, .says = "rank 2: id -1, number 1 of its ids, is not one of the weight's 10 rows"},
    {.id = 10, .says = "rank 2: id 10, number 1 of its ids, is not one of the weight's 10 rows"},
    {.id = -2,
     .options = {.scale_grad_by_freq = true},
     .says = "scale_grad_by_freq applies to gradients, and this lookup has no backward pass"},
    {.id = -2,
     .options = {.sparse = true},
     .says = "sparse applies to gradients, and this lookup has no backward pass"},
    {.id = -2,
     .options = {.has_max_norm = true},
     .says = "max_norm is 0; it must be larger than zero"},
    {.id = -2,
     .options = {.has_padding_id = true, .padding_id = 10},
     .says = "padding_id is 10 of 10 rows"},
    {.id = -2, .bag = true, .says = "the pooling must be sum, mean or max"},
    {.id = -2,
     .bag = true,
     .flat = true,
     .options = {.mode = LS_POOL_SUM},
     .says = "rank 0: ids of 1 dimension need offsets"},
    {.id = -2,
     .bag = true,
     .offsets = true,
     .options = {.mode = LS_POOL_SUM},
     .says = "rank 0: ids of 2 dimensions hold a bag in each row, and take no offsets"},
    {.id = -2,
     .bag = true,
     .options = {.mode = LS_POOL_SUM, .include_last_offset = true},
     .says = "include_last_offset needs offsets"},
    {.id = -2,
     .bag = true,
     .flat = true,
     .offsets = true,
     .options = {.mode = LS_POOL_SUM, .include_last_offset = true},
     .says =
         "rank 0: with include_last_offset the last offset must be the number of ids, 24, not 20"},
};

// Every refusal of the original, with lockstep's message and the rank; nothing is created.
Test(functional, refusals) {
    static const int64_t offsets[BAGS] = {0, 7, 7, 20};
    fixture f;
    open_ranks(&f);
    for (size_t c = 0; c < sizeof refusals / sizeof *refusals; c++) {
        const refusal *r = &refusals[c];
        fill();
        ids_of[2][1] = r->id == -2 ? ids_of[2][1] : r->id;
        ls_placements placements;
        cr_assert(ls_placements_parse(&placements, r->placement != NULL ? r->placement : "S(0)") ==
                  LS_OK);
        ls_local_tensor *weight = NULL, *out = NULL;
        cr_assert(ls_local_tensor_distribute(&weight, f.world, full, &LS_SHAPE(ROWS, COLUMNS),
                                             LS_F32, &placements) == LS_OK);
        ls_shape flat = r->flat ? LS_SHAPE(BAGS * EACH) : LS_SHAPE(BAGS, EACH);
        ls_local_tensor *ids = each(&f, r->float_ids ? LS_F32 : LS_I64, flat, ids_of,
                                    sizeof *ids_of, false),
                        *at = each(&f, LS_I64, LS_SHAPE(BAGS), offsets, 0, false);
        ls_functional_options options = r->options;
        options.offsets = r->offsets ? at : NULL;
        int status = r->bag ? ls_tensor_embedding_bag(&out, ids, weight, &options, f.axis)
                            : ls_tensor_embedding(&out, ids, weight, &options, f.axis);
        cr_expect(status != LS_OK && out == NULL, "%s", r->says);
        const char *said = strchr(ls_error_last()->text, ' ') + 1;
        cr_expect_str_eq(said, r->says);
        ls_local_tensor *const made[] = {weight, ids, at};
        for (int i = 0; i < 3; i++) {
            ls_local_tensor_free(made[i]);
        }
    }
    close_ranks(&f);
}
