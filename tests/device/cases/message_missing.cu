// A rank sends what nobody receives.
#include "../bugs/common.h"

static void body(setup *s) {
    if (s->rank == 1) {
        CHECK(ncclSend(s->send_memory, 8, ncclInt, 2, s->comm,
                       s->stream));  // bug: p2p.unmatched_send
    }
#ifdef CORRECT
    if (s->rank == 2) {
        CHECK(ncclRecv(s->recv_memory, 8, ncclInt, 1, s->comm, s->stream));
    }
#endif
}

int main() {
    return run_ranks(body);
}
