// Collectives of neighbors: along lines and rings, in a grid, and in graphs, one of whose edges
// leads to where it begins.
#include "compared.h"

static int in[ROOM], out[ROOM];

static void start(int rank) {
    fill(in, 100 * (rank + 1));
    fill(out, -1);
}

// Data to `outs` neighbors and from `ins`. If two of them are one rank, MPICH 4.0.2 gives
// MPI_Neighbor_alltoallv and _alltoallw no order.
static void exchange(const char *name, MPI_Comm comm, int outs, int ins, int twice) {
    int rank, counts[2][8], displs[2][8];
    MPI_Aint bytes[2][8];
    MPI_Datatype types[2][8], pair;
    MPI_Comm_rank(comm, &rank);
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i < 8; i++) {
        for (int side = 0; side < 2; side++) {
            displs[side][i] = side == 0 ? 3 * i : 3 * (7 - i);
            bytes[side][i] = displs[side][i] * (MPI_Aint)sizeof(int);
            types[side][i] = MPI_INT;
        }
        types[i % 2][i] = pair;
    }
    for (form how = 0; how < FORM_COUNT; how++) {
        for (int i = 0; i < 8; i++) {
            counts[0][i] = counts[1][i] = 2;
        }
        printf("%s, %d out, %d in, form %d\n", name, outs, ins, (int)how);
        start(rank);
        CALL(how, Neighbor_allgather, neighbor_allgather, in, 2, MPI_INT, out, 1, pair, comm);
        show("allgather", out, ROOM);
        start(rank);
        CALL(how, Neighbor_alltoall, neighbor_alltoall, in, 1, pair, out, 2, MPI_INT, comm);
        show("alltoall", out, ROOM);
        start(rank);
        CALL(how, Neighbor_allgatherv, neighbor_allgatherv, in, 2, MPI_INT, out, counts[1],
             displs[1], MPI_INT, comm);
        show("allgatherv", out, ROOM);
        if (twice) {
            continue;
        }
        start(rank);
        CALL(how, Neighbor_alltoallv, neighbor_alltoallv, in, counts[0], displs[0], MPI_INT, out,
             counts[1], displs[1], MPI_INT, comm);
        show("alltoallv", out, ROOM);
        for (int i = 0; i < 8; i++) {
            counts[i % 2][i] = 1;
        }
        start(rank);
        CALL(how, Neighbor_alltoallw, neighbor_alltoallw, in, counts[0], bytes[0], types[0], out,
             counts[1], bytes[1], types[1], comm);
        show("alltoallw", out, ROOM);
    }
    MPI_Type_free(&pair);
}

static void along(const char *name, int ndims, const int *dims, const int *periods, int twice) {
    MPI_Comm comm;
    MPI_Cart_create(WORLD, ndims, dims, periods, 0, &comm);
    if (comm != MPI_COMM_NULL) {
        exchange(name, comm, 2 * ndims, 2 * ndims, twice);
        MPI_Comm_free(&comm);
    }
}

static void in_graph(int rank) {
    static const int edges[][2] = {{0, 1}, {3, 1}, {1, 1}, {0, 4}, {4, 0},
                                   {2, 0}, {3, 2}, {4, 3}, {1, 0}};
    int sources[8], ends[8], ins = 0, outs = 0;
    const int index[5] = {2, 4, 6, 8, 8}, neighbors[8] = {3, 1, 0, 2, 1, 3, 2, 0};
    MPI_Comm comm;
    for (int e = 0; e < LAST(edges); e++) {
        if (edges[e][0] == rank) {
            ends[outs++] = edges[e][1];
        }
        if (edges[e][1] == rank) {
            sources[ins++] = edges[e][0];
        }
    }
    MPI_Dist_graph_create_adjacent(WORLD, ins, sources, MPI_UNWEIGHTED, outs, ends, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &comm);
    exchange("edges", comm, outs, ins, 0);
    MPI_Comm_free(&comm);
    MPI_Graph_create(WORLD, 5, index, neighbors, 0, &comm);
    exchange("graph", comm, rank < 4 ? 2 : 0, rank < 4 ? 2 : 0, 0);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    along("ring", 1, (int[]){5}, (int[]){1}, 0);
    along("line", 1, (int[]){5}, (int[]){0}, 0);
    along("grid", 2, (int[]){2, 2}, (int[]){0, 0}, 0);
    along("two", 1, (int[]){2}, (int[]){1}, 1);
    along("one", 2, (int[]){1, 5}, (int[]){1, 1}, 1);
    in_graph(rank);
    MPI_Finalize();
    return 0;
}
