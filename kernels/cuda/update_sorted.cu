// A table's update straight from the gradients of its bags: duplicates are added up and the
// optimizer steps each row in one pass, with the bits of row_gradients and update_rows. What is
// here is for f32 rows of up to 512 columns, and for the optimizers whose state is at most a number
// for each row, as large tables have; those two kernels have all the others.
//
// A warp has 32 neighbouring places of the sorted ids, and steps the rows that begin there, a few
// at a time; a lane has four columns of each. A row that occurs more often than LS_GRADIENT_RUN
// times is the work of several warps, one for each run: the last one that is done adds the runs up
// and steps the row.
#include <cmath>
#include <cstring>

#include "kernels/cuda/sort.cuh"
#include "kernels/stochastic.h"

using namespace ls;

struct formulas {
#define LS_T        float
#define LS_TS(name) name
#include "kernels/update_formulas.inc"
#undef LS_T
#undef LS_TS
};

constexpr int pieces_max = 4;  // of 128 columns
constexpr int warps = 4;       // of a block
constexpr unsigned all_lanes = ~0u;

struct sorted_arguments {
    float *weights;  // [rows, dim]
    float *state;    // [rows], of rowwise_adagrad
    int64_t rows;
    unsigned dim, count;
    const uint64_t *sorted;  // [count]
    packed_ids packing;
    const float *gradients;
    size_t stride;
    const int64_t *row_of;
    const float *scales;
    float *partials;    // [count / 32 + 1, dim]: sums of the runs of rows that have several
    unsigned *arrived;  // [count / 32 + 1]: occurrences in them so far; 0 before and after
    formulas::ls_step step;
    bool rowwise;  // rowwise_adagrad; else sgd
};

// A lane's columns of a row: 4 (32 p + lane) .. + 4 for each piece p.
template <int P> struct columns {
    float4 x[P];

    __device__ void clear() {
#pragma unroll
        for (int p = 0; p < P; p++) {
            x[p] = make_float4(0, 0, 0, 0);
        }
    }
    __device__ void add(const columns &other) {
#pragma unroll
        for (int p = 0; p < P; p++) {
            x[p] = make_float4(x[p].x + other.x[p].x, x[p].y + other.x[p].y, x[p].z + other.x[p].z,
                               x[p].w + other.x[p].w);
        }
    }
    __device__ void scale(float by) {
#pragma unroll
        for (int p = 0; p < P; p++) {
            x[p] = make_float4(x[p].x * by, x[p].y * by, x[p].z * by, x[p].w * by);
        }
    }
    // cached: of the L2 cache, for what other warps have just written.
    __device__ void load(const float *row, size_t dim, bool cached = false) {
        size_t lane = threadIdx.x % 32;
#pragma unroll
        for (int p = 0; p < P; p++) {
            size_t word = lane + (size_t)p * 32;
            const float4 *from = (const float4 *)row + word;
            x[p] = word * 4 >= dim ? make_float4(0, 0, 0, 0) : cached ? __ldcg(from) : *from;
        }
    }
    __device__ void store(float *row, size_t dim) const {
        size_t lane = threadIdx.x % 32;
#pragma unroll
        for (int p = 0; p < P; p++) {
            size_t word = lane + (size_t)p * 32;
            if (word * 4 < dim) {
                ((float4 *)row)[word] = x[p];
            }
        }
    }
};

// ---- Gradients ----------------------------------------------------------------------------------
// Where an occurrence's gradient lies, and what it is multiplied by: a lane has one occurrence, so
// that these are on their way for 32 of them together.
struct occurrence {
    unsigned row;
    float scale;
};

static __device__ occurrence occurrence_of(const sorted_arguments &a, uint64_t packed, bool there) {
    auto k = (unsigned)a.packing.position(packed);
    occurrence o = {k, 1.0f};
    if (there && a.row_of != nullptr) {
        o.row = (unsigned)__ldg(&a.row_of[k]);
    }
    if (there && a.scales != nullptr) {
        o.scale = __ldg(&a.scales[k]);
    }
    return o;
}

