// Handles and arguments: never freed, used after being freed, and invalid.
#include "cases.h"

static int values[8];

static void communicator_never_freed(void) {
    MPI_Comm own;
    // wrong: handle.leak, MPI_Finalize: a communicator, made by MPI_Comm_split
    MPI_Comm_split(WORLD, rank % 2, rank, &own);
    if (!wrong) {
        MPI_Comm_free(&own);
    }
}

static void group_and_operation_never_freed(void) {
    MPI_Group all;
    // wrong: handle.leak, MPI_Finalize: a group, made by MPI_Comm_group
    MPI_Comm_group(WORLD, &all);
    if (!wrong) {
        MPI_Group_free(&all);
    }
}

static void not_committed(void) {
    MPI_Datatype two;
    MPI_Type_contiguous(2, MPI_INT, &two);
    if (!wrong) {
        MPI_Type_commit(&two);
    }
    // wrong: call.invalid, MPI_Bcast: MPI_ERR_TYPE: the datatype, made by MPI_Type_contiguous
    MPI_Bcast(values, 1, two, 0, WORLD);
    MPI_Type_free(&two);
}

static void freed_datatype(void) {
    MPI_Datatype two, kept;
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    kept = two;
    if (wrong) {
        MPI_Type_free(&two);
    }
    // wrong: call.invalid, MPI_Bcast: MPI_ERR_TYPE: the datatype is a datatype that was freed
    MPI_Bcast(values, 1, kept, 0, WORLD);
    MPI_Type_free(&two);
}

static void operation_of_another_type(void) {
    MPI_Op op = wrong ? MPI_BAND : MPI_SUM;
    double one = 1, sum;
    // wrong: call.invalid, MPI_Allreduce: MPI_ERR_OP: MPI_BAND is not defined for the datatype
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, op, WORLD);
}

// A program may not free MPI's own operations.
static void freed_operation(void) {
    MPI_Op op = MPI_SUM;
    if (wrong) {
        MPI_Op_free(&op);  // wrong: call.invalid, MPI_Op_free: MPI_ERR_OP: MPI_SUM cannot be freed
    }
}

static void freed_communicator(void) {
    MPI_Comm own, kept;
    MPI_Comm_dup(WORLD, &own);
    kept = own;
    MPI_Comm_free(&own);
    // wrong: call.invalid, MPI_Barrier: MPI_ERR_COMM: the communicator is a communicator that was
    MPI_Barrier(wrong ? kept : WORLD);
}

