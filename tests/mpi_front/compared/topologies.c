// Topologies, of 6 ranks: grids, graphs, and MPI's queries.
#include "say.h"

static void topo(const char *what, MPI_Comm comm) {
    int kind = -1;
    if (comm == MPI_COMM_NULL) {
        printf("%s: none\n", what);
        return;
    }
    MPI_Topo_test(comm, &kind);
    printf("%s: %s\n", what,
           kind == MPI_CART         ? "grid"
           : kind == MPI_GRAPH      ? "graph"
           : kind == MPI_DIST_GRAPH ? "dist graph"
           : kind == MPI_UNDEFINED  ? "none"
                                    : "?");
    say_comm(what, comm);
}

// All queries of a grid.
static void grid(const char *what, MPI_Comm comm) {
    int n, dims[4] = {0}, periods[4] = {0}, coords[4] = {0}, size, own;
    topo(what, comm);
    if (comm == MPI_COMM_NULL) {
        return;
    }
    MPI_Cartdim_get(comm, &n);
    MPI_Comm_size(comm, &size);
    MPI_Cart_get(comm, 4, dims, periods, coords);
    SAY("dimensions", n);
    say("of", n, dims);
    say("periodic", n, periods);
    say("at", n, coords);
    for (int rank = 0; rank < size; rank++) {
        MPI_Cart_coords(comm, rank, n, coords);
        MPI_Cart_rank(comm, coords, &own);
        say("coordinates", n, coords);
        for (int d = 0; d < n; d++) {  // outside, where it goes around
            coords[d] += periods[d] ? (rank % 2 ? 2 : -3) * dims[d] : 0;
        }
        int far = -1;
        MPI_Cart_rank(comm, coords, &far);
        SAY("rank", own, far);
    }
    for (int d = 0; d < n; d++) {
        int ends[14];
        for (int by = -3; by <= 3; by++) {
            MPI_Cart_shift(comm, d, by, &ends[2 * by + 6], &ends[2 * by + 7]);
        }
        say("shifts", 14, ends);
    }
}

static void grids(void) {
    static const struct {
        int n, dims[4], periods[4];
    } of[] = {
        {2, {3, 2}, {1, 0}},
        {2, {2, 3}, {0, 1}},
        {1, {6}, {1}},
        {1, {4}, {0}},
        {3, {1, 3, 2}, {1, 0, 1}},
        {3, {2, 1, 2}, {0, 0, 1}},
        {4, {1, 2, 1, 3}, {1, 1}},
        {2, {1, 1}, {1, 0}},
        {0, {0}, {0}},
    };
    MPI_Comm backwards, comm, sub;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &backwards);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        int rank = -1;
        MPI_Cart_create(i % 2 ? backwards : MPI_COMM_WORLD, of[i].n, of[i].dims, of[i].periods, 0,
                        &comm);
        grid("grid", comm);
        if (of[i].n > 0) {
            MPI_Cart_map(backwards, of[i].n, of[i].dims, of[i].periods, &rank);
            SAY("map", rank);
        }
        // keeping none makes a grid of one rank on each rank; in MPICH only on one
        static const int kept[][5] = {{0}, {0}, {1, 2}, {2, 5, 6}, {6, 9}};
        for (const int *k = kept[of[i].n]; comm != MPI_COMM_NULL && *k != 0; k++) {
            int keep = *k;
            int remain[] = {keep & 1, keep & 2, keep & 4, keep & 8};
            MPI_Cart_sub(comm, remain, &sub);
            grid("sub", sub);
            MPI_Comm_free(&sub);
        }
        if (comm != MPI_COMM_NULL) {
            if (i == 0) {
                MPI_Comm_dup(comm, &sub);
                grid("dup", sub);
                MPI_Comm_free(&sub);
                MPI_Comm_split(comm, 0, 0, &sub);
                topo("split", sub);
                MPI_Comm_free(&sub);
            }
            MPI_Comm_free(&comm);
        }
    }
    MPI_Comm_free(&backwards);
}

static void dims(void) {
    static const struct {
        int nodes, n, dims[4];
    } of[] = {
        {6, 2, {0}},        {6, 3, {0}},     {12, 2, {0, 0}}, {12, 3, {0}},          {16, 2, {0}},
        {16, 4, {0}},       {7, 2, {0}},     {1, 3, {0}},     {36, 2, {0}},          {60, 3, {0}},
        {24, 2, {0, 3}},    {24, 3, {0, 4}}, {24, 3, {2, 0}}, {12, 2, {3, 4}},       {64, 3, {0}},
        {30, 3, {0, 0, 5}}, {100, 2, {0}},   {97, 1, {0}},    {72, 4, {0, 2, 0, 1}}, {1024, 3, {0}},
        {8, 4, {0, 0, 2}},  {360, 4, {0}},   {5, 4, {0}},     {360, 3, {0}},         {20, 4, {0}},
        {99, 4, {0}},
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        int made[4];
        memcpy(made, of[i].dims, sizeof made);
        MPI_Dims_create(of[i].nodes, of[i].n, made);
        say("dims", of[i].n, made);
    }
}

