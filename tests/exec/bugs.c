// One defect, by name, in a small program of four ranks; without a name there is none. The marks
// (MARK ...) are the places of the findings.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nccl.h"

#define N 64

static ncclComm_t world;
static cudaStream_t stream;
static const char *bug = "";
static void *at, *out;

// Whether this rank has that defect.
static int has(const char *name, int rank) {
    return strcmp(bug, name) == 0 && own_rank == rank;
}

static int is(const char *name) {
    return strcmp(bug, name) == 0;
}

static void step(void) {
    ncclRedOp_t op = has("op", 2) ? ncclMax : ncclSum;
    ncclDataType_t type = has("dtype", 2) ? ncclInt32 : ncclFloat32;
    size_t count = has("count", 2) ? N - 1 : N;
    CHECK(ncclAllReduce(at, out, count, type, op, world, stream));  // MARK op dtype count nan
    while (has("unbegun", 0)) {
        (void)pause();
    }
    if (has("kind", 1)) {
        CHECK(ncclBroadcast(at, out, N, ncclFloat32, 0, world, stream));  // MARK kind
    } else {
        int root = has("root", 3) ? 1 : 0;
        CHECK(ncclReduce(at, out, N, ncclFloat32, ncclSum, root, world, stream));  // MARK root
    }
}

// One of another size; or not on all ranks.
static void register_window(void) {
    void *memory = NULL, *window = NULL;
    CHECK(ncclMemAlloc(&memory, 4096));
    if (!has("absent", 1)) {
        size_t bytes = has("window", 2) ? 2048 : 4096;
        CHECK(ncclCommWindowRegister(world, memory, bytes, &window, 1));  // MARK window
    }
}

// Sends to each other before either receives.
static void exchange(void) {
    int other = own_rank ^ 1;
    CHECK(ncclSend(at, N, ncclFloat32, other, world, stream));  // MARK cycle
    CHECK(ncclRecv(out, N, ncclFloat32, other, world, stream));
}

static void messages(void) {
    if (own_rank == 0) {
        CHECK(ncclSend(at, N, ncclFloat32, 1, world, stream));  // MARK p2p
    } else if (own_rank == 1) {
        CHECK(ncclRecv(out, N / 2, ncclFloat32, 0, world, stream));
    }
}

static void two_groups(void) {
    ncclComm_t a, b;
    CHECK(ncclCommSplit(world, 0, own_rank, &a, NULL));
    CHECK(ncclCommSplit(world, 0, own_rank, &b, NULL));
    ncclComm_t first = own_rank == 1 ? b : a, second = own_rank == 1 ? a : b;
    CHECK(ncclAllReduce(at, out, N, ncclFloat32, ncclSum, first, stream));  // MARK groups
    CHECK(ncclAllReduce(at, out, N, ncclFloat32, ncclSum, second, stream));
}

// Large buffers with a NaN from two ranks, on the third communicator. The first rank is
// reported.
static void large(ncclUniqueId id) {
    size_t count = 1500007;
    ncclComm_t other = NULL;
    for (int i = 0; i < 2; i++) {
        id.internal[0] = (char)(id.internal[0] + 1);
        CHECK(ncclCommInitRank(&other, rank_count, id, own_rank));
    }
    float *values = calloc(count, sizeof *values);
    values[own_rank == 1 ? 700001 : 1400000] = own_rank == 1 || own_rank == 3 ? NAN : 1;
    void *many = to_device(values, count * sizeof *values);
    CHECK(ncclAllReduce(many, many, count, ncclFloat32, ncclSum, other, stream));  // MARK large
}

// A sum of a value that is already a sum.
static void redundant(void) {
    CHECK(ncclAllReduce(at, out, N, ncclFloat32, ncclSum, world, stream));
    CHECK(ncclAllReduce(out, out, N, ncclFloat32, ncclSum, world, stream));
}

// More waiting streams than a GPU has queues: on one rank no stream reaches its call.
static void many_streams(void) {
    enum { STREAMS = 40 };
    cudaStream_t beside = NULL;
    for (int i = 0; i < STREAMS; i++) {
        ncclComm_t own;
        CHECK(ncclCommSplit(world, 0, own_rank, &own, NULL));
        CHECK(cudaStreamCreate(&beside));
        CHECK(stand_in_kernel(own_rank == 1 ? 60000000 : 0, beside));
        CHECK(ncclAllReduce(at, out, N, ncclFloat32, ncclSum, own, beside));  // MARK queues
    }
    CHECK(cudaStreamSynchronize(beside));
}

