// Collectives and messages of the host behind kernels, on streams. A kernel on another stream
// writes into the buffer of a collective.
#include "../bugs/common.h"

__global__ void fill(int *at, int value) {
    at[threadIdx.x] = value;  // bug: rma.race
}

static void collectives(const setup *s, cudaStream_t stream, int *send, int *recv) {
    fill<<<1, 32, 0, s->stream>>>(send, s->rank + 1);
    CHECK(ncclAllReduce(send, recv, 32, ncclInt, ncclSum, s->comm, s->stream));
    fill<<<1, 32, 0, stream>>>(send, 7);
#ifdef CORRECT
    CHECK(cudaStreamSynchronize(stream));
#endif
    CHECK(ncclBroadcast(send, send, 32, ncclInt, 1, s->comm, s->stream));
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaStreamSynchronize(stream));
}

static void ring(const setup *s, const int *send, int *recv) {
    CHECK(ncclGroupStart());
    CHECK(ncclSend(send, 32, ncclInt, (s->rank + 1) % s->size, s->comm, s->stream));
    CHECK(ncclRecv(recv + 32, 32, ncclInt, (s->rank + s->size - 1) % s->size, s->comm, s->stream));
    CHECK(ncclGroupEnd());
    CHECK(ncclAllGather(recv + 32, recv + 64, 1, ncclInt, s->comm, s->stream));
    CHECK(ncclReduceScatter(recv + 64, recv + 80, 1, ncclInt, ncclMax, s->comm, s->stream));
    CHECK(ncclAlltoAll(recv + 64, recv + 96, 1, ncclInt, s->comm, s->stream));
}

static void body(setup *s) {
    int *send = (int *)s->send_memory, *recv = (int *)s->recv_memory, got[128];
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
#ifdef CORRECT
    collectives(s, s->stream, send, recv);
#else
    collectives(s, stream, send, recv);
#endif
    fill<<<1, 32, 0, s->stream>>>(send, 10 + s->rank);
    ring(s, send, recv);
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(got, recv, sizeof got, cudaMemcpyDeviceToHost));
    int before = (s->rank + s->size - 1) % s->size;
    CHECK(got[31] != 10 || got[32] != 10 + before || got[63] != 10 + before);
    for (int r = 0; r < s->size; r++) {
        CHECK(got[64 + r] != 10 + (r + s->size - 1) % s->size);
        CHECK(got[96 + r] != 10 + before);
    }
    CHECK(got[80] != 10 + before);
}

int main() {
    return run_ranks(body);
}
