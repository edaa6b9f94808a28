// Correct programs, of 3 ranks, whose memory looks unusual: the checks of buffers are silent.
#include "say.h"

#define WORLD  MPI_COMM_WORLD
#define STATUS MPI_STATUS_IGNORE

static int table[6][8], right, left;
typedef struct record {
    char name[4];
    int values[3];
    union {
        double number;
        int parts[2];
    } of;
    int length, rest[];
} record;

static void ring(const void *out, int count, void *in) {
    MPI_Sendrecv(out, count, MPI_INT, right, 0, in, count, MPI_INT, left, 0, WORLD, STATUS);
}

static void parts_of_a_global(void) {
    for (int i = 0; i < 8; i++) {
        table[1][i] = 10 * me + i;
    }
    ring(table[1], 8, table[2]);
    ring(&table[1][4], 12, &table[3][0]);
    say("global", 48, &table[0][0]);
}

static void members_of_a_struct(void) {
    record *own = calloc(1, sizeof *own + 4 * sizeof own->rest[0]), got = {.length = 0};
    own->values[2] = me;
    own->of.parts[1] = me + 1;
    ring(own->values, 3, got.values);
    ring(own->of.parts, 2, got.of.parts);
    own->rest[3] = 5;
    ring(&own->rest[2], 2, &own->rest[0]);
    SAY("struct", got.values[2], got.of.parts[1], own->rest[0], own->rest[1]);
    free(own);
}

static void sizes_of_the_run(int n) {
    int variable[n + 2], *taken = __builtin_alloca((size_t)n * sizeof *taken);
    for (int i = 0; i < n; i++) {
        variable[i] = me * i;
    }
    ring(variable, n, taken);
    say("variable", n, taken);
    ring(taken, 1, variable + n + 1);
    SAY("last", variable[n + 1]);
}

static void absolute_addresses(void) {
    int a = me, *b = malloc(3 * sizeof *b), lengths[2] = {1, 2};
    MPI_Aint places[2];
    MPI_Datatype type;
    b[0] = b[1] = b[2] = 7 * me;
    MPI_Get_address(&a, &places[0]);
    MPI_Get_address(b + 1, &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv_replace(MPI_BOTTOM, 1, type, right, 0, left, 0, WORLD, STATUS);
    SAY("absolute", a, b[0], b[1], b[2]);
    MPI_Type_free(&type);
    free(b);
}

static void backward(void) {
    int values[6] = {me, 1, 2, 3, 4, 5};
    MPI_Datatype type;
    MPI_Type_vector(3, 1, -2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv_replace(values + 4, 1, type, right, 0, left, 0, WORLD, STATUS);
    say("backward", 6, values);
    MPI_Type_free(&type);
}

static void nothing_at_all(void) {
    int *gone = malloc(sizeof *gone), counts[3] = {0, 0, 0}, sum = 0;
    MPI_Request request;
    free(gone);
    MPI_Irecv(NULL, 0, MPI_INT, left, 0, WORLD, &request);
    MPI_Send(gone, 0, MPI_INT, right, 0, WORLD);
    MPI_Wait(&request, STATUS);
    MPI_Alltoallv(NULL, counts, counts, MPI_INT, gone, counts, counts, MPI_INT, WORLD);
    MPI_Bcast(gone, 0, MPI_INT, 0, WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 0, MPI_INT, MPI_SUM, WORLD);
    MPI_Waitall(0, NULL, NULL);
    SAY("nothing", sum);
}

static void in_place(void) {
    int sums[3] = {me, 1, 2}, all[3] = {0}, *blocks = calloc(3, sizeof *blocks);
    MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INT, MPI_SUM, WORLD);
    all[me] = me + 1;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, WORLD);
    blocks[me] = 9;
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, blocks, 1, MPI_INT, WORLD);
    say("sums", 3, sums);
    say("all", 3, all);
    say("blocks", 3, blocks);
    free(blocks);
}

static void again_and_again(void) {
    int out = 0, in = -1, *heap = malloc(sizeof *heap);
    MPI_Request requests[2];
    MPI_Send_init(&out, 1, MPI_INT, right, 0, WORLD, &requests[0]);
    MPI_Recv_init(&in, 1, MPI_INT, left, 0, WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        out = 10 * me + i;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        SAY("again", in);
        in = -1;
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Irecv(heap, 1, MPI_INT, left, 0, WORLD, &requests[0]);
        MPI_Send(&out, 1, MPI_INT, right, 0, WORLD);
        MPI_Wait(&requests[0], STATUS);
        heap = realloc(heap, (size_t)(2 + i) * sizeof *heap);
        SAY("grown", heap[0]);
    }
    free(heap);
}

