// A put beyond the end of the peer's window.
#include "../bugs/common.h"

__global__ void put(ncclWindow_t send, ncclWindow_t recv, ncclDevComm dev) {
    ncclGin gin{dev, 0};
#ifdef CORRECT
    size_t at = 4096 - 64;
#else
    size_t at = 4096 - 32;
#endif
    int next = (dev.rank + 1) % dev.nRanks;
    gin.put(ncclTeamWorld(dev), next, recv, at, send, 0, 64);  // bug: buffer.too_small
    gin.flush(ncclCoopThread());
}

static void body(setup *s) {
    put<<<1, 1, 0, s->stream>>>(s->send, s->recv, s->dev);
}

int main() {
    return run_ranks(body);
}
