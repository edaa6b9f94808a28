// Replaying one of NCCL's results: the order it was made under, and its class.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "kernels/kernels.h"
#include "orders/bound.h"
#include "runner/replay/replay_nccl_internal.h"

#define CHANNELS_MAX 32

// One entry at work.
typedef struct replay {
    const ls_nccl_entry *entry;
    const char *dir;
    size_t elements;
    void *actual;
    void *inputs;  // [world, elements]
    const void *in[LS_REPLAY_WORLD_MAX];
    ls_reduction reduction;
    ls_order_observation observation;
} replay;

// ---- The stated order ---------------------------------------------------------------------------
typedef struct fingerprint {
    uint64_t hash;
    int channels;
} fingerprint;

static int hash_run(void *arg, const ls_order_run *run) {
    fingerprint *f = arg;
    const uint64_t parts[] = {run->first, run->length, run->origin, (uint64_t)run->channel,
                              (uint64_t)(run->chunk + 1)};
    f->hash = ls_hash(f->hash, parts, sizeof parts);
    f->channels = run->channel + 1 > f->channels ? run->channel + 1 : f->channels;
    return LS_OK;
}

// How an order splits the entry's call; calls that split alike have the same bits.
static int partition_of(fingerprint *out, const ls_order *order, const replay *r) {
    *out = (fingerprint){LS_HASH_START, 0};
    const ls_nccl_entry *e = r->entry;
    ls_order_range range = {e->call, e->world, e->dtype, e->count, 0, 0, e->count};
    return ls_order_runs(order, &range, hash_run, out);
}

// A symmetric-memory kernel: its channels are its blocks, and always recorded.
static bool is_symmetric(const ls_nccl_entry *e) {
    return strcmp(e->algo, "symmetric") == 0;
}

static int order_with(ls_order **out, const ls_nccl_entry *e, int allowed) {
    char text[256];
    if (is_symmetric(e)) {
        (void)snprintf(text, sizeof text, "symmetric:kernel=%s,blocks=%d", e->proto,
                       e->channels > 0 ? e->channels : 1);
        return ls_order_parse(out, text);
    }
    int used = snprintf(text, sizeof text, "%s:proto=%s,nccl=%s", e->algo, e->proto, e->nccl);
    if (e->pinned) {
        (void)snprintf(text + used, sizeof text - (size_t)used, ",channels=1");
    } else if (allowed > 0) {
        (void)snprintf(text + used, sizeof text - (size_t)used, ",channels=%d,allowed=%d",
                       allowed > 24 ? allowed : 24, allowed);
    }
    return ls_order_parse(out, text);
}

// Numbers of allowed channels as ranges: "15..24".
static void name_fits(ls_text *out, const bool *fits) {
    for (int from = 1; from <= CHANNELS_MAX; from++) {
        if (!fits[from]) {
            continue;
        }
        int to = from;
        while (to < CHANNELS_MAX && fits[to + 1]) {
            to++;
        }
        ls_text_printf(out, out->length == 0 ? "%d" : ",%d", from);
        if (to > from) {
            ls_text_printf(out, "..%d", to);
        }
        from = to;
    }
}

