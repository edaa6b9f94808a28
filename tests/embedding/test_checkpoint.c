// Tests of checkpoints: from any plan to any other, byte by byte, and refused ones.
#define _XOPEN_SOURCE 700
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"
#include "formats/safetensors.h"
#include "kernels/optimizer.h"

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at) {
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

static void remove_folder(const char *path) {
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// A module in a separate world.
typedef struct trained {
    ls_world *world;
    ls_backend *backend;
    ls_embedding *module;
    ls_optimizer optimizers[CASE_TABLES_MAX];
} trained;

static int fill_zero(void *arg, int table, int rank, int64_t row, int64_t rows, int64_t column,
                     int64_t columns, void *out) {
    const embedding_case *c = arg;
    (void)rank;
    (void)row;
    (void)column;
    memset(out, 0, (size_t)(rows * columns) * ls_dtype_bytes(c->tables[table].dtype));
    return LS_OK;
}

static void start(trained *out, embedding_case *c, ls_optimizer_kind kind) {
    *out = (trained){0};
    c->plan = (ls_plan){c->ranks, c->ranks_per_host, c->plans, c->table_count};
    cr_assert(ls_world_create(&out->world, &(ls_world_options){.mesh = LS_MESH(c->ranks)}) == 0);
    cr_assert(ls_backend_sim_create(&out->backend, out->world) == 0);
    const ls_embedding_options options = {.tables = c->tables,
                                          .table_count = c->table_count,
                                          .plan = &c->plan,
                                          .fill = fill_zero,
                                          .fill_arg = c};
    cr_assert(ls_embedding_create(&out->module, out->backend, &options) == 0, "%s",
              ls_error_last()->text);
    for (int t = 0; t < c->table_count; t++) {
        out->optimizers[t] = ls_optimizer_default(kind, LS_OPTIMIZER_FUSED);
    }
    ls_training training = {.optimizers = out->optimizers};
    cr_assert(ls_embedding_prepare_training(out->module, &training) == 0, "%s",
              ls_error_last()->text);
}

static void stop(trained *t) {
    ls_embedding_free(t->module);
    ls_backend_free(t->backend);
    ls_world_free(t->world);
}

// The value of a cell of an array; of one number for each row, column -1.
static double cell(int table, int array, int64_t row, int64_t column) {
    return (table + 1) * 1000 + array * 100 + (double)row + (double)(column + 1) / 64;
}

typedef void (*visit_cell)(float *at, double value, const char *what);

static void set_cell(float *at, double value, const char *what) {
    (void)what;
    *at = (float)value;
}

static void check_cell(float *at, double value, const char *what) {
    cr_assert(*at == (float)value, "%s: %g, not %g", what, (double)*at, value);
}

// Visits every element of every shard of an f32 module on the host.
static void visit(trained *m, const embedding_case *c, visit_cell call) {
    for (int t = 0; t < c->table_count; t++) {

        for (int s = 0; s < c->plans[t].shard_count; s++) {
            const ls_plan_shard *block = &c->plans[t].shards[s];
            int index = c->plans[t].sharding == LS_DATA_PARALLEL ? 0 : s;
            for (int a = 0; a < 3; a++) {
                ls_shape shape = LS_SHAPE(block->rows, block->columns);
                ls_dtype dtype = LS_F32;
                float *data = a == 0 ? ls_embedding_shard(m->module, t, block->rank, index)->data
                                     : ls_embedding_state(m->module, t, block->rank, index, a - 1,
                                                          &shape, &dtype);
                int64_t columns = shape.ndim == 1 ? 1 : block->columns;
                for (int64_t i = 0; data != NULL && i < block->rows * columns; i++) {
                    int64_t column = shape.ndim == 1 ? -1 : block->column_offset + i % columns;
                    char what[96];
                    snprintf(what, sizeof what, "table %d, rank %d, array %d, row %lld", t,
                             block->rank, a, (long long)(block->row_offset + i / columns));
                    call(&data[i], cell(t, a, block->row_offset + i / columns, column), what);
                }
            }
        }
    }
}

static void make_case(embedding_case *c, int ranks, int per_host, const ls_sharding types[3]) {
    static const char *const names[] = {"t0", "t1", "t2"};
    static const int64_t sizes[][2] = {{10, 17}, {3, 8}, {1, 5}};
    case_init(c, ranks, per_host, 5);
    for (int t = 0; t < 3; t++) {
        case_table(c, names[t], sizes[t][0], sizes[t][1], LS_POOL_SUM, false, "a");
        cr_assert(case_place(c, t, types[t], 3));
    }
}

static char *read_file(const char *dir, const char *name, size_t *bytes) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        *bytes = 0;
        return NULL;
    }
    char *data = calloc(1, 1 << 20);
    *bytes = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

static void expect_equal_files(const char *a, const char *b, const char *name) {
    size_t a_bytes, b_bytes;
    char *x = read_file(a, name, &a_bytes), *y = read_file(b, name, &b_bytes);
    cr_assert((x == NULL) == (y == NULL) && a_bytes == b_bytes, "%s: %zu and %zu bytes", name,
              a_bytes, b_bytes);
    cr_assert(x == NULL || memcmp(x, y, a_bytes) == 0, "%s differs", name);
    free(x);
    free(y);
}

static void reshard(const char *folder, const char *from, const char *to, embedding_case *c) {
    char from_dir[256], to_dir[256];
    snprintf(from_dir, sizeof from_dir, "%s/%s", folder, from);
    snprintf(to_dir, sizeof to_dir, "%s/%s", folder, to);
    ls_checkpoint *checkpoint;
    cr_assert(ls_checkpoint_open(&checkpoint, from_dir) == 0, "%s", ls_error_last()->text);
    c->plan = (ls_plan){c->ranks, c->ranks_per_host, c->plans, c->table_count};
    cr_assert(ls_checkpoint_reshard(to_dir, checkpoint, &c->plan) == 0, "%s",
              ls_error_last()->text);
    ls_checkpoint_free(checkpoint);
}

// 4 ranks -> 3 -> 8 -> 4, every table under another sharding type each time: the last checkpoint
// equals the first one, byte by byte; a module of the 8 loads correct cells.
static void go_round(ls_optimizer_kind kind) {
    static const ls_sharding types[3][3] = {{LS_ROW_WISE, LS_COLUMN_WISE, LS_TABLE_WISE},
                                            {LS_COLUMN_WISE, LS_DATA_PARALLEL, LS_ROW_WISE},
                                            {LS_GRID, LS_TABLE_ROW_WISE, LS_TABLE_COLUMN_WISE}};
    char folder[] = "/tmp/lockstep_checkpoint_XXXXXX", path[256];
    cr_assert(mkdtemp(folder) != NULL);
    embedding_case four, three, eight;
    make_case(&four, 4, 2, types[0]);
    make_case(&three, 3, 3, types[1]);
    make_case(&eight, 8, 4, types[2]);
    trained first, last;
    start(&first, &four, kind);
    visit(&first, &four, set_cell);
    ls_embedding_set_step(first.module, 3);
    snprintf(path, sizeof path, "%s/a", folder);
    cr_assert(ls_embedding_save(first.module, path) == 0, "%s", ls_error_last()->text);
    reshard(folder, "a", "b", &three);
    reshard(folder, "b", "c", &eight);
    reshard(folder, "c", "d", &four);
    char again[256];
    snprintf(again, sizeof again, "%s/d", folder);
    static const char *const files[] = {"index.json",
                                        "plan.yaml",
                                        "rank_00000.safetensors",
                                        "rank_00001.safetensors",
                                        "rank_00002.safetensors",
                                        "rank_00003.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        expect_equal_files(path, again, files[i]);
    }
    start(&last, &eight, kind);
    cr_assert(ls_embedding_load(last.module, path) == 0, "%s", ls_error_last()->text);
    visit(&last, &eight, check_cell);
    cr_assert(ls_embedding_step(last.module) == 3);
    stop(&first);
    stop(&last);
    case_free(&four);
    case_free(&three);
    case_free(&eight);
    remove_folder(folder);
}

Test(checkpoint, goes_round_with_adam) {
    go_round(LS_OPTIMIZER_ADAM);
}

Test(checkpoint, goes_round_with_a_state_per_row) {
    go_round(LS_OPTIMIZER_ROWWISE_ADAGRAD);
}

Test(checkpoint, goes_round_with_both) {
    go_round(LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM);
}

// Column blocks of 2, 2 and 1 columns with states 3, 7 and 11: merged, (3 2 + 7 2 + 11) / 5.
Test(checkpoint, joins_states_by_their_columns) {
    char folder[] = "/tmp/lockstep_checkpoint_XXXXXX", path[256];
    cr_assert(mkdtemp(folder) != NULL);
    embedding_case cut, whole;
    case_init(&cut, 3, 3, 1);
    case_init(&whole, 1, 1, 1);
    case_table(&cut, "t", 2, 5, LS_POOL_SUM, false, "a");
    case_table(&whole, "t", 2, 5, LS_POOL_SUM, false, "a");
    cr_assert(case_place(&cut, 0, LS_COLUMN_WISE, 3) && case_place(&whole, 0, LS_TABLE_WISE, 0));
    int64_t widths[] = {2, 2, 1}, column = 0;
    for (int s = 0; s < 3; s++) {
        cut.plans[0].shards[s].column_offset = column;
        cut.plans[0].shards[s].columns = widths[s];
        column += widths[s];
    }
    trained from, to;
    start(&from, &cut, LS_OPTIMIZER_ROWWISE_ADAGRAD);
    for (int s = 0; s < 3; s++) {
        ls_shape shape;
        ls_dtype dtype;
        float *state =
            ls_embedding_state(from.module, 0, cut.plans[0].shards[s].rank, s, 0, &shape, &dtype);
        state[0] = (float)(3 + 4 * s);
        state[1] = 1;
    }
    snprintf(path, sizeof path, "%s/cut", folder);
    cr_assert(ls_embedding_save(from.module, path) == 0, "%s", ls_error_last()->text);
    start(&to, &whole, LS_OPTIMIZER_ROWWISE_ADAGRAD);
    cr_assert(ls_embedding_load(to.module, path) == 0, "%s", ls_error_last()->text);
    ls_shape shape;
    ls_dtype dtype;
    float *state = ls_embedding_state(to.module, 0, 0, 0, 0, &shape, &dtype);
    cr_assert(state[0] == 31.0F / 5 && state[1] == 1, "%g %g", (double)state[0], (double)state[1]);
    stop(&from);
    stop(&to);
    case_free(&cut);
    case_free(&whole);
    remove_folder(folder);
}

// Quantised rows are shorter than the numbers of a checkpoint, and are no such numbers.
Test(checkpoint, has_no_quantised_rows) {
    char folder[] = "/tmp/lockstep_checkpoint_XXXXXX", path[256];
    cr_assert(mkdtemp(folder) != NULL);
    const ls_row_format format = {.element = LS_ROW_INT8, .alignment = 1};
    embedding_case c;
    case_init(&c, 2, 2, 1);
    case_table(&c, "t", 3, 6, LS_POOL_SUM, false, "a");
    cr_assert(case_place(&c, 0, LS_ROW_WISE, 2));
    c.tables[0].row_format = &format;
    c.plan = (ls_plan){c.ranks, c.ranks_per_host, c.plans, c.table_count};
    trained m = {0};
    cr_assert(ls_world_create(&m.world, &(ls_world_options){.mesh = LS_MESH(2)}) == 0);
    cr_assert(ls_backend_sim_create(&m.backend, m.world) == 0);
    const ls_embedding_options options = {
        .tables = c.tables, .table_count = 1, .plan = &c.plan, .fill = fill_zero, .fill_arg = &c};
    cr_assert(ls_embedding_create(&m.module, m.backend, &options) == 0, "%s",
              ls_error_last()->text);
    snprintf(path, sizeof path, "%s/q", folder);
    cr_assert(ls_embedding_save(m.module, path) == LS_ERR_UNSUPPORTED && access(path, F_OK) != 0);
    cr_assert(ls_embedding_load(m.module, path) == LS_ERR_UNSUPPORTED);
    stop(&m);
    case_free(&c);
    remove_folder(folder);
}

static void expect_no_load(trained *m, const char *dir, int code, const char *word) {
    int status = ls_embedding_load(m->module, dir);
    cr_assert(status == code && strstr(ls_error_last()->text, word) != NULL, "%d: %s", status,
              ls_error_last()->text);
}

static void put_file(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fclose(file) == 0, "%s", path);
}

