// Buffers in variables: on the stack, global, static, thread-local. A count beyond the variable is
// a finding; a count within the whole variable is correct.
#include <pthread.h>

#include "cases.h"

struct parts {
    int first[4], second[4];
};

static int global[4];
static struct parts global_parts;
static _Thread_local int of_thread[4];
static double matrix[3][4];
int common[8];

// Rank 0 sends count ints to rank 1, which receives them into `to`.
static void pass(int *to, int count) {
    static int from[64];
    if (rank == 0) {
        MPI_Send(from, count, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        // wrong: buffer.too_small, its arguments describe a buffer of 20 bytes; it is in here (
        MPI_Recv(to, count, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

static void of_the_caller(void) {
    int here[4];
    pass(here, wrong ? 5 : 4);
}

static void on_the_stack(void) {
    int small[4] = {0}, large[16] = {0};
    if (rank == 0) {
        MPI_Send(large, wrong ? 8 : 4, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        // wrong: buffer.too_small, describe a buffer of 32 bytes; it is in small (
        MPI_Recv(small, wrong ? 8 : 4, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

static void sent_from_the_stack(void) {
    int small[4] = {0}, large[16] = {0};
    if (rank == 0) {
        // wrong: buffer.too_small, which has 16 bytes
        MPI_Send(small, wrong ? 8 : 4, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        MPI_Recv(large, 16, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

static void global_array(void) {
    // wrong: buffer.too_small, it is in global (
    MPI_Bcast(global, wrong ? 5 : 4, MPI_INT, 0, WORLD);
}

static void static_array(void) {
    static int kept[4];
    // wrong: buffer.too_small, it is in kept (
    MPI_Bcast(kept, wrong ? 5 : 4, MPI_INT, 0, WORLD);
}

static void array_of_the_thread(void) {
    // wrong: buffer.too_small, it is in of_thread, which has 16 bytes
    MPI_Bcast(of_thread, wrong ? 5 : 4, MPI_INT, 0, WORLD);
}

static void from_the_middle(void) {
    // wrong: buffer.too_small, which has 32 bytes, and begins 24 bytes after its start
    MPI_Bcast(&common[6], wrong ? 3 : 2, MPI_INT, 0, WORLD);
}

static void one_number(void) {
    int one = 0, other = 0;
    // wrong: buffer.too_small, which has 4 bytes
    MPI_Bcast(&one, wrong ? 2 : 1, MPI_INT, 0, WORLD);
    MPI_Bcast(&other, 1, MPI_INT, 0, WORLD);
}

// Consecutive members belong to the whole.
static void member_after_member(void) {
    struct parts parts = {{0}, {0}};
    MPI_Bcast(parts.first, 8, MPI_INT, 0, WORLD);
    MPI_Bcast(global_parts.first, 8, MPI_INT, 0, WORLD);
    MPI_Bcast(matrix[0], 12, MPI_DOUBLE, 0, WORLD);
    // wrong: buffer.too_small, it is in parts (
    MPI_Bcast(parts.second, wrong ? 5 : 4, MPI_INT, 0, WORLD);
}

static void columns(void) {
    MPI_Datatype column;
    MPI_Type_vector(3, 1, 4, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Bcast(&matrix[0][3], 1, column, 0, WORLD);
    // wrong: buffer.too_small, it is in matrix (
    MPI_Bcast(&matrix[wrong ? 1 : 0][0], 1, column, 0, WORLD);
    MPI_Type_free(&column);
}

static void structures(void) {
    struct pair {
        int number;
        double value;
    } pairs[3] = {{0, 0}};
    const int lengths[2] = {1, 1};
    const MPI_Aint places[2] = {0, 8};
    const MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Datatype pair;
    MPI_Type_create_struct(2, lengths, places, types, &pair);
    MPI_Type_commit(&pair);
    // wrong: buffer.too_small, it is in pairs (
    MPI_Bcast(pairs, wrong ? 4 : 3, pair, 0, WORLD);
    MPI_Type_free(&pair);
}

// One type for several variables, relative to the first of them, and to MPI_BOTTOM.
static void separate_variables(void) {
    double a = 1, b = 2;
    int n = 3, last[2] = {0, 0};
    MPI_Aint places[4], first;
    const int lengths[4] = {1, 1, 1, 2};
    const MPI_Datatype types[4] = {MPI_DOUBLE, MPI_DOUBLE, MPI_INT, MPI_INT};
    MPI_Datatype all;
    MPI_Get_address(&a, &places[0]);
    MPI_Get_address(&b, &places[1]);
    MPI_Get_address(&n, &places[2]);
    MPI_Get_address(last, &places[3]);
    MPI_Type_create_struct(4, lengths, places, types, &all);
    MPI_Type_commit(&all);
    MPI_Bcast(MPI_BOTTOM, 1, all, 0, WORLD);
    MPI_Type_free(&all);
    first = places[0];
    for (int i = 0; i < 4; i++) {
        places[i] -= first;
    }
    MPI_Type_create_struct(4, lengths, places, types, &all);
    MPI_Type_commit(&all);
    MPI_Bcast(&a, 1, all, 0, WORLD);
    MPI_Type_free(&all);
    // wrong: buffer.too_small, it is in last (
    MPI_Bcast(last, wrong ? 3 : 2, MPI_INT, 0, WORLD);
}

// Sizes without debug information.
static void sizes_of_the_run(void) {
    int n = 4 + rank - rank, length[n], *room = __builtin_alloca((size_t)n * sizeof *room);
    memset(length, 0, sizeof length);
    memset(room, 0, (size_t)n * sizeof *room);
    MPI_Bcast(length, n, MPI_INT, 0, WORLD);
    MPI_Bcast(room, n, MPI_INT, 0, WORLD);
    MPI_Bcast((int[8]){0}, 8, MPI_INT, 0, WORLD);
    int late[4];
    // wrong: buffer.too_small, it is in late (
    MPI_Bcast(late, wrong ? 5 : 4, MPI_INT, 0, WORLD);
}

// Variables of disjoint scopes share their place.
static void blocks_in_turn(void) {
    for (int i = 0; i < 3; i++) {
        int before[2];
        MPI_Bcast(before, 2, MPI_INT, 0, WORLD);
        {
            int large[16];
            MPI_Bcast(large, 16, MPI_INT, 0, WORLD);
        }
        {
            char bytes[40];
            MPI_Bcast(bytes, 40, MPI_CHAR, 0, WORLD);
        }
    }
    int small[2];
    // wrong: buffer.too_small, it is in small (
    MPI_Bcast(small, wrong ? 3 : 2, MPI_INT, 0, WORLD);
}

static inline void inner(int count) {
    int inside[4];
    // wrong: buffer.too_small, it is in inside (
    MPI_Bcast(inside, count, MPI_INT, 0, WORLD);
}

static void of_an_inline_function(void) {
    int outside[8];
    inner(4);
    MPI_Bcast(outside, 8, MPI_INT, 0, WORLD);
    inner(wrong ? 5 : 4);
}

static int down(int depth, int *from_above, int count) {
    int own[3] = {depth, 0, 0};
    if (depth > 0) {
        return down(depth - 1, depth == 3 ? own : from_above, count) + own[1];
    }
    // wrong: buffer.too_small, it is in own (
    MPI_Bcast(from_above, count, MPI_INT, 0, WORLD);
    return own[2];
}

static void through_a_recursion(void) {
    (void)down(5, NULL, wrong ? 4 : 3);
}

static void gathered(void) {
    int all[3], mine[2] = {rank, rank};
    int *to = rank == 0 ? all : NULL, n = wrong ? 2 : 1;
    // wrong: buffer.too_small, it is in all (
    MPI_Gather(mine, n, MPI_INT, to, n, MPI_INT, 0, WORLD);
}

// MPI_PROC_NULL sends nothing, whatever the count.
static void exchanged(void) {
    int to[2], from[2] = {0};
    const int left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    int n = wrong || rank == 0 ? 3 : 2;
    // wrong: buffer.too_small, its arguments describe a buffer of 12 bytes; it is in to (
    MPI_Sendrecv(from, 2, MPI_INT, right, 0, to, n, MPI_INT, left, 0, WORLD, STATUS);
}

// An empty block has no address, whatever its displacement.
static void blocks_of_nothing(void) {
    int all[2] = {0, 0}, counts[3] = {1, 1, 0}, places[3] = {0, 1, 1 << 20};
    places[1] = wrong ? 2 : 1;
    // wrong: buffer.too_small, it is in all (
    MPI_Allgatherv(&rank, rank < 2 ? 1 : 0, MPI_INT, all, counts, places, MPI_INT, WORLD);
}

static void blocks_of_types(void) {
    static int out[4], in[3];
    const int counts[3] = {1, 1, wrong ? 2 : 1}, places[3] = {0, 4, 8};
    const MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    // wrong: buffer.too_small, it is in in (
    MPI_Alltoallw(out, counts, places, types, in, counts, places, types, WORLD);
}

static void in_place(void) {
    int sums[4] = {rank, 1, 2, 3};
    // wrong: buffer.too_small, it is in sums (
    MPI_Allreduce(MPI_IN_PLACE, sums, wrong ? 5 : 4, MPI_INT, MPI_SUM, WORLD);
}

static void put_from_the_stack(void) {
    MPI_Win window;
    int mine[4] = {0}, n = wrong ? 5 : 4;
    MPI_Win_create(common, sizeof common, sizeof(int), MPI_INFO_NULL, WORLD, &window);
    MPI_Win_fence(0, window);
    if (rank < 2) {
        // wrong: buffer.too_small, it is in mine (
        MPI_Put(mine, n, MPI_INT, 1 - rank, 0, n, MPI_INT, window);
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void window_over_a_variable(void) {
    MPI_Win window;
    // wrong: buffer.too_small, MPI_Win_create: its arguments describe a buffer of 20 bytes
    MPI_Win_create(global, wrong ? 20 : 16, 4, MPI_INFO_NULL, WORLD, &window);
    MPI_Win_free(&window);
}

static void room_to_send_from(void) {
    static char room[64];
    void *had;
    int bytes;
    // wrong: buffer.too_small, MPI_Buffer_attach: its arguments describe a buffer of 65
    MPI_Buffer_attach(room, wrong ? 65 : 64);
    MPI_Buffer_detach(&had, &bytes);
}

static void persistent(void) {
    int to[4], from[8] = {0}, n = wrong ? 5 : 4;
    MPI_Request request;
    if (rank == 0) {
        MPI_Send_init(from, n, MPI_INT, 1, 0, WORLD, &request);
    } else if (rank == 1) {
        MPI_Recv_init(to, n, MPI_INT, 0, 0, WORLD, &request);
    }
    if (rank < 2) {
        MPI_Start(&request);  // wrong: buffer.too_small, it is in to (
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    }
}

// The lists in a call's arguments, too.
static void list_of_counts(void) {
    int all[3], counts[2] = {1, 1}, enough[3] = {1, 1, 1}, places[3] = {0, 1, 2};
    MPI_Gatherv(&rank, 1, MPI_INT, all, rank == 0 ? enough : NULL, places, MPI_INT, 0, WORLD);
    // wrong: buffer.too_small, it is in counts (
    MPI_Gatherv(&rank, 1, MPI_INT, all, wrong ? counts : enough, places, MPI_INT, 0, WORLD);
}

static void list_of_statuses(void) {
    int to[2], next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Status one[1], both[2];
    MPI_Request requests[2];
    MPI_Irecv(to, 1, MPI_INT, before, 0, WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, next, 0, WORLD, &requests[1]);
    MPI_Waitall(2, requests, wrong ? one : both);  // wrong: buffer.too_small, it is in one (
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Waitall(0, NULL, both);
}

static void *on_another_thread(void *arg);

static void start_a_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, on_another_thread, NULL);
    pthread_join(thread, NULL);
}

static void *on_another_thread(void *arg) {
    int own[4] = {0};
    MPI_Bcast(own, wrong ? 5 : 4, MPI_INT, 0, WORLD);  // wrong: buffer.too_small, it is in own (
    return arg;
}

CASES({"start_a_thread", start_a_thread}, {"list_of_counts", list_of_counts},
      {"list_of_statuses", list_of_statuses}, {"of_the_caller", of_the_caller},
      {"pass", of_the_caller}, {"inner", of_an_inline_function}, {"down", through_a_recursion},
      {"on_the_stack", on_the_stack}, {"sent_from_the_stack", sent_from_the_stack},
      {"global_array", global_array}, {"static_array", static_array},
      {"array_of_the_thread", array_of_the_thread}, {"from_the_middle", from_the_middle},
      {"one_number", one_number}, {"member_after_member", member_after_member},
      {"columns", columns}, {"structures", structures}, {"separate_variables", separate_variables},
      {"sizes_of_the_run", sizes_of_the_run}, {"blocks_in_turn", blocks_in_turn},
      {"of_an_inline_function", of_an_inline_function},
      {"through_a_recursion", through_a_recursion}, {"gathered", gathered},
      {"exchanged", exchanged}, {"blocks_of_nothing", blocks_of_nothing},
      {"blocks_of_types", blocks_of_types}, {"in_place", in_place},
      {"put_from_the_stack", put_from_the_stack},
      {"window_over_a_variable", window_over_a_variable}, {"room_to_send_from", room_to_send_from},
      {"persistent", persistent})
