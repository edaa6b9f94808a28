// Functional embedding_bag: bags of all ranks pooled on the shard, or rows exchanged and pooled by
// the requesting rank.
#include "embedding/functional_internal.h"

#include <math.h>

#include "kernels/kernels.h"

// The bags of one rank, its own or those of all: ids as rows of the table at hand, `padding` those
// that do not count in it.
typedef struct bags {
    int64_t *ids, *offsets;  // [n], [count + 1]
    const float *weights;    // [n] or NULL
    size_t n, count;
    int64_t padding;
} bags;

// ---- Lengths ------------------------------------------------------------------------------------
static size_t bag_count(const ls_functional *f, int i) {
    const ls_shard *offsets =
        f->options->offsets != NULL ? ls_functional__shard(f, f->options->offsets, i) : NULL;
    if (offsets == NULL) {
        return (size_t)ls_functional__shard(f, f->ids, i)->block.size.dim[0];
    }
    return offsets->count - (f->options->include_last_offset ? 1 : 0);
}

// How many ids each bag of each rank has, as a tensor: [bags].
static int make_lengths(ls_local_tensor **out, const ls_functional *f) {
    ls_shape *shapes = ls_functional__need(f, (size_t)f->held, sizeof *shapes);
    LS_TRY_MEMORY(shapes != NULL);
    for (int i = 0; i < f->held; i++) {
        shapes[i] = LS_SHAPE((int64_t)bag_count(f, i));
    }
    LS_TRY(ls_local_tensor_from_shards(out, f->world, LS_I64, NULL, f->held, shapes, NULL));
    for (int i = 0; i < f->held; i++) {
        const ls_shard *ids = ls_functional__shard(f, f->ids, i);
        int64_t *length = ls_functional__shard(f, *out, i)->data;
        size_t count = bag_count(f, i);
        const int64_t *offset = f->options->offsets != NULL
                                    ? ls_functional__shard(f, f->options->offsets, i)->data
                                    : NULL;
        for (size_t b = 0; b < count; b++) {
            int64_t end = 0;
            if (offset != NULL) {
                end = b + 1 < count ? offset[b + 1] : (int64_t)ids->count;
            }
            length[b] = offset == NULL ? ids->block.size.dim[1] : end - offset[b];
        }
    }
    return LS_OK;
}

// ---- Bags of one rank ---------------------------------------------------------------------------
// Ids, lengths and weights (NULL) as they are; ids outside [start, start + rows) and padding do not
// count.
static int make_bags(bags *out, const ls_functional *f, const ls_shard *ids,
                     const ls_shard *lengths, const ls_shard *weights, int64_t start,
                     int64_t rows) {
    size_t bad = 0;
    *out = (bags){.n = ids->count,
                  .count = lengths->count,
                  .padding = rows,
                  .ids = ls_functional__need(f, ids->count, sizeof(int64_t)),
                  .offsets = ls_functional__need(f, lengths->count + 1, sizeof(int64_t)),
                  .weights = weights != NULL ? weights->data : NULL};
    LS_TRY_MEMORY(out->ids != NULL && out->offsets != NULL);
    LS_TRY(ls_kernel_offsets(out->offsets, lengths->data, lengths->count, &bad));
    if (out->offsets[out->count] != (int64_t)out->n) {
        return LS_FAIL(LS_ERR_MISMATCH, "the bags of all ranks have %lld ids, and %zu came",
                       (long long)out->offsets[out->count], out->n);
    }
    for (size_t k = 0; k < out->n; k++) {
        int64_t id = ((const int64_t *)ids->data)[k];
        bool counts = !f->options->has_padding_id || id != f->options->padding_id;
        bool here = id >= start && id - start < rows;
        out->ids[k] = counts && here ? id - start : rows;
    }
    return LS_OK;
}

// The rank's own bags, of the whole table.
static int own_bags(bags *out, const ls_functional *f, const ls_local_tensor *lengths, int i) {
    return make_bags(
        out, f, ls_functional__shard(f, f->ids, i), ls_functional__shard(f, lengths, i),
        f->options->weights != NULL ? ls_functional__shard(f, f->options->weights, i) : NULL, 0,
        f->rows);
}

