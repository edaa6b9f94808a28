// Cartesian grids and graphs.
#include <stdlib.h>
#include <string.h>

#include "mpi/coll.h"

static const mpi_collective making = {.name = "a new communicator", .make = ls_mpi__make_comms};

static int *copy_of(const int *list, int count) {
    int *made = ls_mpi__alloc((size_t)count * sizeof *made);
    if (count > 0 && list != NULL) {
        memcpy(made, list, (size_t)count * sizeof *made);
    }
    return made;
}

static int make(mpi_where at, mpi_comm *of, mpi_topology *topology, int nodes, MPI_Comm *out) {
    const mpi_record record = {.collective = &making,
                               .comm = of,
                               .function = at.function,
                               .color = of->rank < nodes ? 0 : MPI_UNDEFINED,
                               .key = of->rank,
                               .out = out,
                               .topology = topology};
    return ls_mpi__collective(at.me, &record, NULL);
}

static int topology_arg(mpi_comm **out, mpi_where at, MPI_Comm comm, int kind) {
    MPI_TRY(ls_mpi__comm_arg(out, at, comm));
    if ((*out)->topology == NULL || (*out)->topology->kind != kind) {
        return ls_mpi__error(at.me, *out, MPI_ERR_TOPOLOGY, at.function,
                             "the communicator has no %s",
                             kind == MPI_CART ? "Cartesian topology" : "graph topology");
    }
    return MPI_SUCCESS;
}

// A list of the program's: `count` ranks below `end`.
static int ranks_arg(mpi_where at, mpi_comm *of, const char *what, int count, const int *list,
                     int end) {
    MPI_TRY(ls_mpi__count_arg(at, of, what, count));
    if (count > 0 && list == NULL) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, at.function, "%s is %d, but the list is NULL",
                             what, count);
    }
    ls_mpi__bytes_check(at.me, list, (size_t)count * sizeof *list, at.function);
    for (int i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] >= end) {
            return ls_mpi__error(at.me, of, MPI_ERR_RANK, at.function,
                                 "a rank of the list is %d, not in [0, %d)", list[i], end);
        }
    }
    return MPI_SUCCESS;
}

// ---- Grids --------------------------------------------------------------------------------------
static int rank_at(const mpi_topology *t, const int *coords, int d, int shift) {
    int rank = 0;
    for (int i = 0; i < t->ndims; i++) {
        int c = coords[i] + (i == d ? shift : 0);
        if (c < 0 || c >= t->dims[i]) {
            if (t->periods[i] == 0) {
                return MPI_PROC_NULL;
            }
            c = (c % t->dims[i] + t->dims[i]) % t->dims[i];
        }
        rank = rank * t->dims[i] + c;
    }
    return rank;
}

static void coords_of(const mpi_topology *t, int rank, int *coords) {
    for (int d = t->ndims - 1; d >= 0; d--) {
        coords[d] = rank % t->dims[d];
        rank /= t->dims[d];
    }
}

static mpi_topology *new_grid(int ndims, const int *dims, const int *periods, int rank) {
    mpi_topology *t = ls_mpi__alloc(sizeof *t);
    t->kind = MPI_CART;
    t->ndims = ndims;
    t->dims = copy_of(dims, ndims);
    t->periods = copy_of(periods, ndims);
    t->coords = copy_of(NULL, ndims);
    coords_of(t, rank, t->coords);
    t->in_count = t->out_count = 2 * ndims;
    t->in = copy_of(NULL, 2 * ndims);
    for (int d = 0; d < ndims; d++) {
        t->in[2 * d] = rank_at(t, t->coords, d, -1);
        t->in[2 * d + 1] = rank_at(t, t->coords, d, 1);
    }
    t->out = t->in;
    return t;
}

static int intra_arg(mpi_comm **out, mpi_where at, MPI_Comm comm) {
    MPI_TRY(ls_mpi__comm_arg(out, at, comm));
    return !(*out)->inter ? MPI_SUCCESS
                          : ls_mpi__error(at.me, *out, MPI_ERR_COMM, at.function,
                                          "the communicator is an intercommunicator");
}

