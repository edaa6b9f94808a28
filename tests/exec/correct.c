// A program without a defect: every collective and message, groups, communicators of all kinds,
// types and operations. It checks every result itself.
#include <string.h>

#include "nccl.h"

#define N 1000

static ncclComm_t world;
static cudaStream_t stream;

static float *floats(float first, float step, size_t n) {
    float *made = malloc(n * sizeof *made);
    for (size_t i = 0; i < n; i++) {
        made[i] = first + step * (float)i;
    }
    return made;
}

static void collectives(void) {
    size_t all = (size_t)rank_count * N;
    float *mine = floats((float)own_rank, 1, all), *got = malloc(all * sizeof *got);
    void *in = to_device(mine, all * sizeof *mine), *out = to_device(mine, all * sizeof *mine);
    float ranks = (float)rank_count, sum_of_ranks = ranks * (ranks - 1) / 2;
    CHECK(ncclAllReduce(in, out, N, ncclFloat32, ncclSum, world, stream));
    from_device(got, out, N * sizeof *got, stream);
    for (int i = 0; i < N; i++) {
        EXPECT(got[i] == sum_of_ranks + ranks * (float)i);
    }
    CHECK(ncclAllReduce(out, out, N, ncclFloat32, ncclMax, world, stream));  // in place
    CHECK(ncclReduce(in, out, N, ncclFloat32, ncclMin, 1, world, stream));
    from_device(got, out, N * sizeof *got, stream);
    EXPECT(got[5] == (own_rank == 1 ? 5 : sum_of_ranks + ranks * 5));
    CHECK(ncclBroadcast(in, out, N, ncclFloat32, rank_count - 1, world, stream));
    from_device(got, out, N * sizeof *got, stream);
    EXPECT(got[7] == ranks - 1 + 7);
    CHECK(ncclAllGather(in, out, N, ncclFloat32, world, stream));
    from_device(got, out, all * sizeof *got, stream);
    for (int r = 0; r < rank_count; r++) {
        EXPECT(got[r * N + 3] == (float)(r + 3));
    }
    CHECK(ncclReduceScatter(in, out, N, ncclFloat32, ncclAvg, world, stream));
    from_device(got, out, N * sizeof *got, stream);
    EXPECT(got[2] == sum_of_ranks / ranks + (float)(own_rank * N + 2));
    CHECK(ncclAlltoAll(in, out, N, ncclFloat32, world, stream));
    from_device(got, out, all * sizeof *got, stream);
    for (int r = 0; r < rank_count; r++) {
        EXPECT(got[r * N + 1] == (float)(r + own_rank * N + 1));
    }
    CHECK(ncclGather(in, out, N, ncclFloat32, 0, world, stream));
    CHECK(ncclScatter(in, out, N, ncclFloat32, 2, world, stream));
    from_device(got, out, N * sizeof *got, stream);
    EXPECT(got[9] == (float)(2 + own_rank * N + 9));
    CHECK(ncclAllReduce(NULL, NULL, 0, ncclFloat32, ncclSum, world, stream));  // dropped
}

// Large enough to be summed in parts, in place and not.
static void large(void) {
    size_t count = 1500007;
    float *mine = floats((float)own_rank, 0.5F, count), *got = malloc(count * sizeof *got);
    void *in = to_device(mine, count * sizeof *mine), *out = to_device(mine, count * sizeof *mine);
    float ranks = (float)rank_count;
    for (int round = 0; round < 2; round++) {
        CHECK(ncclAllReduce(in, round == 0 ? out : in, count, ncclFloat32, ncclMax, world, stream));
        from_device(got, round == 0 ? out : in, count * sizeof *got, stream);
        for (size_t i = 0; i < count; i++) {
            EXPECT(got[i] == ranks - 1 + 0.5F * (float)i);
        }
    }
    free(mine);
    free(got);
}

