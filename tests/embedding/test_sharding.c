// Tests of the three stages under every sharding type, judged by the oracle.
#include <criterion/criterion.h>
#include <string.h>

#include "case.h"

static void expect_right(embedding_case *c, case_outcome *out, const char *what) {
    cr_assert(case_run(c, out) == LS_OK, "%s: %s", what, out->text);
    cr_assert(out->wrong == 0, "%s: %s", what, out->text);
    cr_assert(out->elements > 0, "%s: nothing was judged", what);
}

static const ls_sharding all_types[] = {LS_DATA_PARALLEL, LS_TABLE_WISE,     LS_COLUMN_WISE,
                                        LS_ROW_WISE,      LS_TABLE_ROW_WISE, LS_TABLE_COLUMN_WISE,
                                        LS_GRID};
#define TYPE_COUNT (sizeof(all_types) / sizeof(all_types[0]))

typedef struct pooling_case {
    ls_pooling pooling;
    bool weighted;
    bool any_order;  // the same bits under every sharding type
} pooling_case;

static const pooling_case poolings[] = {{LS_POOL_NONE, false, true}, {LS_POOL_SUM, false, false},
                                        {LS_POOL_SUM, true, false},  {LS_POOL_MEAN, false, false},
                                        {LS_POOL_MEAN, true, false}, {LS_POOL_MAX, false, true}};
#define POOLING_COUNT (sizeof(poolings) / sizeof(poolings[0]))

// Runs one pooling in one world under every sharding type, and compares the types' outputs: types
// without a reduction agree bit for bit; all do if order does not matter.
static void run_types(int ranks, int per_host, const pooling_case *how, int64_t rows, int64_t dim,
                      ls_dtype dtype, const int64_t *batches) {
    case_outcome first;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        embedding_case c;
        case_init(&c, ranks, per_host, 11);
        int t = case_table(&c, "table", rows, dim, how->pooling, how->weighted, "a,b");
        c.tables[t].dtype = dtype;
        if (!case_place(&c, t, all_types[i], 3)) {
            case_free(&c);
            continue;
        }
        char what[128];
        snprintf(what, sizeof(what), "%s, pooling %d%s, %d ranks, %lld x %lld %s",
                 ls_sharding_name(all_types[i]), (int)how->pooling,
                 how->weighted ? " weighted" : "", ranks, (long long)rows, (long long)dim,
                 ls_dtype_name(dtype));
        cr_assert(case_inputs(&c, batches, 5) == LS_OK);
        case_outcome out;
        expect_right(&c, &out, what);
        bool reduces_over_ranks = all_types[i] == LS_ROW_WISE ||
                                  all_types[i] == LS_TABLE_ROW_WISE || all_types[i] == LS_GRID;
        if (i == 0) {
            first = out;
        } else {
            if (how->any_order || !reduces_over_ranks) {
                cr_assert_str_eq(case_difference(&c, &first, &out), "", "%s", what);
            }
            case_outcome_free(&out);
        }
        case_free(&c);
    }
    case_outcome_free(&first);
}

// Every sharding type and pooling in worlds of 1 to 6 ranks, on one host and on several, with rows
// that do not divide evenly, and a batch that differs by rank and is empty on one.
Test(sharding, every_type_every_pooling_every_world) {
    static const int64_t batches[] = {3, 0, 2, 5, 1, 4};
    static const int worlds[][2] = {{1, 1}, {2, 2}, {2, 1}, {3, 3}, {4, 4},
                                    {4, 2}, {5, 5}, {6, 2}, {6, 3}};
    for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++) {
        for (size_t p = 0; p < POOLING_COUNT; p++) {
            run_types(worlds[w][0], worlds[w][1], &poolings[p], 17, 7, LS_F32, batches);
            run_types(worlds[w][0], worlds[w][1], &poolings[p], 17, 7, LS_F32, NULL);
        }
    }
}

// Tables smaller than the world, of one row, of one column.
Test(sharding, tiny_tables) {
    static const int64_t shapes[][2] = {{3, 4}, {1, 4}, {1, 1}, {2, 1}, {5, 1}};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (size_t p = 0; p < POOLING_COUNT; p++) {
            run_types(4, 2, &poolings[p], shapes[s][0], shapes[s][1], LS_F32, NULL);
            run_types(5, 5, &poolings[p], shapes[s][0], shapes[s][1], LS_F32, NULL);
        }
    }
}

// Narrow tables pool into f32, f64 tables into f64; sequences keep the table's dtype.
Test(sharding, every_dtype) {
    static const ls_dtype dtypes[] = {LS_F16, LS_BF16, LS_F64, LS_F8E4M3, LS_F8E5M2};
    for (size_t d = 0; d < 5; d++) {
        for (size_t p = 0; p < POOLING_COUNT; p++) {
            run_types(4, 2, &poolings[p], 13, 6, dtypes[d], NULL);
        }
    }
}

// All bags of all ranks empty; then no rank has a sample.
Test(sharding, nothing_to_look_up) {
    static const int64_t none[] = {0, 0, 0};
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t p = 0; p < POOLING_COUNT; p++) {
            for (int batchless = 0; batchless < 2; batchless++) {
                embedding_case c;
                case_init(&c, 3, 3, 1);
                case_table(&c, "table", 5, 3, poolings[p].pooling, poolings[p].weighted, "a");
                cr_assert(case_place(&c, 0, all_types[i], 2));
                cr_assert(case_inputs(&c, batchless ? none : NULL, 0) == LS_OK);
                case_outcome out;
                cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
                cr_assert(out.wrong == 0, "%s", out.text);
                case_outcome_free(&out);
                case_free(&c);
            }
        }
    }
}