// The gradient of lane i's occurrence.
template <int P>
static __device__ void load_gradient(columns<P> *out, const sorted_arguments &a,
                                     const occurrence &own, int i) {
    out->load(a.gradients + (size_t)__shfl_sync(all_lanes, own.row, i) * a.stride, a.dim);
    if (a.scales != nullptr) {
        out->scale(__shfl_sync(all_lanes, own.scale, i));
    }
}

static __device__ uint64_t sorted_at(const sorted_arguments &a, unsigned place) {
    return __ldg((const unsigned long long *)&a.sorted[place]);
}

static __device__ unsigned id_of(const sorted_arguments &a, uint64_t packed) {
    return (unsigned)a.packing.id(packed);
}

// *sum += load(0), load(1), ... one after the other, `batch` of them under way at once.
template <int P, int batch, class L>
static __device__ void fold(columns<P> *sum, int count, L load) {
    for (int i = 0; i < count; i += batch) {
        columns<P> x[batch];
#pragma unroll
        for (int k = 0; k < batch; k++) {
            if (i + k < count) {
                load(&x[k], i + k);
            }
        }
#pragma unroll
        for (int k = 0; k < batch; k++) {
            if (i + k < count) {
                sum->add(x[k]);
            }
        }
    }
}

// *sum += the gradients of `count` places, LS_GRADIENT_RUN at most.
template <int P, int batch>
static __device__ void fold_places(columns<P> *sum, const sorted_arguments &a, unsigned first,
                                   int count) {
    static_assert(LS_GRADIENT_RUN == 64, "a lane has two of a run's occurrences");
    int lane = (int)threadIdx.x % 32;
    occurrence own[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int at = half * 32 + lane;
        own[half] = occurrence_of(a, at < count ? sorted_at(a, first + at) : 0, at < count);
    }
    fold<P, batch>(sum, count < 32 ? count : 32,
                   [&](columns<P> *x, int i) { load_gradient(x, a, own[0], i); });
    fold<P, batch>(sum, count - 32, [&](columns<P> *x, int i) { load_gradient(x, a, own[1], i); });
}

// ---- Stepping rows ------------------------------------------------------------------------------
template <int P> constexpr size_t room_of = P * 128 + 8;  // four rows' columns in different banks

// R rows of a warp, R <= 4: the ids (`there`: whether there is one), the gradient of row i in
// shared[i * room], its weights in w[i]. Of eight lanes each: their row's state.
template <int P, int R>
static __device__ void step_rows(const sorted_arguments &a, const bool (&there)[R],
                                 const unsigned (&ids)[R], float state, const float *shared,
                                 columns<P> (&w)[R]) {
    constexpr size_t room = room_of<P>;
    int lane = (int)threadIdx.x % 32, group = lane / 8, part_lane = lane % 8;
    formulas::ls_row numbers = {};
    __syncwarp();
    if (a.rowwise) {
        bool mine = false;
        unsigned id = 0;
#pragma unroll
        for (int i = 0; i < R; i++) {
            mine = group == i ? there[i] : mine;
            id = group == i ? ids[i] : id;
        }
        float part = 0;
        const float *of = shared + (mine ? group : 0) * room;
        if (a.step.l2) {
            const float *old = a.weights + (size_t)id * a.dim;
            for (unsigned c = part_lane; mine && c < a.dim; c += 8) {
                float x = formulas::ls_decayed(&a.step, of[c], old[c]);
                part = part + x * x;
            }
        } else {
#pragma unroll 16
            for (unsigned c = part_lane; c < a.dim; c += 8) {
                part = part + of[c] * of[c];
            }
        }
        for (int other = 1; other < 8; other *= 2) {
            part = part + __shfl_xor_sync(all_lanes, part, other);
        }
        formulas::ls_rowwise_adagrad_row(&numbers, &a.step, part, &state);
        if (mine && part_lane == 0) {
            a.state[id] = state;
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < R; i++) {
        formulas::ls_row row = {};
        row.rate = __shfl_sync(all_lanes, numbers.rate, i * 8);
        row.kept = __shfl_sync(all_lanes, numbers.kept, i * 8);
        if (!there[i]) {
            continue;
        }
        columns<P> g;
        g.load(shared + i * room, a.dim);
#pragma unroll
        for (int p = 0; p < P; p++) {
            float *gs = &g.x[p].x, *ws = &w[i].x[p].x;
#pragma unroll
            for (int c = 0; c < 4; c++) {
                ws[c] = a.rowwise ? formulas::ls_rowwise_adagrad(&row, gs[c], ws[c])
                                  : formulas::ls_sgd(&a.step, gs[c], ws[c]);
            }
        }
        w[i].store(a.weights + (size_t)ids[i] * a.dim, a.dim);
    }
    __syncwarp();
}

// ---- Rows of several runs -----------------------------------------------------------------------
// Where places of `id` begin and end: the first places in [low[i], high[i]) whose ids are at least
// id + i. All lanes look at once, at four places each.
static __device__ void find_ends(const sorted_arguments &a, unsigned id, unsigned (&low)[2],
                                 unsigned (&high)[2]) {
    constexpr unsigned probes = 4;
    unsigned lane = threadIdx.x % 32;
    while (low[0] < high[0] || low[1] < high[1]) {
        bool less[2][probes];
        unsigned width[2];
#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
            width[i] = (high[i] - low[i] + 32 * probes - 1) / (32 * probes);
#pragma unroll
            for (unsigned q = 0; q < probes; q++) {
                unsigned at = low[i] + (lane * probes + q) * width[i];
                less[i][q] = at < high[i] && id_of(a, sorted_at(a, at)) < id + i;
            }
        }
#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
            unsigned below = 0;  // probes that are less: those in front
#pragma unroll
            for (unsigned q = 0; q < probes; q++) {
                below += (unsigned)__popc(__ballot_sync(all_lanes, less[i][q]));
            }
            unsigned end = low[i] + below * width[i];
            high[i] = below < 32 * probes && end < high[i] ? end : high[i];
            low[i] = below == 0 ? low[i] : low[i] + (below - 1) * width[i] + 1;
            high[i] = below == 0 ? low[i] : high[i];
        }
    }
}

