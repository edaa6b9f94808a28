// Every call, type and operation on numbers whose sums depend on their order: each rank prints a
// hash of all its results, which are the same on every backend.
#include <string.h>

#include "nccl.h"

#define ROUNDS 2
static const size_t counts[ROUNDS] = {61, 4099};

static ncclComm_t world;
static cudaStream_t stream;
static uint64_t state, hash = UINT64_C(0xcbf29ce484222325);

static uint32_t draw(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33);
}

// Finite, of a few magnitudes.
static uint64_t number(int type) {
    uint32_t r = draw(), e = draw() % 6;
    double wide = ((double)r / 1073741824.0 - 1) * (double)(1u << e);
    float narrow = (float)wide;
    uint64_t bits = 0;
    switch (type) {
    case ncclFloat16:
        return (r & 0x83ff) | (12 + e) << 10;
    case ncclBfloat16:
        memcpy(&bits, &narrow, sizeof narrow);
        return bits >> 16;
    case ncclFloat32:
        memcpy(&bits, &narrow, sizeof narrow);
        return bits;
    case ncclFloat64:
        memcpy(&bits, &wide, sizeof wide);
        return bits;
    case ncclFloat8e4m3:
        return (r & 0x87) | (4 + e) << 3;
    case ncclFloat8e5m2:
        return (r & 0x83) | (12 + e) << 2;
    default:
        return (uint64_t)draw() << 32 | r;
    }
}

static size_t bytes_of(int type) {
    static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return bytes[type];
}

static void *numbers(int type, size_t count) {
    unsigned char *values = malloc(count * bytes_of(type));
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = number(type);
        memcpy(values + i * bytes_of(type), &bits, bytes_of(type));
    }
    void *at = to_device(values, count * bytes_of(type));
    free(values);
    return at;
}

static void take(const void *at, size_t bytes) {
    unsigned char *got = malloc(bytes);
    from_device(got, at, bytes, stream);
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ got[i]) * UINT64_C(0x100000001b3);
    }
    free(got);
}

static void reductions(int type, size_t n) {
    size_t all = n * (size_t)rank_count, width = bytes_of(type);
    for (int op = ncclSum; op <= ncclAvg; op++) {
        char *in = numbers(type, all), *out = numbers(type, all);
        CHECK(ncclAllReduce(in, out, n, (ncclDataType_t)type, (ncclRedOp_t)op, world, stream));
        take(out, n * width);
        CHECK(ncclReduceScatter(in, in + (size_t)own_rank * n * width, n, (ncclDataType_t)type,
                                (ncclRedOp_t)op, world, stream));  // in place
        take(in, all * width);
        CHECK(ncclReduce(out, out, n, (ncclDataType_t)type, (ncclRedOp_t)op, rank_count - 1, world,
                         stream));
        take(out, n * width);
    }
}

static void moves(int type, size_t n) {
    ncclDataType_t as = (ncclDataType_t)type;
    size_t all = n * (size_t)rank_count, width = bytes_of(type);
    char *in = numbers(type, all), *out = numbers(type, all);
    int next = (own_rank + 1) % rank_count, before = (own_rank + rank_count - 1) % rank_count;
    CHECK(ncclAllGather(in, out, n, as, world, stream));
    take(out, all * width);
    CHECK(ncclBroadcast(in, out, n, as, 1, world, stream));
    take(out, n * width);
    CHECK(ncclAlltoAll(in, out, n, as, world, stream));
    take(out, all * width);
    CHECK(ncclGather(in, out, n, as, 2, world, stream));
    take(out, all * width);
    CHECK(ncclScatter(in, out, n, as, 0, world, stream));
    take(out, all * width);
    CHECK(ncclGroupStart());
    CHECK(ncclSend(in, n, as, next, world, stream));
    CHECK(ncclRecv(out, n, as, before, world, stream));
    CHECK(ncclGroupEnd());
    take(out, all * width);
}

static void premultiplied(size_t n) {
    float factor = 0.3F * (float)(own_rank + 1);
    ncclRedOp_t op;
    void *in = numbers(ncclFloat32, n);
    CHECK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, 1, world));
    CHECK(ncclAllReduce(in, in, n, ncclFloat32, op, world, stream));
    CHECK(ncclRedOpDestroy(op, world));
    take(in, n * sizeof(float));
}

int main(void) {
    ncclUniqueId id = meet();
    CHECK(cudaSetDevice(own_rank));
    CHECK(cudaStreamCreate(&stream));
    CHECK(ncclCommInitRank(&world, rank_count, id, own_rank));
    state = (uint64_t)own_rank + 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int type = ncclInt8; type <= ncclFloat8e5m2; type++) {
            reductions(type, counts[round]);
            moves(type, counts[round]);
        }
        premultiplied(counts[round]);
    }
    CHECK(ncclCommDestroy(world));
    (void)printf("rank %d: %016llx\n", own_rank, (unsigned long long)hash);
    return 0;
}
