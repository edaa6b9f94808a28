// Under MPI_ERRORS_RETURN a mistake returns its error class and is no finding; with WRONG the first
// one ends the run.
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int own_code, rank;

static int fails(MPI_Comm comm, int key, void *state, void *in, void *out, int *flag) {
    (void)comm;
    (void)key;
    (void)state;
    (void)in;
    (void)out;
    *flag = 0;
    return own_code;
}

static void want(int code, int error_class) {
    int is;
    MPI_Error_class(code, &is);
    if (is != error_class) {
        abort();
    }
}

static void places(void) {
    MPI_Group all;
    MPI_Aint lb;
    int zero = 0;
    want(MPI_Comm_size(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    want(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, NULL), MPI_ERR_ARG);
    want(MPI_Type_contiguous(2, MPI_INT, NULL), MPI_ERR_ARG);
    want(MPI_Type_get_extent(MPI_INT, &lb, NULL), MPI_ERR_ARG);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    want(MPI_Group_size(all, NULL), MPI_ERR_ARG);
    want(MPI_Group_union(all, all, NULL), MPI_ERR_ARG);
    want(MPI_Group_translate_ranks(all, 0, NULL, all, NULL), MPI_SUCCESS);
    want(MPI_Group_translate_ranks(all, 1, &zero, all, NULL), MPI_ERR_ARG);
    MPI_Group_free(&all);
    want(MPI_Reduce_local(NULL, &zero, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    want(MPI_Reduce_local(&zero, NULL, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    want(MPI_Reduce_local(&zero, &zero, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    want(MPI_Reduce_local(NULL, NULL, 0, MPI_INT, MPI_SUM), MPI_SUCCESS);
}

static void arguments(void) {
    char buffer[MPI_BSEND_OVERHEAD], *back = NULL;
    int size = 0;
    MPI_Comm none = MPI_COMM_NULL;
    MPI_Status status;
    want(MPI_Iprobe(0, 0, MPI_COMM_WORLD, NULL, &status), MPI_ERR_ARG);
    want(MPI_Comm_split_type(MPI_COMM_WORLD, -77, 0, MPI_INFO_NULL, &none), MPI_ERR_ARG);
    want(MPI_Comm_split(MPI_COMM_WORLD, -77, 0, &none), MPI_ERR_ARG);
    want(MPI_Buffer_attach(buffer, -1), MPI_ERR_ARG);
    MPI_Buffer_attach(buffer, sizeof buffer);
    want(MPI_Buffer_attach(buffer, sizeof buffer), MPI_ERR_BUFFER);
    want(MPI_Buffer_detach(&back, &size), MPI_SUCCESS);
    want(MPI_Buffer_detach(&back, &size), MPI_ERR_BUFFER);
    if (back != buffer || size != sizeof buffer) {
        abort();
    }
}

// Invalid arguments of a window.
static void windows(void) {
    const MPI_Info none = MPI_INFO_NULL;
    MPI_Comm inter;
    MPI_Win window;
    want(MPI_Win_create(&inter, -1, 1, none, MPI_COMM_WORLD, &window), MPI_ERR_SIZE);
    want(MPI_Win_create(&inter, 1, 0, none, MPI_COMM_WORLD, &window), MPI_ERR_DISP);
    want(MPI_Win_create(NULL, 1, 1, none, MPI_COMM_WORLD, &window), MPI_ERR_BUFFER);
    want(MPI_Win_create(&inter, 1, 1, none, MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 0, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    want(MPI_Win_create(&window, 1, 1, none, inter, &window), MPI_ERR_COMM);
    MPI_Comm_free(&inter);
}

static void key_values(void) {
    int comm_key, type_key, flag;
    void *value;
    MPI_Comm grid = MPI_COMM_WORLD, copy;
    MPI_Comm_create_keyval(fails, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL);
    want(MPI_Comm_set_attr(MPI_COMM_WORLD, type_key, NULL), MPI_ERR_KEYVAL);
    want(MPI_Comm_get_attr(MPI_COMM_WORLD, type_key, &value, &flag), MPI_ERR_KEYVAL);
    want(MPI_Type_free_keyval(&comm_key), MPI_ERR_KEYVAL);
    // The result of a copy function is the result of the dup.
    MPI_Add_error_class(&own_code);
    MPI_Comm_set_attr(MPI_COMM_WORLD, comm_key, NULL);
    want(MPI_Comm_dup(MPI_COMM_WORLD, &copy), own_code);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, comm_key);
    MPI_Comm_free_keyval(&comm_key);
    MPI_Type_free_keyval(&type_key);
    // A freed key value is reused only after its last attribute is gone, including copies.
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
    const int freed = comm_key;
    MPI_Comm_set_attr(MPI_COMM_WORLD, freed, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, freed);
    MPI_Comm_free_keyval(&comm_key);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
    want(MPI_Comm_get_attr(copy, freed, &value, &flag), MPI_SUCCESS);
    if (comm_key == freed || !flag || value != &rank) {
        abort();
    }
    MPI_Comm_free_keyval(&comm_key);
    MPI_Comm_free(&copy);
    want(MPI_Comm_get_attr(MPI_COMM_WORLD, freed, &value, &flag), MPI_ERR_KEYVAL);
    want(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){99}, (int[]){0}, 0, &grid), MPI_ERR_ARG);
    if (grid != MPI_COMM_NULL) {
        abort();
    }
}

// A type is decoded as constructed, even after its components are freed.
static void contents(void) {
    MPI_Datatype inner, outer, copy;
    int integers[3], n, addresses, types, combiner;
    MPI_Type_vector(2, 1, 3, MPI_INT, &inner);
    MPI_Type_contiguous(4, inner, &outer);
    MPI_Type_free(&inner);
    MPI_Type_get_contents(outer, 1, 0, 1, integers, NULL, &copy);
    MPI_Type_get_envelope(copy, &n, &addresses, &types, &combiner);
    if (integers[0] != 4 || combiner != MPI_COMBINER_VECTOR || n != 3 || types != 1) {
        abort();
    }
    MPI_Type_get_contents(copy, 3, 0, 1, integers, NULL, &inner);
    if (integers[0] != 2 || integers[2] != 3 || inner != MPI_INT) {
        abort();
    }
    MPI_Type_free(&copy);
    MPI_Type_free(&outer);
    const int whole = 6, part = MPI_DISTRIBUTE_BLOCK, least = MPI_DISTRIBUTE_DFLT_DARG, along = 2;
    const int given[8] = {2, 1, 1, whole, part, least, along, MPI_ORDER_C};
    int taken[8];
    MPI_Type_create_darray(2, 1, 1, &whole, &part, &least, &along, MPI_ORDER_C, MPI_INT, &outer);
    MPI_Type_get_contents(outer, 8, 0, 1, taken, NULL, &inner);
    if (memcmp(taken, given, sizeof given) != 0 || inner != MPI_INT) {
        abort();
    }
    MPI_Type_free(&outer);
}

// external32 is big-endian, its longs have 4 bytes, and long doubles are binary128.
static void external(void) {
    const long longs[2] = {1, -2};
    const long double one = 1;
    const unsigned char want_longs[8] = {0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe};
    const unsigned char want_one[16] = {0x3f, 0xff};
    unsigned char packed[24];
    long double back_one = 0;
    long back[2] = {0, 0};
    MPI_Aint size, place = 0;
    MPI_Pack_external_size("external32", 2, MPI_LONG, &size);
    MPI_Pack_external("external32", longs, 2, MPI_LONG, packed, sizeof packed, &place);
    MPI_Pack_external("external32", &one, 1, MPI_LONG_DOUBLE, packed, sizeof packed, &place);
    if (size != 8 || place != 24 || memcmp(packed, want_longs, 8) != 0 ||
        memcmp(packed + 8, want_one, 16) != 0) {
        abort();
    }
    place = 0;
    MPI_Unpack_external("external32", packed, sizeof packed, &place, back, 2, MPI_LONG);
    MPI_Unpack_external("external32", packed, sizeof packed, &place, &back_one, 1, MPI_LONG_DOUBLE);
    if (back[0] != 1 || back[1] != -2 || back_one != 1) {
        abort();
    }
    place = 0;
    want(MPI_Pack_external("native", longs, 1, MPI_LONG, packed, sizeof packed, &place),
         MPI_ERR_ARG);
    place = sizeof packed;
    want(MPI_Pack_external("external32", longs, 1, MPI_LONG, packed, sizeof packed, &place),
         MPI_ERR_ARG);
}

// The dimensions of a grid are as close to each other as possible.
static void dims(void) {
    int made[5] = {0, 0, 0, 0, 0};
    const int closest[5] = {14, 14, 9, 8, 7};
    MPI_Dims_create(98784, 5, made);
    if (memcmp(made, closest, sizeof made) != 0) {
        abort();
    }
}

// Pairs in the program's own types are compared as pairs, despite padding.
static void pairs(void) {
    struct {
        double value;
        int index;
    } mine[2] = {{rank, rank}, {-rank, rank}}, all[2] = {{0, 9}, {0, 9}};
    MPI_Datatype two;
    MPI_Win window;
    MPI_Type_contiguous(2, MPI_DOUBLE_INT, &two);
    MPI_Type_commit(&two);
    MPI_Win_create(all, sizeof all, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Accumulate(mine, 1, two, 0, 0, 1, two, MPI_MAXLOC, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Type_free(&two);
    if (rank == 0 && (all[0].value != 1 || all[0].index != 1 || all[1].index != 0)) {
        abort();
    }
}

static void *send_seven(void *at) {
    MPI_Send(at, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    return at;
}

// Threads that the program started call for their rank.
static void message_of_a_thread(void) {
    int value = rank == 0 ? 7 : 0;
    pthread_t thread;
    if (rank == 0) {
        pthread_create(&thread, NULL, send_seven, &value);
        pthread_join(thread, NULL);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (value != 7) {
        abort();
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
#ifndef WRONG
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    places();
    arguments();
    windows();
    key_values();
    contents();
    external();
    dims();
    pairs();
    message_of_a_thread();
    MPI_Finalize();
    return 0;
}