// The run that begins at place `at` of the row `id`, which has the places start .. end.
template <int P>
static __device__ void add_run(const sorted_arguments &a, unsigned id, unsigned start, unsigned end,
                               unsigned at, float *shared) {
    unsigned lane = threadIdx.x % 32;
    int count = end - at < LS_GRADIENT_RUN ? (int)(end - at) : LS_GRADIENT_RUN;
    columns<P> sum;
    sum.clear();
    fold_places<P, 16 / P>(&sum, a, at, count);
    // Rows of several runs begin further apart than they have runs, times 32.
    float *partials = a.partials + (size_t)(start / 32) * a.dim;
    sum.store(partials + (size_t)((at - start) / LS_GRADIENT_RUN) * a.dim, a.dim);
    __threadfence();
    __syncwarp();
    unsigned before = 0;
    if (lane == 0) {
        before = atomicAdd(&a.arrived[start / 32], (unsigned)count);
    }
    before = __shfl_sync(all_lanes, before, 0);
    if (before + (unsigned)count != end - start) {
        return;
    }
    __threadfence();
    columns<P> w[1];
    w[0].load(a.weights + (size_t)id * a.dim, a.dim);
    float state = a.rowwise ? a.state[id] : 0;
    sum.clear();
    fold<P, 16 / P>(
        &sum, (int)((end - start + LS_GRADIENT_RUN - 1) / LS_GRADIENT_RUN),
        [&](columns<P> *x, int i) { x->load(partials + (size_t)i * a.dim, a.dim, true); });
    sum.scale(a.step.factor);
    sum.store(shared, a.dim);
    if (lane == 0) {
        a.arrived[start / 32] = 0;
    }
    const bool there[1] = {true};
    const unsigned ids[1] = {id};
    step_rows<P, 1>(a, there, ids, state, shared, w);
}

// ---- All rows -----------------------------------------------------------------------------------
// What a warp knows of its places: lane i of place i.
struct places {
    unsigned first;
    unsigned id;  // its row; a.rows where there is none
    occurrence own;
    unsigned breaks;   // bit i: another row begins there than before, or the rows end
    unsigned heads;    // bit i: a row begins there
    unsigned several;  // heads: it has several runs; else: a later one may begin there
};