static int new_result(ls_local_tensor **out, const ls_functional *f, const ls_local_tensor *lengths,
                      bool columns_of_shard) {
    ls_shape *shapes = ls_functional__need(f, (size_t)f->held, sizeof *shapes);
    LS_TRY_MEMORY(shapes != NULL);
    for (int i = 0; i < f->held; i++) {
        int64_t columns = columns_of_shard
                              ? ls_functional__shard(f, f->weight, i)->block.size.dim[1]
                              : f->columns;
        shapes[i] = LS_SHAPE((int64_t)ls_functional__shard(f, lengths, i)->count, columns);
    }
    return ls_local_tensor_from_shards(out, f->world, ls_local_tensor_dtype(f->weight), NULL,
                                       f->held, shapes, NULL);
}

static void pool(const ls_shard *out, const ls_functional *f, const bags *b, const void *table,
                 int64_t rows, ls_pooling pooling) {
    size_t columns = (size_t)out->block.size.dim[1];
    if (out->count != 0) {
        ls_kernel_pooled_lookup(
            out->data, columns, table,
            &(const ls_table_shape){ls_local_tensor_dtype(f->weight), rows, columns},
            &(const ls_bags){b->ids, b->offsets, b->weights, b->padding, pooling, b->count});
    }
}

static void fill_empty(const ls_shard *out, const ls_functional *f, const bags *b, double value) {
    size_t columns = (size_t)out->block.size.dim[1];
    if (out->count != 0) {
        ls_kernel_fill_empty_bags(
            out->data, columns, ls_local_tensor_dtype(f->weight), value, columns,
            &(const ls_bags){
                .ids = b->ids, .offsets = b->offsets, .padding_id = b->padding, .count = b->count});
    }
}

// ---- Masked, and by columns ---------------------------------------------------------------------
typedef struct seen {
    const ls_local_tensor *ids, *lengths, *weights;  // of all ranks; weights NULL: none
    ls_local_tensor *own_ids, *own_lengths, *own_weights;
} seen;

static int gather(seen *s, const ls_functional *f, const ls_local_tensor *lengths) {
    *s = (seen){0};
    LS_TRY(ls_functional__gather(&s->ids, &s->own_ids, f, f->ids));
    LS_TRY(ls_functional__gather(&s->lengths, &s->own_lengths, f, lengths));
    return f->options->weights != NULL
               ? ls_functional__gather(&s->weights, &s->own_weights, f, f->options->weights)
               : LS_OK;
}

// Bags of all ranks, pooled on each rank's shard.
static int pool_all(ls_local_tensor **out, const ls_functional *f, const seen *s) {
    ls_pooling mode = f->options->mode;
    LS_TRY(new_result(out, f, s->lengths, true));
    for (int i = 0; i < f->held; i++) {
        const ls_shard *table = ls_functional__shard(f, f->weight, i);
        const ls_shard *to = ls_functional__shard(f, *out, i);
        bags b;
        LS_TRY(make_bags(&b, f, ls_functional__shard(f, s->ids, i),
                         ls_functional__shard(f, s->lengths, i),
                         s->weights != NULL ? ls_functional__shard(f, s->weights, i) : NULL,
                         table->block.offset.dim[0], table->block.size.dim[0]));
        bool divide_later = f->dim == 0 && mode == LS_POOL_MEAN;
        pool(to, f, &b, table->data, table->block.size.dim[0], divide_later ? LS_POOL_SUM : mode);
        if (f->dim == 0 && mode == LS_POOL_MAX) {
            fill_empty(to, f, &b, -(double)INFINITY);
        }
    }
    return LS_OK;
}

// Computations that need the whole bag: means of sums, and bags in which nothing counted.
static int finish(ls_local_tensor *out, const ls_functional *f, const ls_local_tensor *lengths) {
    for (int i = 0; i < f->held && f->dim == 0; i++) {
        const ls_shard *to = ls_functional__shard(f, out, i);
        size_t columns = (size_t)f->columns;
        bags own;
        LS_TRY(own_bags(&own, f, lengths, i));
        if (f->options->mode == LS_POOL_MAX) {
            fill_empty(to, f, &own, 0);
        } else if (f->options->mode == LS_POOL_MEAN && to->count != 0) {
            ls_kernel_divide_bags(to->data, columns, ls_local_tensor_dtype(f->weight), columns, 0,
                                  &(const ls_bags){.ids = own.ids,
                                                   .offsets = own.offsets,
                                                   .weights = NULL,
                                                   .padding_id = own.padding,
                                                   .count = own.count});
        }
    }
    return LS_OK;
}

