// One step of an optimizer over rows on a GPU. Eight lanes share a row: lane l has the columns c
// with c % 8 == l, which are the partial sums that optimizer.h states.
#include <cmath>
#include <cstring>

#include "kernels/cuda/device.cuh"
#include "kernels/stochastic.h"

using namespace ls;

// The formulas of each type, in a separate struct: the functions have the same names.
struct formulas_f32 {
    using number = float;
#define LS_T        float
#define LS_TS(name) name
#include "kernels/update_formulas.inc"
#undef LS_T
#undef LS_TS
};

struct formulas_f64 {
    using number = double;
#define LS_T        double
#define LS_TS(name) name
#include "kernels/update_formulas.inc"
#undef LS_T
#undef LS_TS
};

constexpr int lanes = 8;

template <class F> struct update_arguments {
    ls_row_update u;
    typename F::ls_step step;
    ls_stochastic stochastic;
    ls_optimizer_kind kind;
    bool dense, momentum, rounds_stochastically;
};

// A row in the hands of one lane.
template <class F, class W> struct row_access {
    using T = typename F::number;
    const update_arguments<F> &a;
    size_t row, lane;
    const T *gradients;
    W *weights;
    T *m, *v;  // [dim], or of the row

    __device__ T g(size_t c) const {
        return gradients[c] * a.step.factor;
    }
    __device__ T w(size_t c) const {
        return (T)element<W>::load(weights[c]);
    }
    __device__ void set(size_t c, T value) const {
        if constexpr (sizeof(W) == 2) {
            if (a.rounds_stochastically) {
                uint32_t random = ls_stochastic__draw(&a.stochastic, (uint64_t)a.u.first_row + row,
                                                      (uint64_t)a.u.first_column + c);
                value = ls_stochastic__round(&a.stochastic, value, random);
            }
        }
        weights[c] = element<W>::store(value);
    }
    // f(c) squared, over all columns, the same bits in all eight lanes.
    template <class G> __device__ T sum(G f) const {
        T part = 0;
        for (size_t c = lane; c < a.u.dim; c += lanes) {
            T x = f(c);
            part = part + x * x;
        }
        unsigned mask = 0xFFu << (threadIdx.x % 32 / lanes * lanes);
        for (int other = 1; other < lanes; other *= 2) {
            part = part + __shfl_xor_sync(mask, part, other);
        }
        return part;
    }
    template <class G> __device__ void each(G f) const {
        for (size_t c = lane; c < a.u.dim; c += lanes) {
            f(c);
        }
    }
    // f makes a new state of the row from the old one; one lane keeps it.
    template <class G> __device__ void row_state(T *state, G f) const {
        T value = *state;
        __syncwarp(0xFFu << (threadIdx.x % 32 / lanes * lanes));  // all have read it
        f(&value);
        if (lane == 0) {
            *state = value;
        }
    }
};

template <class F, class W> __device__ void update_dense(const row_access<F, W> &r) {
    const auto &s = r.a.step;
    r.each([&](size_t c) {
        if (r.a.kind == LS_OPTIMIZER_SGD) {
            r.set(c, r.a.momentum ? F::ls_dense_momentum(&s, r.g(c), r.w(c), &r.m[c])
                                  : F::ls_dense_sgd(&s, r.g(c), r.w(c)));
        } else if (r.a.kind == LS_OPTIMIZER_ADAGRAD) {
            r.set(c, F::ls_dense_adagrad(&s, r.g(c), r.w(c), &r.m[c]));
        } else {
            r.set(c, F::ls_dense_adam(&s, r.g(c), r.w(c), &r.m[c], &r.v[c]));
        }
    });
}

static_assert(LS_OPTIMIZER_KIND_COUNT == LS_OPTIMIZER_LARS_SGD + 1, "a kind has no formula");

// The kinds that read a row before they write it.
template <class F, class W>
__device__ void update_by_sums(const row_access<F, W> &r, typename F::ls_row *row) {
    using T = typename F::number;
    const auto &s = r.a.step;
    bool partial = r.a.kind == LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB;
    if (r.a.kind == LS_OPTIMIZER_ROWWISE_ADAGRAD) {
        T sum = r.sum([&](size_t c) { return F::ls_decayed(&s, r.g(c), r.w(c)); });
        r.row_state(r.m, [&](T *m) { F::ls_rowwise_adagrad_row(row, &s, sum, m); });
        r.each([&](size_t c) { r.set(c, F::ls_rowwise_adagrad(row, r.g(c), r.w(c))); });
        return;
    }
    if (r.a.kind == LS_OPTIMIZER_LARS_SGD) {
        T weight_sum = r.sum([&](size_t c) { return r.w(c); });
        T gradient_sum = r.sum([&](size_t c) { return r.g(c); });
        F::ls_lars_row(row, &s, weight_sum, gradient_sum);
        r.each([&](size_t c) { r.set(c, F::ls_lars(&s, row, r.g(c), r.w(c), &r.m[c])); });
        return;
    }
    if (r.a.kind == LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM || partial) {
        T sum = r.sum([&](size_t c) { return r.g(c); });
        r.row_state(r.v, [&](T *v) {
            partial ? F::ls_partial_lamb_row(row, &s, sum, v)
                    : F::ls_partial_adam_row(row, &s, sum, v);
        });
    }
    if (r.a.kind == LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM) {
        r.each([&](size_t c) { r.set(c, F::ls_partial_adam(&s, row, r.g(c), r.w(c), &r.m[c])); });
        return;
    }
    r.each([&](size_t c) {
        F::ls_lamb_moment(&s, r.g(c), &r.m[c]);
        if (!partial) {
            F::ls_lamb_square(&s, r.g(c), &r.v[c]);
        }
    });
    auto direction = [&](size_t c) {
        return partial ? F::ls_partial_lamb_direction(&s, row, r.w(c), r.m[c])
                       : F::ls_lamb_direction(&s, r.w(c), r.m[c], r.v[c]);
    };
    T weight_sum = r.sum([&](size_t c) { return r.w(c); });
    T direction_sum = r.sum(direction);
    F::ls_lamb_row(row, &s, weight_sum, direction_sum);
    r.each([&](size_t c) { r.set(c, F::ls_fma(direction(c), row->rate, r.w(c))); });
}

