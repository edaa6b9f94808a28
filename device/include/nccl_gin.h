// Part of nccl_device.h: puts, signals and counters.
#ifndef LS_DEVICE_INCLUDE_NCCL_GIN_H
#define LS_DEVICE_INCLUDE_NCCL_GIN_H

// ---- GIN ----------------------------------------------------------------------------------------
struct ncclGin_None {};
#define LS_NCCL_SIGNALS(name)                                                                      \
    struct ncclGin_##name##Inc {                                                                   \
        ncclGinSignal_t signal;                                                                    \
    };                                                                                             \
    struct ncclGin_##name##Add {                                                                   \
        ncclGinSignal_t signal;                                                                    \
        uint64_t value;                                                                            \
    };
#define LS_NCCL_VA_SIGNALS(name)                                                                   \
    struct ncclGin_##name##Inc {                                                                   \
        ncclWindow_t signalWindow;                                                                 \
        size_t signalOffset;                                                                       \
    };                                                                                             \
    struct ncclGin_##name##Add {                                                                   \
        ncclWindow_t signalWindow;                                                                 \
        size_t signalOffset;                                                                       \
        uint64_t value;                                                                            \
    };
LS_NCCL_SIGNALS(Signal)
LS_NCCL_SIGNALS(StrongSignal)
LS_NCCL_SIGNALS(WeakSignal)
LS_NCCL_VA_SIGNALS(VASignal)
LS_NCCL_VA_SIGNALS(StrongVASignal)
LS_NCCL_VA_SIGNALS(WeakVASignal)
struct ncclGin_CounterInc {
    ncclGinCounter_t counter;
};
struct ncclGinDescriptorSmem {
    char lockstep_unused[64];
};
struct ncclGin_DescriptorSmem {
    ncclGinDescriptorSmem *descriptor;
};
struct ncclGin_SegmentDevice {};
struct ncclGinRequest_t {
    int context;
};
enum { ncclGinOptFlagsDefault = 0 };

namespace lockstep {
inline void act(ls_cuda_put *, const ncclGin_None &, bool) {
}
inline void signals(ls_cuda_put *put, int strength, uint64_t at, uint64_t add) {
    put->signal = strength;
    put->signal_at = at;
    put->add = add;
}
#define LS_NCCL_ACT(name, strength)                                                                \
    inline void act(ls_cuda_put *put, const ncclGin_##name##Inc &a, bool weak) {                   \
        (void)weak;                                                                                \
        signals(put, strength, a.signal, 1);                                                       \
    }                                                                                              \
    inline void act(ls_cuda_put *put, const ncclGin_##name##Add &a, bool weak) {                   \
        (void)weak;                                                                                \
        signals(put, strength, a.signal, a.value);                                                 \
    }
#define LS_NCCL_VA_ACT(name, strength)                                                             \
    inline void act(ls_cuda_put *put, const ncclGin_##name##Inc &a, bool weak) {                   \
        (void)weak;                                                                                \
        signals(put, strength, a.signalOffset, 1);                                                 \
        put->signal_window = a.signalWindow;                                                       \
    }                                                                                              \
    inline void act(ls_cuda_put *put, const ncclGin_##name##Add &a, bool weak) {                   \
        (void)weak;                                                                                \
        signals(put, strength, a.signalOffset, a.value);                                           \
        put->signal_window = a.signalWindow;                                                       \
    }
LS_NCCL_ACT(Signal, weak ? LS_CUDA_PUT_WEAK : LS_CUDA_PUT_STRONG)
LS_NCCL_ACT(StrongSignal, LS_CUDA_PUT_STRONG)
LS_NCCL_ACT(WeakSignal, LS_CUDA_PUT_WEAK)
LS_NCCL_VA_ACT(VASignal, weak ? LS_CUDA_PUT_WEAK : LS_CUDA_PUT_STRONG)
LS_NCCL_VA_ACT(StrongVASignal, LS_CUDA_PUT_STRONG)
LS_NCCL_VA_ACT(WeakVASignal, LS_CUDA_PUT_WEAK)
inline void count(ls_cuda_put *put, const ncclGin_None &) {
    put->counter = -1;
}
inline void count(ls_cuda_put *put, const ncclGin_CounterInc &a) {
    put->counter = (int)a.counter;
}
}  // namespace lockstep

