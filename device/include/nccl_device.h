// NCCL's device API for programs that lockstep-cuda-cc compiles: teams, thread groups, windows, LSA
// and network barriers, GIN. Written from NCCL's documentation (2.28 to 2.30).
#ifndef LS_DEVICE_INCLUDE_NCCL_DEVICE_H
#define LS_DEVICE_INCLUDE_NCCL_DEVICE_H

#include <cuda_atomic.h>
#include <nccl.h>

// ---- Host side ----------------------------------------------------------------------------------
typedef uint32_t ncclGinSignal_t;
typedef uint32_t ncclGinCounter_t;
typedef uint32_t ncclDevResourceHandle_t;

struct ncclTeam {
    int nRanks, rank, stride;
};
typedef ncclTeam ncclTeam_t;
struct ncclTeamTagWorld {};
struct ncclTeamTagLsa {};
struct ncclTeamTagRail {};
struct ncclMultimemHandle {
    void *mcBasePtr;
};
struct ncclLsaBarrierHandle {
    int kind;
};
struct ncclGinBarrierHandle {
    int kind;
};

enum ncclGinType_t { NCCL_GIN_TYPE_NONE = 0, NCCL_GIN_TYPE_PROXY = 2, NCCL_GIN_TYPE_GDAKI = 3 };
enum ncclGinConnectionType_t {
    NCCL_GIN_CONNECTION_NONE = 0,
    NCCL_GIN_CONNECTION_FULL = 1,
    NCCL_GIN_CONNECTION_RAIL = 2
};

struct ncclDevResourceRequirements;
struct ncclTeamRequirements;
struct ncclDevCommRequirements {
    ncclDevResourceRequirements *resourceRequirementsList;
    ncclTeamRequirements *teamRequirementsList;
    bool lsaMultimem;
    int barrierCount, lsaBarrierCount, railGinBarrierCount;
    int lsaLLA2ABlockCount, lsaLLA2ASlotCount;
    bool ginForceEnable;
    int ginContextCount, ginSignalCount, ginCounterCount;
    ncclGinConnectionType_t ginConnectionType;
    bool ginExclusiveContexts;
    int ginQueueDepth, ginTrafficClass, worldGinBarrierCount;
    bool ginStrongSignalsRequired, ginVaSignalsRequired;
};
typedef ncclDevCommRequirements ncclDevCommRequirements_t;
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
    {                                                                                              \
        nullptr, nullptr, false, 0, 0, 0, 0, 0, false, 0, 0, 0, NCCL_GIN_CONNECTION_NONE, false,   \
            0, 0, 0, true, true                                                                    \
    }

struct ncclCommProperties_t {
    int rank, nRanks, cudaDev, nvmlDev;
    bool deviceApiSupport, multimemSupport, hostRmaSupport;
    ncclGinType_t ginType;
    int nLsaTeams;
    ncclGinType_t railedGinType;
};
#define NCCL_COMM_PROPERTIES_INITIALIZER                                                           \
    {}

struct ncclDevComm {
    int rank, nRanks, lsaRank, lsaSize;
    uint8_t ginContextCount;
    void *lockstep_resources;
    ncclLsaBarrierHandle lsaBarrier;
    ncclGinBarrierHandle railGinBarrier, worldGinBarrier;
    ncclMultimemHandle lsaMultimem;
    bool lockstep_weak;
};
typedef ncclDevComm ncclDevComm_t;

inline ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *out) {
    int rank = ls_nccl_rank(comm), size = ls_nccl_size(comm);
    *out = ncclCommProperties_t{rank,
                                size,
                                rank,
                                rank,
                                true,
                                true,
                                false,
                                NCCL_GIN_TYPE_PROXY,
                                size / ls_nccl_lsa_size(comm),
                                NCCL_GIN_TYPE_PROXY};
    return ncclSuccess;
}

inline ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements *of,
                                      ncclDevComm *out, LS_CUDA_HERE) {
    int both = max(of->barrierCount, min(of->lsaBarrierCount, of->railGinBarrierCount));
    ls_cuda_requirements wanted = {of->ginSignalCount,
                                   of->ginCounterCount,
                                   max(of->lsaBarrierCount, of->barrierCount),
                                   max(of->railGinBarrierCount, of->barrierCount),
                                   of->worldGinBarrierCount,
                                   both,
                                   !of->ginStrongSignalsRequired,
                                   of->ginForceEnable ||
                                       of->ginConnectionType != NCCL_GIN_CONNECTION_NONE};
    ls_cuda_devcomm made = {};
    int code = ls_nccl_dev_comm(comm, &wanted, &made, ls_at);
    *out = ncclDevComm{made.rank,
                       made.nranks,
                       made.lsa_rank,
                       made.lsa_size,
                       made.contexts,
                       made.resources,
                       {LS_CUDA_BARRIER_LSA},
                       {LS_CUDA_BARRIER_RAIL},
                       {LS_CUDA_BARRIER_WORLD},
                       {of->lsaMultimem ? made.resources : nullptr},
                       !of->ginStrongSignalsRequired};
    return (ncclResult_t)code;
}
inline ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm *, LS_CUDA_HERE) {
    return (ncclResult_t)ls_nccl_dev_comm_close(comm, ls_at);
}

