// barrier: no member continues before all have arrived. Moves no data.
#include "collectives/check.h"

static int check(const ls_call *const *calls, int size) {
    return ls_check__agree(calls, size, 0);
}

static uint64_t bytes(const ls_call *const *calls, int size, int from, int to) {
    (void)calls, (void)size, (void)from, (void)to;
    return 0;
}

static int math(const ls_call *const *calls, int size, const ls_order *order) {
    (void)calls, (void)size, (void)order;
    return LS_OK;
}

static int reference(const ls_call *const *calls, int size) {
    (void)calls, (void)size;
    return LS_OK;
}

static double bus_factor(int size) {
    (void)size;
    return 0.0;
}

const ls_collective ls_collective__barrier = {
    .doc = "No rank continues before all ranks arrive.",
    .check = check,
    .bytes = bytes,
    .math = math,
    .reference = reference,
    .bus_factor = bus_factor,
};
