// A rank does not make the last collective.
#include "../bugs/common.h"

static void body(setup *s) {
    int *at = (int *)s->send_memory;
    CHECK(ncclAllReduce(at, at, 32, ncclInt, ncclSum, s->comm, s->stream));
#ifndef CORRECT
    if (s->rank != 3)
#endif
        CHECK(ncclReduce(at, at, 8, ncclInt, ncclSum, 0, s->comm,
                         s->stream));  // bug: collective.missing_rank
    CHECK(cudaStreamSynchronize(s->stream));
}

int main() {
    return run_ranks(body);
}
