// Collectives with a block for each member, each at a place of its own.
#include "cases.h"

static int sent[32], values[32];
static const int ones[3] = {1, 1, 1};

// The memory between two blocks is the program's.
static void between_blocks_in_flight(void) {
    const int places[3] = {0, 2, 4};
    MPI_Request request;
    MPI_Iallgatherv(&rank, 1, MPI_INT, values, ones, places, MPI_INT, WORLD, &request);
    values[wrong ? 2 : 3] = 5;  // wrong: buffer.use_before_wait
    MPI_Wait(&request, STATUS);
}

static void two_sets_of_blocks(void) {
    const int places[3] = {0, 2, 4};
    MPI_Request requests[2];
    MPI_Iallgatherv(&rank, 1, MPI_INT, values, ones, places, MPI_INT, WORLD, &requests[0]);
    // wrong: buffer.use_before_wait, MPI_Iallgatherv
    MPI_Iallgatherv(&rank, 1, MPI_INT, values + (wrong ? 2 : 1), ones, places, MPI_INT, WORLD,
                    &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void blocks_of_several_types(void) {
    const int places[3] = {0, 8, 16};
    const MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    MPI_Request request;
    MPI_Ialltoallw(sent, ones, places, types, values, ones, places, types, WORLD, &request);
    values[wrong ? 2 : 1] = 5;  // wrong: buffer.use_before_wait
    MPI_Wait(&request, STATUS);
}

static void sent_blocks_of_several_types(void) {
    const int places[3] = {0, 8, 16};
    const MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    MPI_Request request;
    MPI_Ialltoallw(sent, ones, places, types, values, ones, places, types, WORLD, &request);
    sent[wrong ? 2 : 1] = 5;  // wrong: buffer.use_before_wait
    MPI_Wait(&request, STATUS);
}

// A datatype may be freed while a call uses it.
static void types_freed_in_flight(void) {
    const int places[3] = {0, 16, 32};
    MPI_Datatype types[3];
    MPI_Request request, persistent;
    for (int i = 0; i < 3; i++) {
        MPI_Type_vector(2, 1, 2, MPI_INT, &types[i]);
        MPI_Type_commit(&types[i]);
        values[4 * i] = values[4 * i + 2] = 3 * rank + i;
    }
    MPI_Ialltoallw(MPI_IN_PLACE, NULL, NULL, NULL, values, ones, places, types, WORLD, &request);
    MPI_Alltoallw_init(sent, ones, places, types, values + 16, ones, places, types, WORLD,
                       MPI_INFO_NULL, &persistent);
    for (int i = 0; i < 3; i++) {
        MPI_Type_free(&types[i]);
    }
    MPI_Wait(&request, STATUS);
    for (int i = 0; i < 3; i++) {
        if (values[4 * i] != 3 * i + rank || values[4 * i + 2] != 3 * i + rank) {
            MPI_Abort(WORLD, 1);
        }
    }
    for (int k = 0; k < 2; k++) {
        MPI_Start(&persistent);
        if (k == 1 && wrong) {
            values[16] = 1;  // wrong: buffer.use_before_wait
        }
        MPI_Wait(&persistent, STATUS);
    }
    MPI_Request_free(&persistent);
}

static void no_places(void) {
    const int places[3] = {0, 1, 2};
    // wrong: call.invalid, MPI_Alltoallv: MPI_ERR_ARG: the list of displacements is NULL
    MPI_Alltoallv(sent, ones, wrong ? NULL : places, MPI_INT, values, ones, places, MPI_INT, WORLD);
}

static void no_places_of_several_types(void) {
    const int places[3] = {0, 4, 8};
    const MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    // wrong: call.invalid, MPI_Alltoallw: MPI_ERR_ARG: the list of displacements is NULL
    MPI_Alltoallw(sent, ones, places, types, values, ones, wrong ? NULL : places, types, WORLD);
}

static void in_place_off_the_root(void) {
    const void *own = rank == 0 || (wrong && rank == 1) ? MPI_IN_PLACE : (const void *)sent;
    // wrong: call.invalid, MPI_Reduce: MPI_ERR_BUFFER: MPI_IN_PLACE is not allowed here
    MPI_Reduce(own, values, 1, MPI_INT, MPI_SUM, 0, WORLD);
}

static void in_place_on_some(void) {
    const void *own = wrong && rank == 1 ? MPI_IN_PLACE : (const void *)sent;
    // wrong: collective.kind_mismatch, some members pass MPI_IN_PLACE, and others a send buffer
    MPI_Allreduce(own, values, 1, MPI_INT, MPI_SUM, WORLD);
    MPI_Scan(own, values, 1, MPI_INT, MPI_SUM, WORLD);
}

// A member that gets nothing needs no buffer.
static void parts_of_a_result(void) {
    int parts[3] = {0, 1, 2}, from_each[3] = {3, 4, 5};
    parts[1] += wrong && rank == 2 ? 1 : 0;
    parts[2] -= wrong && rank == 2 ? 1 : 0;
    // wrong: collective.count_mismatch, member 2 gives 2 elements to member 1, member 0 1
    MPI_Reduce_scatter(from_each, rank == 0 ? NULL : values, parts, MPI_INT, MPI_SUM, WORLD);
}

// Rank 2 has no neighbors, and no buffers.
static void in_place_of_neighbors(void) {
    const int both[2] = {0, 1}, n = rank < 2 ? 2 : 0;
    int got[2], *in = n > 0 ? got : NULL;
    const void *own = n > 0 ? &rank : NULL;
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(WORLD, n, both, MPI_UNWEIGHTED, n, both, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    // wrong: call.invalid, MPI_Neighbor_allgather: MPI_ERR_BUFFER: MPI_IN_PLACE is not allowed here
    MPI_Neighbor_allgather(wrong ? MPI_IN_PLACE : own, wrong ? 0 : 1, MPI_INT, in, 1, MPI_INT,
                           graph);
    MPI_Neighbor_alltoall(n > 0 ? got : NULL, 1, MPI_INT, n > 0 ? values : NULL, 1, MPI_INT, graph);
    MPI_Comm_free(&graph);
}

static void no_root_of_two_groups(void) {
    MPI_Comm own, both;
    int side = rank == 0 ? 0 : 1, root = side == 0 ? MPI_ROOT : 0;
    MPI_Comm_split(WORLD, side, 0, &own);
    MPI_Intercomm_create(own, 0, WORLD, 1 - side, 5, &both);
    // wrong: collective.root_mismatch, the members of a communicator name different roots
    MPI_Bcast(values, 1, MPI_INT, wrong && side == 0 ? MPI_PROC_NULL : root, both);
    MPI_Comm_free(&both);
    MPI_Comm_free(&own);
}

#define CASE(name)                                                                                 \
    { #name, name }
CASES(CASE(between_blocks_in_flight), CASE(two_sets_of_blocks), CASE(blocks_of_several_types),
      CASE(sent_blocks_of_several_types), CASE(types_freed_in_flight), CASE(no_places),
      CASE(no_places_of_several_types), CASE(in_place_off_the_root), CASE(in_place_on_some),
      CASE(parts_of_a_result), CASE(in_place_of_neighbors), CASE(no_root_of_two_groups))