// All ranks send to all, uneven, in one group; and around the ring without a group.
static void messages(void) {
    size_t all = (size_t)rank_count * N;
    float *mine = floats((float)own_rank * 100000, 1, all), *got = calloc(all, sizeof *got);
    char *in = to_device(mine, all * sizeof *mine), *out = to_device(got, all * sizeof *got);
    CHECK(ncclGroupStart());
    for (int r = 0; r < rank_count; r++) {
        CHECK(ncclSend(in + (size_t)r * N * 4, (size_t)(10 * own_rank + r), ncclFloat32, r, world,
                       stream));
        CHECK(ncclRecv(out + (size_t)r * N * 4, (size_t)(10 * r + own_rank), ncclFloat32, r, world,
                       stream));
    }
    CHECK(ncclGroupEnd());
    from_device(got, out, all * sizeof *got, stream);
    for (int r = 0; r < rank_count; r++) {
        int count = 10 * r + own_rank;
        EXPECT(count == 0 ||
               got[r * N + count - 1] == (float)(r * 100000 + own_rank * N + count - 1));
        EXPECT(got[r * N + count] == 0);
    }
    int next = (own_rank + 1) % rank_count, before = (own_rank + rank_count - 1) % rank_count;
    if (own_rank % 2 == 0) {
        CHECK(ncclSend(in, 4, ncclFloat32, next, world, stream));
        CHECK(ncclRecv(out, 4, ncclFloat32, before, world, stream));
    } else {
        CHECK(ncclRecv(out, 4, ncclFloat32, before, world, stream));
        CHECK(ncclSend(in, 4, ncclFloat32, next, world, stream));
    }
    from_device(got, out, 16, stream);
    EXPECT(got[3] == (float)(before * 100000 + 3));
}

// Small whole numbers, which every type holds.
static void types(void) {
    static const int bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    static const uint64_t one[] = {1,      1,          1,      1,      1,    1,
                                   0x3c00, 0x3f800000, 0x3ff0, 0x3f80, 0x38, 0x3c};
    static const uint64_t four[] = {4,      4,          4,      4,      4,    4,
                                    0x4400, 0x40800000, 0x4010, 0x4080, 0x48, 0x44};
    for (int type = 0; type < 12; type++) {
        unsigned char values[8 * 16] = {0};
        for (int i = 0; i < 16; i++) {
            uint64_t bits = type == ncclFloat64 ? one[type] << 48 : one[type];
            memcpy(values + i * bytes[type], &bits, (size_t)bytes[type]);
        }
        void *at = to_device(values, sizeof values);
        for (int op = ncclSum; op <= ncclAvg; op++) {
            CHECK(cudaMemcpy(at, values, sizeof values, 1));
            CHECK(ncclAllReduce(at, at, 16, (ncclDataType_t)type, (ncclRedOp_t)op, world, stream));
            unsigned char got[sizeof values];
            from_device(got, at, sizeof got, stream);
            uint64_t bits = op == ncclSum && rank_count == 4 ? four[type] : one[type];
            bits = type == ncclFloat64 ? bits << 48 : bits;
            EXPECT(memcmp(got + 15 * bytes[type], &bits, (size_t)bytes[type]) == 0);
        }
    }
}

static void operations(void) {
    float factor = (float)(own_rank + 1), value = 2, got = 0;
    ncclRedOp_t op;
    void *at = to_device(&value, sizeof value);
    CHECK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, 1, world));
    CHECK(ncclAllReduce(at, at, 1, ncclFloat32, op, world, stream));
    from_device(&got, at, sizeof got, stream);
    EXPECT(got == (float)(rank_count * (rank_count + 1)));
    EXPECT(ncclAllReduce(at, at, 1, ncclInt32, op, world, stream) == ncclInvalidArgument);
    CHECK(ncclRedOpDestroy(op, world));
    const ncclRedOp_t none[] = {op, (ncclRedOp_t)-1, (ncclRedOp_t)INT_MAX};  // INT_MAX: no memory
    for (int i = 0; i < 3; i++) {
        EXPECT(ncclAllReduce(at, at, 1, ncclFloat32, none[i], world, stream) ==
               ncclInvalidArgument);
        EXPECT(ncclRedOpDestroy(none[i], world) == ncclInvalidArgument);
    }
    ncclRedOp_t many[64], more;
    for (int i = 0; i < 64; i++) {
        CHECK(ncclRedOpCreatePreMulSum(&many[i], &factor, ncclFloat32, 1, world));
    }
    EXPECT(ncclRedOpCreatePreMulSum(&more, &factor, ncclFloat32, 1, world) == ncclInvalidUsage);
    for (int i = 0; i < 64; i++) {
        CHECK(ncclRedOpDestroy(many[i], world));
    }
}

