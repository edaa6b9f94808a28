// Tests of redistribution: the published costs, and a search that is never worse than DTensor's
// order.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "planner/redistribute.h"

#define R                                                                                          \
    { .kind = LS_RESHARD_REPLICATE }
#define S(d)                                                                                       \
    { .kind = LS_RESHARD_SHARD, .dim = (d) }
#define P                                                                                          \
    { .kind = LS_RESHARD_PARTIAL, .op = LS_SUM }

static ls_reshard_mesh mesh_of(int ndim, const int *sizes, int devices_per_host) {
    ls_reshard_mesh mesh;
    cr_assert(ls_reshard_mesh_make(&mesh, sizes, ndim, devices_per_host) == LS_OK);
    return mesh;
}

// The published vectors: bytes in GiB, group sizes, inside a host and between hosts.
Test(cost_redistribute, published_vectors) {
    static const struct {
        double gib;
        int n;
        bool inside;
        double gather, reduce;
    } want[] = {
        {1.0, 2, true, 5708.4543, 11410.3086},   {1.0, 4, true, 8560.2814, 17113.9628},
        {1.0, 8, true, 9987.9950, 19969.3900},   {1.0 / 1024, 2, true, 12.7676, 18.9353},
        {1.0 / 1024, 4, true, 16.7514, 26.9029}, {1.0 / 1024, 8, true, 20.5434, 34.4867},
        {1.0, 2, false, 25924.0922, 51841.5843}, {1.0, 4, false, 38886.8882, 77767.1765},
        {1.0, 8, false, 45376.3863, 90746.1726},
    };
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        ls_reshard_mesh mesh = mesh_of(1, &want[i].n, want[i].inside ? 8 : 1);
        cr_expect_float_eq(ls_reshard_all_gather_us(want[i].gib, &mesh, 0), want[i].gather, 5e-5);
        cr_expect_float_eq(ls_reshard_reduce_scatter_us(want[i].gib, &mesh, 0), want[i].gather,
                           5e-5);
        cr_expect_float_eq(ls_reshard_all_reduce_us(want[i].gib, &mesh, 0), want[i].reduce, 5e-5);
    }
}

// The mesh walks from its last dimension on; once past a host, every further one is between hosts.
Test(cost_redistribute, mesh_bandwidths) {
    ls_reshard_mesh mesh = mesh_of(3, (int[]){2, 4, 2}, 8);
    cr_expect(mesh.bandwidth[2] == 87.7 && mesh.bandwidth[1] == 87.7);
    cr_expect_float_eq(mesh.bandwidth[0], 19.294, 1e-12);
    cr_expect(mesh.latency_us[0] == 2.7 && mesh.latency_us[1] == 0.6);
}

// A mesh has one to six dimensions, and a host a device.
Test(cost_redistribute, impossible_meshes_are_refused) {
    static const int sizes[LS_RESHARD_MESH_MAX + 1] = {2, 2, 2, 2, 2, 2, 2};
    ls_reshard_mesh mesh;
    cr_expect(ls_reshard_mesh_make(&mesh, sizes, LS_RESHARD_MESH_MAX, 1) == LS_OK);
    cr_expect(ls_reshard_mesh_make(&mesh, sizes, LS_RESHARD_MESH_MAX + 1, 1) == LS_ERR_INVALID);
    cr_expect(ls_reshard_mesh_make(&mesh, sizes, 0, 1) == LS_ERR_INVALID);
    cr_expect(ls_reshard_mesh_make(&mesh, sizes, 2, 0) == LS_ERR_INVALID);
}

// PyTorch's cost of a whole change: each case by hand from the formulas.
Test(cost_redistribute, cost_of_a_change) {
    ls_reshard_mesh mesh = mesh_of(2, (int[]){2, 4}, 8);
    double gib = 1073741824.0;
    ls_reshard_placement rr[2] = {R, R};
    ls_reshard_placement s0r[2] = {S(0), R};
    ls_reshard_placement s1r[2] = {S(1), R};
    ls_reshard_placement pr[2] = {P, R};
    ls_reshard_placement pp[2] = {P, P};
    ls_reshard_placement s0s1[2] = {S(0), S(1)};
    cr_expect(ls_reshard_cost_us(gib, rr, s0r, &mesh) == 0.0);
    cr_expect_float_eq(ls_reshard_cost_us(gib, s0r, rr, &mesh), 5708.4543, 5e-5);
    cr_expect_float_eq(ls_reshard_cost_us(2 * gib, s0r, s1r, &mesh), 5709.4543, 5e-5);
    cr_expect_float_eq(ls_reshard_cost_us(gib, pr, rr, &mesh), 11410.3086, 5e-5);
    cr_expect_float_eq(ls_reshard_cost_us(gib, pr, s0r, &mesh), 5708.4543, 5e-5);
    cr_expect(isinf(ls_reshard_cost_us(gib, s0r, pr, &mesh)));
    // Partial over two, then partial over four, of what the first left halved.
    double second = 6.6 + 3 * 0.6 + 0.5 * 0.75 / 87.7 * 1e6;
    cr_expect_float_eq(ls_reshard_cost_us(gib, pp, s0s1, &mesh), 5708.4543 + second, 1e-4);
}