static __device__ places look_at(const sorted_arguments &a, unsigned first) {
    unsigned at = first + threadIdx.x % 32, end = (unsigned)a.rows;
    auto id_at = [&](bool there, unsigned place) {
        return there ? id_of(a, sorted_at(a, place)) : end;
    };
    bool there = at < a.count;
    uint64_t packed = there ? sorted_at(a, at) : 0;
    unsigned before = id_at(there && at > 0, at - 1);
    unsigned run_before = id_at(there && at >= LS_GRADIENT_RUN, at - LS_GRADIENT_RUN);
    unsigned run_behind = id_at(at + LS_GRADIENT_RUN < a.count, at + LS_GRADIENT_RUN);
    places own = {first, there ? id_of(a, packed) : end, {0, 0}, 0, 0, 0};
    bool counts = own.id < end, breaks = before != own.id || !counts;
    own.own = occurrence_of(a, packed, counts);
    own.breaks = __ballot_sync(all_lanes, breaks);
    own.heads = __ballot_sync(all_lanes, counts && breaks);
    own.several = __ballot_sync(all_lanes, counts && (breaks ? run_behind : run_before) == own.id);
    return own;
}

// How many places behind the warp's own are of the row `id`, which has one run.
static __device__ int count_behind(const sorted_arguments &a, unsigned first, unsigned id) {
    unsigned lane = threadIdx.x % 32;
    int count = 0;
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        unsigned at = first + 32 + half * 32 + lane;
        bool same = at < a.count && id_of(a, sorted_at(a, at)) == id;
        count += __popc(__ballot_sync(all_lanes, same));
    }
    return count;
}

// Steps the rows with one run, R at a time.
template <int P, int R>
static __device__ void step_short_rows(const sorted_arguments &a, const places &own, float state,
                                       float *shared) {
    int group = (int)threadIdx.x % 32 / 8;
    for (unsigned left = own.heads & ~own.several; left != 0;) {
        columns<P> g[R], w[R];
        int place[R], mine = 0;
        bool there[R];
        unsigned ids[R];
#pragma unroll
        for (int i = 0; i < R; i++) {
            there[i] = left != 0;
            place[i] = there[i] ? __ffs((int)left) - 1 : 0;
            left &= left - 1;  // of 0: 0
            ids[i] = __shfl_sync(all_lanes, own.id, place[i]);
            mine = group == i ? place[i] : mine;
            if (there[i]) {
                load_gradient(&g[i], a, own.own, place[i]);
                w[i].load(a.weights + (size_t)ids[i] * a.dim, a.dim);
            }
        }
#pragma unroll
        for (int i = 0; i < R; i++) {
            if (!there[i]) {
                continue;
            }
            unsigned ends = own.breaks & ~((2u << place[i]) - 1);
            int end = ends != 0 ? __ffs((int)ends) - 1 : 32;
            columns<P> sum;
            sum.clear();
            sum.add(g[i]);
            fold<P, 4 / P>(&sum, end - place[i] - 1, [&](columns<P> *x, int k) {
                load_gradient(x, a, own.own, place[i] + 1 + k);
            });
            if (end == 32) {
                fold_places<P, 8 / P>(&sum, a, own.first + 32, count_behind(a, own.first, ids[i]));
            }
            sum.scale(a.step.factor);
            sum.store(shared + i * room_of<P>, a.dim);
        }
        step_rows<P, R>(a, there, ids, __shfl_sync(all_lanes, state, mine), shared, w);
    }
}