// A sum over a communicator of `members` whose members contribute their rank in it.
static void use(ncclComm_t comm, int members, int expected_rank) {
    int rank = -1, size = -1;
    CHECK(ncclCommUserRank(comm, &rank));
    CHECK(ncclCommCount(comm, &size));
    EXPECT(rank == expected_rank && size == members);
    int64_t value = rank, got = 0;
    void *at = to_device(&value, sizeof value);
    CHECK(ncclAllReduce(at, at, 1, ncclInt64, ncclSum, comm, stream));
    from_device(&got, at, sizeof got, stream);
    EXPECT(got == members * (members - 1) / 2);
}

static void wait_ready(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        CHECK(ncclCommGetAsyncError(comm, &state));
    }
    CHECK(state);
}

static void communicators(ncclUniqueId id) {
    ncclComm_t half = NULL, reversed = NULL, other = NULL, fewer = NULL;
    CHECK(ncclCommSplit(world, own_rank % 2, own_rank, &half, NULL));
    use(half, (rank_count + 1 - own_rank % 2) / 2, own_rank / 2);
    CHECK(ncclCommSplit(world, own_rank == 0 ? -1 : 0, -own_rank, &reversed, NULL));
    EXPECT((reversed == NULL) == (own_rank == 0));
    if (reversed != NULL) {
        use(reversed, rank_count - 1, rank_count - 1 - own_rank);
        CHECK(ncclCommDestroy(reversed));
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = "other";
    id.internal[0] = (char)(id.internal[0] + 1);
    ncclResult_t begun = ncclCommInitRankConfig(&other, rank_count, id, own_rank, &config);
    EXPECT(begun == ncclInProgress || begun == ncclSuccess);
    wait_ready(other);
    use(other, rank_count, own_rank);
    int excluded = 1;
    if (own_rank != 1) {
        CHECK(ncclCommShrink(world, &excluded, 1, &fewer, NULL, 0));
        use(fewer, rank_count - 1, own_rank > 1 ? own_rank - 1 : own_rank);
    }
    void *at = to_device(&(float){1}, sizeof(float));
    CHECK(ncclCommRevoke(half, 0));
    EXPECT(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, half, stream) == ncclInvalidUsage);
    CHECK(ncclCommDestroy(half));
    CHECK(ncclCommFinalize(other));
    CHECK(ncclCommDestroy(other));
}

// A call waits for earlier work of its stream, and later work waits for the call; streams do not
// wait for each other.
static void streams(void) {
    enum { STREAMS = 6, ROUNDS = 8 };
    cudaStream_t many[STREAMS];
    ncclComm_t comms[STREAMS];
    void *at[STREAMS];
    double values[STREAMS], last[STREAMS];
    for (int s = 0; s < STREAMS; s++) {
        values[s] = own_rank + s;
        CHECK(cudaStreamCreate(&many[s]));
        CHECK(ncclCommSplit(world, 0, own_rank, &comms[s], NULL));
        at[s] = to_device(&(double){-1}, sizeof(double));
    }
    for (int s = 0; s < STREAMS; s++) {
        CHECK(stand_in_kernel((unsigned)(2000 * ((own_rank + s) % 3)), many[s]));
        CHECK(cudaMemcpyAsync(at[s], &values[s], sizeof(double), 1, many[s]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int s = 0; s < STREAMS; s++) {
            CHECK(ncclAllReduce(at[s], at[s], 1, ncclFloat64, round == 0 ? ncclSum : ncclMax,
                                comms[s], many[s]));
        }
    }
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cudaMemcpyAsync(&last[s], at[s], sizeof(double), 2, many[s]));
    }
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cudaStreamSynchronize(many[s]));
        EXPECT(last[s] == rank_count * (rank_count - 1) / 2 + s * rank_count);
    }
}

// Arguments from which no communicator can be made.
static void refused_members(ncclUniqueId id) {
    ncclComm_t none = NULL;
    ncclConfig_t unset = {.size = sizeof unset};
    EXPECT(ncclCommInitRankConfig(&none, rank_count, id, own_rank, &unset) == ncclInvalidArgument);
    EXPECT(ncclCommInitRank(NULL, rank_count, id, own_rank) == ncclInvalidArgument);
    EXPECT(ncclCommInitRank(&none, 0, id, 0) == ncclInvalidArgument);
    EXPECT(ncclCommInitRank(&none, rank_count, id, -1) == ncclInvalidArgument);
    EXPECT(ncclCommInitRank(&none, rank_count, id, rank_count) == ncclInvalidArgument);
    EXPECT(ncclCommInitAll(NULL, 1, NULL) == ncclInvalidArgument);
    EXPECT(ncclCommInitAll(&none, 0, NULL) == ncclInvalidArgument);
    EXPECT(none == NULL);
}