// A buffered send, and one whose receive is known to be complete, are complete.
static void freed_after_its_message(void) {
    int *out = malloc(sizeof *out), in, go = 0;
    char *room = malloc(256);
    MPI_Request request;
    *out = me;
    MPI_Buffer_attach(room, 256);
    MPI_Bsend(out, 1, MPI_INT, right, 0, WORLD);
    *out = -1;
    MPI_Recv(&in, 1, MPI_INT, left, 0, WORLD, STATUS);
    MPI_Buffer_detach(&room, &go);
    free(room);
    *out = 5 + me;
    MPI_Isend(out, 1, MPI_INT, right, 1, WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(&in, 1, MPI_INT, left, 1, WORLD, STATUS);
    MPI_Barrier(WORLD);
    free(out);
    SAY("freed", in);
}

// A persistent buffered send to nobody takes no room.
static void buffered_to_nobody(void) {
    char *room = malloc(256), *back;
    int size;
    MPI_Request request;
    MPI_Buffer_attach(room, 256);
    MPI_Bsend_init(&me, 1, MPI_INT, MPI_PROC_NULL, 0, WORLD, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, STATUS);
    }
    MPI_Request_free(&request);
    MPI_Buffer_detach(&back, &size);
    SAY("nobody", back == room);
    free(room);
}

static void lists_of_a_collective(void) {
    int *counts = malloc(3 * sizeof *counts), *places = malloc(3 * sizeof *places), got[6];
    MPI_Request request;
    for (int i = 0; i < 3; i++) {
        counts[i] = i;
        places[i] = 2 * i;
        got[2 * i] = got[2 * i + 1] = -1;
    }
    const int mine[2] = {me, me};
    MPI_Iallgatherv(mine, me, MPI_INT, got, counts, places, MPI_INT, WORLD, &request);
    int sum = counts[1] + places[2];
    MPI_Wait(&request, STATUS);
    free(counts);
    free(places);
    say("lists", 6, got);
    SAY("read", sum);
}

static void window_on_the_stack(void) {
    _Alignas(16) int memory[8] = {me, 0, 0, 0};
    int got[2];
    MPI_Win window;
    MPI_Win_create(&memory[4], 2 * sizeof(int), sizeof(int), MPI_INFO_NULL, WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&memory[0], 1, MPI_INT, right, 1, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Get(got, 2, MPI_INT, left, 0, 2, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    memory[7] = 1;
    SAY("window", memory[5], got[0], got[1]);
}

static void window_on_the_heap(void) {
    int *memory = calloc(2, sizeof *memory), *beside = malloc(8);
    MPI_Win window;
    MPI_Win_create(memory, 8, 4, MPI_INFO_NULL, WORLD, &window);
    free(beside);
    MPI_Win_fence(0, window);
    MPI_Put(&me, 1, MPI_INT, right, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    SAY("window", memory[0]);
    MPI_Win_free(&window);
    memory = realloc(memory, 4096);
    free(memory);
}

// Columns interleave, and each of their entries occurs once.
static void columns(void) {
    int square[9] = {0}, row[3] = {me, 10 + me, 20 + me};
    MPI_Datatype column, narrow;
    MPI_Type_vector(3, 1, 3, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &narrow);
    MPI_Type_commit(&narrow);
    MPI_Allgather(row, 3, MPI_INT, square, 1, narrow, WORLD);
    say("columns", 9, square);
    MPI_Type_free(&narrow);
    MPI_Type_free(&column);
}

int main(void) {
    start();
    right = (me + 1) % all;
    left = (me + all - 1) % all;
    parts_of_a_global();
    members_of_a_struct();
    sizes_of_the_run(3 + all);
    absolute_addresses();
    backward();
    nothing_at_all();
    in_place();
    again_and_again();
    freed_after_its_message();
    buffered_to_nobody();
    lists_of_a_collective();
    window_on_the_stack();
    window_on_the_heap();
    columns();
    MPI_Finalize();
    return 0;
}
