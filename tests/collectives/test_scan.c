// scan and exscan against hand-computed values: members, order and operations.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/collectives/world.h"

static int run_three(fixture *f, ls_call proto, const float *in, float *out) {
    ls_call calls[3];
    for (int i = 0; i < 3; i++) {
        calls[i] = proto;
        calls[i].comm = f->comm;
        calls[i].rank = i;
        calls[i].send = &in[i];
        calls[i].recv = &out[i];
    }
    return ls_backend_run(f->backend, calls, 3);
}

// The results of members 3, 0, 2 (in this order, not in rank order) for 8, 2, 16 in `in`.
static void run_some(fixture *f, ls_comm *some, ls_kind kind, ls_op op, bool in_place,
                     const float *in, const float *expected) {
    static const double factors[] = {0.5, 3, 0.25};
    float send[3], out[3] = {0};
    ls_call calls[3];
    for (int m = 0; m < 3; m++) {
        send[m] = in[m];
        calls[m] = (ls_call){.kind = kind,
                             .comm = some,
                             .rank = some->ranks[m],
                             .dtype = LS_F32,
                             .op = op,
                             .premul = factors[m],
                             .count = 1,
                             .send = &send[m],
                             .recv = in_place ? &send[m] : &out[m],
                             LS_HERE};
    }
    cr_assert(ls_backend_run(f->backend, calls, 3) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(memcmp(in_place ? send : out, expected, sizeof out) == 0, "%s %s%s",
              ls_kind_name(kind), ls_op_name(op), in_place ? " in place" : "");
    // The plain reference shares no code with the math.
    const ls_call *at[3] = {&calls[0], &calls[1], &calls[2]};
    memcpy(send, in, sizeof send);
    cr_assert(ls_collective_of(kind)->reference(at, 3) == LS_OK);
    cr_expect(memcmp(in_place ? send : out, expected, sizeof out) == 0, "reference of %s %s%s",
              ls_kind_name(kind), ls_op_name(op), in_place ? " in place" : "");
}

// Each member receives the fold of the members up to it in communicator order (exscan: before it;
// the first gets the neutral value). An average divides by its own number of members; a factor is
// each member's own.
Test(collectives, scans_by_hand) {
    fixture f = open_world(4);
    ls_comm *some = NULL;
    cr_assert(ls_comm_create(&some, f.backend, (int[]){3, 0, 2}, 3, "some") == LS_OK);
    static const float in[3] = {8, 2, 16};
    static const struct {
        ls_op op;
        float scan[3], exscan[3];
    } cases[] = {{LS_SUM, {8, 10, 26}, {0, 8, 10}},       {LS_AVG, {8, 5, 26.0F / 3}, {0, 8, 5}},
                 {LS_PROD, {8, 16, 256}, {1, 8, 16}},     {LS_MIN, {8, 2, 2}, {INFINITY, 8, 2}},
                 {LS_MAX, {8, 8, 16}, {-INFINITY, 8, 8}}, {LS_PREMUL_SUM, {4, 10, 14}, {0, 4, 10}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            run_some(&f, some, LS_SCAN, cases[k].op, in_place, in, cases[k].scan);
            run_some(&f, some, LS_EXSCAN, cases[k].op, in_place, in, cases[k].exscan);
        }
    }
    ls_comm_free(some);
    close_world(&f);
}

// A scan does not use the order of other reductions. It folds from the first member to the last:
// 2^24 + 1 + 1 loses both ones, 1 + 1 + 2^24 keeps them. Its bytes go upwards only.
Test(collectives, scan_goes_by_its_members_whatever_the_order) {
    fixture f = open_world(3);
    ls_order *ring = NULL;
    cr_assert(ls_order_parse(&ring, "ring") == LS_OK);
    f.backend->order = ring;
    float down[3] = {1 << 24, 1, 1}, up[3] = {1, 1, 1 << 24}, out[3];
    const ls_call call = {.kind = LS_SCAN, .dtype = LS_F32, .op = LS_SUM, .count = 1, LS_HERE};
    cr_assert(run_three(&f, call, down, out) == LS_OK);
    cr_expect(out[0] == 16777216 && out[1] == 16777216 && out[2] == 16777216);
    cr_assert(run_three(&f, call, up, out) == LS_OK);
    cr_expect(out[0] == 1 && out[1] == 2 && out[2] == 16777218);
    const ls_call *calls[3] = {&call, &call, &call};
    const ls_collective *scan = ls_collective_of(LS_SCAN);
    for (int from = 0; from < 3; from++) {
        for (int to = 0; to < 3; to++) {
            cr_expect(scan->bytes(calls, from, to) == (from <= to ? 4 : 0));
            cr_expect(ls_collective_of(LS_EXSCAN)->bytes(calls, from, to) == (from < to ? 4 : 0));
        }
    }
    ls_order_free(ring);
    close_world(&f);
}
