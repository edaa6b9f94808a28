# The public face: what these headers declare with LS_API. Users get copies of them without the rest
# (cmake/headers.py public) and include them as <lockstep/...>; all other headers are the library's own. Nothing else is exported, but
# what says LS_API_BACKENDS.
set(LOCKSTEP_PUBLIC_HEADERS
    lockstep.h
    base/base.h base/dtype.h base/memory.h base/options.h base/status.h base/text.h base/version.h
    formats/diagnostic.h
    kernels/optimizer.h kernels/pooling.h kernels/quantise.h
    local_tensor/local_tensor.h
    orders/order.h
    collectives/calls.h collectives/collectives.h collectives/finding.h collectives/recording.h
    backends/kinds.h
    ranks/fault.h ranks/ranks.h
    planner/plan.h planner/plan_file.h planner/planner.h planner/topology.h
    embedding/checkpoint.h embedding/embedding.h embedding/functional.h embedding/jagged.h embedding/module.h embedding/training.h
    runner/result.h runner/compare/run.h runner/scenario/load.h
    report/report.h)
set(LOCKSTEP_PUBLIC_HEADERS_MPI backends/mpi/mpi.h)
set(LOCKSTEP_PUBLIC_HEADERS_NCCL backends/nccl/nccl.h)
# Of liblockstep-mpi, where NCCL is built as well.
set(LOCKSTEP_PUBLIC_HEADERS_NCCL_MPI backends/nccl/nccl_mpi.h)