// In place, which this collective does not support.
static void overlap(void) {
    void *to = has("overlap", 2) ? at : out;
    CHECK(ncclAlltoAll(at, to, N / 4, ncclFloat32, world, stream));  // MARK overlap
}

// One rank continues while the others create a communicator with it.
static void join_another(ncclUniqueId id) {
    ncclComm_t other;
    id.internal[0] = (char)(id.internal[0] + 1);
    if (own_rank != 0) {
        CHECK(ncclCommInitRank(&other, rank_count, id, own_rank));  // MARK another
    }
}

// The first communicators are of two processes each.
static void make_pairs(ncclUniqueId id) {
    ncclComm_t pair;
    id.internal[0] = (char)(id.internal[0] + 1 + own_rank / 2);
    CHECK(ncclCommInitRank(&pair, 2, id, own_rank % 2));
    CHECK(ncclAllReduce(at, out, N, ncclFloat32, ncclSum, pair, stream));
    CHECK(ncclCommDestroy(pair));
}

// A process without a communicator is killed after one exists.
static int is_killed_outside(ncclUniqueId id) {
    char path[4096];
    int version = 0;
    (void)snprintf(path, sizeof path, "%s.pair", getenv("MEET"));
    CHECK(ncclGetVersion(&version));  // from now on the coordinator knows it
    if (own_rank < 2) {
        make_pairs(id);
        FILE *file = fopen(path, "wb");
        EXPECT(file != NULL && fclose(file) == 0);
    }
    while (own_rank == 3 && access(path, F_OK) != 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return own_rank == 3 ? raise(SIGKILL) : 0;
}

static void end_somehow(void) {
    if (has("early", 3) || has("unbegun", 3)) {
        exit(0);
    }
    if (has("killed", 1)) {
        (void)raise(SIGKILL);
    }
    while (has("stall", 0) || has("asleep", 0)) {
        (void)pause();
    }
    CHECK(ncclAllReduce(at, out, N, ncclFloat32, ncclSum, world, stream));  // MARK early stall
    while (is("asleep")) {  // nobody waits for the call that rank 0 never makes
        (void)pause();
    }
}

int main(int argc, char **argv) {
    ncclUniqueId id = meet();
    bug = argc > 1 ? argv[1] : "";
    float values[N];
    for (int i = 0; i < N; i++) {
        values[i] = has("nan", 1) && i == 3 ? NAN : (float)i;
    }
    at = to_device(values, sizeof values);
    out = to_device(values, sizeof values);
    CHECK(cudaStreamCreate(&stream));
    while (has("join", 3)) {
        (void)pause();
    }
    if (has("fails", 2)) {
        return 5;
    }
    if (is("outside")) {
        return is_killed_outside(id);
    }
    if (is("pairs")) {  // no defect
        make_pairs(id);
    }
    CHECK(ncclCommInitRank(&world, rank_count, id, own_rank));  // MARK join fails
    if (has("unbegun", 3)) {  // its stream does not come to its calls
        CHECK(stand_in_kernel(60000000, stream));
    }
    step();
    if (is("cycle")) {
        exchange();
    }
    if (is("window") || is("absent")) {
        register_window();
    }
    if (is("bcast")) {  // no defect
        CHECK(ncclBcast(at, N, ncclFloat32, 0, world, stream));
    }
    if (is("redundant")) {
        redundant();
    }
    if (is("queues")) {
        many_streams();
    }
    if (is("overlap")) {
        overlap();
    }
    if (is("p2p")) {
        messages();
    }
    if (is("another")) {
        join_another(id);
    }
    if (is("large")) {
        large(id);
    }
    if (is("groups")) {
        two_groups();
    }
    if (has("broken", 2)) {  // its GPU fails after the last call
        CHECK(cudaStreamSynchronize(stream));
        CHECK(stand_in_kernel(1000000, stream));
    }
    end_somehow();
    if (has("broken", 2)) {
        stand_in_break();
        CHECK(ncclCommDestroy(world));
    }
    CHECK(cudaStreamSynchronize(stream));
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(world, &state));
    if (state != ncclSuccess) {
        (void)fprintf(stderr, "rank %d is told: %s\n", own_rank, ncclGetLastError(world));
        CHECK(ncclCommAbort(world));
        return 9;
    }
    CHECK(ncclCommDestroy(world));
    return 0;
}
