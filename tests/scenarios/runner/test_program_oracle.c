// The expected results of programs, step by step, against hand-computed numbers.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "orders/bound.h"
#include "kernels/element.h"
#include "runner/compare/stages.h"
#include "runner/program/execute.h"
#include "runner/program/program_cells.h"
#include "runner/program/program_oracle.h"

typedef struct fixture {
    ls_diagnostics *diagnostics;
    ls_scenario *scenario;
    ls_arena *arena;
    ls_stages *expected;
} fixture;

// Runs the steps and keeps their expected results.
static void run(fixture *f, const char *mesh, const char *tensors, const char *steps) {
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "lockstep: 1\nname: oracle\nmesh: {shape: %s}\nprogram:\n  tensors:\n%s  "
                   "steps:\n%s",
                   mesh, tensors, steps);
    cr_assert(ls_diagnostics_create(&f->diagnostics, "t.yaml") == LS_OK);
    int status =
        ls_scenario_parse(&f->scenario, f->diagnostics, "t.yaml", text, strlen(text), NULL);
    ls_text said = {0};
    ls_diagnostics_format(&said, f->diagnostics);
    cr_assert(status == LS_OK, "%s", ls_text_string(&said));
    ls_text_free(&said);
    cr_assert(ls_arena_create(&f->arena) == LS_OK);
    const ls_world_options options = {.mesh = f->scenario->mesh, .seed = f->scenario->seed};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&backend, world) == LS_OK);
    cr_assert(ls_stages_create(&f->expected, f->scenario->ranks) == LS_OK);
    const ls_stage_sink sink = ls_stages_sink(f->expected);
    const ls_execution execution = {.scenario = f->scenario, .backend = backend, .expected = &sink};
    ls_finding finding;
    bool found = false;
    cr_assert(ls_execute(&execution, f->arena, &finding, &found) == LS_OK, "%s",
              ls_error_last()->text);
    ls_backend_free(backend);
    ls_world_free(world);
}

static void close_fixture(fixture *f) {
    ls_stages_free(f->expected);
    ls_arena_free(f->arena);
    ls_scenario_free(f->scenario);
    ls_diagnostics_free(f->diagnostics);
}

static const ls_stage_array *array_of(const fixture *f, const char *key, int rank) {
    const ls_stage_entry *entry = ls_stages_find(f->expected, key);
    cr_assert(entry != NULL && entry->ranks[rank].present, "%s of rank %d", key, rank);
    return &entry->ranks[rank];
}

static double value_of(const fixture *f, const char *key, int rank, size_t index) {
    const ls_stage_array *array = array_of(f, key, rank);
    ls_dtype dtype = ls_stages_find(f->expected, key)->dtype;
    return array->exact != NULL
               ? array->exact[index]
               : ls_element_to_f64((char *)array->data + index * ls_dtype_bytes(dtype), dtype);
}