// Row blocks of any size, with empty ranks at either end and in the middle.
Test(sharding, uneven_and_empty_row_blocks) {
    static const int64_t blocks[][4] = {{1, 3, 1, 3}, {0, 8, 0, 0}, {8, 0, 0, 0},
                                        {0, 0, 0, 8}, {5, 0, 0, 3}, {3, 3, 2, 0}};
    for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
        for (size_t p = 0; p < POOLING_COUNT; p++) {
            embedding_case c;
            case_init(&c, 4, 2, b);
            case_table(&c, "table", 8, 5, poolings[p].pooling, poolings[p].weighted, "a");
            case_place_rows(&c, 0, blocks[b], 4);
            cr_assert(case_inputs(&c, NULL, 6) == LS_OK);
            case_outcome out;
            expect_right(&c, &out, "row blocks");
            case_outcome_free(&out);
            case_free(&c);
        }
    }
}

// Row blocks on some ranks only: the others take part in the reduction with neutral values, which
// must not exceed a negative maximum.
static double negative(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return -1.0 - (double)row - (double)column;
}

Test(sharding, row_blocks_on_some_ranks) {
    static const int64_t blocks[] = {3, 5};
    for (size_t p = 0; p < POOLING_COUNT; p++) {
        embedding_case c;
        case_init(&c, 4, 2, 8);
        c.weight = negative;
        case_table(&c, "table", 8, 5, poolings[p].pooling, poolings[p].weighted, "a");
        case_place_rows(&c, 0, blocks, 2);
        cr_assert(case_inputs(&c, NULL, 6) == LS_OK);
        case_outcome out;
        expect_right(&c, &out, "row blocks on two of four ranks");
        case_outcome_free(&out);
        case_free(&c);
    }
}

// Sum, mean and max tables under different sharding types in one collection, with shared features:
// each is divided by its own bag, once, or not at all.
Test(sharding, mixed_plans_divide_each_table_once) {
    static const ls_pooling kinds[] = {LS_POOL_SUM,  LS_POOL_MEAN, LS_POOL_MAX, LS_POOL_NONE,
                                       LS_POOL_MEAN, LS_POOL_SUM,  LS_POOL_MEAN};
    static const char *const names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6"};
    static const char *const features[] = {"a", "a,b", "b", "a", "c,a", "b", "a"};
    for (int turn = 0; turn < (int)TYPE_COUNT; turn++) {
        embedding_case c;
        case_init(&c, 4, 2, 5);
        for (int t = 0; t < (int)TYPE_COUNT; t++) {
            bool weighted = t == 4 || t == 5;
            case_table(&c, names[t], 9 + t, 4 + t, kinds[t], weighted, features[t]);
            cr_assert(case_place(&c, t, all_types[((size_t)t + (size_t)turn) % TYPE_COUNT], 2));
        }
        cr_assert(case_inputs(&c, NULL, 4) == LS_OK);
        case_outcome out;
        expect_right(&c, &out, "mixed plan");
        case_outcome_free(&out);
        case_free(&c);
    }
}

// One table, mean of two known rows under each type: the number itself, not the oracle's.
static double tens(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return 10.0 * (double)row + (double)column;
}

Test(sharding, mean_of_two_rows_by_hand) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {2, 0}, ids[] = {1, 4};
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        embedding_case c;
        case_init(&c, 2, 2, 0);
        c.weight = tens;
        case_table(&c, "table", 5, 2, LS_POOL_MEAN, false, "a");
        cr_assert(case_place(&c, 0, all_types[i], 2));
        for (int r = 0; r < 2; r++) {
            cr_assert(ls_keyed_jagged_create(&c.inputs[r], r, keys, 1, 2, lengths, ids, 2, NULL) ==
                      LS_OK);
        }
        case_outcome out;
        expect_right(&c, &out, ls_sharding_name(all_types[i]));
        const float *values = out.outputs[1][0][0];
        cr_assert(values[0] == 25.0f && values[1] == 26.0f, "%s", ls_sharding_name(all_types[i]));
        cr_assert(values[2] == 0.0f && values[3] == 0.0f);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// The padding id counts neither in a bag nor in a mean's divisor, on whichever rank its row is.
Test(sharding, padding_ids_do_not_count) {
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t p = 0; p < POOLING_COUNT; p++) {
            for (int64_t padding = 0; padding < 6; padding += 5) {
                embedding_case c;
                case_init(&c, 3, 3, 21);
                case_table(&c, "table", 6, 4, poolings[p].pooling, poolings[p].weighted, "a");
                c.tables[0].has_padding_id = true;
                c.tables[0].padding_id = padding;
                cr_assert(case_place(&c, 0, all_types[i], 2));
                cr_assert(case_inputs(&c, NULL, 9) == LS_OK);
                case_outcome out;
                expect_right(&c, &out, "padding");
                case_outcome_free(&out);
                case_free(&c);
            }
        }
    }
}

// A world of 16 ranks, whose array of one number for each rank fills whole cache lines.
Test(sharding, sixteen_ranks) {
    for (size_t p = 0; p < POOLING_COUNT; p++) {
        run_types(16, 4, &poolings[p], 37, 6, LS_F32, NULL);
    }
}