static void graph(const char *what, MPI_Comm comm) {
    int nodes, edges, index[8], ends[16], count;
    topo(what, comm);
    if (comm == MPI_COMM_NULL) {
        return;
    }
    MPI_Graphdims_get(comm, &nodes, &edges);
    MPI_Graph_get(comm, 8, 16, index, ends);
    SAY("graph", nodes, edges);
    say("index", nodes, index);
    say("edges", edges, ends);
    for (int rank = 0; rank < nodes; rank++) {
        memset(ends, 0, sizeof ends);
        MPI_Graph_neighbors_count(comm, rank, &count);
        MPI_Graph_neighbors(comm, rank, count, ends);
        say("neighbors", count, ends);
    }
}

static void graphs(void) {
    static const struct {
        int nodes, index[6], edges[14];
    } of[] = {
        {4, {2, 3, 4, 6}, {1, 3, 0, 3, 0, 2}},
        {6, {0, 3, 3, 5, 9, 10}, {1, 2, 5, 4, 4, 0, 4, 1, 5, 4}},  // a loop, and edges twice
        {6, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 0}},
        {1, {1}, {0}},
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        MPI_Comm comm, dup;
        int rank = -1;
        MPI_Graph_create(MPI_COMM_WORLD, of[i].nodes, of[i].index, of[i].edges, 0, &comm);
        MPI_Graph_map(MPI_COMM_WORLD, of[i].nodes, of[i].index, of[i].edges, &rank);
        SAY("map", rank);
        graph("graph", comm);
        if (comm != MPI_COMM_NULL) {
            MPI_Comm_dup(comm, &dup);
            graph("dup", dup);
            MPI_Comm_free(&dup);
            MPI_Comm_free(&comm);
        }
    }
}

static int by_value(const void *a, const void *b) {
    return memcmp(a, b, 2 * sizeof(int)) == 0           ? 0
           : ((const int *)a)[0] != ((const int *)b)[0] ? ((const int *)a)[0] - ((const int *)b)[0]
                                                        : ((const int *)a)[1] - ((const int *)b)[1];
}

// `sorted`: MPI leaves their order open.
static void dist_graph(const char *what, MPI_Comm comm, int sorted) {
    int in, out, weighted, ends[2][16], weights[2][16], pairs[32];
    topo(what, comm);
    memset(weights, 0, sizeof weights);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    SAY("degrees", in, out, weighted != 0);
    MPI_Dist_graph_neighbors(comm, in, ends[0], weighted ? weights[0] : MPI_UNWEIGHTED, out,
                             ends[1], weighted ? weights[1] : MPI_UNWEIGHTED);
    for (int side = 0; side < 2; side++) {
        int count = side == 0 ? in : out;
        for (int i = 0; i < count; i++) {
            pairs[2 * i] = ends[side][i];
            pairs[2 * i + 1] = weights[side][i];
        }
        if (sorted) {
            qsort(pairs, (size_t)count, 2 * sizeof(int), by_value);
        }
        say(side == 0 ? "from" : "to", 2 * count, pairs);
    }
}

static void dist_graphs(void) {
    int left = (me + 5) % 6, right = (me + 1) % 6, opposite = (me + 3) % 6;
    MPI_Comm comm, dup;
    // to the right and across, each with a weight that both ends know
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, (int[]){left, opposite},
                                   (int[]){10 + left, 20 + opposite}, 2, (int[]){opposite, right},
                                   (int[]){20 + me, 10 + me}, MPI_INFO_NULL, 0, &comm);
    dist_graph("adjacent", comm, 0);
    MPI_Comm_dup(comm, &dup);
    dist_graph("dup", dup, 0);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, me == 0 ? 5 : 0, (int[]){1, 2, 3, 4, 5},
                                   MPI_UNWEIGHTED, me != 0, (int[]){0}, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &comm);
    dist_graph("star", comm, 0);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create_adjacent(
        MPI_COMM_WORLD, me == 4, (int[]){4}, me == 4 ? (int[]){77} : MPI_WEIGHTS_EMPTY, me == 4,
        (int[]){4}, me == 4 ? (int[]){77} : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &comm);
    dist_graph("loop", comm, 0);
    MPI_Comm_free(&comm);
    // all passed by ranks 1 and 2, including others' edges
    int sources[2][2] = {{3, 0}, {5, 3}}, degrees[2][2] = {{2, 3}, {1, 2}};
    int ends[2][5] = {{1, 4, 5, 2, 0}, {5, 0, 2}}, weights[2][5] = {{1, 2, 3, 4, 5}, {6, 7, 8}};
    for (int weighted = 0; weighted < 2; weighted++) {
        int some = me == 1 || me == 2, i = me == 2;
        MPI_Dist_graph_create(MPI_COMM_WORLD, some ? 2 : 0, sources[i], degrees[i], ends[i],
                              weighted ? (some ? weights[i] : MPI_WEIGHTS_EMPTY) : MPI_UNWEIGHTED,
                              MPI_INFO_NULL, 0, &comm);
        dist_graph("of all edges", comm, 1);
        MPI_Comm_free(&comm);
    }
}

int main(void) {
    start();
    topo("world", MPI_COMM_WORLD);
    dims();
    grids();
    graphs();
    dist_graphs();
    MPI_Finalize();
    return 0;
}