static void no_buffer_for_bsend(void) {
    char *buffer = malloc(1024);
    int bytes = 1024;
    MPI_Buffer_attach(buffer, wrong ? 4 : bytes);
    if (rank == 0) {
        // wrong: call.invalid, MPI_Bsend: MPI_ERR_BUFFER: 96 bytes (MPI_BSEND_OVERHEAD included) do
        MPI_Bsend(values, 8, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        MPI_Recv(values, 8, MPI_INT, 0, 0, WORLD, STATUS);
    }
    MPI_Buffer_detach(&buffer, &bytes);
    free(buffer);
}

static int copy_attribute(MPI_Comm of, int keyval, void *state, void *value, void *out, int *flag) {
    (void)of, (void)keyval, (void)state;
    *(void **)out = (char *)value + 1;
    *flag = 1;
    return wrong ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int keep_attribute(MPI_Comm of, int keyval, void *value, void *refuses) {
    (void)of, (void)keyval, (void)value;
    return *(bool *)refuses ? MPI_ERR_OTHER : MPI_SUCCESS;
}

// An attribute whose function refuses stays, and so does its communicator.
static void attribute_that_stays(void) {
    bool refuses = true;
    MPI_Comm own;
    int keyval;
    MPI_Comm_dup(WORLD, &own);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, keep_attribute, &keyval, &refuses);
    MPI_Comm_set_attr(own, keyval, NULL);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    if (MPI_Comm_free(&own) == MPI_SUCCESS || MPI_Comm_delete_attr(own, keyval) == MPI_SUCCESS) {
        abort();
    }
    MPI_Comm_set_errhandler(own, MPI_ERRORS_ARE_FATAL);
    refuses = wrong;
    // wrong: call.invalid, MPI_Comm_delete_attr: MPI_ERR_OTHER: a function that deletes
    MPI_Comm_delete_attr(own, keyval);
    MPI_Comm_free_keyval(&keyval);
    MPI_Comm_free(&own);
}

// The duplicate has the attributes that the communicator had at the call.
static void attributes_of_idup(void) {
    static char values[8];
    MPI_Comm from, made;
    MPI_Request request;
    int keyval, flag;
    char *value;
    MPI_Comm_dup(WORLD, &from);
    MPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(from, keyval, values);
    // wrong: call.invalid, MPI_Comm_idup: MPI_ERR_OTHER: a function that copies an attribute
    MPI_Comm_idup(from, &made, &request);
    MPI_Comm_set_attr(from, keyval, values + 4);
    MPI_Wait(&request, STATUS);
    MPI_Comm_get_attr(made, keyval, &value, &flag);
    if (!flag || value != values + 1) {
        abort();
    }
    MPI_Comm_free_keyval(&keyval);
    MPI_Comm_free(&made);
    MPI_Comm_free(&from);
}

static void negative_color(void) {
    MPI_Comm own;
    // wrong: call.invalid, MPI_Comm_split: MPI_ERR_ARG: color -7
    MPI_Comm_split(WORLD, wrong ? -7 : 1, 0, &own);
    MPI_Comm_free(&own);
}

static void more_places_than_ranks(void) {
    MPI_Comm grid;
    const int dims[2] = {size, wrong ? 2 : 1}, periods[2] = {0, 0};
    // wrong: call.invalid, MPI_Cart_create: MPI_ERR_ARG: a grid of 6 ranks on a communicator of 3
    MPI_Cart_create(WORLD, 2, dims, periods, 0, &grid);
    MPI_Comm_free(&grid);
}

// MPI's names of C++ and of Fortran are types of their own, which match those of C.
static void names_of_one_type(void) {
    const MPI_Datatype names[] = {MPI_C_BOOL, MPI_CXX_BOOL, MPI_INTEGER, MPI_REAL8};
    for (int i = 0; i < 4; i++) {
        switch (names[i]) {
        case MPI_CXX_BOOL:
        case MPI_C_BOOL:
        case MPI_INTEGER:
        case MPI_INT:
        case MPI_REAL8:
        case MPI_DOUBLE:
            continue;
        default:
            MPI_Abort(WORLD, 1);
        }
    }
    _Bool all = 1, mine = 1;
    int sum;
    MPI_Sendrecv(&mine, 1, MPI_CXX_BOOL, rank, 0, &all, 1, MPI_C_BOOL, rank, 0, WORLD, STATUS);
    MPI_Allreduce(&rank, &sum, 1, rank == 0 ? MPI_INTEGER : MPI_INT, MPI_SUM, WORLD);
    // wrong: call.invalid, MPI_Allreduce: MPI_ERR_OP
    MPI_Allreduce(&mine, &all, 1, MPI_CXX_BOOL, wrong ? MPI_MAX : MPI_LAND, WORLD);
}

static int end_here(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm, (void)key, (void)value, (void)state;
    if (wrong) {
        exit(0);
    }
    return MPI_SUCCESS;
}

// The finding names the call that is going on, which need not be a collective.
static void ended_in_a_callback(void) {
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_here, &key, NULL);
    MPI_Comm_set_attr(WORLD, key, &key);
    MPI_Barrier(WORLD);
    // wrong: call.invalid, the program ends without MPI_Finalize
    MPI_Comm_delete_attr(WORLD, key);
    MPI_Comm_free_keyval(&key);
}

static void edge_of_one_end(void) {
    MPI_Comm ring;
    const int from = (rank + size - 1) % size, to = (rank + 1) % size;
    int got;
    MPI_Dist_graph_create_adjacent(WORLD, wrong && rank == 0 ? 0 : 1, &from, MPI_UNWEIGHTED, 1, &to,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring);
    // wrong: collective.count_mismatch, as a destination 1 times, but that
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, ring);
    MPI_Comm_free(&ring);
}