// Looks for the numbers of channels under which the stated order has the observed bits. *out: such
// an order, or the first that uses the recorded number of channels, or the computed one.
static int search_channels(ls_order **out, bool *exact, ls_text *fits_text, const replay *r) {
    const ls_nccl_entry *e = r->entry;
    bool fits[CHANNELS_MAX + 1] = {false};
    fingerprint tried[CHANNELS_MAX + 1];
    size_t differing = 0;
    size_t first = 0;
    *exact = false;
    LS_TRY(order_with(out, e, 0));
    LS_TRY(ls_order_differing(&differing, &first, *out, &r->observation, 1));
    fingerprint computed;
    LS_TRY(partition_of(&computed, *out, r));
    bool used_as_recorded = e->channels == 0 || is_symmetric(e) || e->channels == computed.channels;
    *exact = differing == 0 && used_as_recorded;
    for (int allowed = 1; allowed <= CHANNELS_MAX && !e->pinned && !is_symmetric(e); allowed++) {
        ls_order *order = NULL;
        LS_TRY(order_with(&order, e, allowed));
        int status = partition_of(&tried[allowed], order, r);
        bool known = false;
        for (int before = 1; before < allowed && !known; before++) {
            if (tried[before].hash == tried[allowed].hash) {
                fits[allowed] = fits[before];
                known = true;
            }
        }
        bool plausible = e->channels == 0 || e->channels == tried[allowed].channels;
        if (status == LS_OK && !known && plausible) {
            status = ls_order_differing(&differing, &first, order, &r->observation, 1);
            fits[allowed] = status == LS_OK && differing == 0;
        }
        bool better = fits[allowed] ? !*exact : plausible && !used_as_recorded;
        if (status == LS_OK && better) {
            ls_order_free(*out);
            *out = order;
            order = NULL;
            *exact = fits[allowed];
            used_as_recorded = true;
        }
        ls_order_free(order);
        LS_TRY(status);
    }
    name_fits(fits_text, fits);
    return LS_OK;
}

// ---- Classes ------------------------------------------------------------------------------------
static uint64_t ulps_between(ls_dtype dtype, const unsigned char *a, const unsigned char *b) {
    double x = ls_element_to_f64(a, dtype);
    double y = ls_element_to_f64(b, dtype);
    if (isnan(x) || isnan(y)) {
        return isnan(x) && isnan(y) ? 0 : UINT64_MAX;
    }
    size_t bytes = ls_dtype_bytes(dtype);
    uint64_t bits[2] = {0, 0};
    memcpy(&bits[0], a, bytes);
    memcpy(&bits[1], b, bytes);
    if (ls_dtype_is_float(dtype)) {
        // Signed magnitudes as numbers on a line.
        uint64_t sign = (uint64_t)1 << (bytes * 8 - 1);
        for (int i = 0; i < 2; i++) {
            uint64_t magnitude = bits[i] & ~sign;
            bits[i] = (bits[i] & sign) != 0 ? sign - magnitude : sign + magnitude;
        }
    }
    return bits[0] > bits[1] ? bits[0] - bits[1] : bits[1] - bits[0];
}

static size_t blocks_of(const replay *r) {
    return r->entry->call == LS_ORDER_REDUCE_SCATTER ? (size_t)r->entry->world : 1;
}

// The values, bounds and simulated bits of one block.
typedef struct judged {
    ls_bound_element *bounds;  // [count]
    unsigned char *simulated;  // [count] elements
} judged;

static int judge_block(judged *j, const replay *r, const ls_order *order, size_t block) {
    const ls_nccl_entry *e = r->entry;
    size_t offset = block * e->count * ls_dtype_bytes(e->dtype);
    const void *in[LS_REPLAY_WORLD_MAX];
    for (int k = 0; k < e->world; k++) {
        in[k] = (const unsigned char *)r->in[k] + offset;
    }
    ls_reduction part = r->reduction;
    part.in = in;
    LS_TRY(ls_bound_reduction(j->bounds, &part, 0, e->count));
    return e->call == LS_ORDER_REDUCE_SCATTER
               ? ls_order_reduce_scatter(order, j->simulated, &part, (int)block, 0, e->count)
               : ls_order_all_reduce(order, j->simulated, &part, 0, e->count);
}