static void expect(const fixture *f, const char *key, int rank, size_t count,
                   const double *numbers) {
    cr_assert(array_of(f, key, rank)->count == count, "%s", key);
    for (size_t i = 0; i < count; i++) {
        cr_expect(value_of(f, key, rank, i) == numbers[i], "%s of rank %d: [%zu] is %g, not %g",
                  key, rank, i, value_of(f, key, rank, i), numbers[i]);
    }
}
#define EXPECT(key, rank, ...)                                                                     \
    expect(&f, key, rank, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static const char matrices[] =
    "    - {name: a, shape: [2, 2], dtype: f64, values: {values: [[1, 2], [3, 4]]}, placements: "
    "S(0)}\n"
    "    - {name: b, shape: [2, 2], dtype: f64, values: {values: [[5, 6], [7, 8]]}, placements: "
    "R}\n";

// Each operation on shards of two ranks.
Test(program_oracle, operations) {
    fixture f;
    run(&f, "[2]", matrices,
        "    - matmul: {name: matmul, tensor: a, other: b, into: c}\n"
        "    - add: {name: add, tensor: a, other: c, into: d}\n"
        "    - sub: {name: sub, tensor: a, other: c, into: d}\n"
        "    - mul: {name: mul, tensor: a, other: a, into: d}\n"
        "    - scale: {name: scale, tensor: a, factor: -3, into: d}\n"
        "    - transpose: {name: transpose, tensor: a, into: d}\n"
        "    - narrow: {name: narrow, tensor: a, dim: -1, start: 1, length: 1, into: d}\n"
        "    - cat: {name: cat, tensors: [a, c], dim: 1, into: d}\n"
        "    - sum: {name: inner, tensor: a, dim: 1, into: d}\n"
        "    - sum: {name: outer, tensor: a, dim: 0, into: s}\n"
        "    - add: {name: parts, tensor: s, other: s, into: d}\n"
        "    - full: {name: full, tensor: s}\n"
        "    - redistribute: {name: cut, tensor: s, to: S(0), into: d}\n");
    EXPECT("tensors/a/-/shard", 1, 3, 4);
    EXPECT("matmul/c/-/shard", 0, 19, 22);
    EXPECT("matmul/c/-/shard", 1, 43, 50);
    EXPECT("add/d/-/shard", 1, 46, 54);
    EXPECT("sub/d/-/shard", 0, -18, -20);
    EXPECT("mul/d/-/shard", 1, 9, 16);
    EXPECT("scale/d/-/shard", 0, -3, -6);
    cr_expect(array_of(&f, "transpose/d/-/shard", 1)->shape.dim[0] == 2);
    EXPECT("transpose/d/-/shard", 1, 3, 4);
    EXPECT("narrow/d/-/shard", 0, 2);
    EXPECT("cat/d/-/shard", 1, 3, 4, 43, 50);
    EXPECT("inner/d/-/shard", 1, 7);
    EXPECT("outer/s/-/shard", 0, 1, 2);
    EXPECT("outer/s/-/shard", 1, 3, 4);
    EXPECT("parts/d/-/shard", 0, 2, 4);
    EXPECT("parts/d/-/shard", 1, 6, 8);
    EXPECT("full/s/-/full", 1, 4, 6);
    EXPECT("cut/d/-/shard", 0, 4);
    EXPECT("cut/d/-/shard", 1, 6);
    // Moved data is known bit by bit, computed data within rounding.
    cr_expect(array_of(&f, "narrow/d/-/shard", 0)->exact == NULL);
    cr_expect(array_of(&f, "matmul/c/-/shard", 0)->bounds[0] > 0);
    cr_expect(array_of(&f, "matmul/c/-/shard", 0)->bounds[0] < 4 * 2 * 0x1p-53 * 20);
    close_fixture(&f);
}

// Each collective on shards, and a change by all ranks.
Test(program_oracle, collectives) {
    fixture f;
    char tensors[512];
    (void)snprintf(tensors, sizeof tensors,
                   "%s    - {name: t, shape: [4, 2], dtype: f64, values: {arange: {start: 1}}, "
                   "placements: S(0)}\n",
                   matrices);
    run(&f, "[2]", tensors,
        "    - all_to_all: {name: tall, tensor: t, split_dim: 1, cat_dim: 0, into: e}\n"
        "    - broadcast: {name: same, tensor: a, root: 1, into: twice}\n"
        "    - redistribute: {name: mean, tensor: twice, to: P(avg), into: mean}\n"
        "    - all_gather: {name: gather, tensor: a, dim: 1, into: d}\n"
        "    - reduce_scatter: {name: reduce, tensor: b, op: sum, dim: 0, into: d}\n"
        "    - all_to_all: {name: turn, tensor: a, split_dim: 1, cat_dim: 0, into: d}\n"
        "    - all_reduce: {name: largest, tensor: a, op: max, into: d}\n"
        "    - all_reduce: {name: least, tensor: a, op: min, into: d}\n"
        "    - all_reduce: {name: product, tensor: a, op: prod, into: d}\n"
        "    - all_reduce: {name: average, tensor: a, op: avg, into: d}\n"
        "    - broadcast: {name: broadcast, tensor: a, root: 1, into: d}\n"
        "    - change: {name: change, tensor: b, ranks: [0, 1], element: 2, value: 9}\n"
        "    - change: {name: defect, tensor: b, ranks: [1], element: 0, value: 9}\n");
    EXPECT("gather/d/-/shard", 0, 1, 2, 3, 4);
    EXPECT("reduce/d/-/shard", 0, 10, 12);
    EXPECT("reduce/d/-/shard", 1, 14, 16);
    EXPECT("mean/mean/-/shard", 0, 3, 4, 3, 4);
    EXPECT("mean/mean/-/shard", 1, 3, 4, 3, 4);
    EXPECT("turn/d/-/shard", 0, 1, 3);
    EXPECT("turn/d/-/shard", 1, 2, 4);
    EXPECT("tall/e/-/shard", 0, 1, 3, 5, 7);
    EXPECT("tall/e/-/shard", 1, 2, 4, 6, 8);
    EXPECT("largest/d/-/shard", 0, 3, 4);
    EXPECT("least/d/-/shard", 1, 1, 2);
    EXPECT("product/d/-/shard", 0, 3, 8);
    EXPECT("average/d/-/shard", 1, 2, 3);
    EXPECT("broadcast/d/-/shard", 0, 3, 4);
    EXPECT("change/b/-/shard", 0, 5, 6, 9, 8);
    EXPECT("defect/b/-/shard", 1, 5, 6, 9, 8);
    cr_expect(array_of(&f, "largest/d/-/shard", 0)->bounds[0] == 0);
    close_fixture(&f);
}

// Values that stay partial, become partial in another way, and a mean along two dimensions.
Test(program_oracle, partial_values) {
    fixture f;
    run(&f, "[2, 3]",
        "    - {name: p, shape: [1], dtype: f32, values: {values: [6]}, placements: \"P(sum), "
        "P(avg)\"}\n"
        "    - {name: w, shape: [1], dtype: i8, values: {values: [100]}, placements: \"P(sum), "
        "P(avg)\"}\n"
        "    - {name: m, shape: [1], dtype: f16, values: {values: [-5]}, placements: \"P(max), "
        "R\"}\n",
        "    - redistribute: {name: half, tensor: p, to: \"P(sum), R\", into: h}\n"
        "    - redistribute: {name: other, tensor: p, to: \"P(max), R\", into: o}\n"
        "    - add: {name: twice, tensor: p, other: p, into: t}\n"
        "    - full: {name: full, tensor: t}\n"
        "    - full: {name: wrapped, tensor: w}\n"
        "    - full: {name: greatest, tensor: m}\n");
    EXPECT("tensors/p/-/shard", 2, 6);
    EXPECT("tensors/p/-/shard", 3, 0);
    EXPECT("half/h/-/shard", 1, 6);
    EXPECT("half/h/-/shard", 5, 0);
    EXPECT("other/o/-/shard", 0, 6);
    EXPECT("other/o/-/shard", 4, -(double)INFINITY);
    EXPECT("full/t/-/full", 3, 12);
    EXPECT("wrapped/w/-/full", 0, 14);  // 300 is 44 in i8; a third of it
    EXPECT("greatest/m/-/full", 5, -5);
    EXPECT("tensors/m/-/shard", 4, -(double)INFINITY);
    close_fixture(&f);
}

// u is 2^-11 in f16. The rounding of sums, means and products, and overflows.
Test(program_oracle, bounds_and_overflow) {
    fixture f;
    run(&f, "[3]",
        "    - {name: one, shape: [1], dtype: f16, values: {constant: 1}, placements: R}\n"
        "    - {name: big, shape: [2], dtype: f16, values: {values: [60000, -300]}, placements: "
        "R}\n",
        "    - all_reduce: {name: sum, tensor: one, into: x}\n"
        "    - all_reduce: {name: mean, tensor: one, op: avg, into: x}\n"
        "    - all_reduce: {name: product, tensor: one, op: prod, into: x}\n"
        "    - all_reduce: {name: thrice, tensor: x, into: w}\n"
        "    - all_reduce: {name: over, tensor: big, into: x}\n"
        "    - scale: {name: back, tensor: x, factor: 0.25}\n"
        "    - all_reduce: {name: cube, tensor: big, op: prod, into: y}\n"
        "    - all_reduce: {name: most, tensor: x, op: max, into: z}\n"
        "    - all_reduce: {name: raw, count: 1, dtype: f32, op: avg, values: {constant: 1}}\n");
    const double u = 0x1p-11;
    double sum = array_of(&f, "sum/x/-/shard", 0)->bounds[0];
    double mean = array_of(&f, "mean/x/-/shard", 0)->bounds[0];
    double product = array_of(&f, "product/x/-/shard", 0)->bounds[0];
    double raw = array_of(&f, "raw/-/-/recv", 2)->bounds[0];
    cr_expect(sum >= 2 * u * 3 && sum < 2.01 * u * 3, "%g", sum / u);
    cr_expect(mean >= 4 * u && mean < 4.01 * u, "%g", mean / u);
    cr_expect(product >= 2 * u && product < 2.01 * u, "%g", product / u);
    double thrice = array_of(&f, "thrice/w/-/shard", 0)->bounds[0];
    cr_expect(thrice >= 12 * u && thrice < 12.1 * u, "%g", thrice / u);
    cr_expect(raw > 1.2e-7 && raw < 2e-7, "%g", raw);
    const ls_stage_array *over = array_of(&f, "over/x/-/shard", 0);
    cr_expect(over->exact[0] == 180000 && over->overflow[0] == LS_OVERFLOW_UP);
    cr_expect(over->exact[1] == -900 && over->overflow[1] == LS_OVERFLOW_NONE);
    const ls_stage_array *back = array_of(&f, "back/x/-/shard", 0);
    cr_expect(back->exact[0] == 45000 && (back->overflow[0] & LS_OVERFLOW_UP) != 0);
    cr_expect(back->exact[1] == -225 && back->overflow[1] == LS_OVERFLOW_NONE);
    const ls_stage_array *cube = array_of(&f, "cube/y/-/shard", 0);
    cr_expect(cube->overflow[0] == LS_OVERFLOW_UP && cube->overflow[1] == LS_OVERFLOW_DOWN);
    const ls_stage_array *most = array_of(&f, "most/z/-/shard", 0);
    cr_expect(most->exact[0] == 45000 && most->overflow[1] == LS_OVERFLOW_NONE);
    close_fixture(&f);
}

// An infinite value stays infinite in later operations; times zero it is NaN.
Test(program_oracle, infinities_spread) {
    fixture f;
    run(&f, "[3]",
        "    - {name: big, shape: [1], dtype: f16, values: {constant: 60000}, placements: R}\n"
        "    - {name: zero, shape: [3], dtype: f16, values: {values: [60000, 60000, 0]}, "
        "placements: S(0)}\n"
        "    - {name: tiny, shape: [3], dtype: f16, values: {values: [60000, 0.0001, 0.0001]}, "
        "placements: S(0)}\n"
        "    - {name: odd, shape: [3], dtype: f16, values: {values: [100, 7, -2]}, placements: "
        "S(0)}\n",
        "    - all_reduce: {name: over, tensor: big, into: x}\n"
        "    - scale: {name: back, tensor: x, factor: 0.25, into: y}\n"
        "    - scale: {name: again, tensor: y, factor: 0.25, into: y}\n"
        "    - all_reduce: {name: sum, tensor: y, into: s}\n"
        "    - all_reduce: {name: product, tensor: zero, op: prod, into: z}\n"
        "    - all_reduce: {name: small, tensor: tiny, op: prod, into: t}\n"
        "    - scale: {name: far, tensor: odd, factor: 1000, into: o}\n"
        "    - scale: {name: near, tensor: o, factor: 0.001, into: o}\n"
        "    - all_reduce: {name: least, tensor: o, op: min, into: m}\n"
        "    - all_reduce: {name: most, tensor: o, op: max, into: n}\n");
    const unsigned char either = LS_OVERFLOW_UP | LS_OVERFLOW_DOWN;
    cr_expect(array_of(&f, "again/y/-/shard", 0)->exact[0] == 11250);
    cr_expect((array_of(&f, "again/y/-/shard", 0)->overflow[0] & either) == either);
    cr_expect((array_of(&f, "sum/s/-/shard", 2)->overflow[0] & either) == either);
    cr_expect((array_of(&f, "product/z/-/shard", 0)->overflow[0] & either) == either);
    // 0.0001 * 0.0001 is 0 in f16, and multiplying by 60000 does not restore it.
    cr_expect(array_of(&f, "small/t/-/shard", 0)->bounds[0] > 0.5 * 60000 * 0x1p-24);
    // 100000 is infinite in f16, and a thousandth of it not 100: the largest may be anything.
    const ls_stage_array *least = array_of(&f, "least/m/-/shard", 0);
    const ls_stage_array *most = array_of(&f, "most/n/-/shard", 0);
    cr_expect((least->overflow[0] & either) == LS_OVERFLOW_DOWN && least->bounds[0] < 200);
    cr_expect((most->overflow[0] & either) == LS_OVERFLOW_UP && most->bounds[0] > 90);
    close_fixture(&f);
}

// Ranks without a block, and with two.
Test(program_oracle, blocks) {
    fixture f;
    run(&f, "[3]",
        "    - {name: b, shape: [3], dtype: f64, values: {values: [1, 2, 4]}, blocks: [{rank: 0, "
        "offset: [0], size: [1]}, {rank: 2, offset: [1], size: [2]}]}\n"
        "    - {name: c, shape: [3], dtype: f64, values: {values: [1, 2, 4]}, blocks: [{rank: 1, "
        "offset: [0], size: [1]}, {rank: 1, offset: [1], size: [2]}]}\n",
        "    - add: {name: add, tensor: b, other: b, into: d}\n"
        "    - scale: {name: scale, tensor: c, factor: 3, into: e}\n"
        "    - full: {name: full, tensor: c}\n");
    EXPECT("add/d/-/shard", 2, 4, 8);
    EXPECT("scale/e/-/shard[0]", 1, 3);
    EXPECT("scale/e/-/shard[1]", 1, 6, 12);
    EXPECT("full/c/-/full", 2, 1, 2, 4);
    close_fixture(&f);
}

// Along one axis of two, the ranks with the same other coordinate form a group.
Test(program_oracle, axes) {
    fixture f;
    run(&f, "[2, 3]",
        "    - {name: a, shape: [2, 3], dtype: f64, values: {values: [[1, 2, 3], [4, 5, 6]]}, "
        "placements: \"S(0), S(1)\"}\n",
        "    - broadcast: {name: broadcast, tensor: a, axis: '1', root: 2, into: b}\n"
        "    - all_reduce: {name: sum, tensor: a, axis: '1', into: c}\n"
        "    - all_gather: {name: gather, tensor: a, axis: '0', dim: 0, into: d}\n"
        "    - redistribute: {name: both, tensor: a, to: \"P(sum), P(sum)\", into: e}\n"
        "    - redistribute: {name: one, tensor: e, to: \"P(sum), R\", into: g}\n");
    EXPECT("broadcast/b/-/shard", 0, 3);
    EXPECT("broadcast/b/-/shard", 3, 6);
    EXPECT("sum/c/-/shard", 1, 6);
    EXPECT("sum/c/-/shard", 3, 15);
    EXPECT("gather/d/-/shard", 4, 2, 5);
    EXPECT("both/e/-/shard", 0, 1, 2, 3, 4, 5, 6);
    EXPECT("both/e/-/shard", 3, 0, 0, 0, 0, 0, 0);
    EXPECT("one/g/-/shard", 2, 1, 2, 3, 4, 5, 6);
    EXPECT("one/g/-/shard", 5, 0, 0, 0, 0, 0, 0);
    close_fixture(&f);
}

// The known value of the whole is exact; the sum of the ranks' parts may be off.
Test(program_oracle, the_whole_is_exact) {
    fixture f;
    run(&f, "[2, 2]",
        "    - {name: a, shape: [1, 4], dtype: f64, values: {values: [[1.0e+16, 1, -1.0e+16, 1]]}, "
        "placements: \"S(1), R\"}\n"
        "    - {name: b, shape: [4, 1], dtype: f64, values: {constant: 1}, placements: \"S(0), "
        "R\"}\n",
        "    - matmul: {name: product, tensor: a, other: b, into: c}\n"
        "    - full: {name: full, tensor: c}\n"
        "    - redistribute: {name: both, tensor: c, to: \"P(sum), P(sum)\", into: e}\n"
        "    - all_reduce: {name: sum, tensor: c, axis: '0', into: d}\n"
        "    - full: {name: again, tensor: d}\n");
    EXPECT("product/c/-/shard", 0, 1e16);
    EXPECT("full/c/-/full", 1, 1);
    EXPECT("both/e/-/shard", 2, -1e16);  // earlier partial values keep their terms
    EXPECT("both/e/-/shard", 3, 0);
    EXPECT("again/d/-/full", 0, 1);
    close_fixture(&f);
}

// Shards with other sizes than the placement's do not form a whole.
Test(program_oracle, shards_of_other_sizes_have_no_whole) {
    static const double full[4] = {1, 2, 3, 4};
    ls_mesh mesh = LS_MESH(2);
    ls_world *world = NULL;
    ls_local_tensor *made = NULL;
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = mesh}) == LS_OK);
    cr_assert(ls_local_tensor_distribute(&made, world, full, &LS_SHAPE(4), LS_F64,
                                         &LS_PLACE(LS_SHARD(0))) == LS_OK);
    for (int longer = 0; longer < 2; longer++) {
        ls_cells shards[2];
        for (int rank = 0; rank < 2; rank++) {
            const ls_shape shape = longer != 0 ? LS_SHAPE(rank == 0 ? 1 : 3) : LS_SHAPE(2);
            cr_assert(ls_cells__new(&shards[rank], arena, &shape, LS_F64) == LS_OK);
        }
        ls_known known = {.ranks = shards};
        cr_assert(ls_known__of_shards(&known, arena, made) == LS_OK);
        cr_expect_eq(known.whole == NULL, longer != 0);
    }
    ls_local_tensor_free(made);
    ls_world_free(world);
    ls_arena_free(arena);
}
