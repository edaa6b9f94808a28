// Running folds over arrays: the arithmetic of a hop, block by block so that it stays in cache.
#include <math.h>
#include <string.h>

#include "orders/internal.h"
#include "kernels/device.h"

#define BLOCK_ELEMENTS    4096
#define DEVICE_ELEMENTS   ((size_t)1 << 22)  // a block of a device that is not the host
#define WORKSPACE_BYTES   ((size_t)1 << 20)
#define LANE_PERIOD_BYTES 960  // of the fused lanes: half a warp's slice

bool ls_fold__order_matters(const ls_reduction *reduction) {
    ls_op op = reduction->op;
    return reduction->in_count > 1 && ls_dtype_is_float(reduction->dtype) &&
           (op == LS_SUM || op == LS_PROD || op == LS_AVG || op == LS_PREMUL_SUM);
}

// Under LL128 a thread multiplies its even 64-bit word always, its odd one only where the word is
// not the line's flag, and the compiler fuses only what is unconditional. `byte`: from the start of
// the chunk.
static bool lane_fused(size_t byte) {
    // Two trips of a warp over its slice: 32 threads of 16 bytes, then the 28 without a flag. Every
    // eighth thread of the first trip moves its odd word to where the second trip's even one would
    // be, so both of its words are multiplied unconditionally.
    size_t unit = byte % LANE_PERIOD_BYTES / 16;
    bool flag_thread = unit < 32 && unit % 8 == 7;
    return flag_thread || byte % 16 < 8;
}

static ls_device *device_of(const ls_reduction *reduction) {
    return reduction->device != NULL ? reduction->device : ls_device_host();
}

int ls_fold__terms(ls_fold_terms *out, const ls_reduction *reduction, bool accumulate_f32) {
    *out = (ls_fold_terms){.reduction = reduction, .accumulate_f32 = accumulate_f32};
    if (reduction->op != LS_AVG && reduction->op != LS_PREMUL_SUM) {
        return LS_OK;
    }
    size_t ranks = (size_t)reduction->in_count;
    size_t bytes = ls_dtype_bytes(reduction->dtype);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, ranks, bytes));
    out->factors = memory;
    // NCCL computes 1/ranks in double and converts it by way of float, except for f64.
    double reciprocal = 1.0 / (double)ranks;
    if (reduction->dtype != LS_F64) {
        reciprocal = (double)(float)reciprocal;
    }
    for (size_t k = 0; k < ranks; k++) {
        double factor = reduction->op == LS_AVG ? reciprocal : reduction->premul[k];
        ls_element_from_f64(out->factors + k * bytes, reduction->dtype, factor);
    }
    return LS_OK;
}

void ls_fold__terms_free(ls_fold_terms *terms) {
    const ls_reduction *r = terms->reduction;
    ls_free(terms->factors, (size_t)r->in_count, ls_dtype_bytes(r->dtype));
    ls_device *device = device_of(r);
    device->ops->free(device, terms->workspace, terms->workspace_bytes);
    terms->factors = NULL;
    terms->workspace = NULL;
    terms->workspace_bytes = 0;
}

// One block of a run.
typedef struct block {
    const ls_fold_terms *terms;
    ls_device *device;
    ls_dtype dtype;  // of the inputs
    ls_dtype work;   // of partial results
    size_t bytes;    // of an input element
    ls_op op;        // sum or prod
    ls_fma fma;
    size_t origin;  // elements
    size_t first;
    size_t length;
    size_t stride;         // bytes per stack entry
    unsigned char *stack;  // [depth] entries, then two for scratch
    unsigned char *scratch;
    unsigned char lanes[LANE_PERIOD_BYTES];  // 0xff where LL128 fuses
} block;

static const void *input_of(const block *b, int rank) {
    return (const unsigned char *)b->terms->reduction->in[rank] + b->first * b->bytes;
}

static const void *factor_of(const block *b, int rank) {
    return b->terms->factors + (size_t)rank * b->bytes;
}

// out = the rank's term, as it enters the first add.
static int load(const block *b, unsigned char *out, int rank) {
    const ls_device_ops *ops = b->device->ops;
    if (b->terms->factors != NULL) {
        return ops->scale(b->device, out, input_of(b, rank), factor_of(b, rank), b->dtype,
                          b->length);
    }
    if (b->work != b->dtype) {
        return ops->convert(b->device, out, b->work, input_of(b, rank), b->dtype, b->length);
    }
    return ops->copy(b->device, out, input_of(b, rank), b->length * b->bytes);
}