template <int P>
static __global__ void __launch_bounds__(warps * 32, P == 1 ? 4 : 3)
    update_sorted_kernel(const __grid_constant__ sorted_arguments a) {
    constexpr int R = 4 / P;
    __shared__ __align__(16) float memory[warps][R * room_of<P>];
    unsigned lane = threadIdx.x % 32;
    float *shared = memory[threadIdx.x / 32];
    unsigned first = (unsigned)(thread_index() / 32 * 32);
    if (first >= a.count) {
        return;
    }
    places own = look_at(a, first);
    bool begins = ((own.heads & ~own.several) >> lane & 1) != 0;
    float state = begins && a.rowwise ? a.state[own.id] : 0;
    // Runs that begin here: one of a row that begins here; one of a row that began before all of
    // these places, which is the row of the first of them.
    unsigned id = __shfl_sync(all_lanes, own.id, 0), later = own.several & ~own.heads;
    if (later != 0) {
        unsigned at = first + (unsigned)__ffs((int)later) - 1;
        unsigned behind = first + 32 - (unsigned)__clz((int)later);
        unsigned low[2] = {0, first}, high[2] = {first, a.count};
        find_ends(a, id, low, high);
        unsigned done = (at - low[0] + LS_GRADIENT_RUN - 1) / LS_GRADIENT_RUN;
        if (low[0] + done * LS_GRADIENT_RUN < behind) {
            add_run<P>(a, id, low[0], low[1], low[0] + done * LS_GRADIENT_RUN, shared);
        }
    }
    unsigned long_heads = own.several & own.heads;
    if (long_heads != 0) {
        int place = __ffs((int)long_heads) - 1;
        unsigned at = first + (unsigned)place;
        unsigned of = __shfl_sync(all_lanes, own.id, place);
        unsigned low[2] = {at, at}, high[2] = {at, a.count};
        find_ends(a, of, low, high);
        add_run<P>(a, of, at, low[1], at, shared);
    }
    step_short_rows<P, R>(a, own, state, shared);
}

// ---- Entry --------------------------------------------------------------------------------------
int ls_kernel_update_sorted_scratch(size_t *bytes, size_t count, size_t dim) {
    size_t rows = count / 32 + 1;
    LS_TRY(ls_size_mul(bytes, rows, dim + 1));
    return ls_size_mul(bytes, *bytes, sizeof(float));
}

static bool has(const ls_optimizer *o, const ls_row_update *u, size_t stride,
                const float *gradients) {
    uintptr_t alignment = (uintptr_t)u->weights | (uintptr_t)gradients;
    return o->form == LS_OPTIMIZER_FUSED && u->dtype == LS_F32 && u->dim % 4 == 0 &&
           u->dim <= pieces_max * 128 && stride % 4 == 0 && alignment % 16 == 0 &&
           (o->kind == LS_OPTIMIZER_SGD || o->kind == LS_OPTIMIZER_ROWWISE_ADAGRAD);
}

template <int P> static int launch(const sorted_arguments &a, cudaStream_t stream) {
    unsigned tiles = (a.count + 31) / 32, blocks = (tiles + warps - 1) / warps;
    update_sorted_kernel<P><<<blocks, warps * 32, 0, stream>>>(a);
    return launched("update_sorted");
}

int ls_kernel_update_sorted_cuda(const ls_optimizer *o, const ls_row_update *u,
                                 const uint64_t *sorted, size_t count, const float *gradients,
                                 size_t stride, const int64_t *row_of, const float *scales,
                                 void *scratch_, ls_cuda_stream stream) {
    LS_ASSERT(o != nullptr && u != nullptr && ls_optimizer_check(o) == LS_OK);
    if (count == 0 || u->dim == 0) {
        return LS_OK;
    }
    if (count > INT32_MAX || u->rows > INT32_MAX || !has(o, u, stride, gradients)) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "update_sorted: %s of %s rows of %zu columns",
                       ls_optimizer_about(o->kind)->name, ls_dtype_name(u->dtype), u->dim);
    }
    sorted_arguments a = {};
    a.weights = (float *)u->weights;
    a.state = (float *)u->states[0];
    a.rows = u->rows;
    a.dim = (unsigned)u->dim;
    a.count = (unsigned)count;
    a.sorted = sorted;
    a.packing = packing_of(count, u->rows);
    a.gradients = gradients;
    a.stride = stride;
    a.row_of = row_of;
    a.scales = scales;
    a.partials = (float *)scratch_;
    a.arrived = (unsigned *)(a.partials + (count / 32 + 1) * u->dim);
    a.step = formulas::ls_step_make(o, u);
    a.rowwise = o->kind == LS_OPTIMIZER_ROWWISE_ADAGRAD;
    auto *on = (cudaStream_t)stream;
    return u->dim <= 128 ? launch<1>(a, on) : u->dim <= 256 ? launch<2>(a, on) : launch<4>(a, on);
}