int MPI_Cart_create(MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder,
                    MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    (void)reorder;
    MPI_TRY(intra_arg(&of, at, comm));
    MPI_TRY(ls_mpi__out_arg(at, "communicator", out));
    *out = MPI_COMM_NULL;
    long nodes = 1;
    for (int d = 0; d < ndims; d++) {
        if (dims[d] < 1) {
            return ls_mpi__error(at.me, of, MPI_ERR_DIMS, __func__, "dimension %d is %d", d,
                                 dims[d]);
        }
        nodes *= dims[d];
    }
    if (ndims < 0 || nodes > of->size) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__,
                             "a grid of %ld ranks on a communicator of %d", nodes, of->size);
    }
    return make(at, of, new_grid(ndims, dims, periods, of->rank), (int)nodes, out);
}

int MPI_Cart_get(MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[]) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_CART));
    const mpi_topology *t = of->topology;
    if (maxdims < t->ndims) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__, "room for %d dimensions of %d",
                             maxdims, t->ndims);
    }
    for (int d = 0; d < t->ndims; d++) {
        dims[d] = t->dims[d];
        periods[d] = t->periods[d];
        coords[d] = t->coords[d];
    }
    return MPI_SUCCESS;
}

int MPI_Cart_rank(MPI_Comm comm, const int coords[], int *rank) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_CART));
    *rank = rank_at(of->topology, coords, -1, 0);
    return *rank != MPI_PROC_NULL
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__, "coordinates outside of the grid");
}

int MPI_Cart_coords(MPI_Comm comm, int rank, int maxdims, int coords[]) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_CART));
    if (rank < 0 || rank >= of->size || maxdims < of->topology->ndims) {
        return ls_mpi__error(at.me, of, rank < 0 || rank >= of->size ? MPI_ERR_RANK : MPI_ERR_ARG,
                             __func__, "rank %d, room for %d dimensions", rank, maxdims);
    }
    coords_of(of->topology, rank, coords);
    return MPI_SUCCESS;
}

int MPI_Cart_shift(MPI_Comm comm, int direction, int displacement, int *source, int *dest) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_CART));
    const mpi_topology *t = of->topology;
    if (direction < 0 || direction >= t->ndims) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__, "direction %d of %d dimensions",
                             direction, t->ndims);
    }
    *source = rank_at(t, t->coords, direction, -displacement);
    *dest = rank_at(t, t->coords, direction, displacement);
    return MPI_SUCCESS;
}

int MPI_Cart_sub(MPI_Comm comm, const int remain[], MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_CART));
    const mpi_topology *t = of->topology;
    int *dims = copy_of(NULL, t->ndims), *periods = copy_of(NULL, t->ndims);
    int n = 0, color = 0, key = 0;
    for (int d = 0; d < t->ndims; d++) {
        if (remain[d] != 0) {
            dims[n] = t->dims[d];
            periods[n++] = t->periods[d];
            key = key * t->dims[d] + t->coords[d];
        } else {
            color = color * t->dims[d] + t->coords[d];
        }
    }
    const mpi_record record = {.collective = &making,
                               .comm = of,
                               .function = __func__,
                               .color = color,
                               .key = key,
                               .out = out,
                               .topology = new_grid(n, dims, periods, key)};
    free(dims);
    free(periods);
    return ls_mpi__collective(at.me, &record, NULL);
}

int MPI_Cart_map(MPI_Comm comm, int ndims, const int dims[], const int periods[], int *rank) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    (void)periods;
    MPI_TRY(intra_arg(&of, at, comm));
    int nodes = 1;
    for (int d = 0; d < ndims; d++) {
        nodes *= dims[d];
    }
    *rank = of->rank < nodes ? of->rank : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int MPI_Cartdim_get(MPI_Comm comm, int *ndims) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_CART));
    *ndims = of->topology->ndims;
    return MPI_SUCCESS;
}

int MPI_Topo_test(MPI_Comm comm, int *status) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    *status = of->topology != NULL ? of->topology->kind : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