template <class F, class W>
static __global__ void update_kernel(const __grid_constant__ update_arguments<F> a, bool m_per_row,
                                     bool v_per_row) {
    using T = typename F::number;
    const ls_row_update &u = a.u;
    size_t groups = thread_count() / lanes;
    for (size_t i = thread_index() / lanes; i < u.count; i += groups) {
        int64_t at = u.row_ids != nullptr ? u.row_ids[i] : (int64_t)i;
        if (at < 0 || at >= u.rows) {
            __trap();
        }
        size_t row = (size_t)at, first = row * u.dim;
        size_t m_at = m_per_row ? row : first, v_at = v_per_row ? row : first;
        T *m = (T *)u.states[0], *v = (T *)u.states[1];
        row_access<F, W> r = {a,
                              row,
                              threadIdx.x % lanes,
                              (const T *)u.gradients + i * u.dim,
                              (W *)u.weights + first,
                              m == nullptr ? m : m + m_at,
                              v == nullptr ? v : v + v_at};
        typename F::ls_row numbers = {};
        if (a.dense) {
            update_dense(r);
        } else if (a.kind == LS_OPTIMIZER_SGD) {
            r.each([&](size_t c) { r.set(c, F::ls_sgd(&a.step, r.g(c), r.w(c))); });
        } else if (a.kind == LS_OPTIMIZER_ADAGRAD) {
            r.each([&](size_t c) { r.set(c, F::ls_adagrad(&a.step, r.g(c), r.w(c), &r.m[c])); });
        } else if (a.kind == LS_OPTIMIZER_ADAM || a.kind == LS_OPTIMIZER_ADAMW) {
            r.each(
                [&](size_t c) { r.set(c, F::ls_adam(&a.step, r.g(c), r.w(c), &r.m[c], &r.v[c])); });
        } else {
            update_by_sums(r, &numbers);
        }
    }
}

template <class F, class W>
static int launch(const ls_optimizer *o, const ls_row_update *u, cudaStream_t stream) {
    const ls_optimizer_traits *about = ls_optimizer_about(o->kind);
    update_arguments<F> a = {};
    a.u = *u;
    a.step = F::ls_step_make(o, u);
    a.kind = o->kind;
    a.dense = o->form == LS_OPTIMIZER_DENSE && about->dense_differs;
    a.momentum = ls_optimizer_state_count(o) > 0;
    a.rounds_stochastically = o->stochastic_rounding && sizeof(W) == 2;
    if (a.rounds_stochastically) {
        a.stochastic = ls_stochastic__make(o, u);
    }
    update_kernel<F, W><<<blocks_for(u->count, block_threads / lanes), block_threads, 0, stream>>>(
        a, about->states[0].per_row, about->states[1].per_row);
    return launched("update_rows");
}

int ls_kernel_update_rows_cuda(const ls_optimizer *o, const ls_row_update *u,
                               ls_cuda_stream stream_) {
    auto *stream = (cudaStream_t)stream_;
    LS_ASSERT(o != nullptr && u != nullptr && ls_optimizer_check(o) == LS_OK);
    LS_ASSERT(u->rows >= 0 && u->step >= 1 && u->first_row >= 0 && u->first_column >= 0);
    if (u->count == 0 || u->dim == 0) {
        return LS_OK;
    }
    for (int i = 0; i < ls_optimizer_state_count(o); i++) {
        LS_ASSERT(u->states[i] != nullptr);
    }
    switch (u->dtype) {
    case LS_F32:
        return launch<formulas_f32, float>(o, u, stream);
    case LS_F64:
        return launch<formulas_f64, double>(o, u, stream);
    case LS_F16:
        return launch<formulas_f32, __half>(o, u, stream);
    default:
        LS_ASSERT(u->dtype == LS_BF16);
        return launch<formulas_f32, __nv_bfloat16>(o, u, stream);
    }
}
