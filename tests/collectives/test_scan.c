// scan, worked by hand: its members, its order and its operations.
#include <criterion/criterion.h>
#include <string.h>

#include "collectives/collectives.h"

typedef struct fixture {
    ls_world *world;
    ls_backend *backend;
    ls_comm *comm;  // all ranks
} fixture;

static fixture open_world(int ranks) {
    fixture f = {0};
    ls_world_options options = {.mesh = LS_MESH(ranks), .seed = 7};
    cr_assert(ls_world_create(&f.world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&f.backend, f.world) == LS_OK);
    cr_assert(ls_comm_create(&f.comm, f.backend, NULL, 0, "world") == LS_OK);
    return f;
}

static void close_world(fixture *f) {
    ls_comm_free(f->comm);
    ls_backend_free(f->backend);
    ls_world_free(f->world);
}

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

// scan: each member gets what it and those before it sent, in the order of the communicator, which
// is not that of the ranks; averages are of as many as there are; a factor is each member's own.
Test(collectives, scan_by_hand) {
    fixture f = open_world(4);
    ls_comm *some = NULL;
    cr_assert(ls_comm_create(&some, f.backend, (int[]){3, 0, 2}, 3, "some") == LS_OK);
    static const double factors[] = {0.5, 3, 0.25};
    static const struct {
        ls_op op;
        float results[3];
    } cases[] = {{LS_SUM, {8, 10, 26}},
                 {LS_AVG, {8, 5, 26.0F / 3}},
                 {LS_PROD, {8, 16, 256}},
                 {LS_MIN, {8, 2, 2}},
                 {LS_PREMUL_SUM, {4, 10, 14}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            float in[3] = {8, 2, 16}, out[3] = {0};
            ls_call calls[3];
            for (int m = 0; m < 3; m++) {
                calls[m] = (ls_call){.kind = LS_SCAN,
                                     .comm = some,
                                     .rank = some->ranks[m],
                                     .dtype = LS_F32,
                                     .op = cases[k].op,
                                     .premul = factors[m],
                                     .count = 1,
                                     .send = &in[m],
                                     .recv = in_place ? &in[m] : &out[m],
                                     LS_HERE};
            }
            cr_assert(ls_backend_run(f.backend, calls, 3) == LS_OK, "%s", ls_error_last()->text);
            cr_expect(memcmp(in_place ? in : out, cases[k].results, sizeof out) == 0, "%s",
                      ls_op_name(cases[k].op));
        }
    }
    ls_comm_free(some);
    close_world(&f);
}

// The order of other reductions is not a scan's: it goes from the first member to the last, where
// 2^24 + 1 + 1 loses both ones and 1 + 1 + 2^24 keeps them. Its bytes go upwards alone.
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
            cr_expect(scan->bytes(calls, 3, from, to) == (from <= to ? 4 : 0));
        }
    }
    ls_order_free(ring);
    close_world(&f);
}
