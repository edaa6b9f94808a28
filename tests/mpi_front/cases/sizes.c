// Datatypes, messages and windows larger than any memory.
#include "cases.h"

static int values[16], one = 1;

#define LARGE (1 << 30)

static void huge_type(void) {
    MPI_Datatype once, twice, thrice;
    MPI_Count bytes;
    MPI_Type_contiguous(LARGE, MPI_INT, &once);
    MPI_Type_contiguous(16, once, &twice);
    // wrong: call.invalid, MPI_Type_contiguous: MPI_ERR_ARG: the datatype reaches further
    MPI_Type_contiguous(wrong ? LARGE : 16, twice, &thrice);
    MPI_Type_size_x(thrice, &bytes);
    if (bytes != (MPI_Count)1 << 40) {
        exit(9);
    }
    MPI_Type_free(&once);
    MPI_Type_free(&twice);
    MPI_Type_free(&thrice);
}

static void huge_stride(void) {
    MPI_Datatype far;
    // wrong: call.invalid, MPI_Type_create_hvector: MPI_ERR_ARG
    MPI_Type_create_hvector(4, 1, (MPI_Aint)1 << (wrong ? 62 : 40), MPI_INT, &far);
    MPI_Type_free(&far);
}

static void huge_displacement(void) {
    MPI_Datatype far;
    const int two[2] = {1, 1};
    const MPI_Aint places[2] = {-((MPI_Aint)1 << (wrong ? 62 : 40)), (MPI_Aint)1 << 59};
    // wrong: call.invalid, MPI_Type_create_hindexed: MPI_ERR_ARG
    MPI_Type_create_hindexed(2, two, places, MPI_INT, &far);
    MPI_Type_free(&far);
}

// A block without elements is nowhere.
static void huge_displacement_of_nothing(void) {
    MPI_Datatype type;
    MPI_Aint lb, extent;
    const int lengths[2] = {wrong ? 1 : 0, 2};
    const MPI_Aint places[2] = {INT64_MAX, 8};
    // wrong: call.invalid, MPI_Type_create_hindexed: MPI_ERR_ARG
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
    MPI_Type_get_extent(type, &lb, &extent);
    if (lb != 8 || extent != 8) {
        abort();
    }
    MPI_Type_free(&type);
}

static void huge_extent(void) {
    MPI_Datatype far;
    // wrong: call.invalid, MPI_Type_create_resized: MPI_ERR_ARG
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)1 << (wrong ? 62 : 59), &far);
    MPI_Type_free(&far);
}

static void huge_array(void) {
    MPI_Datatype far;
    const int whole[3] = {LARGE, LARGE, wrong ? 4 : 1}, part[3] = {1, 2, 1}, from[3] = {7, 8, 0};
    // wrong: call.invalid, MPI_Type_create_subarray: MPI_ERR_ARG
    MPI_Type_create_subarray(3, whole, part, from, MPI_ORDER_C, MPI_CHAR, &far);
    MPI_Type_free(&far);
}

static void huge_distributed_array(void) {
    MPI_Datatype far;
    const int whole[3] = {LARGE, LARGE, wrong ? 4 : 1},
              none[3] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
    const int block[3] = {1, LARGE, 1}, processes[3] = {1, 2, 1};
    // wrong: call.invalid, MPI_Type_create_darray: MPI_ERR_ARG
    MPI_Type_create_darray(2, 1, 3, whole, none, block, processes, MPI_ORDER_C, MPI_CHAR, &far);
    MPI_Type_free(&far);
}

static MPI_Datatype resized(int shift) {
    MPI_Datatype made;
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)1 << shift, &made);
    MPI_Type_commit(&made);
    return made;
}

static void huge_message(void) {
    MPI_Datatype far = resized(40);
    // wrong: call.invalid, do not fit into the address space
    MPI_Sendrecv(values, wrong ? LARGE : 1, far, rank, 0, &values[1], 1, MPI_INT, rank, 0, WORLD,
                 STATUS);
    MPI_Type_free(&far);
}

static void huge_message_to_nobody(void) {
    MPI_Datatype far = resized(40);
    // wrong: call.invalid, do not fit into the address space
    MPI_Recv(values, wrong ? LARGE : 1, far, MPI_PROC_NULL, 0, WORLD, STATUS);
    MPI_Type_free(&far);
}

static void far_message(void) {
    MPI_Datatype far;
    const int length = 1;
    const MPI_Aint place = wrong ? -((MPI_Aint)1 << 60) : 4;
    MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &far);
    MPI_Type_commit(&far);
    MPI_Bcast(values, 1, far, 0, WORLD);  // wrong: call.invalid, do not fit into the address space
    MPI_Type_free(&far);
}

static void huge_block(void) {
    MPI_Datatype far = resized(40);
    const int ones[3] = {1, 1, 1}, places[3] = {0, 0, wrong ? LARGE : 0};
    // wrong: call.invalid, do not fit into the address space
    MPI_Scatterv(values, ones, places, far, &values[1], 1, MPI_INT, 0, WORLD);
    MPI_Type_free(&far);
}

static void huge_place_in_a_window(void) {
    MPI_Win window;
    MPI_Win_create(values, sizeof values, LARGE, MPI_INFO_NULL, WORLD, &window);
    MPI_Win_fence(0, window);
    // wrong: call.invalid, MPI_Put: MPI_ERR_DISP
    MPI_Put(&one, 1, MPI_INT, rank, wrong ? (MPI_Aint)1 << 61 : 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void huge_window(void) {
    MPI_Win window;
    // wrong: call.invalid, MPI_Win_create: MPI_ERR_SIZE
    MPI_Win_create(values, wrong ? (MPI_Aint)1 << 62 : 4, 1, MPI_INFO_NULL, WORLD, &window);
    MPI_Win_free(&window);
}

#define CASE(name)                                                                                 \
    { #name, name }
// More memory than there is, of one rank or of all together: each rank gets the error.
#define VAST (((MPI_Aint)1 << 47) - 65536)
static void must_lack(int error) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(error, &error_class);
    if (error_class != MPI_ERR_NO_MEM) {
        abort();
    }
}

static void errors(void) {
    MPI_Comm_set_errhandler(WORLD, wrong ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
}

static void window_without_memory(void) {
    MPI_Win window;
    void *base;
    errors();
    // wrong: call.invalid, MPI_ERR_NO_MEM
    must_lack(MPI_Win_allocate(rank == 1 ? VAST : 8, 1, MPI_INFO_NULL, WORLD, &base, &window));
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, WORLD, &base, &window);
    MPI_Win_free(&window);
}

static void shared_window_without_memory(void) {
    MPI_Win window;
    void *base;
    errors();
    // wrong: call.invalid, MPI_ERR_NO_MEM
    must_lack(MPI_Win_allocate_shared(VAST, 1, MPI_INFO_NULL, WORLD, &base, &window));
    MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, WORLD, &base, &window);
    MPI_Win_free(&window);
}

static void allocation_without_memory(void) {
    void *base;
    errors();
    must_lack(MPI_Alloc_mem(VAST, MPI_INFO_NULL, &base));  // wrong: call.invalid, MPI_ERR_NO_MEM
}

CASES(CASE(huge_type), CASE(huge_stride), CASE(huge_displacement),
      CASE(huge_displacement_of_nothing), CASE(huge_extent), CASE(huge_array),
      CASE(huge_distributed_array), CASE(huge_message), CASE(huge_message_to_nobody),
      CASE(far_message), CASE(huge_block), CASE(huge_place_in_a_window), CASE(huge_window),
      CASE(window_without_memory), CASE(shared_window_without_memory),
      CASE(allocation_without_memory))
