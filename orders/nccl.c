// The channel, loop and chunk of each element in NCCL's ring and tree, by version. The numbers are
// facts of NCCL's host code (enqueue.cc: topoGetAlgoInfo, scheduleCollTasksToPlan,
// calcCollChunking) and device code (all_reduce.h, reduce_scatter.h, reduce.h); docs/orders.md has
// the explanation and the measurements.
#include <string.h>

#include "orders/internal.h"

#define KIB ((size_t)1024)

static const ls_nccl_version versions[] = {
    {
        .name = "2.28.9",
        .from = 22304,
        .to = 22809,
        .min_traffic_bytes = 16 * KIB,
        .traffic_round_bytes = 0,
        .grain_bytes = {16, 1920, 512},
        .ring_chunk_bytes = {32 * KIB, 576000, 2048 * KIB},
        .threads = {512, 640, 512},
        .thread_threshold_bytes = {8, 8, 64},
    },
    {
        .name = "2.30.7",
        .from = 22902,
        .to = 23203,
        .min_traffic_bytes = 32 * KIB,
        .traffic_round_bytes = 16,
        .grain_bytes = {16, 1920, 512},
        .ring_chunk_bytes = {32 * KIB, 576000, 2048 * KIB},
        .threads = {512, 640, 512},
        .thread_threshold_bytes = {8, 8, 64},
    },
};

const ls_nccl_version *ls_nccl__version_at(int index) {
    return index >= 0 && index < (int)(sizeof versions / sizeof *versions) ? &versions[index]
                                                                           : NULL;
}

const ls_nccl_version *ls_nccl__version(const char *name, size_t length) {
    int parts[3] = {0, 0, 0};
    int part = 0;
    for (size_t i = 0; i < length; i++) {
        bool digit = name[i] >= '0' && name[i] <= '9';
        if (name[i] == '.' && part < 2 && i > 0 && name[i - 1] != '.') {
            part++;
        } else if (digit && parts[part] < 10) {
            parts[part] = parts[part] * 10 + (name[i] - '0');
        } else {
            return NULL;
        }
    }
    if (part != 2 || name[length - 1] == '.') {
        return NULL;
    }
    int version = parts[0] * 10000 + parts[1] * 100 + parts[2];
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        if (version >= versions[i].from && version <= versions[i].to) {
            return &versions[i];
        }
    }
    return NULL;
}