static void from_number(ls_reshard_placement *out, int ndim, int digits, int number) {
    for (int i = 0; i < ndim; i++) {
        int digit = number % digits;
        out[i] = (ls_reshard_placement){.kind = digit == 0   ? LS_RESHARD_REPLICATE
                                                : digit == 1 ? LS_RESHARD_PARTIAL
                                                             : LS_RESHARD_SHARD,
                                        .dim = digit >= 2 ? digit - 2 : 0};
        number /= digits;
    }
}

// Walks a plan: every step begins where the last one ended, changes one mesh dimension that no
// inner one depends on, and the last ends at the target.
static void expect_walk(const ls_reshard_plan *plan, const ls_reshard_placement *from,
                        const ls_reshard_placement *to, int ndim) {
    ls_reshard_placement at[LS_RESHARD_MESH_MAX];
    double us = 0.0;
    memcpy(at, from, (size_t)ndim * sizeof(*at));
    for (int k = 0; k < plan->count; k++) {
        const ls_reshard_step *step = &plan->steps[k];
        cr_assert(at[step->mesh_dim].kind == step->from.kind);
        cr_assert(step->from.kind != LS_RESHARD_SHARD || at[step->mesh_dim].dim == step->from.dim);
        for (int i = step->mesh_dim + 1; i < ndim; i++) {
            bool held = at[i].kind == LS_RESHARD_SHARD &&
                        ((step->from.kind == LS_RESHARD_SHARD && step->from.dim == at[i].dim) ||
                         (step->to.kind == LS_RESHARD_SHARD && step->to.dim == at[i].dim));
            cr_assert(!held, "an outer cut changes under an inner one");
        }
        at[step->mesh_dim] = step->to;
        us += step->us;
    }
    for (int i = 0; i < ndim; i++) {
        cr_assert(at[i].kind == to[i].kind);
        cr_assert(at[i].kind != LS_RESHARD_SHARD || at[i].dim == to[i].dim);
    }
    cr_expect_float_eq(us, plan->us, 1e-6 * (1.0 + us));
}

static void compare_all(int ndim, const int *sizes, int devices_per_host, int tensor_ndim,
                        double bytes, int *better) {
    ls_reshard_mesh mesh = mesh_of(ndim, sizes, devices_per_host);
    int digits = 2 + tensor_ndim;
    int states = 1;
    for (int i = 0; i < ndim; i++) {
        states *= digits;
    }
    for (int a = 0; a < states; a++) {
        for (int b = 0; b < states; b++) {
            ls_reshard_placement from[LS_RESHARD_MESH_MAX];
            ls_reshard_placement to[LS_RESHARD_MESH_MAX];
            ls_reshard_plan found;
            ls_reshard_plan greedy;
            from_number(from, ndim, digits, a);
            from_number(to, ndim, digits, b);
            cr_assert(ls_reshard_search(&found, bytes, tensor_ndim, from, to, &mesh) == LS_OK, "%s",
                      ls_error_last()->text);
            expect_walk(&found, from, to, ndim);
            if (ls_reshard_greedy(&greedy, bytes, tensor_ndim, from, to, &mesh) == LS_OK) {
                expect_walk(&greedy, from, to, ndim);
                cr_assert(found.us <= greedy.us * (1.0 + 1e-12));
                cr_assert(found.us < greedy.us || found.count <= greedy.count);
                *better += found.us < greedy.us * (1.0 - 1e-9);
            }
        }
    }
}

// Every pair of placements on two- and three-dimensional meshes: never worse than DTensor's order,
// not longer at equal time, and sometimes better.
Test(redistribute, search_never_loses_against_the_greedy_order) {
    int better = 0;
    compare_all(2, (int[]){2, 4}, 4, 2, 64e6, &better);
    compare_all(2, (int[]){4, 2}, 8, 3, 64e3, &better);
    compare_all(3, (int[]){2, 2, 2}, 4, 2, 1e9, &better);
    compare_all(3, (int[]){1, 1, 1}, 8, 1, 64e6, &better);  // no step takes time
    cr_expect(better > 0);
}

// A partial, sharded tensor is summed before it is gathered, if that moves less data.
Test(redistribute, reduces_before_it_gathers) {
    ls_reshard_mesh mesh = mesh_of(2, (int[]){2, 4}, 8);
    ls_reshard_placement from[2] = {P, S(0)};
    ls_reshard_placement to[2] = {R, R};
    ls_reshard_plan plan;
    cr_assert(ls_reshard_search(&plan, 1e9, 2, from, to, &mesh) == LS_OK);
    // Reduce while each rank holds a quarter; gathering comes last.
    cr_expect(strcmp(plan.steps[0].collective, "all_gather") != 0);
    cr_expect_str_eq(plan.steps[plan.count - 1].collective, "all_gather");
    ls_reshard_placement bad[2] = {S(2), R};
    cr_expect(ls_reshard_search(&plan, 1e9, 2, bad, to, &mesh) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "shards dimension 2 of a tensor that has 2"));
}
