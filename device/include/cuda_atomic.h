// <cuda/atomic>: atomic operations with an order and a scope. Written from libcu++'s documentation.
#ifndef LS_DEVICE_INCLUDE_CUDA_ATOMIC_H
#define LS_DEVICE_INCLUDE_CUDA_ATOMIC_H

#include <cuda_runtime.h>

namespace cuda {
enum thread_scope {
    thread_scope_system = LS_CUDA_SCOPE_SYSTEM,
    thread_scope_device = LS_CUDA_SCOPE_DEVICE,
    thread_scope_block = LS_CUDA_SCOPE_BLOCK,
    thread_scope_thread = LS_CUDA_SCOPE_THREAD
};
enum memory_order {
    memory_order_relaxed = __ATOMIC_RELAXED,
    memory_order_consume = __ATOMIC_CONSUME,
    memory_order_acquire = __ATOMIC_ACQUIRE,
    memory_order_release = __ATOMIC_RELEASE,
    memory_order_acq_rel = __ATOMIC_ACQ_REL,
    memory_order_seq_cst = __ATOMIC_SEQ_CST
};

inline void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
    if (order != memory_order_relaxed) {
        ls_cuda_fence(scope);
    }
}

template <class T, thread_scope Scope = thread_scope_system> struct atomic_ref {
    volatile T *at;
    explicit atomic_ref(T &of) : at(&of) {
    }
    T load(memory_order order = memory_order_seq_cst, LS_CUDA_HERE) const {
        return lockstep::load(at, order, Scope, ls_at);
    }
    void store(T value, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) const {
        lockstep::store(at, value, order, Scope, ls_at);
    }
    T exchange(T value, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) const {
        return lockstep::update(at, order, Scope, ls_at, [=](T) { return value; });
    }
    T fetch_add(T by, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) const {
        return lockstep::update(at, order, Scope, ls_at, [=](T old) { return (T)(old + by); });
    }
    T fetch_sub(T by, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) const {
        return lockstep::update(at, order, Scope, ls_at, [=](T old) { return (T)(old - by); });
    }
    T fetch_or(T by, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) const {
        return lockstep::update(at, order, Scope, ls_at, [=](T old) { return (T)(old | by); });
    }
    T fetch_and(T by, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) const {
        return lockstep::update(at, order, Scope, ls_at, [=](T old) { return (T)(old & by); });
    }
    T fetch_max(T by, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) const {
        return lockstep::update(at, order, Scope, ls_at,
                                [=](T old) { return old < by ? by : old; });
    }
    bool compare_exchange_strong(T &expected, T value, memory_order order = memory_order_seq_cst,
                                 memory_order = memory_order_seq_cst, LS_CUDA_HERE) const {
        T wanted = expected;
        T old = lockstep::update(at, order, Scope, ls_at,
                                 [=](T now) { return now == wanted ? value : now; });
        expected = old;
        return old == wanted;
    }
    bool compare_exchange_weak(T &expected, T value, memory_order order = memory_order_seq_cst,
                               memory_order other = memory_order_seq_cst, LS_CUDA_HERE) const {
        return compare_exchange_strong(expected, value, order, other, ls_at);
    }
};

template <class T, thread_scope Scope = thread_scope_system> struct atomic {
    T value;
    atomic() = default;
    constexpr atomic(T first) : value(first) {
    }
    atomic_ref<T, Scope> ref() {
        return atomic_ref<T, Scope>(value);
    }
    T load(memory_order order = memory_order_seq_cst, LS_CUDA_HERE) {
        return ref().load(order, ls_at);
    }
    void store(T to, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) {
        ref().store(to, order, ls_at);
    }
    T exchange(T to, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) {
        return ref().exchange(to, order, ls_at);
    }
    T fetch_add(T by, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) {
        return ref().fetch_add(by, order, ls_at);
    }
    T fetch_sub(T by, memory_order order = memory_order_seq_cst, LS_CUDA_HERE) {
        return ref().fetch_sub(by, order, ls_at);
    }
    bool compare_exchange_strong(T &expected, T to, memory_order order = memory_order_seq_cst,
                                 memory_order other = memory_order_seq_cst, LS_CUDA_HERE) {
        return ref().compare_exchange_strong(expected, to, order, other, ls_at);
    }
};

namespace std {
using namespace ::cuda;
}
}  // namespace cuda

#endif
