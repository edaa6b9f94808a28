// A window that one rank registers with another size.
#include "../bugs/common.h"

static void body(setup *s) {
    ncclWindow_t window;
    size_t bytes = s->bytes;
#ifndef CORRECT
    bytes = s->rank == 2 ? bytes / 2 : bytes;
#endif
    void *at = s->send_memory;
    CHECK(ncclCommWindowRegister(s->comm, at, bytes, &window,
                                 1));  // bug: collective.count_mismatch
    CHECK(ncclCommWindowDeregister(s->comm, window));
}

int main() {
    return run_ranks(body);
}