#define NCCL_GIN_BACKEND_MASK_ALL (~0u)
template <unsigned Backends> struct ncclGin_BackendMask {
    const ncclDevComm &comm;
    int contextId;

    ncclGin_BackendMask(const ncclDevComm &of, int context) : comm(of), contextId(context) {
    }

    template <class Remote, class Local, class Coop>
    void lockstep_put(ls_cuda_put put, ncclTeam team, int peer, const Remote &remote,
                      const Local &local, Coop coop) const {
        put.comm = &comm;
        put.context = contextId;
        put.peer = ncclTeamRankToWorld(comm, team, peer);
        lockstep::act(&put, remote, comm.lockstep_weak);
        lockstep::count(&put, local);
        lockstep::sync(coop, put.at, 0);
        if (coop.thread_rank() == 0) {
            ls_cuda_put_data(&put);
        }
        lockstep::sync(coop, put.at, 0);
    }

    template <class Remote = ncclGin_None, class Local = ncclGin_None, class Coop = ncclCoopThread,
              class Smem = ncclGin_None, class Segment = ncclGin_SegmentDevice>
    void put(ncclTeam team, int peer, ncclWindow_t to, size_t to_offset, ncclWindow_t from,
             size_t from_offset, size_t bytes, Remote remote = Remote{}, Local local = Local{},
             Coop coop = Coop{}, Smem = Smem{}, cuda::thread_scope = cuda::thread_scope_thread,
             cuda::thread_scope required = cuda::thread_scope_device, Segment = Segment{},
             LS_CUDA_HERE) const {
        ls_cuda_put put = {};
        put.to = to;
        put.from = from;
        put.to_offset = to_offset;
        put.from_offset = from_offset;
        put.bytes = bytes;
        put.call = "put";
        put.wide = required == cuda::thread_scope_system;
        put.at = ls_at;
        lockstep_put(put, team, peer, remote, local, coop);
    }
    template <class T, class Remote = ncclGin_None, class Local = ncclGin_None,
              class Coop = ncclCoopThread, class Smem = ncclGin_None>
    void put(ncclTeam team, int peer, ncclSymPtr<T> to, ncclSymPtr<T> from, size_t count,
             Remote remote = Remote{}, Local local = Local{}, Coop coop = Coop{}, Smem = Smem{},
             cuda::thread_scope = cuda::thread_scope_thread,
             cuda::thread_scope required = cuda::thread_scope_device, LS_CUDA_HERE) const {
        put(team, peer, to.window, to.offset, from.window, from.offset, count * sizeof(T), remote,
            local, coop, ncclGin_None{}, cuda::thread_scope_thread, required,
            ncclGin_SegmentDevice{}, ls_at);
    }
    template <class T, class Remote = ncclGin_None, class Coop = ncclCoopThread,
              class Smem = ncclGin_None>
    void putValue(ncclTeam team, int peer, ncclWindow_t to, size_t to_offset, T value,
                  Remote remote = Remote{}, Coop coop = Coop{}, Smem = Smem{},
                  cuda::thread_scope = cuda::thread_scope_thread,
                  cuda::thread_scope required = cuda::thread_scope_device, LS_CUDA_HERE) const {
        static_assert(sizeof(T) <= 8, "at most eight bytes");
        ls_cuda_put put = {};
        put.to = to;
        put.to_offset = to_offset;
        put.bytes = sizeof(T);
        memcpy(&put.value, &value, sizeof(T));
        put.call = "putValue";
        put.wide = required == cuda::thread_scope_system;
        put.at = ls_at;
        lockstep_put(put, team, peer, remote, ncclGin_None{}, coop);
    }
    template <class T, class Remote = ncclGin_None, class Coop = ncclCoopThread,
              class Smem = ncclGin_None>
    void putValue(ncclTeam team, int peer, ncclSymPtr<T> to, T value, Remote remote = Remote{},
                  Coop coop = Coop{}, Smem = Smem{}, cuda::thread_scope = cuda::thread_scope_thread,
                  cuda::thread_scope required = cuda::thread_scope_device, LS_CUDA_HERE) const {
        putValue(team, peer, to.window, to.offset, value, remote, coop, ncclGin_None{},
                 cuda::thread_scope_thread, required, ls_at);
    }
    template <class Coop = ncclCoopThread, class Smem = ncclGin_None>
    void get(ncclTeam team, int peer, ncclWindow_t remote, size_t remote_offset, ncclWindow_t local,
             size_t local_offset, size_t bytes, Coop coop = Coop{}, Smem = Smem{}, uint32_t = 0,
             LS_CUDA_HERE) const {
        ls_cuda_put put = {};
        put.to = remote;
        put.from = local;
        put.to_offset = remote_offset;
        put.from_offset = local_offset;
        put.bytes = bytes;
        put.gets = true;
        put.call = "get";
        put.at = ls_at;
        lockstep_put(put, team, peer, ncclGin_None{}, ncclGin_None{}, coop);
    }
    template <class Remote, class Coop = ncclCoopThread, class Smem = ncclGin_None>
    void signal(ncclTeam team, int peer, Remote remote, Coop coop = Coop{}, Smem = Smem{},
                cuda::thread_scope = cuda::thread_scope_thread,
                cuda::thread_scope required = cuda::thread_scope_device, LS_CUDA_HERE) const {
        ls_cuda_put put = {};
        put.call = "signal";
        put.wide = required == cuda::thread_scope_system;
        put.at = ls_at;
        lockstep_put(put, team, peer, remote, ncclGin_None{}, coop);
    }
    template <class Coop>
    void flush(Coop coop, cuda::memory_order = cuda::memory_order_acquire, LS_CUDA_HERE) const {
        lockstep::sync(coop, ls_at, 0);
        ls_cuda_flush(&comm, contextId, false, ls_at);
        lockstep::sync(coop, ls_at, 0);
    }
    template <class Coop = ncclCoopThread>
    void flushAsync(ncclTeam, uint32_t, ncclGinRequest_t *request, Coop = Coop{}) const {
        request->context = contextId;
    }
    template <class Coop = ncclCoopThread>
    void wait(ncclGinRequest_t &, Coop coop = Coop{}, LS_CUDA_HERE) const {
        flush(coop, cuda::memory_order_acquire, ls_at);
    }

    // ---- Signals and counters
    ls_cuda_cell lockstep_cell(int kind, ncclWindow_t window, uint64_t number, int bits,
                               ls_cuda_site at) const {
        return {&comm, kind, window, number, bits, at};
    }
    template <class Coop>
    void lockstep_wait(const ls_cuda_cell &cell, Coop coop, uint64_t least,
                       const char *call) const {
        lockstep::sync(coop, cell.at, 0);
        if (coop.thread_rank() == 0) {
            ls_cuda_cell_wait(&cell, least, call);
        }
        lockstep::sync(coop, cell.at, 0);
    }
    uint64_t readSignal(ncclGinSignal_t signal, int bits = 64,
                        cuda::memory_order = cuda::memory_order_acquire, LS_CUDA_HERE) const {
        ls_cuda_cell cell = lockstep_cell(LS_CUDA_SIGNAL, nullptr, signal, bits, ls_at);
        return ls_cuda_cell_read(&cell);
    }
    uint64_t readSignal(ncclWindow_t window, size_t offset, int bits = 64,
                        cuda::memory_order = cuda::memory_order_acquire, LS_CUDA_HERE) const {
        ls_cuda_cell cell = lockstep_cell(LS_CUDA_SIGNAL, window, offset, bits, ls_at);
        return ls_cuda_cell_read(&cell);
    }
    template <class Coop>
    void waitSignal(Coop coop, ncclGinSignal_t signal, uint64_t least, int bits = 64,
                    cuda::memory_order = cuda::memory_order_acquire, LS_CUDA_HERE) const {
        lockstep_wait(lockstep_cell(LS_CUDA_SIGNAL, nullptr, signal, bits, ls_at), coop, least,
                      "waitSignal");
    }
    template <class Coop>
    void waitSignal(Coop coop, ncclWindow_t window, size_t offset, uint64_t least, int bits = 64,
                    cuda::memory_order = cuda::memory_order_acquire, LS_CUDA_HERE) const {
        lockstep_wait(lockstep_cell(LS_CUDA_SIGNAL, window, offset, bits, ls_at), coop, least,
                      "waitSignal");
    }
    void resetSignal(ncclGinSignal_t signal, LS_CUDA_HERE) const {
        ls_cuda_cell cell = lockstep_cell(LS_CUDA_SIGNAL, nullptr, signal, 64, ls_at);
        ls_cuda_cell_reset(&cell);
        *ls_cuda_shadow(&comm, signal) = 0;
    }
    void resetSignal(ncclWindow_t window, size_t offset, LS_CUDA_HERE) const {
        ls_cuda_cell cell = lockstep_cell(LS_CUDA_SIGNAL, window, offset, 64, ls_at);
        ls_cuda_cell_reset(&cell);
    }
    uint64_t *getSignalShadowPtr(ncclGinSignal_t signal) const {
        return ls_cuda_shadow(&comm, signal);
    }
    void increaseSignalShadow(ncclGinSignal_t signal, uint64_t by) const {
        *ls_cuda_shadow(&comm, signal) += by;
    }
    template <class Coop>
    void waitSignalMeetShadow(Coop coop, ncclGinSignal_t signal, int bits = 64,
                              cuda::memory_order = cuda::memory_order_acquire, LS_CUDA_HERE) const {
        waitSignal(coop, signal, *ls_cuda_shadow(&comm, signal), bits, cuda::memory_order_acquire,
                   ls_at);
    }
    template <class Coop, class Uint>
    void waitSignalFollowShadow(Coop coop, ncclGinSignal_t signal, Uint least, Uint *before,
                                Uint *delta, int bits = 64,
                                cuda::memory_order = cuda::memory_order_acquire,
                                LS_CUDA_HERE) const {
        uint64_t was = *ls_cuda_shadow(&comm, signal);
        waitSignal(coop, signal, was + least, bits, cuda::memory_order_acquire, ls_at);
        uint64_t now = readSignal(signal, bits, cuda::memory_order_acquire, ls_at);
        lockstep::sync(coop, ls_at, 0);
        *before = (Uint)was;
        *delta = (Uint)(now - was);
        if (coop.thread_rank() == 0) {
            *ls_cuda_shadow(&comm, signal) = now;
        }
        lockstep::sync(coop, ls_at, 0);
    }
    uint64_t readCounter(ncclGinCounter_t counter, int bits = 56,
                         cuda::memory_order = cuda::memory_order_acquire, LS_CUDA_HERE) const {
        ls_cuda_cell cell = lockstep_cell(LS_CUDA_COUNTER, nullptr, counter, bits, ls_at);
        return ls_cuda_cell_read(&cell);
    }
    template <class Coop>
    void waitCounter(Coop coop, ncclGinCounter_t counter, uint64_t least, int bits = 56,
                     cuda::memory_order = cuda::memory_order_acquire, LS_CUDA_HERE) const {
        lockstep_wait(lockstep_cell(LS_CUDA_COUNTER, nullptr, counter, bits, ls_at), coop, least,
                      "waitCounter");
    }
    void resetCounter(ncclGinCounter_t counter, LS_CUDA_HERE) const {
        ls_cuda_cell cell = lockstep_cell(LS_CUDA_COUNTER, nullptr, counter, 56, ls_at);
        ls_cuda_cell_reset(&cell);
    }
};
typedef ncclGin_BackendMask<NCCL_GIN_BACKEND_MASK_ALL> ncclGin;

#endif