// ---- Graphs -------------------------------------------------------------------------------------
int MPI_Graph_create(MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder,
                     MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    (void)reorder;
    MPI_TRY(intra_arg(&of, at, comm));
    if (nnodes < 0 || nnodes > of->size) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__,
                             "a graph of %d nodes on a communicator of %d", nnodes, of->size);
    }
    for (int i = 0; i < nnodes; i++) {
        if (index == NULL || index[i] < (i > 0 ? index[i - 1] : 0)) {
            return ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__,
                                 "the list of degrees is NULL, or decreases at node %d", i);
        }
    }
    int all = nnodes > 0 ? index[nnodes - 1] : 0;
    MPI_TRY(ranks_arg(at, of, "the number of edges", all, edges, nnodes));
    mpi_topology *t = ls_mpi__alloc(sizeof *t);
    t->kind = MPI_GRAPH;
    t->nodes = nnodes;
    t->index = copy_of(index, nnodes);
    t->edges = copy_of(edges, all);
    if (of->rank < nnodes) {
        int first = of->rank > 0 ? index[of->rank - 1] : 0;
        t->in_count = t->out_count = index[of->rank] - first;
        t->in = t->out = t->edges + first;
    }
    return make(at, of, t, nnodes, out);
}

int MPI_Graphdims_get(MPI_Comm comm, int *nnodes, int *nedges) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_GRAPH));
    *nnodes = of->topology->nodes;
    *nedges = *nnodes > 0 ? of->topology->index[*nnodes - 1] : 0;
    return MPI_SUCCESS;
}

int MPI_Graph_get(MPI_Comm comm, int maxindex, int maxedges, int index[], int edges[]) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_GRAPH));
    const mpi_topology *t = of->topology;
    for (int i = 0; i < t->nodes && i < maxindex; i++) {
        index[i] = t->index[i];
    }
    for (int i = 0; t->nodes > 0 && i < t->index[t->nodes - 1] && i < maxedges; i++) {
        edges[i] = t->edges[i];
    }
    return MPI_SUCCESS;
}

static int neighbors(mpi_where at, MPI_Comm comm, int rank, const int **list, int *count) {
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_GRAPH));
    const mpi_topology *t = of->topology;
    if (rank < 0 || rank >= t->nodes) {
        return ls_mpi__error(at.me, of, MPI_ERR_RANK, at.function, "rank %d is not in [0, %d)",
                             rank, t->nodes);
    }
    int first = rank > 0 ? t->index[rank - 1] : 0;
    *list = t->edges + first;
    *count = t->index[rank] - first;
    return MPI_SUCCESS;
}

int MPI_Graph_neighbors_count(MPI_Comm comm, int rank, int *count) {
    MPI_ENTER_AT(at);
    const int *list;
    return neighbors(at, comm, rank, &list, count);
}

int MPI_Graph_neighbors(MPI_Comm comm, int rank, int most, int out[]) {
    MPI_ENTER_AT(at);
    const int *list;
    int count;
    MPI_TRY(neighbors(at, comm, rank, &list, &count));
    for (int i = 0; i < count && i < most; i++) {
        out[i] = list[i];
    }
    return MPI_SUCCESS;
}

int MPI_Graph_map(MPI_Comm comm, int nnodes, const int index[], const int edges[], int *rank) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    (void)index;
    (void)edges;
    MPI_TRY(intra_arg(&of, at, comm));
    *rank = of->rank < nnodes ? of->rank : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[],
                                   const int *sourceweights, int outdegree,
                                   const int destinations[], const int *destweights, MPI_Info info,
                                   int reorder, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    (void)info;
    (void)reorder;
    MPI_TRY(intra_arg(&of, at, comm));
    MPI_TRY(ranks_arg(at, of, "the number of sources", indegree, sources, of->size));
    MPI_TRY(ranks_arg(at, of, "the number of destinations", outdegree, destinations, of->size));
    mpi_topology *t = ls_mpi__alloc(sizeof *t);
    t->kind = MPI_DIST_GRAPH;
    t->weighted = sourceweights != MPI_UNWEIGHTED;
    t->in_count = indegree;
    t->out_count = outdegree;
    t->in = copy_of(sources, indegree);
    t->out = copy_of(destinations, outdegree);
    t->in_weights = t->weighted ? copy_of(sourceweights, indegree) : NULL;
    t->out_weights = t->weighted ? copy_of(destweights, outdegree) : NULL;
    return make(at, of, t, of->size, out);
}