static int masked(ls_local_tensor **out, ls_functional *f, const ls_local_tensor *lengths) {
    seen s;
    ls_local_tensor *made = NULL;
    ls_op op = f->options->mode == LS_POOL_MAX ? LS_MAX : LS_SUM;
    int status = gather(&s, f, lengths);
    status = status == LS_OK ? ls_functional__renormalise(f, s.ids) : status;
    status = status == LS_OK ? pool_all(&made, f, &s) : status;
    status = status == LS_OK ? ls_functional__combine(out, f, made, lengths, op) : status;
    status = status == LS_OK ? finish(*out, f, lengths) : status;
    ls_local_tensor_free(s.own_ids);
    ls_local_tensor_free(s.own_lengths);
    ls_local_tensor_free(s.own_weights);
    ls_local_tensor_free(made);
    return status;
}

// ---- Exchanged ----------------------------------------------------------------------------------
static int exchanged(ls_local_tensor **out, ls_functional *f, const ls_local_tensor *lengths) {
    ls_local_tensor *rows = NULL;
    int status = ls_functional__exchange(&rows, f);
    status = status == LS_OK ? new_result(out, f, lengths, false) : status;
    for (int i = 0; i < f->held && status == LS_OK; i++) {
        bags b;
        status = own_bags(&b, f, lengths, i);
        // The rows came one for each id: the table at hand.
        for (size_t k = 0; status == LS_OK && k < b.n; k++) {
            b.ids[k] = b.ids[k] == b.padding ? (int64_t)b.n : (int64_t)k;
        }
        if (status == LS_OK) {
            b.padding = (int64_t)b.n;
            pool(ls_functional__shard(f, *out, i), f, &b, ls_functional__shard(f, rows, i)->data,
                 (int64_t)b.n, f->options->mode);
        }
    }
    ls_local_tensor_free(rows);
    return status;
}

// The result has the placement of the ids, if they have one and a bag in each row, or are whole.
static int place(ls_local_tensor *out, const ls_functional *f) {
    const ls_placements *placements = ls_local_tensor_placements(f->ids);
    if (placements == NULL || (f->options->offsets != NULL && !f->replicated)) {
        return LS_OK;
    }
    int64_t count = f->options->offsets != NULL ? (int64_t)bag_count(f, 0)
                                                : ls_local_tensor_shape(f->ids)->dim[0];
    return ls_local_tensor_place(out, &LS_SHAPE(count, f->columns), placements);
}

int ls_tensor_embedding_bag(ls_local_tensor **out, const ls_local_tensor *ids,
                            ls_local_tensor *weight, const ls_functional_options *options,
                            const ls_axis *axis) {
    LS_ASSERT(out != NULL && ids != NULL && weight != NULL && options != NULL && axis != NULL);
    ls_functional_options own;
    ls_functional f = {.options = &own, .axis = axis, .ids = ids, .weight = weight};
    ls_local_tensor *lengths = NULL;
    *out = NULL;
    LS_TRY(ls_options_take(&own, sizeof own, options));
    if (ls_functional__check(&f, true) != LS_OK || ls_arena_create(&f.arena) != LS_OK) {
        return ls_error_wrap("embedding_bag");
    }
    bool by_exchange = f.dim == 0 && own.way == LS_ROWS_EXCHANGED;
    int status = make_lengths(&lengths, &f);
    if (status == LS_OK) {
        status = by_exchange ? exchanged(out, &f, lengths) : masked(out, &f, lengths);
    }
    status = status == LS_OK ? place(*out, &f) : status;
    ls_local_tensor_free(lengths);
    ls_arena_free(f.arena);
    if (status != LS_OK) {
        ls_local_tensor_free(*out);
        *out = NULL;
        return ls_error_wrap("embedding_bag");
    }
    return LS_OK;
}
