// A rank reduces fewer elements than the others.
#include "../bugs/common.h"

static void body(setup *s) {
    size_t count = 32;
#ifndef CORRECT
    count -= s->rank == 2 ? 1 : 0;
#endif
    CHECK(ncclAllReduce(s->send_memory, s->recv_memory, count, ncclFloat, ncclMax, s->comm,
                        s->stream));  // bug: collective.count_mismatch
    CHECK(cudaStreamSynchronize(s->stream));
}

int main() {
    return run_ranks(body);
}