static size_t divide_up(size_t a, size_t b) {
    return a / b + (a % b != 0);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// The channels that the tuner grants a call of `bytes` (the larger of what a rank sends and
// receives): as many as give every thread its threshold.
static int allowed_channels(const ls_order *order, int ranks, size_t bytes) {
    size_t threshold = order->nccl->thread_threshold_bytes[order->proto];
    if (order->kind == LS_ORDER_RING && order->proto == LS_PROTO_LL) {
        threshold *= (size_t)ranks;
    }
    size_t per_channel = threshold * order->nccl->threads[order->proto];
    size_t fit = bytes / per_channel;
    fit = fit < 1 ? 1 : fit;
    return (int)least(fit, (size_t)order->channels);
}

int ls_nccl__partition(ls_nccl_partition *out, const ls_order *order, ls_order_call call, int ranks,
                       size_t element_bytes, size_t count) {
    const ls_nccl_version *nccl = order->nccl;
    *out = (ls_nccl_partition){0};
    if (count == 0) {
        return LS_OK;
    }
    size_t per_byte = call == LS_ORDER_ALL_REDUCE ? 2 : 1;
    per_byte = call == LS_ORDER_REDUCE_SCATTER ? (size_t)ranks : per_byte;
    per_byte *= order->proto == LS_PROTO_LL ? 4 : 1;
    size_t bytes = 0;
    size_t traffic = 0;
    LS_TRY(ls_size_mul(&bytes, count, element_bytes));
    LS_TRY(ls_size_mul(&traffic, bytes, per_byte));
    size_t whole = call == LS_ORDER_REDUCE_SCATTER ? bytes * (size_t)ranks : bytes;
    int allowed = order->allowed != 0 ? order->allowed : allowed_channels(order, ranks, whole);
    allowed = allowed < order->channels ? allowed : order->channels;

    traffic = traffic < nccl->min_traffic_bytes ? nccl->min_traffic_bytes : traffic;
    size_t per_channel = traffic / (size_t)allowed;
    if (nccl->traffic_round_bytes != 0) {
        size_t round = nccl->traffic_round_bytes;
        per_channel = divide_up(per_channel, round) * round;
    } else if (per_channel < nccl->min_traffic_bytes) {
        per_channel = nccl->min_traffic_bytes;
    }
    // Elements move in cells of the least traffic a channel may have.
    size_t cell_bytes = divide_up(divide_up(nccl->min_traffic_bytes, per_byte), 16) * 16;
    size_t cell_elements = cell_bytes / element_bytes;
    size_t cells = divide_up(bytes, cell_bytes);
    size_t each = least(cells, divide_up(per_channel, cell_bytes * per_byte));
    size_t lo = order->channels == 1 ? cells : each;
    size_t mid_count = (cells - lo) / each;
    size_t hi = (cells - lo) % each;
    size_t used = 1 + mid_count + (hi != 0);
    if (used > (size_t)order->channels) {
        mid_count = (size_t)order->channels - 2;
        each = (cells - lo) / (mid_count + 1);
        hi = each + (cells - lo) % (mid_count + 1);
    }
    if (hi == 0 && mid_count != 0) {
        hi = each;
        mid_count--;
    }
    out->lo = lo * cell_elements;
    out->mid = mid_count != 0 ? each * cell_elements : 0;
    out->hi = hi * cell_elements;
    out->mid_count = (int)mid_count;
    *(out->hi != 0 ? &out->hi : &out->lo) -= cells * cell_elements - count;
    out->channel_count = 1 + out->mid_count + (hi != 0);
    LS_ASSERT(out->lo + out->mid * mid_count + out->hi == count);
    return LS_OK;
}

void ls_nccl__channel(size_t *first, size_t *length, const ls_nccl_partition *partition,
                      int channel) {
    LS_ASSERT(channel >= 0 && channel < partition->channel_count);
    if (channel == 0) {
        *first = 0;
        *length = partition->lo;
    } else if (channel <= partition->mid_count) {
        *first = partition->lo + (size_t)(channel - 1) * partition->mid;
        *length = partition->mid;
    } else {
        *first = partition->lo + (size_t)partition->mid_count * partition->mid;
        *length = partition->hi;
    }
}

ls_fma ls_nccl__fma(const ls_order *order, ls_dtype dtype) {
    if (order->fma_given) {
        return order->fma;
    }
    if (order->proto != LS_PROTO_LL128) {
        return LS_FMA_ALWAYS;
    }
    return dtype == LS_F32 || dtype == LS_F64 ? LS_FMA_LANES : LS_FMA_NEVER;
}

// ---- Runs ---------------------------------------------------------------------------------------
// Visits the part of a run in the range.
static int visit_cut(ls_order_run run, const ls_order_range *range, ls_order_visit visit,
                     void *arg) {
    size_t end = least(run.first + run.length, range->first + range->length);
    size_t first = run.first > range->first ? run.first : range->first;
    if (first >= end) {
        return LS_OK;
    }
    run.first = first;
    run.length = end - first;
    return visit(arg, &run);
}

static int check_folds(const ls_order *order, int ranks) {
    for (int i = 0; i < order->fold_count; i++) {
        if (order->folds[i]->ranks != ranks) {
            return LS_FAIL(LS_ERR_INVALID, "order \"%.200s\" is for %d ranks, the group has %d",
                           order->text, order->folds[i]->ranks, ranks);
        }
    }
    return LS_OK;
}

// The ring of a channel folded so that `last` of its positions comes last.
static void rotate(ls_fold *fold, const ls_order *order, int channel, int last) {
    for (int i = 0; i < fold->ranks; i++) {
        int position = (last + 1 + i) % fold->ranks;
        const ls_fold *ring =
            order->fold_count > 0 ? order->folds[channel % order->fold_count] : NULL;
        fold->steps[i].rank = ring != NULL ? ring->steps[position].rank : position;
    }
}

static int position_of(const ls_order *order, int channel, int rank) {
    if (order->fold_count == 0) {
        return rank;
    }
    const ls_fold *ring = order->folds[channel % order->fold_count];
    int position = 0;
    while (ring->steps[position].rank != rank) {
        position++;
    }
    return position;
}

// The chunks of one channel of an all_reduce: loops of `ranks` chunks, chunk c ends at position c.
static int channel_chunks(const ls_order *order, const ls_order_range *range, int channel,
                          size_t start, size_t length, ls_fold *fold, ls_order_visit visit,
                          void *arg) {
    size_t bytes = ls_dtype_bytes(range->dtype);
    size_t ranks = (size_t)range->ranks;
    size_t grain = order->nccl->grain_bytes[order->proto];
    size_t chunk_bytes =
        order->chunk_bytes != 0 ? order->chunk_bytes : order->nccl->ring_chunk_bytes[order->proto];
    size_t chunk = chunk_bytes / grain * (grain / bytes);
    size_t align = 16 / bytes;
    LS_ASSERT(chunk > 0);
    // chunk * ranks cannot overflow: chunks are below 2^31 bytes and ranks below 2^16.
    size_t loop_elements = chunk * ranks;
    size_t skip = range->first > start ? (range->first - start) / loop_elements : 0;
    size_t end = range->first + range->length;
    for (size_t loop = skip; loop * loop_elements < length; loop++) {
        size_t loop_start = loop * loop_elements;
        size_t rest = length - loop_start;
        if (start + loop_start >= end) {
            break;
        }
        size_t step =
            rest < loop_elements ? divide_up(divide_up(rest, ranks), align) * align : chunk;
        for (size_t c = 0; c < ranks && c * step < rest; c++) {
            size_t first = start + loop_start + c * step;
            ls_order_run run = {first, least(step, rest - c * step), first, channel, loop, (int)c,
                                fold};
            if (run.first + run.length <= range->first) {
                continue;
            }
            rotate(fold, order, channel, (int)c);
            LS_TRY(visit_cut(run, range, visit, arg));
        }
    }
    return LS_OK;
}

int ls_nccl__ring_runs(const ls_order *order, const ls_order_range *range, ls_order_visit visit,
                       void *arg) {
    if (order->kind == LS_ORDER_RING) {
        LS_TRY(check_folds(order, range->ranks));
    }
    ls_nccl_partition partition;
    LS_TRY(ls_nccl__partition(&partition, order, range->call, range->ranks,
                              ls_dtype_bytes(range->dtype), range->count));
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)range->ranks, sizeof(ls_fold_step)));
    ls_fold fold = {range->ranks, range->ranks, 1, true, memory};
    for (int i = 0; i < range->ranks; i++) {
        fold.steps[i].op = i == 0 ? LS_FOLD_LOAD : LS_FOLD_OWN;
    }
    int status = LS_OK;
    for (int c = 0; c < partition.channel_count && status == LS_OK; c++) {
        size_t first = 0;
        size_t length = 0;
        ls_nccl__channel(&first, &length, &partition, c);
        if (first + length <= range->first || first >= range->first + range->length) {
            continue;
        }
        if (range->call == LS_ORDER_ALL_REDUCE) {
            status = channel_chunks(order, range, c, first, length, &fold, visit, arg);
            continue;
        }
        rotate(&fold, order, c, position_of(order, c, range->target));
        ls_order_run run = {first, length, first, c, 0, -1, &fold};
        status = visit_cut(run, range, visit, arg);
    }
    ls_free(memory, (size_t)range->ranks, sizeof(ls_fold_step));
    return status;
}