// Nothing is sent along this edge.
static void edge_without_use(void) {
    MPI_Comm graph;
    const int from = (rank + size - 1) % size;
    int got = rank;
    MPI_Dist_graph_create_adjacent(WORLD, 1, &from, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Bcast(&got, 1, MPI_INT, wrong ? rank : 0, graph);  // wrong: collective.root_mismatch
    MPI_Comm_free(&graph);
}

static void edge_to_nobody(void) {
    MPI_Comm graph;
    const int degree = 1, to = wrong ? size : rank;
    // wrong: call.invalid, MPI_Dist_graph_create: MPI_ERR_RANK: a rank of the list is 3
    MPI_Dist_graph_create(WORLD, 1, &rank, &degree, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Comm_free(&graph);
}

static void degrees_that_decrease(void) {
    MPI_Comm graph;
    const int degrees[3] = {1, 2, wrong ? 1 : 2}, to[2] = {1, 0};
    // wrong: call.invalid, MPI_Graph_create: MPI_ERR_ARG: the list of degrees is NULL, or decreases
    MPI_Graph_create(WORLD, 3, degrees, to, 0, &graph);
    MPI_Comm_free(&graph);
}

static void grid_of_nobody(void) {
    MPI_Datatype part;
    int dims[2] = {0, 0}, all = 12, by = MPI_DISTRIBUTE_BLOCK, each = 4, on = wrong ? 0 : size;
    MPI_Dims_create(size, 2, dims);
    // wrong: call.invalid, MPI_Type_create_darray: MPI_ERR_ARG: dimension 0: 12 elements on 0
    MPI_Type_create_darray(size, rank, 1, &all, &by, &each, &on, MPI_ORDER_C, MPI_INT, &part);
    MPI_Type_free(&part);
}

static void dimensions_of_no_nodes(void) {
    int dims[2] = {0, 0};
    // wrong: call.invalid, MPI_Dims_create: MPI_ERR_ARG: 0 nodes
    MPI_Dims_create(wrong ? 0 : size, 2, dims);
}

// In a graph of MPI_Graph_create all neighbors are both sources and destinations.
static void edge_of_one_direction(void) {
    MPI_Comm ring;
    const int next[3] = {1, 2, 0}, ends[3] = {1, 2, 3}, all[6] = {1, 2, 0, 2, 0, 1};
    const int both[3] = {2, 4, 6};
    int got[2];
    MPI_Graph_create(WORLD, 3, wrong ? ends : both, wrong ? next : all, 0, &ring);
    // wrong: collective.count_mismatch, as a source 1 times, but that
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, ring);
    MPI_Comm_free(&ring);
}

static void fails_in_a_window(MPI_Win *window, int *code, ...) {
    (void)window, (void)code;
}

static void handler_of_another_object(void) {
    MPI_Errhandler handler;
    MPI_Win window;
    MPI_Win_create_errhandler(fails_in_a_window, &handler);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, WORLD, &window);
    MPI_Win_set_errhandler(window, handler);
    // wrong: call.invalid, MPI_ERR_ARG: the error handler is for windows
    MPI_Comm_set_errhandler(WORLD, wrong ? handler : MPI_ERRORS_ARE_FATAL);
    MPI_Win_free(&window);
    MPI_Errhandler_free(&handler);
}

static void fails_in_a_communicator(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
}

static void handler_of_a_communicator(void) {
    MPI_Errhandler handler;
    MPI_Win window;
    MPI_Comm_create_errhandler(fails_in_a_communicator, &handler);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, WORLD, &window);
    // wrong: call.invalid, MPI_ERR_ARG: the error handler is for communicators
    MPI_Win_set_errhandler(window, wrong ? handler : MPI_ERRORS_RETURN);
    MPI_Win_free(&window);
    MPI_Errhandler_free(&handler);
}

