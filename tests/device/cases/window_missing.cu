// A window that one rank does not register.
#include "../bugs/common.h"

static void body(setup *s) {
    ncclWindow_t window;
#ifndef CORRECT
    if (s->rank == 3) {
        return;
    }
#endif
    void *at = s->send_memory;
    CHECK(ncclCommWindowRegister(s->comm, at, s->bytes, &window,
                                 1));  // bug: collective.kind_mismatch
    CHECK(ncclCommWindowDeregister(s->comm, window));
}

int main() {
    return run_ranks(body);
}