static bool has_file(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

// Of an apparently unfinished checkpoint only its own files are removed; with others it stays.
Test(checkpoint, removes_nothing_of_others) {
    static const ls_sharding types[3] = {LS_ROW_WISE, LS_COLUMN_WISE, LS_TABLE_WISE};
    static const char *const ours[] = {"rank_00000.safetensors", "index.json", "plan.yaml"};
    static const char *const others[] = {"rank_notes.txt", "a.safetensors", "plan.yaml.old"};
    char folder[] = "/tmp/lockstep_checkpoint_XXXXXX", path[256], partial[300];
    cr_assert(mkdtemp(folder) != NULL);
    embedding_case c;
    make_case(&c, 4, 2, types);
    trained sgd;
    start(&sgd, &c, LS_OPTIMIZER_SGD);
    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(partial, sizeof partial, "%s.partial", path);
    cr_assert(mkdir(partial, 0777) == 0);
    for (int i = 0; i < 3; i++) {
        put_file(partial, ours[i]);
        put_file(partial, others[i]);
    }
    cr_expect(ls_embedding_save(sgd.module, path) != LS_OK);
    for (int i = 0; i < 3; i++) {
        cr_expect(!has_file(partial, ours[i]) && has_file(partial, others[i]), "%d", i);
    }
    remove_folder(partial);
    cr_assert(mkdir(partial, 0777) == 0);
    put_file(partial, ours[0]);
    cr_expect(ls_embedding_save(sgd.module, path) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(!has_file(folder, "a.partial"));
    stop(&sgd);
    case_free(&c);
    remove_folder(folder);
}

Test(checkpoint, refuses_what_is_not_there_or_another) {
    static const ls_sharding types[3] = {LS_ROW_WISE, LS_COLUMN_WISE, LS_TABLE_WISE};
    char folder[] = "/tmp/lockstep_checkpoint_XXXXXX", path[256], file[512];
    cr_assert(mkdtemp(folder) != NULL);
    embedding_case c;
    make_case(&c, 4, 2, types);
    trained sgd, adam;
    start(&sgd, &c, LS_OPTIMIZER_SGD);
    start(&adam, &c, LS_OPTIMIZER_ADAM);
    snprintf(path, sizeof path, "%s/a/", folder);
    expect_no_load(&sgd, path, LS_ERR_IO, "plan.yaml");
    cr_assert(ls_embedding_save(sgd.module, path) == 0);
    expect_no_load(&adam, path, LS_ERR_INVALID, "momentum1");
    cr_assert(ls_embedding_save(sgd.module, path) == LS_ERR_INVALID);  // exists
    ls_checkpoint *checkpoint;
    c.plans[0].rows = 11;
    c.plans[0].shards[3].rows += 1;
    c.plan = (ls_plan){c.ranks, c.ranks_per_host, c.plans, c.table_count};
    cr_assert(ls_checkpoint_open(&checkpoint, path) == 0);
    snprintf(file, sizeof file, "%s/b", folder);
    cr_assert(ls_checkpoint_reshard(file, checkpoint, &c.plan) == LS_ERR_INVALID);
    cr_assert(access(file, F_OK) != 0, "nothing may be left");
    ls_checkpoint_free(checkpoint);
    c.plans[0].rows = 10;
    c.plans[0].shards[3].rows -= 1;
    size_t bytes;
    char *index = read_file(path, "index.json", &bytes);
    char *array = strstr(index, "\"weights\"");
    cr_assert(array != NULL);
    array[1] = 'W';
    snprintf(file, sizeof file, "%s/index.json", path);
    FILE *changed = fopen(file, "w");
    cr_assert(changed != NULL && fwrite(index, 1, bytes, changed) == bytes && fclose(changed) == 0);
    expect_no_load(&sgd, path, LS_ERR_FORMAT, "is not its weights");
    array[1] = 'w';
    changed = fopen(file, "w");
    cr_assert(changed != NULL && fwrite(index, 1, bytes, changed) == bytes && fclose(changed) == 0);
    free(index);
    const ls_safetensor_source lost = {
        .name = "t0/momentum1/0_0", .dtype = LS_F32, .ndim = 1, .dim = {1}, .data = &(float){1}};
    snprintf(file, sizeof file, "%s/rank_00004.safetensors", path);
    cr_assert(ls_safetensors_write(file, &lost, 1, NULL, 0) == 0);
    expect_no_load(&sgd, path, LS_ERR_FORMAT, "rank 4: tensor \"t0/momentum1/0_0\"");
    cr_assert(remove(file) == 0);
    snprintf(file, sizeof file, "%s/rank_00001.safetensors", path);
    cr_assert(truncate(file, 40) == 0);
    expect_no_load(&sgd, path, LS_ERR_FORMAT, "rank_00001");
    cr_assert(remove(file) == 0);
    expect_no_load(&sgd, path, LS_ERR_IO, "rank_00001");
    stop(&sgd);
    stop(&adam);
    case_free(&c);
    remove_folder(folder);
}