// A program frees a handler for each time that it makes or gets it.
static void handler_that_is_freed(void) {
    MPI_Errhandler handler, again, freed;
    MPI_Comm own;
    MPI_Comm_dup(WORLD, &own);
    MPI_Comm_create_errhandler(fails_in_a_communicator, &handler);
    MPI_Comm_set_errhandler(own, handler);
    freed = handler;
    MPI_Errhandler_free(&handler);
    MPI_Comm_get_errhandler(own, &again);
    MPI_Comm_set_errhandler(own, again);
    MPI_Errhandler_free(&again);
    if (wrong) {
        // wrong: call.invalid, MPI_ERR_ARG: the error handler is freed
        MPI_Comm_set_errhandler(WORLD, freed);
    }
    MPI_Comm_free(&own);
}

static void two_groups(MPI_Comm *inter) {
    MPI_Comm half;
    MPI_Comm_split(WORLD, rank == 2 ? 1 : 0, 0, &half);
    MPI_Intercomm_create(half, 0, WORLD, rank == 2 ? 0 : 2, 0, inter);
    MPI_Comm_free(&half);
}

static void root_twice(void) {
    MPI_Comm inter;
    int value = 0, other = wrong ? MPI_ROOT : MPI_PROC_NULL;
    two_groups(&inter);
    const int roots[3] = {MPI_ROOT, other, 0};
    MPI_Bcast(&value, 1, MPI_INT, roots[rank], inter);  // wrong: collective.root_mismatch
    MPI_Comm_free(&inter);
}

static void grid_of_two_groups(void) {
    MPI_Comm inter, grid = MPI_COMM_NULL;
    const int one = 1, period = 0;
    two_groups(&inter);
    // wrong: call.invalid, MPI_Cart_create: MPI_ERR_COMM
    MPI_Cart_create(wrong ? inter : MPI_COMM_SELF, 1, &one, &period, 0, &grid);
    MPI_Comm_free(&grid);
    MPI_Comm_free(&inter);
}

static void scan_of_two_groups(void) {
    MPI_Comm inter;
    int sum;
    two_groups(&inter);
    // wrong: call.invalid, MPI_Scan: MPI_ERR_COMM
    MPI_Scan(&rank, &sum, 1, MPI_INT, MPI_SUM, wrong ? inter : WORLD);
    MPI_Comm_free(&inter);
}

static void attached_twice(void) {
    static int memory[4];
    MPI_Win window;
    MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &window);
    MPI_Win_attach(window, memory, 8);
    // wrong: call.invalid, MPI_Win_attach: MPI_ERR_RMA_ATTACH
    MPI_Win_attach(window, memory + (wrong ? 1 : 2), 8);
    MPI_Win_detach(window, memory);
    MPI_Win_detach(window, memory + 2);
    MPI_Win_free(&window);
}

CASES({"edge_of_one_direction", edge_of_one_direction},
      {"handler_of_another_object", handler_of_another_object}, {"root_twice", root_twice},
      {"handler_of_a_communicator", handler_of_a_communicator},
      {"handler_that_is_freed", handler_that_is_freed}, {"attributes_of_idup", attributes_of_idup},
      {"attribute_that_stays", attribute_that_stays}, {"grid_of_two_groups", grid_of_two_groups},
      {"attached_twice", attached_twice}, {"scan_of_two_groups", scan_of_two_groups},
      {"edge_of_one_end", edge_of_one_end}, {"edge_without_use", edge_without_use},
      {"edge_to_nobody", edge_to_nobody}, {"degrees_that_decrease", degrees_that_decrease},
      {"grid_of_nobody", grid_of_nobody}, {"dimensions_of_no_nodes", dimensions_of_no_nodes},
      {"ended_in_a_callback", ended_in_a_callback}, {"names_of_one_type", names_of_one_type},
      {"communicator_never_freed", communicator_never_freed},
      {"group_and_operation_never_freed", group_and_operation_never_freed},
      {"not_committed", not_committed}, {"freed_datatype", freed_datatype},
      {"operation_of_another_type", operation_of_another_type},
      {"freed_operation", freed_operation}, {"freed_communicator", freed_communicator},
      {"no_buffer_for_bsend", no_buffer_for_bsend}, {"negative_color", negative_color},
      {"more_places_than_ranks", more_places_than_ranks})