// The chains measured on one host of H200s: of all ranks, the last one the leaf; of three ranks
// they depend on the channel.
static void default_chain(int *leaf_to_root, int ranks, int channel) {
    static const int three[4][3] = {{2, 1, 0}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};
    for (int i = 0; i < ranks; i++) {
        leaf_to_root[i] = ranks == 3 ? three[channel % 12 / 3][i] : ranks - 1 - i;
    }
}

static int tree_of(ls_fold **out, const ls_order *order, int ranks, int channel) {
    if (order->hosts > 1) {
        return ls_order__host_tree(out, order, ranks, channel);
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)ranks, sizeof(int)));
    default_chain(memory, ranks, channel);
    int status = ls_fold__linear(out, memory, ranks);
    ls_free(memory, (size_t)ranks, sizeof(int));
    return status;
}

int ls_nccl__tree_runs(const ls_order *order, const ls_order_range *range, ls_order_visit visit,
                       void *arg) {
    if (range->call != LS_ORDER_ALL_REDUCE) {
        // NCCL has a tree only for all_reduce.
        ls_order ring = *order;
        ring.kind = LS_ORDER_RING;
        ring.fold_count = 0;
        return ls_nccl__ring_runs(&ring, range, visit, arg);
    }
    LS_TRY(check_folds(order, range->ranks));
    ls_nccl_partition partition;
    LS_TRY(ls_nccl__partition(&partition, order, range->call, range->ranks,
                              ls_dtype_bytes(range->dtype), range->count));
    int status = LS_OK;
    for (int c = 0; c < partition.channel_count && status == LS_OK; c++) {
        ls_order_run run = {.channel = c, .chunk = -1};
        ls_nccl__channel(&run.first, &run.length, &partition, c);
        run.origin = run.first;
        if (order->fold_count > 0) {
            run.fold = order->folds[c % order->fold_count];
            status = visit_cut(run, range, visit, arg);
            continue;
        }
        ls_fold *fold = NULL;
        status = tree_of(&fold, order, range->ranks, c);
        run.fold = fold;
        status = status == LS_OK ? visit_cut(run, range, visit, arg) : status;
        ls_fold__free(fold);
    }
    return status;
}