// ---- Teams --------------------------------------------------------------------------------------
inline ncclTeam ncclTeamWorld(const ncclDevComm &c) {
    return {c.nRanks, c.rank, 1};
}
inline ncclTeam ncclTeamLsa(const ncclDevComm &c) {
    return {c.lsaSize, c.lsaRank, 1};
}
inline ncclTeam ncclTeamRail(const ncclDevComm &c) {
    return {c.nRanks / c.lsaSize, c.rank / c.lsaSize, c.lsaSize};
}
inline ncclTeam ncclTeamWorld(ncclComm_t comm) {
    return {ls_nccl_size(comm), ls_nccl_rank(comm), 1};
}
inline ncclTeam ncclTeamLsa(ncclComm_t comm) {
    int lsa = ls_nccl_lsa_size(comm);
    return {lsa, ls_nccl_rank(comm) % lsa, 1};
}
inline ncclTeam ncclTeamRail(ncclComm_t comm) {
    int lsa = ls_nccl_lsa_size(comm);
    return {ls_nccl_size(comm) / lsa, ls_nccl_rank(comm) / lsa, lsa};
}
inline int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam team, int rank) {
    return ls_nccl_rank(comm) + (rank - team.rank) * team.stride;
}
inline int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam team, int rank) {
    return ls_nccl_rank(comm) % ls_nccl_lsa_size(comm) + (rank - team.rank) * team.stride;
}
inline int ncclTeamRankToWorld(const ncclDevComm &c, ncclTeam team, int rank) {
    return c.rank + (rank - team.rank) * team.stride;
}
inline int ncclTeamRankToLsa(const ncclDevComm &c, ncclTeam team, int rank) {
    return c.lsaRank + (rank - team.rank) * team.stride;
}
inline int ncclTeamRankToTeam(ncclTeam a, ncclTeam b, int peer) {
    return (a.rank * a.stride + (peer - b.rank) * b.stride) / a.stride;
}
inline bool ncclTeamRankIsMember(ncclTeam a, ncclTeam b, int peer) {
    int away = (peer - b.rank) * b.stride, rank = a.rank + away / a.stride;
    return away % a.stride == 0 && rank >= 0 && rank < a.nRanks;
}
inline ncclTeam ncclTeamInnerFactor(ncclTeam parent, int size) {
    return {size, parent.rank % size, parent.stride};
}
inline ncclTeam ncclTeamOuterFactor(ncclTeam parent, int size) {
    return {parent.nRanks / size, parent.rank / size, parent.stride * size};
}

// ---- Thread groups ------------------------------------------------------------------------------
template <int Size> struct ncclCoopTile {
    int thread_rank() const {
        return (int)(ls_cuda_self->lane % Size);
    }
    constexpr int size() const {
        return Size;
    }
    constexpr int num_threads() const {
        return Size;
    }
    void sync(LS_CUDA_HERE) const {
        if (Size > 1) {
            ls_cuda_exchange((Size == 32 ? ~0u : (1u << (Size % 32)) - 1)
                                 << (ls_cuda_self->lane & ~(unsigned)(Size - 1)),
                             0, nullptr, ls_at);
        }
    }
};
typedef ncclCoopTile<1> ncclCoopThread;
typedef ncclCoopTile<32> ncclCoopWarp;

struct ncclCoopLanes {
    uint32_t lmask;
    constexpr ncclCoopLanes(uint32_t mask = ~0u) : lmask(mask) {
    }
    int thread_rank() const {
        return __popc(lmask & ((1u << ls_cuda_self->lane) - 1));
    }
    int size() const {
        return __popc(lmask);
    }
    int num_threads() const {
        return size();
    }
    void sync(LS_CUDA_HERE) const {
        ls_cuda_exchange(lmask, 0, nullptr, ls_at);
    }
};

struct ncclCoopWarpSpan {
    uint32_t warp0, nWarps, id;
    constexpr ncclCoopWarpSpan(int first, int warps, int number)
        : warp0((uint32_t)first), nWarps((uint32_t)warps), id((uint32_t)number) {
    }
    int thread_rank() const {
        return (int)(threadIdx.x - 32 * warp0);
    }
    int size() const {
        return (int)(32 * nWarps);
    }
    int num_threads() const {
        return size();
    }
    void sync(LS_CUDA_HERE) const {
        ls_cuda_barrier((int)(1 + id) % 16, 32 * nWarps, ls_at);
    }
};

