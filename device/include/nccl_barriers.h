// Part of nccl_device.h: barriers of teams.
#ifndef LS_DEVICE_INCLUDE_NCCL_BARRIERS_H
#define LS_DEVICE_INCLUDE_NCCL_BARRIERS_H

// ---- Barriers -----------------------------------------------------------------------------------
enum class ncclGinFenceLevel { None = 0, Relaxed = 0, Put = 1, Get = 2 };
constexpr ncclGinFenceLevel operator|(ncclGinFenceLevel a, ncclGinFenceLevel b) {
    return (ncclGinFenceLevel)((int)a | (int)b);
}

namespace lockstep {
template <class Coop> struct session {
    ls_cuda_meet meet;
    session(const ncclDevComm &comm, int kind, int context, ncclTeam team, unsigned index)
        : meet{} {
        meet.comm = &comm;
        meet.kind = kind;
        meet.context = context;
        meet.team = {team.nRanks, team.rank, team.stride};
        meet.index = index;
    }
    session(const session &) = delete;
    void arrive_at(Coop coop, int order, int fence, const char *call, ls_cuda_site at) {
        lockstep::sync(coop, at, 0);
        if (coop.thread_rank() == 0) {
            meet.order = order;
            meet.puts = (fence & 1) != 0;
            meet.call = call;
            meet.at = at;
            ls_cuda_arrive(&meet);
        }
    }
    void wait_at(Coop coop, int order, int fence, const char *call, ls_cuda_site at) {
        if (coop.thread_rank() == 0) {
            meet.order = order;
            meet.call = call;
            meet.at = at;
            ls_cuda_await(&meet);
        }
        if ((fence & 2) != 0) {
            ls_cuda_flush(meet.comm, meet.context, false, at);
        }
        lockstep::sync(coop, at, 0);
    }
};
}  // namespace lockstep

template <class Coop> struct ncclLsaBarrierSession : lockstep::session<Coop> {
    ncclLsaBarrierSession(Coop, const ncclDevComm &comm, ncclTeam team, ncclLsaBarrierHandle handle,
                          uint32_t index, bool = false, ncclMultimemHandle = {})
        : lockstep::session<Coop>(comm, handle.kind, 0, team, index) {
    }
    ncclLsaBarrierSession(Coop, const ncclDevComm &comm, ncclTeamTagLsa, uint32_t index,
                          bool = false)
        : lockstep::session<Coop>(comm, LS_CUDA_BARRIER_LSA, 0, ncclTeamLsa(comm), index) {
    }
    void arrive(Coop coop, cuda::memory_order order, LS_CUDA_HERE) {
        this->arrive_at(coop, order, 0, "an LSA barrier", ls_at);
    }
    void wait(Coop coop, cuda::memory_order order, LS_CUDA_HERE) {
        this->wait_at(coop, order, 0, "an LSA barrier", ls_at);
    }
    void sync(Coop coop, cuda::memory_order order, LS_CUDA_HERE) {
        this->arrive_at(coop, order, 0, "an LSA barrier", ls_at);
        this->wait_at(coop, order, 0, "an LSA barrier", ls_at);
    }
};

template <class Coop> struct ncclGinBarrierSession : lockstep::session<Coop> {
    ncclGinBarrierSession(Coop, ncclGin gin, ncclTeam team, ncclGinBarrierHandle handle,
                          uint32_t index)
        : lockstep::session<Coop>(gin.comm, handle.kind, gin.contextId, team, index) {
    }
    ncclGinBarrierSession(Coop, ncclGin gin, ncclTeamTagRail, uint32_t index)
        : lockstep::session<Coop>(gin.comm, LS_CUDA_BARRIER_RAIL, gin.contextId,
                                  ncclTeamRail(gin.comm), index) {
    }
    ncclGinBarrierSession(Coop, ncclGin gin, ncclTeamTagWorld, uint32_t index)
        : lockstep::session<Coop>(gin.comm, LS_CUDA_BARRIER_WORLD, gin.contextId,
                                  ncclTeamWorld(gin.comm), index) {
    }
    void sync(Coop coop, cuda::memory_order order,
              ncclGinFenceLevel fence = ncclGinFenceLevel::Put | ncclGinFenceLevel::Get,
              LS_CUDA_HERE) {
        this->arrive_at(coop, order, (int)fence, "a GIN barrier", ls_at);
        this->wait_at(coop, order, (int)fence, "a GIN barrier", ls_at);
    }
};

// A barrier of all ranks or of one team, and the two that it consists of, with their own states.
template <class Coop> struct ncclBarrierSession : lockstep::session<Coop> {
    ncclLsaBarrierSession<Coop> lockstep_inner;
    ncclGinBarrierSession<Coop> lockstep_outer;

    ncclBarrierSession(Coop coop, ncclTeamTagWorld, ncclGin gin, uint32_t index, bool = false)
        : lockstep::session<Coop>(gin.comm, LS_CUDA_BARRIER_BOTH, gin.contextId,
                                  ncclTeamWorld(gin.comm), index),
          lockstep_inner(coop, gin.comm, ncclTeamLsa(gin.comm), {LS_CUDA_BARRIER_LSA_OF_BOTH},
                         index),
          lockstep_outer(coop, gin, ncclTeamRail(gin.comm), {LS_CUDA_BARRIER_RAIL_OF_BOTH}, index) {
    }
    ncclBarrierSession(Coop coop, ncclTeamTagLsa, const ncclDevComm &comm, uint32_t index,
                       bool = false)
        : lockstep::session<Coop>(comm, LS_CUDA_BARRIER_LSA, 0, ncclTeamLsa(comm), index),
          lockstep_inner(coop, comm, ncclTeamTagLsa(), index),
          lockstep_outer(coop, ncclGin(comm, 0), ncclTeamTagRail(), index) {
    }
    ncclBarrierSession(Coop coop, ncclTeamTagRail, ncclGin gin, uint32_t index)
        : lockstep::session<Coop>(gin.comm, LS_CUDA_BARRIER_RAIL, gin.contextId,
                                  ncclTeamRail(gin.comm), index),
          lockstep_inner(coop, gin.comm, ncclTeamTagLsa(), index),
          lockstep_outer(coop, gin, ncclTeamTagRail(), index) {
    }
    ncclLsaBarrierSession<Coop> &lsaBarrier() {
        return lockstep_inner;
    }
    ncclGinBarrierSession<Coop> &ginBarrier() {
        return lockstep_outer;
    }
    void sync(Coop coop, cuda::memory_order order,
              ncclGinFenceLevel fence = ncclGinFenceLevel::Put | ncclGinFenceLevel::Get,
              LS_CUDA_HERE) {
        this->arrive_at(coop, order, (int)fence, "a barrier", ls_at);
        this->wait_at(coop, order, (int)fence, "a barrier", ls_at);
    }
};

template <class Coop, class Team>
inline void ncclBarrier(Coop coop, Team team, ncclGin gin, uint32_t index,
                        cuda::memory_order order = cuda::memory_order_acq_rel,
                        ncclGinFenceLevel fence = ncclGinFenceLevel::Put | ncclGinFenceLevel::Get,
                        LS_CUDA_HERE) {
    ncclBarrierSession<Coop>(coop, team, gin, index).sync(coop, order, fence, ls_at);
}

#endif
