// Under MPI_ERRORS_RETURN a mistake is a code of its class, and no finding; with WRONG the first
// one ends the run.
#include <mpi.h>
#include <stdlib.h>

static int own_code;

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
    // What a function that copies returns is what the dup returns.
    MPI_Add_error_class(&own_code);
    MPI_Comm_set_attr(MPI_COMM_WORLD, comm_key, NULL);
    want(MPI_Comm_dup(MPI_COMM_WORLD, &copy), own_code);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, comm_key);
    MPI_Comm_free_keyval(&comm_key);
    MPI_Type_free_keyval(&type_key);
    want(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){99}, (int[]){0}, 0, &grid), MPI_ERR_ARG);
    if (grid != MPI_COMM_NULL) {
        abort();
    }
}

// A type is decoded as it was made, even after what it was made of is gone.
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
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
#ifndef WRONG
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#endif
    places();
    key_values();
    contents();
    MPI_Finalize();
    return 0;
}