static void describe_element(ls_nccl_verdict *v, const replay *r, const judged *j, size_t block,
                             size_t i, double ratio, const char *why) {
    const ls_nccl_entry *e = r->entry;
    size_t bytes = ls_dtype_bytes(e->dtype);
    const unsigned char *actual = (const unsigned char *)r->actual + (block * e->count + i) * bytes;
    const unsigned char *simulated = j->simulated + i * bytes;
    ls_text_printf(&v->detail, "element %zu", i);
    if (e->call == LS_ORDER_REDUCE_SCATTER) {
        ls_text_printf(&v->detail, " of rank %zu's block", block);
    }
    ls_text_printf(&v->detail,
                   ": real %.17g, simulated %.17g, exact %.17g (off by %.3g times the bound %.3g); "
                   "%s\n  terms:",
                   ls_element_to_f64(actual, e->dtype), ls_element_to_f64(simulated, e->dtype),
                   j->bounds[i].hi, ratio, j->bounds[i].bound, why);
    for (int k = 0; k < e->world; k++) {
        const unsigned char *term =
            (const unsigned char *)r->in[k] + (block * e->count + i) * bytes;
        ls_text_printf(&v->detail, " rank %d %.17g", k, ls_element_to_f64(term, e->dtype));
    }
}

// Compares under `order`, element by element: wrong, or within the bound.
static int judge(ls_nccl_verdict *v, const replay *r, const ls_order *order, bool order_proven) {
    const ls_nccl_entry *e = r->entry;
    size_t bytes = ls_dtype_bytes(e->dtype);
    void *bounds = NULL;
    void *simulated = NULL;
    int status = ls_alloc(&bounds, NULL, e->count, sizeof(ls_bound_element));
    if (status == LS_OK) {
        status = ls_alloc(&simulated, NULL, e->count, bytes);
    }
    judged j = {bounds, simulated};
    bool described = false;
    v->class_ = LS_CLASS_WITHIN_BOUND;
    for (size_t block = 0; status == LS_OK && block < blocks_of(r); block++) {
        status = judge_block(&j, r, order, block);
        for (size_t i = 0; status == LS_OK && i < e->count; i++) {
            const unsigned char *actual =
                (const unsigned char *)r->actual + (block * e->count + i) * bytes;
            uint64_t ulps = ulps_between(e->dtype, actual, j.simulated + i * bytes);
            if (ulps == 0 && memcmp(actual, j.simulated + i * bytes, bytes) == 0) {
                continue;
            }
            double ratio = ls_bound_ratio(&j.bounds[i], e->dtype, actual);
            v->differing++;
            v->max_ulps = ulps > v->max_ulps ? ulps : v->max_ulps;
            v->bound_ratio = ratio > v->bound_ratio ? ratio : v->bound_ratio;
            bool wrong = ratio > 1.0 || order_proven;
            if (wrong && v->class_ != LS_CLASS_WRONG) {
                v->class_ = LS_CLASS_WRONG;
                ls_text_free(&v->detail);
                v->detail = (ls_text){0};
                described = false;
            }
            if (!described) {
                described = true;
                describe_element(v, r, &j, block, i, ratio,
                                 ratio > 1.0    ? "no order of these terms gives it"
                                 : order_proven ? "all others have this order's bits, and no other "
                                                  "order of the chunk gives it"
                                                : "no known order gives these bits");
            }
        }
    }
    ls_free(NULL, bounds, e->count, sizeof(ls_bound_element));
    ls_free(NULL, simulated, e->count, bytes);
    return status;
}

static int classify(ls_nccl_verdict *v, const replay *r) {
    ls_order *stated = NULL;
    bool exact = false;
    ls_text fits = {0};
    int status = search_channels(&stated, &exact, &fits, r);
    if (status != LS_OK) {
        goto out;
    }
    if (fits.length > 0) {
        ls_text_printf(&v->name, ", allowed channels %s", ls_text_string(&fits));
    }
    ls_text_puts(&v->order, ls_order_text(stated));
    if (exact) {
        v->class_ = LS_CLASS_BIT_EXACT;
        goto out;
    }
    ls_order_explanation explanation;
    status = ls_order_explain(&explanation, stated, &r->observation, NULL);
    if (status != LS_OK) {
        goto out;
    }
    if (explanation.found) {
        v->class_ = LS_CLASS_REORDERED;
        ls_text_free(&v->order);
        v->order = (ls_text){0};
        ls_text_puts(&v->order, ls_order_text(explanation.order));
        ls_text_puts(&v->detail, explanation.text);
        size_t first = 0;
        status = ls_order_differing(&v->differing, &first, stated, &r->observation, SIZE_MAX);
    } else {
        const ls_order *closest = explanation.order != NULL ? explanation.order : stated;
        ls_text_free(&v->order);
        v->order = (ls_text){0};
        ls_text_puts(&v->order, ls_order_text(closest));
        status = judge(v, r, closest, explanation.proven);
    }
    ls_order_explanation_clear(&explanation);
out:
    ls_order_free(stated);
    ls_text_free(&fits);
    return status;
}