static void fill_lanes(unsigned char *lanes) {
    for (size_t byte = 0; byte < LANE_PERIOD_BYTES; byte++) {
        lanes[byte] = lane_fused(byte) ? 0xff : 0;
    }
}

static int own(const block *b, unsigned char *top, int rank) {
    const ls_device_ops *ops = b->device->ops;
    if (b->terms->factors == NULL && b->work == b->dtype) {
        return ops->accumulate(b->device, top, input_of(b, rank), b->dtype, b->op, b->length);
    }
    unsigned char *plain = b->scratch;
    if (b->fma == LS_FMA_ALWAYS) {
        return ops->accumulate_fma(b->device, top, input_of(b, rank), factor_of(b, rank), b->dtype,
                                   b->length);
    }
    LS_TRY(load(b, plain, rank));
    if (b->fma == LS_FMA_NEVER) {
        return ops->accumulate(b->device, top, plain, b->work, b->op, b->length);
    }
    LS_TRY(ops->accumulate(b->device, plain, top, b->work, b->op, b->length));
    LS_TRY(ops->accumulate_fma(b->device, top, input_of(b, rank), factor_of(b, rank), b->dtype,
                               b->length));
    // top keeps its fused elements and takes the others from `plain`.
    return ops->select_bytes(b->device, top, plain, b->lanes, LANE_PERIOD_BYTES,
                             (b->first - b->origin) * b->bytes, b->length * b->bytes);
}

// Terms that are added one after another to the value at `top` (or start a partial result there).
typedef struct segment {
    const void *in[32];
    size_t count;
} segment;

static int flush(const block *b, unsigned char *top, segment *s) {
    if (s->count == 0) {
        return LS_OK;
    }
    size_t count = s->count;
    s->count = 0;
    return b->device->ops->reduce(b->device, top, s->in, count, b->dtype, b->op, NULL, b->length);
}

static int append(const block *b, unsigned char *top, segment *s, const void *term) {
    if (s->count == sizeof s->in / sizeof *s->in) {
        LS_TRY(flush(b, top, s));
    }
    if (s->count == 0) {
        s->in[s->count++] = top;
    }
    s->in[s->count++] = term;
    return LS_OK;
}

// Without products and in the inputs' own type: whole stretches of adds at once. The last one
// writes to `out`, which may be one of the inputs: everything else has been read by then.
static int fold_block_plain(const block *b, const ls_fold *fold, unsigned char *out) {
    unsigned char *top = b->stack - b->stride;
    segment s = {.count = 0};
    for (int i = 0; i < fold->step_count; i++) {
        const ls_fold_step *step = &fold->steps[i];
        bool leaf = i + 1 < fold->step_count && step[1].op == LS_FOLD_JOIN;
        if (step->op == LS_FOLD_OWN) {
            LS_TRY(append(b, top, &s, input_of(b, step->rank)));
        } else if (step->op == LS_FOLD_LOAD && leaf) {
            LS_TRY(append(b, top, &s, input_of(b, step->rank)));  // a child without children
            i++;
        } else if (step->op == LS_FOLD_LOAD) {
            LS_TRY(flush(b, top, &s));
            top += b->stride;
            s.in[s.count++] = input_of(b, step->rank);
        } else {
            LS_TRY(flush(b, top, &s));
            top -= b->stride;
            LS_TRY(append(b, top, &s, top + b->stride));
        }
    }
    LS_ASSERT(top == b->stack && s.count > 0);
    return flush(b, out, &s);
}

static int fold_block(const block *b, const ls_fold *fold) {
    unsigned char *top = b->stack - b->stride;
    for (int i = 0; i < fold->step_count; i++) {
        const ls_fold_step *step = &fold->steps[i];
        switch (step->op) {
        case LS_FOLD_LOAD:
            top += b->stride;
            LS_TRY(load(b, top, step->rank));
            break;
        case LS_FOLD_OWN:
            LS_TRY(own(b, top, step->rank));
            break;
        case LS_FOLD_JOIN:
            LS_TRY(b->device->ops->accumulate(b->device, top - b->stride, top, b->work, b->op,
                                              b->length));
            top -= b->stride;
            break;
        }
    }
    LS_ASSERT(top == b->stack);
    return LS_OK;
}

