# The public face: these headers are installed, all others are the library's own. Every function
# that they declare says LS_API. Nothing else is exported, but what says LS_API_BACKENDS
# (base/exports.h).
set(LOCKSTEP_PUBLIC_HEADERS
    lockstep.h
    base/base.h base/dtype.h base/file.h base/memory.h base/random.h base/status.h base/text.h
    formats/diagnostic.h formats/npy.h formats/safetensors.h
    kernels/element.h kernels/pooling.h
    local_tensor/local_tensor.h
    orders/bound.h orders/explain.h orders/order.h
    collectives/collectives.h collectives/finding.h collectives/recording.h
    backends/kinds.h
    ranks/fault.h ranks/ranks.h
    planner/plan.h planner/plan_file.h planner/planner.h planner/redistribute.h planner/topology.h
    embedding/embedding.h embedding/jagged.h embedding/module.h embedding/oracle.h
    runner/result.h runner/compare/run.h runner/scenario/scenario.h
    report/report.h report/show.h)
set(LOCKSTEP_PUBLIC_HEADERS_MPI backends/mpi/mpi.h)
set(LOCKSTEP_PUBLIC_HEADERS_NCCL backends/nccl/nccl.h)
# Of liblockstep-mpi, where NCCL is built as well.
set(LOCKSTEP_PUBLIC_HEADERS_NCCL_MPI backends/nccl/nccl_mpi.h)
