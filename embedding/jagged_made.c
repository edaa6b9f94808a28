// Conversions of jagged inputs: padded arrays, inputs of some of their features, and text.
#include "embedding/jagged_internal.h"

#include <inttypes.h>
#include <string.h>

// Bags one after another, each cut or filled up to `width`: elements of `bytes`.
static void pad(void *out, const ls_jagged *jagged, const void *values, size_t bytes, int64_t width,
                const void *padding) {
    char *to = out;
    for (int64_t b = 0; b < jagged->batch; b++) {
        const char *from =
            (const char *)values + (size_t)(jagged->offsets[b] - jagged->offsets[0]) * bytes;
        for (int64_t i = 0; i < width; i++, to += bytes) {
            memcpy(to, i < jagged->lengths[b] ? from + (size_t)i * bytes : padding, bytes);
        }
    }
}

int ls_jagged_ids_to_padded(int64_t *out, const ls_jagged *jagged, int64_t width, int64_t padding) {
    LS_ASSERT(jagged);
    if (width < 0) {
        return LS_FAIL(LS_ERR_INVALID, "bags cannot be padded to %lld ids", (long long)width);
    }
    pad(out, jagged, jagged->ids, sizeof *out, width, &padding);
    return LS_OK;
}

int ls_jagged_weights_to_padded(float *out, const ls_jagged *jagged, int64_t width, float padding) {
    LS_ASSERT(jagged);
    if (width < 0 || !jagged->weights) {
        return LS_FAIL(LS_ERR_INVALID, "%s",
                       width < 0 ? "bags cannot be padded to fewer than 0 weights"
                                 : "the input has no weights to pad");
    }
    pad(out, jagged, jagged->weights, sizeof *out, width, &padding);
    return LS_OK;
}

// A feature of some input.
typedef struct piece {
    const ls_keyed_jagged *of;
    int key;
} piece;

static void copy_pieces(keyed_jagged_owner *owner, const piece *pieces, int count) {
    int64_t at = 0;
    size_t bag = 0;
    for (int p = 0; p < count; p++) {
        ls_jagged from = ls_keyed_jagged_feature(pieces[p].of, pieces[p].key);
        int64_t ids = from.offsets[from.batch] - from.offsets[0];
        if (ids > 0) {
            memcpy(owner->values + at, from.ids, (size_t)ids * sizeof(int64_t));
        }
        if (ids > 0 && owner->weights) {
            memcpy(owner->weights + at, from.weights, (size_t)ids * sizeof(float));
        }
        for (int64_t b = 0; b < from.batch; b++, bag++) {
            owner->lengths[bag] = from.lengths[b];
            owner->offsets[bag] = at + from.offsets[b] - from.offsets[0];
        }
        if (from.inverse_indices && from.samples > 0) {
            memcpy(owner->inverse_indices + p * from.samples, from.inverse_indices,
                   (size_t)from.samples * sizeof(int64_t));
        }
        at += ids;
    }
    owner->offsets[owner->bag_count] = at;
}

// An input of the given features, which have the batch, rank and weights of `like`.
static int assemble(ls_keyed_jagged **out, const ls_keyed_jagged *like, const piece *pieces,
                    int count) {
    const char **keys;
    int64_t total = 0, *strides = NULL;
    LS_TRY(ls_alloc((void **)&keys, (size_t)count, sizeof(*keys)));
    int status = ls_alloc((void **)&strides, (size_t)count + 1, sizeof(*strides));
    for (int p = 0; p < count && !status; p++) {
        const ls_keyed_jagged *of = pieces[p].of;
        const int64_t *start = of->starts + pieces[p].key;
        keys[p] = of->keys[pieces[p].key];
        strides[p] = start[1] - start[0];
        total += of->offsets[start[1]] - of->offsets[start[0]];
    }
    keyed_jagged_owner *owner = NULL;
    if (!status) {
        status = ls_keyed_jagged__owner_create(&owner, like->rank, keys, count, like->batch, total,
                                               like->weights != NULL,
                                               like->inverse_indices ? strides : NULL);
    }
    if (!status) {
        copy_pieces(owner, pieces, count);
        *out = &owner->jagged;
    }
    ls_free(strides, (size_t)count + 1, sizeof(*strides));
    ls_free(keys, (size_t)count, sizeof(*keys));
    return status;
}

int ls_keyed_jagged_permute(ls_keyed_jagged **out, const ls_keyed_jagged *jagged, const int *order,
                            int order_count) {
    LS_ASSERT(out && jagged);
    *out = NULL;
    if (order_count < 0 || order_count > jagged->key_count) {
        return LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                            "input of rank %d: %d features of %d are wanted", jagged->rank,
                            order_count, jagged->key_count);
    }
    piece *pieces;
    LS_TRY(ls_alloc((void **)&pieces, (size_t)order_count, sizeof(*pieces)));
    int status = LS_OK;
    for (int i = 0; i < order_count && !status; i++) {
        if (order[i] < 0 || order[i] >= jagged->key_count) {
            status = LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                                  "input of rank %d: feature number %d is wanted of %d",
                                  jagged->rank, order[i], jagged->key_count);
        } else {
            pieces[i] = (piece){jagged, order[i]};
        }
    }
    status = status == LS_OK ? assemble(out, jagged, pieces, order_count) : status;
    ls_free(pieces, (size_t)order_count, sizeof(*pieces));
    return status;
}