// A left fold without products is the kernel's own, on the inputs in the fold's order.
static int run_linear(void *out, const ls_reduction *reduction, const ls_fold *fold, size_t first,
                      size_t length) {
    size_t ranks = (size_t)reduction->in_count;
    size_t offset = first * ls_dtype_bytes(reduction->dtype);
    const void *few[64];
    const void **in = few;
    void *memory = NULL;
    if (ranks > sizeof few / sizeof *few) {
        LS_TRY(ls_alloc(&memory, ranks, sizeof(void *)));
        in = memory;
    }
    for (size_t k = 0; k < ranks; k++) {
        int rank = fold == NULL ? (int)k : fold->steps[k].rank;
        in[k] = (const unsigned char *)reduction->in[rank] + offset;
    }
    ls_device *device = device_of(reduction);
    int status = device->ops->reduce(device, out, in, ranks, reduction->dtype, reduction->op,
                                     fold == NULL ? reduction->premul : NULL, length);
    ls_free(memory, ranks, sizeof(void *));
    return status;
}

// Room for the stack of partial results of a block of *step elements.
static int make_workspace(size_t *step, block *b, ls_fold_terms *terms, const ls_fold *fold,
                          size_t length) {
    size_t work_bytes = ls_dtype_bytes(b->work);
    size_t entries = (size_t)fold->depth + 1;
    if (b->device->ops->is_host) {
        *step = WORKSPACE_BYTES / work_bytes / entries;
        if (*step > BLOCK_ELEMENTS) {
            *step = BLOCK_ELEMENTS;
        } else {
            *step = *step < 64 ? 64 : *step;
        }
    } else {
        *step = length > DEVICE_ELEMENTS ? DEVICE_ELEMENTS : length;
    }
    // Apart from a multiple of the page, so that entries and inputs do not share cache sets.
    b->stride = *step * work_bytes + 1088;
    size_t bytes = 0;
    LS_TRY(ls_size_mul(&bytes, entries, b->stride));
    if (terms->workspace_bytes < bytes) {
        b->device->ops->free(b->device, terms->workspace, terms->workspace_bytes);
        terms->workspace = NULL;
        terms->workspace_bytes = 0;
        LS_TRY(b->device->ops->alloc(b->device, &terms->workspace, bytes));
        terms->workspace_bytes = bytes;
    }
    b->stack = terms->workspace;
    b->scratch = b->stack + (entries - 1) * b->stride;
    return LS_OK;
}

int ls_fold__run(void *out, ls_fold_terms *terms, const ls_fold *fold, ls_fma fma, size_t origin,
                 size_t first, size_t length) {
    const ls_reduction *reduction = terms->reduction;
    if (fold == NULL || !ls_fold__order_matters(reduction)) {
        return run_linear(out, reduction, NULL, first, length);
    }
    LS_ASSERT(fold->ranks == reduction->in_count && first >= origin);
    bool wide = terms->accumulate_f32 && ls_dtype_bytes(reduction->dtype) < sizeof(float);
    if (fold->linear && terms->factors == NULL && !wide) {
        return run_linear(out, reduction, fold, first, length);
    }
    block b = {.terms = terms, .dtype = reduction->dtype, .work = reduction->dtype, .fma = fma};
    b.device = device_of(reduction);
    b.bytes = ls_dtype_bytes(b.dtype);
    b.op = reduction->op == LS_PROD ? LS_PROD : LS_SUM;
    b.origin = origin;
    if (wide) {
        LS_ASSERT(terms->factors == NULL);
        b.work = LS_F32;
    }
    if (b.bytes == 1) {
        b.fma = LS_FMA_NEVER;  // products of f8 are rounded to f8
    }
    if (b.fma == LS_FMA_LANES) {
        fill_lanes(b.lanes);
    }
    size_t step = 0;
    LS_TRY(make_workspace(&step, &b, terms, fold, length));
    for (size_t done = 0; done < length; done += step) {
        b.first = first + done;
        b.length = length - done < step ? length - done : step;
        unsigned char *to = (unsigned char *)out + done * b.bytes;
        if (terms->factors == NULL && b.work == b.dtype) {
            LS_TRY(fold_block_plain(&b, fold, to));
            continue;
        }
        LS_TRY(fold_block(&b, fold));
        LS_TRY(b.work != b.dtype
                   ? b.device->ops->convert(b.device, to, b.dtype, b.stack, b.work, b.length)
                   : b.device->ops->copy(b.device, to, b.stack, b.length * b.bytes));
    }
    return LS_OK;
}
