// Tests of tables with quantised rows and of outputs of another type, through all three stages.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "case.h"
#include "tests/cuda/fake_device.h"

static const ls_row_format formats[] = {
    {LS_ROW_INT8, true, false, 1},    {LS_ROW_INT8, false, true, 16},
    {LS_ROW_INT4, false, true, 16},   {LS_ROW_INT2, false, true, 1},
    {LS_ROW_F16, false, false, 16},   {LS_ROW_BF16, false, false, 1},
    {LS_ROW_F8E4M3, false, false, 4}, {LS_ROW_F8E5M2, false, false, 1}};
#define FORMAT_COUNT (sizeof(formats) / sizeof(formats[0]))

static bool has_scale(const ls_row_format *format) {
    return format->element <= LS_ROW_INT2;
}

static bool cuts_columns(ls_sharding sharding) {
    return sharding == LS_COLUMN_WISE || sharding == LS_TABLE_COLUMN_WISE || sharding == LS_GRID;
}

// One table of 17 x 7 on 4 ranks of 2 hosts; the caller frees its outcome.
static void run_one(case_outcome *out, ls_sharding sharding, ls_pooling pooling, bool weighted,
                    const ls_row_format *format, bool shards_first, const ls_dtype *output,
                    ls_device *device) {
    embedding_case c;
    case_init(&c, 4, 2, 5);
    c.device = device;
    case_table(&c, "table", 17, 7, pooling, weighted, "a,b");
    c.tables[0].row_format = format;
    c.tables[0].quantise_shards = shards_first;
    c.tables[0].has_output_dtype = output != NULL;
    c.tables[0].output_dtype = output ? *output : LS_F32;
    cr_assert(case_place(&c, 0, sharding, 3));
    cr_assert(case_inputs(&c, (int64_t[]){3, 0, 2, 5}, 5) == LS_OK);
    cr_assert(case_run(&c, out) == LS_OK, "%s: %s", ls_sharding_name(sharding), out->text);
    cr_assert(out->wrong == 0 && out->elements > 0, "%s, pooling %d, format %d: %s",
              ls_sharding_name(sharding), (int)pooling, format ? (int)format->element : -1,
              out->text);
    case_free(&c);
}

// Bits of output_dist of two runs of run_one.
static bool same(const case_outcome *a, const case_outcome *b) {
    for (int r = 0; r < 4; r++) {
        for (int f = 0; f < 2; f++) {
            if (a->output_bytes[r][0][f] != b->output_bytes[r][0][f] ||
                memcmp(a->outputs[r][0][f], b->outputs[r][0][f], a->output_bytes[r][0][f]) != 0) {
                return false;
            }
        }
    }
    return true;
}

// Every format, sharding type and pooling. Quantised and then sharded: every sharding gives the
// unsharded table's bits unless ranks sum. Sharded and then quantised: only column shards of
// integers differ, by design.
Test(quantised, every_format_type_and_pooling) {
    for (size_t i = 0; i < FORMAT_COUNT * 4; i++) {
        const ls_row_format *format = &formats[i / 4];
        ls_pooling pooling = (ls_pooling)(i % 4);
        bool weighted = pooling == LS_POOL_SUM;
        case_outcome whole, cut;
        run_one(&whole, LS_TABLE_WISE, pooling, weighted, format, false, NULL, NULL);
        for (int type = 0; type < LS_SHARDING_COUNT; type++) {
            ls_sharding sharding = (ls_sharding)type;
            bool one_owner =
                !ls_sharding_width(sharding, 4, 2) || ls_sharding_width(sharding, 4, 2) == 1 ||
                sharding == LS_DATA_PARALLEL || pooling == LS_POOL_NONE || pooling == LS_POOL_MAX;
            run_one(&cut, sharding, pooling, weighted, format, false, NULL, NULL);
            cr_expect(cut.by_design == 0, "%s", cut.text);
            cr_expect(!one_owner || same(&whole, &cut), "%s, pooling %d, format %d",
                      ls_sharding_name(sharding), (int)pooling, (int)format->element);
            case_outcome_free(&cut);
            run_one(&cut, sharding, pooling, weighted, format, true, NULL, NULL);
            bool differs = cuts_columns(sharding) && has_scale(format);
            cr_expect((cut.by_design > 0) == differs, "%s, format %d: %s",
                      ls_sharding_name(sharding), (int)format->element, cut.text);
            cr_expect(!differs || strstr(cut.text, "sharded and then quantised"), "%s", cut.text);
            case_outcome_free(&cut);
        }
        case_outcome_free(&whole);
    }
}