// A refused call fails its group, and no later one.
static void refused_group(void *at) {
    CHECK(ncclGroupStart());
    EXPECT(ncclReduce(at, at, 1, ncclFloat32, ncclSum, rank_count, world, stream) ==
           ncclInvalidArgument);
    EXPECT(ncclGroupEnd() == ncclInvalidArgument);
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, world, stream));
    CHECK(ncclGroupEnd());
}

static void refusals(void) {
    float value = 1;
    void *at = to_device(&value, sizeof value);
    EXPECT(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, NULL, stream) == ncclInvalidArgument);
    EXPECT(ncclReduce(at, at, 1, ncclFloat32, ncclSum, rank_count, world, stream) ==
           ncclInvalidArgument);
    EXPECT(ncclSend(at, 1, ncclFloat32, own_rank, world, stream) == ncclInvalidUsage);
    refused_group(at);
    CHECK(stand_in_capture(1, stream));
    EXPECT(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, world, stream) == ncclInvalidUsage);
    CHECK(stand_in_capture(0, stream));
    EXPECT(ncclDevCommCreate(world, NULL, NULL) == ncclInvalidUsage);
    EXPECT(strstr(ncclGetLastError(NULL), "build the program with lockstep-cuda-cc") != NULL);
}

// Two windows in a group, one on a part of the first's memory; a collective in them, and their end.
static void windows(void) {
    float values[4] = {1, 2, 3, 4};
    void *at = NULL, *user = NULL, *whole = NULL, *part = NULL;
    CHECK(ncclMemAlloc(&at, 4096));
    CHECK(cudaMemcpy(at, values, sizeof values, 1));
    CHECK(ncclGroupStart());
    CHECK(ncclCommWindowRegister(world, at, 4096, &whole, 1));
    CHECK(ncclCommWindowRegister(world, at, 1024, &part, 1));
    CHECK(ncclGroupEnd());
    CHECK(ncclAllReduce(at, at, 4, ncclFloat32, ncclSum, world, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(values, at, sizeof values, 2));
    EXPECT(values[3] == 4 * (float)rank_count);
    CHECK(ncclWinGetUserPtr(world, whole, &user));
    EXPECT(user == at);
    EXPECT(ncclCommWindowRegister(world, NULL, 4096, &user, 1) == ncclInvalidArgument);
    CHECK(ncclCommWindowDeregister(world, part));
    CHECK(ncclCommWindowDeregister(world, whole));
    EXPECT(ncclCommWindowDeregister(world, whole) == ncclInvalidArgument);
    CHECK(ncclMemFree(at));
}

// Fewer devices than ranks: each rank has its own number, and reports name the real
// device.
static void shared_devices(void) {
    const char *text = getenv("STAND_IN_GPUS");
    int there = text != NULL ? (int)strtol(text, NULL, 10) : 1, told[4] = {-1, -1, -1, -1},
        peer = -1, own = -1;
    char bus[8];
    CHECK(cudaGetDevice(&own));
    CHECK(cudaGetDeviceProperties(&told[0], own));
    CHECK(cudaGetDeviceProperties_v2(&told[1], own));
    CHECK(cudaDeviceGetAttribute(&told[2], 1, own));
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, own));
    told[3] = (int)strtol(bus, NULL, 10);
    for (int i = 0; i < 4; i++) {
        EXPECT(told[i] == own_rank % there);
    }
    CHECK(cudaDeviceCanAccessPeer(&peer, own, (own + 1) % rank_count));
    EXPECT(own == own_rank && peer == (there > 1 && rank_count > 1));
    EXPECT(cudaSetDevice(rank_count > there ? rank_count : there) != 0);
}

int main(void) {
    ncclUniqueId id = meet();
    int version = 0, devices = 0;
    CHECK(ncclGetVersion(&version));
    CHECK(cudaGetDeviceCount(&devices));
    EXPECT(version > 22000 && devices >= rank_count);
    CHECK(cudaSetDevice(own_rank));
    shared_devices();
    CHECK(cudaStreamCreate(&stream));
    CHECK(ncclCommInitRank(&world, rank_count, id, own_rank));
    collectives();
    large();
    messages();
    types();
    operations();
    communicators(id);
    streams();
    windows();
    refusals();
    refused_members(id);
    CHECK(ncclCommDestroy(world));
    (void)fprintf(stderr, "rank %d: all as it should be\n", own_rank);
    return 0;
}
