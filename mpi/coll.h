// Collectives, for the files that post and complete them.
#pragma once

#include "mpi/internal.h"

int ls_mpi__met(ls_spmd *run, ls_request *const *requests, int size);
// Posts the collective; request NULL: blocking.
int ls_mpi__collective(mpi_rank *me, const mpi_record *record, MPI_Request *request);
extern const mpi_collective ls_mpi__barrier, ls_mpi__bcast, ls_mpi__gather, ls_mpi__gatherv,
    ls_mpi__scatter, ls_mpi__scatterv, ls_mpi__allgather, ls_mpi__allgatherv, ls_mpi__alltoall,
    ls_mpi__alltoallv, ls_mpi__alltoallw, ls_mpi__collective_reduce, ls_mpi__allreduce,
    ls_mpi__reduce_scatter, ls_mpi__reduce_scatter_block, ls_mpi__scan, ls_mpi__exscan,
    ls_mpi__neighbor_allgather, ls_mpi__neighbor_allgatherv, ls_mpi__neighbor_alltoall,
    ls_mpi__neighbor_alltoallv, ls_mpi__neighbor_alltoallw;
// A disagreement that was found while data moved: the two sides of a block do not match.
typedef struct mpi_move_state {
    long *keys;  // [size] 1: at fault
    int size;
    ls_finding_id id;
    char what[256];  // "": none
} mpi_move_state;
extern mpi_move_state ls_mpi__move_state;

// Checks where a block of a list is.
int ls_mpi__block_reach_arg(mpi_where at, mpi_comm *comm, const mpi_side *side, int b,
                            const mpi_type *type);
// The number of blocks of a side on this member.
int ls_mpi__blocks_of(const mpi_comm *comm, const mpi_collective *kind, bool send);
// The datatype of block b.
const mpi_type *ls_mpi__block_type(mpi_rank *me, const mpi_side *side, int b);
// ---- owned.c: ls_mpi__own and ls_mpi__touch_typed for several places
mpi_owned *ls_mpi__own_places(mpi_rank *me, const mpi_place *places, size_t n, bool writes,
                              const char *function);
void ls_mpi__touch_places(mpi_rank *me, const mpi_place *places, size_t n, bool writes,
                          const char *function);
// ---- lists.c
void ls_mpi__lists_copy(mpi_request *request);
void ls_mpi__lists_own(mpi_rank *me, mpi_request *request);