struct ncclCoopCta {
    int thread_rank() const {
        return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    }
    int size() const {
        return (int)(blockDim.x * blockDim.y * blockDim.z);
    }
    int num_threads() const {
        return size();
    }
    void sync(LS_CUDA_HERE) const {
        ls_cuda_barrier(0, 0, ls_at);
    }
};

namespace lockstep {
// A group's sync: of those above with the line of the call, of CUDA's groups and others without.
template <class Coop>
inline auto sync(Coop &coop, ls_cuda_site at, int) -> decltype(coop.sync(at), void()) {
    coop.sync(at);
}
template <class Coop> inline void sync(Coop &coop, ls_cuda_site, long) {
    coop.sync();
}
}  // namespace lockstep

// ---- Windows ------------------------------------------------------------------------------------
inline void *ncclGetLocalPointer(ncclWindow_t w, size_t offset) {
    return ls_cuda_window_pointer(w, offset, ls_nccl_window_rank(w));
}
inline void *ncclGetPeerPointer(ncclWindow_t w, size_t offset, int peer) {
    int lsa = ls_nccl_window_lsa(w), own = ls_nccl_window_rank(w);
    return peer / lsa == own / lsa ? ls_cuda_window_pointer(w, offset, peer) : nullptr;
}
inline void *ncclGetPeerPointer(ncclWindow_t w, size_t offset, ncclTeam team, int peer) {
    return ncclGetPeerPointer(w, offset, ls_nccl_window_rank(w) + (peer - team.rank) * team.stride);
}
inline void *ncclGetLsaPointer(ncclWindow_t w, size_t offset, int peer) {
    int lsa = ls_nccl_window_lsa(w), own = ls_nccl_window_rank(w);
    return ls_cuda_window_pointer(w, offset, own / lsa * lsa + peer);
}

inline void *ncclGetMultimemPointer(ncclWindow_t w, size_t offset, ncclMultimemHandle of,
                                    LS_CUDA_HERE) {
    return ls_cuda_multimem_pointer(w, offset, of.mcBasePtr != nullptr, ls_at);
}
inline void *ncclGetLsaMultimemPointer(ncclWindow_t w, size_t offset, const ncclDevComm &comm,
                                       LS_CUDA_HERE) {
    return ls_cuda_multimem_pointer(w, offset, comm.lsaMultimem.mcBasePtr != nullptr, ls_at);
}
// Of the host.
inline ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t w, size_t offset, void **out,
                                                    LS_CUDA_HERE) {
    *out = ls_cuda_multimem_pointer(w, offset, true, ls_at);
    return ncclSuccess;
}
inline ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t w, size_t offset, int peer, void **out) {
    *out = ncclGetLsaPointer(w, offset, peer);
    return ncclSuccess;
}
inline ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t w, size_t offset, int peer, void **out) {
    *out = ncclGetPeerPointer(w, offset, peer);
    return ncclSuccess;
}

template <class T> struct ncclSymPtr {
    typedef T ElementType;
    ncclWindow_t window;
    size_t offset;
    constexpr ncclSymPtr(ncclWindow_t w = nullptr, size_t at = 0) : window(w), offset(at) {
    }
    template <class U> operator ncclSymPtr<U>() const {
        return {window, offset};
    }
    template <class I> ncclSymPtr &operator+=(I by) {
        offset += (size_t)by * sizeof(T);
        return *this;
    }
    template <class I> ncclSymPtr &operator-=(I by) {
        offset -= (size_t)by * sizeof(T);
        return *this;
    }
    T *lsaMultimemPtr(const ncclDevComm &comm, LS_CUDA_HERE) const {
        return (T *)ncclGetLsaMultimemPointer(window, offset, comm, ls_at);
    }
    T *localPtr() const {
        return (T *)ncclGetLocalPointer(window, offset);
    }
    T *lsaPtr(int peer) const {
        return (T *)ncclGetLsaPointer(window, offset, peer);
    }
    T *peerPtr(int peer) const {
        return (T *)ncclGetPeerPointer(window, offset, peer);
    }
    T *peerPtr(ncclTeam team, int peer) const {
        return (T *)ncclGetPeerPointer(window, offset, team, peer);
    }
};
template <class T, class I> inline ncclSymPtr<T> operator+(ncclSymPtr<T> p, I by) {
    return p += by;
}
template <class T, class I> inline ncclSymPtr<T> operator-(ncclSymPtr<T> p, I by) {
    return p -= by;
}

#include <nccl_gin.h>
#include <nccl_barriers.h>

#endif