// ---- One entry ----------------------------------------------------------------------------------
static int prepare(replay *r) {
    const ls_nccl_entry *e = r->entry;
    size_t bytes = ls_dtype_bytes(e->dtype);
    LS_TRY(ls_size_mul(&r->elements, e->count, blocks_of(r)));
    // The file's size is checked before anything is allocated for the inputs.
    LS_TRY(ls_nccl_entry__result(&r->actual, e, r->elements, r->dir));
    LS_TRY(ls_alloc(&r->inputs, NULL, r->elements, (size_t)e->world * bytes));
    for (int k = 0; k < e->world; k++) {
        unsigned char *input = (unsigned char *)r->inputs + (size_t)k * r->elements * bytes;
        ls_nccl_entry__input(input, e, k, r->elements);
        r->in[k] = input;
    }
    r->reduction = (ls_reduction){.in = r->in,
                                  .in_count = e->world,
                                  .dtype = e->dtype,
                                  .op = e->op,
                                  .premul = e->op == LS_PREMUL_SUM ? e->factors : NULL,
                                  .count = e->count};
    r->observation = (ls_order_observation){e->call, &r->reduction, 0, r->actual};
    return LS_OK;
}

// *why: the order of the entry is not known; NULL: it is.
static int find_unsupported(const char **why, const ls_nccl_entry *e) {
    *why = e->unsupported;
    if (*why != NULL) {
        return LS_OK;
    }
    ls_order *order = NULL;
    int status = order_with(&order, e, 0);
    ls_order_free(order);
    if (status != LS_OK && status != LS_ERR_MEMORY) {
        ls_error_clear();
        *why = "an algorithm, protocol or NCCL version whose order is not known";
        return LS_OK;
    }
    return status;
}

static double seconds_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void ls_nccl_entry__replay(ls_nccl_verdict *v, const ls_nccl_entry *e, const char *dir) {
    double start = seconds_now();
    if (e->malformed != NULL) {
        v->class_ = LS_CLASS_ERROR;
        v->status = LS_ERR_FORMAT;
        ls_text_printf(&v->detail, "'%s/manifest.json': entry %zu (%s): %s", dir, e->index, e->file,
                       e->malformed);
        return;
    }
    const char *unsupported = NULL;
    int status = find_unsupported(&unsupported, e);
    if (unsupported != NULL) {
        v->skipped = true;
        ls_text_puts(&v->detail, unsupported);
        return;
    }
    ls_text_printf(&v->name, "%s %s of %zu %s, %s %s", e->op_name, ls_op_name(e->op), e->count,
                   ls_dtype_name(e->dtype), e->algo, e->proto);
    replay r = {.entry = e, .dir = dir};
    if (status == LS_OK) {
        status = prepare(&r);
    }
    if (status == LS_OK) {
        status = classify(v, &r);
    }
    if (status != LS_OK) {
        v->class_ = LS_CLASS_ERROR;
        v->status = status;
        ls_text_free(&v->detail);
        v->detail = (ls_text){0};
        ls_text_puts(&v->detail, ls_error_last()->text);
    }
    v->elements = r.elements;
    size_t bytes = ls_dtype_bytes(e->dtype);
    ls_free(NULL, r.actual, r.elements, bytes);
    ls_free(NULL, r.inputs, r.elements, (size_t)e->world * bytes);
    v->seconds = seconds_now() - start;
}