int ls_keyed_jagged_split(ls_keyed_jagged **outs, const ls_keyed_jagged *jagged, const int *sizes,
                          int count) {
    LS_ASSERT(jagged && (outs || count <= 0));
    int left = jagged->key_count;
    for (int i = 0; i < count; i++) {
        outs[i] = NULL;
        bool fits = sizes[i] >= 0 && left >= 0 && sizes[i] <= left;
        left = fits ? left - sizes[i] : -1;
    }
    if (left != 0) {
        return LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                            "input of rank %d: the sizes of %d parts do not add up to its %d "
                            "features",
                            jagged->rank, count, jagged->key_count);
    }
    int *order;
    LS_TRY(ls_alloc((void **)&order, (size_t)jagged->key_count, sizeof(*order)));
    for (int k = 0; k < jagged->key_count; k++) {
        order[k] = k;
    }
    int first = 0, status = LS_OK;
    for (int i = 0; i < count && !status; i++) {
        status = ls_keyed_jagged_permute(&outs[i], jagged, order + first, sizes[i]);
        first += sizes[i];
    }
    for (int i = 0; i < count && status; i++) {
        ls_keyed_jagged_free(outs[i]);
        outs[i] = NULL;
    }
    ls_free(order, (size_t)jagged->key_count, sizeof(*order));
    return status;
}

int ls_keyed_jagged_concat(ls_keyed_jagged **out, const ls_keyed_jagged *const *parts, int count) {
    LS_ASSERT(out);
    *out = NULL;
    if (count < 1) {
        return LS_FAIL(LS_ERR_INVALID, "no inputs to join");
    }
    size_t keys = 0;
    for (int i = 0; i < count; i++) {
        const ls_keyed_jagged *first = parts[0], *part = parts[i];
        if (part->rank != first->rank || part->batch != first->batch ||
            (part->weights == NULL) != (first->weights == NULL)) {
            return LS_FAIL_RANK(LS_ERR_INVALID, first->rank,
                                "inputs cannot be joined: the first has rank %d, batch %lld, %s "
                                "weights, number %d has rank %d, batch %lld, %s weights",
                                first->rank, (long long)first->batch,
                                first->weights ? "with" : "without", i, part->rank,
                                (long long)part->batch, part->weights ? "with" : "without");
        }
        if ((part->inverse_indices == NULL) != (first->inverse_indices == NULL)) {
            return LS_FAIL_RANK(LS_ERR_INVALID, first->rank,
                                "inputs cannot be joined: the first has %s, number %d has %s",
                                first->inverse_indices ? "a batch size per feature" : "one batch",
                                i,
                                part->inverse_indices ? "a batch size per feature" : "one batch");
        }
        keys += (size_t)part->key_count;
    }
    if (keys > LS_JAGGED_KEYS_MAX) {
        return LS_FAIL_RANK(LS_ERR_INVALID, parts[0]->rank,
                            "input of rank %d: %zu features: out of limits (at most %d)",
                            parts[0]->rank, keys, LS_JAGGED_KEYS_MAX);
    }
    piece *pieces;
    LS_TRY(ls_alloc((void **)&pieces, keys, sizeof(*pieces)));
    int at = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < parts[i]->key_count; k++) {
            pieces[at++] = (piece){parts[i], k};
        }
    }
    int status = assemble(out, parts[0], pieces, at);
    ls_free(pieces, keys, sizeof(*pieces));
    return status;
}

// ---- Text ---------------------------------------------------------------------------------------
static void print_bags(ls_text *text, const ls_jagged *of, int64_t ids_max) {
    int64_t shown = 0;
    for (int64_t b = 0; b < of->batch && shown <= ids_max; b++) {
        ls_text_puts(text, b > 0 ? " [" : "[");
        for (int64_t i = of->offsets[b] - of->offsets[0]; i < of->offsets[b + 1] - of->offsets[0];
             i++) {
            bool first = i == of->offsets[b] - of->offsets[0];
            if (shown++ == ids_max) {
                ls_text_puts(text, first ? "..." : " ...");
                break;
            }
            ls_text_printf(text, "%s%" PRId64, first ? "" : " ", of->ids[i]);
            if (of->weights) {
                ls_text_printf(text, "@%g", (double)of->weights[i]);
            }
        }
        ls_text_puts(text, "]");
    }
    for (int64_t s = 0; of->inverse_indices && s < of->samples; s++) {
        ls_text_printf(text, "%s%" PRId64, s > 0 ? " " : "; samples take bags ",
                       of->inverse_indices[s]);
    }
    ls_text_puts(text, "\n");
}

int ls_keyed_jagged_print(FILE *stream, const ls_keyed_jagged *jagged, int64_t ids_max) {
    LS_ASSERT(stream && jagged && ids_max >= 0);
    ls_text text = {0};
    ls_text_printf(&text, "rank %d, %" PRId64 " sample%s\n", jagged->rank, jagged->batch,
                   jagged->batch == 1 ? "" : "s");
    for (int k = 0; k < jagged->key_count; k++) {
        ls_jagged feature = ls_keyed_jagged_feature(jagged, k);
        ls_text_printf(&text, "  %s: ", jagged->keys[k]);
        print_bags(&text, &feature, ids_max);
    }
    int status = text.failed ? LS_FAIL(LS_ERR_MEMORY, "no memory to print an input") : LS_OK;
    if (!status && fwrite(ls_text_string(&text), 1, text.length, stream) != text.length) {
        status = LS_FAIL(LS_ERR_IO, "cannot write an input's text");
    }
    ls_text_free(&text);
    return status;
}