// Every member passes some edges; all of them are gathered, and each member keeps its own.
int MPI_Dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[],
                          const int destinations[], const int *weights, MPI_Info info, int reorder,
                          MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(intra_arg(&of, at, comm));
    const char *file = ls_mpi__file;
    int line = ls_mpi__line, edges = 0, all = 0;
    MPI_TRY(ranks_arg(at, of, "the number of sources", n, sources, of->size));
    for (int i = 0; i < n; i++) {
        MPI_TRY(ls_mpi__count_arg(at, of, "a source's number of destinations", degrees[i]));
        edges += degrees[i];
    }
    MPI_TRY(ranks_arg(at, of, "the number of destinations", edges, destinations, of->size));
    bool weighted = weights != MPI_UNWEIGHTED;
    int *own = copy_of(NULL, 3 * edges);
    for (int i = 0, e = 0; i < n; i++) {
        for (int k = 0; k < degrees[i]; k++, e++) {
            own[3 * e] = sources[i];
            own[3 * e + 1] = destinations[e];
            own[3 * e + 2] = weighted && edges > 0 ? weights[e] : 1;
        }
    }
    int *counts = copy_of(NULL, of->size), *displs = copy_of(NULL, of->size), mine = 3 * edges;
    MPI_TRY(MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, comm));
    for (int r = 0; r < of->size; r++) {
        displs[r] = all;
        all += counts[r];
    }
    int *list = copy_of(NULL, all);
    MPI_TRY(MPI_Allgatherv(own, mine, MPI_INT, list, counts, displs, MPI_INT, comm));
    int *lists[4];
    for (int i = 0; i < 4; i++) {
        lists[i] = copy_of(NULL, all / 3);
    }
    int in = 0, sent = 0;
    for (int e = 0; e < all; e += 3) {
        if (list[e + 1] == of->rank) {
            lists[0][in] = list[e];
            lists[1][in++] = list[e + 2];
        }
        if (list[e] == of->rank) {
            lists[2][sent] = list[e + 1];
            lists[3][sent++] = list[e + 2];
        }
    }
    ls_mpi_at(file, line);
    int status = MPI_Dist_graph_create_adjacent(
        comm, in, lists[0], weighted ? lists[1] : MPI_UNWEIGHTED, sent, lists[2],
        weighted ? lists[3] : MPI_UNWEIGHTED, info, reorder, out);
    int *gone[] = {own, counts, displs, list, lists[0], lists[1], lists[2], lists[3]};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        free(gone[i]);
    }
    return status;
}

int MPI_Dist_graph_neighbors_count(MPI_Comm comm, int *indegree, int *outdegree, int *weighted) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_DIST_GRAPH));
    *indegree = of->topology->in_count;
    *outdegree = of->topology->out_count;
    *weighted = of->topology->weighted ? 1 : 0;
    return MPI_SUCCESS;
}

int MPI_Dist_graph_neighbors(MPI_Comm comm, int maxindegree, int sources[], int sourceweights[],
                             int maxoutdegree, int destinations[], int destweights[]) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(topology_arg(&of, at, comm, MPI_DIST_GRAPH));
    const mpi_topology *t = of->topology;
    for (int i = 0; i < maxindegree && i < t->in_count; i++) {
        sources[i] = t->in[i];
        if (t->weighted && sourceweights != MPI_UNWEIGHTED) {
            sourceweights[i] = t->in_weights[i];
        }
    }
    for (int i = 0; i < maxoutdegree && i < t->out_count; i++) {
        destinations[i] = t->out[i];
        if (t->weighted && destweights != MPI_UNWEIGHTED) {
            destweights[i] = t->out_weights[i];
        }
    }
    return MPI_SUCCESS;
}