// Rows of narrow types are f32 after quantisation; sequences show them unchanged.
Test(quantised, narrow_rows_come_back_as_f32) {
    static const ls_dtype dtypes[] = {LS_F16, LS_BF16};
    for (size_t i = 0; i < 2 * FORMAT_COUNT; i++) {
        embedding_case c;
        case_outcome out;
        case_init(&c, 2, 2, 1);
        case_table(&c, "table", 9, 4, LS_POOL_NONE, false, "a");
        c.tables[0].dtype = dtypes[i % 2];
        c.tables[0].row_format = &formats[i / 2];
        cr_assert(case_place(&c, 0, LS_ROW_WISE, 2));
        cr_assert(case_inputs(&c, NULL, 3) == LS_OK);
        cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
        cr_expect(out.wrong == 0 && out.elements > 0, "format %d: %s", (int)formats[i / 2].element,
                  out.text);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// Rows 0 1 2 3: in int2 the whole row comes back as it is.
static double count_up(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c, (void)table, (void)row;
    return (double)column;
}

// By hand: cut in two, the right half 2 3 has bias 2 and the scale 1/3 in f16, which is 0.33325195,
// and 3 is 2 + 3 x that.
Test(quantised, scales_of_whole_rows_and_of_shards) {
    static const ls_row_format int2 = {LS_ROW_INT2, false, true, 1};
    static const float whole[4] = {0, 1, 2, 3};
    static const float cut[4] = {0, 3 * 0.333251953125f, 2, 2 + 3 * 0.333251953125f};
    for (int order = 0; order < 2; order++) {
        embedding_case c;
        case_outcome out;
        case_init(&c, 2, 2, 1);
        c.weight = count_up;
        case_table(&c, "table", 1, 4, LS_POOL_NONE, false, "a");
        c.tables[0].row_format = &int2;
        c.tables[0].quantise_shards = order == 1;
        cr_assert(case_place(&c, 0, LS_COLUMN_WISE, 2));
        cr_assert(case_inputs(&c, NULL, 3) == LS_OK);
        cr_assert(case_run(&c, &out) == LS_OK && out.wrong == 0, "%s", out.text);
        cr_assert(out.output_bytes[0][0][0] >= sizeof whole);
        cr_expect(memcmp(out.outputs[0][0][0], order ? cut : whole, sizeof whole) == 0);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// Outputs of every type, of quantised tables and of others.
Test(quantised, every_output_type) {
    static const ls_dtype types[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    for (size_t i = 0; i < 4 * 4 * 2; i++) {
        const ls_row_format *format = i % 2 ? &formats[1] : NULL;
        ls_pooling pooling = (ls_pooling)(i / 2 % 4);
        for (int type = 0; type < LS_SHARDING_COUNT; type++) {
            case_outcome out;
            run_one(&out, (ls_sharding)type, pooling, pooling == LS_POOL_MEAN, format, false,
                    &types[i / 8], NULL);
            cr_expect(out.by_design == 0, "%s", out.text);
            case_outcome_free(&out);
        }
    }
}

static double of_row(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c, (void)table, (void)column;
    return row == 0 ? 2048 : row == 1 ? 0.75 : 0.5;
}

// By hand, in f16, whose step at 2048 is 2: one shard adds 2048 + 0.75 + 0.5 in f32 and rounds
// 2049.25 to 2050; where 2048 has a shard of its own, 1.25 is added to it in f16, which gives 2050
// too, and where each row has its own, 0.75 and 0.5 are lost one after the other.
Test(quantised, shards_round_before_they_are_reduced) {
    static const ls_sharding types[] = {LS_TABLE_WISE, LS_ROW_WISE};
    static const double wanted[] = {2050, 2048};
    for (int i = 0; i < 2; i++) {
        embedding_case c;
        case_outcome out;
        case_init(&c, 3, 3, 1);
        c.weight = of_row;
        case_table(&c, "table", 3, 1, LS_POOL_SUM, false, "a");
        c.tables[0].has_output_dtype = true;
        c.tables[0].output_dtype = LS_F16;
        cr_assert(case_place(&c, 0, types[i], 0));
        for (int r = 0; r < 3; r++) {
            cr_assert(ls_keyed_jagged_create(&c.inputs[r], r, (const char *[]){"a"}, 1, 1,
                                             (int64_t[]){3}, (int64_t[]){0, 1, 2}, 3,
                                             NULL) == LS_OK);
        }
        cr_assert(case_run(&c, &out) == LS_OK && out.wrong == 0, "%s", out.text);
        uint16_t bits;
        memcpy(&bits, out.outputs[0][0][0], sizeof bits);
        double got = ldexp(1024 + (bits & 1023), (bits >> 10) - 25);
        cr_expect(got == wanted[i], "%s: %g", ls_sharding_name(types[i]), got);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// On a device whose memory the host cannot access.
Test(quantised, a_device_gives_the_hosts_bits) {
    static const ls_dtype narrow = LS_BF16;
    for (size_t i = 0; i < 3 * 4; i++) {
        const ls_row_format *format = i / 4 == 2 ? NULL : &formats[1 + i / 4];
        ls_pooling pooling = (ls_pooling)(i % 4);
        case_outcome host, device;
        size_t used = fake_device_used();
        run_one(&host, LS_GRID, pooling, false, format, false, &narrow, NULL);
        run_one(&device, LS_GRID, pooling, false, format, false, &narrow, fake_device());
        cr_expect(same(&host, &device) && fake_device_used() > used && fake_device_live() == 0);
        case_outcome_free(&host);
        case_outcome_free(&device);
    }
}

static double with_nan(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c, (void)table;
    return row == 11 && column == 3 ? NAN : 1;
}

static void expect_refused(ls_table *change,
                           double (*weight)(const embedding_case *, int, int64_t, int64_t),
                           const char *text) {
    embedding_case c;
    case_outcome out;
    case_init(&c, 3, 3, 1);
    c.weight = weight ? weight : c.weight;
    case_table(&c, "table", 17, 5, LS_POOL_SUM, false, "a");
    change->name = c.tables[0].name;
    change->features = c.tables[0].features;
    c.tables[0] = *change;
    cr_assert(case_place(&c, 0, LS_ROW_WISE, 0));
    cr_assert(case_inputs(&c, NULL, 2) == LS_OK);
    cr_assert(case_run(&c, &out) != LS_OK);
    cr_expect(strstr(out.text, text), "%s", out.text);
    case_outcome_free(&out);
    case_free(&c);
}

// Requests that are impossible, and a row that cannot be quantised, by its number in the table.
Test(quantised, refuses) {
    static const ls_row_format bad = {LS_ROW_INT4, true, false, 1};
    ls_table table = {.rows = 17,
                      .dim = 5,
                      .dtype = LS_F32,
                      .pooling = LS_POOL_SUM,
                      .feature_count = 1,
                      .row_format = &formats[1]};
    ls_table changed = table;
    expect_refused(&changed, with_nan, "row 11 cannot be quantised to int8");
    changed = table;
    changed.dtype = LS_F64;
    expect_refused(&changed, NULL, "rows are quantised from f32, f16 or bf16");
    changed = table;
    changed.max_norm = 1;
    expect_refused(&changed, NULL, "max_norm changes rows");
    changed = table;
    changed.row_format = &bad;
    expect_refused(&changed, NULL, "only int8 has an f32 scale");
    changed = table;
    changed.has_output_dtype = true;
    changed.output_dtype = LS_F8E4M3;
    expect_refused(&changed, NULL, "outputs must be f32, f16, bf16 or f64");
}
