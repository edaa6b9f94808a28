// Scenario files: the result of parsing, and every class of error with its place.
#define _XOPEN_SOURCE 700
#include <criterion/criterion.h>

#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "formats/npy.h"
#include "runner/scenario/scenario.h"
#include "runner/scenario/schema.h"
#include "tests/npy_writer.h"

#define HEAD   "lockstep: 1\nname: x\nmesh: {shape: [4]}\n"
#define TABLES "tables:\n  - {name: a, rows: 10, dim: 16}\ninputs: {batch: 2}\n"

static const char *source_path(const char *relative) {
    static char path[4096];
    const char *root = getenv("LOCKSTEP_SOURCE");
    cr_assert(root != NULL, "LOCKSTEP_SOURCE is not set");
    (void)snprintf(path, sizeof path, "%s/%s", root, relative);
    return path;
}

static char *read_all(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    char *text = calloc(1, 1 << 20);
    size_t bytes = fread(text, 1, (1 << 20) - 1, file);
    text[bytes] = 0;
    (void)fclose(file);
    return text;
}

// Parses text that must be valid.
static ls_scenario *good(const char *text) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    cr_assert(ls_diagnostics_create(&diagnostics, "t.yaml") == LS_OK);
    int status = ls_scenario_parse(&scenario, diagnostics, "t.yaml", text, strlen(text), NULL);
    ls_text said = {0};
    ls_diagnostics_format(&said, diagnostics);
    cr_assert(status == LS_OK && scenario != NULL, "%s", ls_text_string(&said));
    cr_assert(ls_diagnostics_count(diagnostics) == 0);
    ls_text_free(&said);
    ls_diagnostics_free(diagnostics);
    return scenario;
}

// Parses text that must be refused, first at line:column with a message that contains `part`.
static void bad(const char *text, size_t bytes, int line, int column, const char *part) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    cr_assert(ls_diagnostics_create(&diagnostics, "t.yaml") == LS_OK);
    int status = ls_scenario_parse(&scenario, diagnostics, "t.yaml", text, bytes, NULL);
    cr_assert(status == LS_ERR_FORMAT && scenario == NULL, "accepted: %.200s", text);
    cr_assert(ls_diagnostics_count(diagnostics) >= 1);
    const ls_diagnostic *first = ls_diagnostics_at(diagnostics, 0);
    cr_assert(first->mark.line == line && first->mark.column == column, "%d:%d: %s",
              first->mark.line, first->mark.column, first->text);
    cr_assert(strstr(first->text, part) != NULL, "%s", first->text);
    ls_diagnostics_free(diagnostics);
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Every committed scenario of every family is accepted.
Test(scenario, committed_files_are_right) {
    glob_t found;
    cr_assert(glob(source_path("scenarios/*/*.yaml"), 0, NULL, &found) == 0);
    cr_assert(found.gl_pathc >= 20);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        ls_diagnostics *diagnostics = NULL;
        ls_scenario *scenario = NULL;
        cr_assert(ls_diagnostics_create(&diagnostics, found.gl_pathv[i]) == LS_OK);
        int status = ls_scenario_load(&scenario, diagnostics, found.gl_pathv[i], NULL);
        ls_text said = {0};
        ls_diagnostics_format(&said, diagnostics);
        cr_assert(status == LS_OK, "%s", ls_text_string(&said));
        ls_text_free(&said);
        ls_scenario_free(scenario);
        ls_diagnostics_free(diagnostics);
    }
    globfree(&found);
}

static void check_golden(const char *name) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    cr_assert(ls_diagnostics_create(&diagnostics, name) == LS_OK);
    int status = ls_scenario_load(&scenario, diagnostics, name, NULL);
    cr_assert(status == LS_ERR_FORMAT && scenario == NULL, "%s is accepted", name);
    ls_text said = {0};
    ls_diagnostics_format(&said, diagnostics);
    char golden[512];
    (void)snprintf(golden, sizeof golden, "%.*s.txt", (int)(strlen(name) - 5), name);
    if (getenv("LOCKSTEP_BLESS") != NULL) {
        FILE *file = fopen(golden, "wb");
        cr_assert(file != NULL);
        (void)fputs(ls_text_string(&said), file);
        (void)fclose(file);
    }
    char *expected = read_all(golden);
    cr_assert(expected != NULL, "%s is missing", golden);
    cr_assert(strcmp(expected, ls_text_string(&said)) == 0, "%s: got\n%s", name,
              ls_text_string(&said));
    free(expected);
    ls_text_free(&said);
    ls_diagnostics_free(diagnostics);
}

// Every malformed file gets exactly the messages beside it: text, caret and hint. LOCKSTEP_BLESS=1
// rewrites them.
Test(scenario, malformed_files_get_their_messages) {
    cr_assert(chdir(source_path("tests/scenarios/malformed")) == 0);
    glob_t found;
    cr_assert(glob("*.yaml", 0, NULL, &found) == 0);
    cr_assert(found.gl_pathc >= 25);
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        check_golden(found.gl_pathv[i]);
    }
    globfree(&found);
}

// The model has the file's values, and the schema's defaults for missing keys.
Test(scenario, tables_and_defaults) {
    ls_scenario *s = good("lockstep: 1\nname: x\nseed: 0xffffffffffffffff\n"
                          "mesh: {shape: [2, 3], names: [host, gpu]}\n"
                          "tables:\n"
                          "  - {name: a, rows: 1099511627776, dim: 4, dtype: bf16, pooling: mean,\n"
                          "     features: [f, g], sharding: {type: grid, columns: 2}}\n"
                          "  - {name: b, rows: 7, dim: 1, padding_id: 6}\n"
                          "inputs:\n  batch: [1, 2, 3, 4, 5, 6]\n"
                          "  features: {g: {ids: {zipf: 1.05}}}\n"
                          "optimizer: {type: rowwise_adagrad, lr: 0.02}\n"
                          "steps: [forward, backward, update]\nchecks: {real: off}\n");
    cr_assert(s->seed == UINT64_MAX && s->ranks == 6 && s->ranks_per_host == 3);
    cr_assert(s->table_count == 2 && s->tables[0].rows == INT64_C(1) << 40);
    cr_assert(s->tables[0].dtype == LS_BF16 && s->tables[0].pooling == LS_POOL_MEAN);
    cr_assert(s->tables[0].sharding.type == LS_GRID && s->tables[0].sharding.columns == 2);
    cr_assert(s->tables[0].padding_id == -1 && s->tables[1].padding_id == 6);
    cr_assert(s->tables[1].dtype == LS_F32 && s->tables[1].pooling == LS_POOL_SUM);
    cr_assert(s->tables[1].sharding.node.mark.line == 0 && !s->tables[1].sharding.has_type);
    cr_assert(s->tables[1].sharding.host == -1);
    cr_assert(s->inputs.feature_count == 3 && s->inputs.batch.at[5] == 6);
    cr_assert(strcmp(s->inputs.features[1].name, "g") == 0);
    cr_assert(s->inputs.features[1].ids.kind == LS_GENERATOR_ZIPF);
    cr_assert(s->inputs.features[1].ids.a == 1.05 && s->inputs.features[1].table == 0);
    cr_assert(strcmp(s->inputs.features[2].name, "b") == 0 && s->inputs.features[2].table == 1);
    cr_assert(s->optimizer.rule.lr == 0.02 && s->optimizer.rule.eps == 1e-8);
    cr_assert(s->tables_step_count == 3 && s->checks.real_off && !s->checks.oracle_off);
    cr_assert(s->checks.oracle == LS_CLASS_BY_DESIGN);
    cr_assert(s->tables[0].mean_divisor == LS_MEAN_WEIGHTS);
    cr_assert(!s->quirks.grid_mean_not_divided && !s->quirks.row_wise_mean_divides_others);
    cr_assert(s->tables[1].node.mark.line == 8 && s->tables[1].node.mark.column == 5);
    cr_assert(ls_node_mark(&s->tables[1].node, "rows").column == 21);
    cr_assert(!ls_node_has(&s->tables[1].node, "dtype"));
    ls_scenario_free(s);
}

// A mean's divisor belongs to each table; a quirk of TorchRec to the collection.
Test(scenario, means_by_name) {
    ls_scenario *s = good("lockstep: 1\nname: x\nmesh: {shape: [2]}\ntables:\n"
                          "  - {name: a, rows: 9, dim: 4, pooling: mean, mean_divisor: ids}\n"
                          "  - {name: b, rows: 9, dim: 4, pooling: mean, mean_divisor: torchrec}\n"
                          "torchrec_quirks: {row_wise_mean_divides_others: true}\n"
                          "inputs: {batch: 1}\nchecks: {oracle: within_bound}\n");
    cr_assert(s->tables[0].mean_divisor == LS_MEAN_IDS);
    cr_assert(s->tables[1].mean_divisor == LS_MEAN_TORCHREC);
    cr_assert(!s->quirks.grid_mean_not_divided && s->quirks.row_wise_mean_divides_others);
    cr_assert(s->checks.oracle == LS_CLASS_WITHIN_BOUND);
    ls_scenario_free(s);
}

// Programs keep groups, explicit sizes, exceptions and default names.
Test(scenario, programs) {
    ls_scenario *s = good("lockstep: 1\nname: x\nmesh: {shape: [2, 2], names: [host, gpu]}\n"
                          "program:\n  tensors:\n"
                          "    - {name: t, shape: [8, 3], placements: \"R, S(0)\", sizes: [1, 7]}\n"
                          "  steps:\n"
                          "    - all_reduce: {count: 5, axis: gpu, except: [{ranks: 2, op: max}]}\n"
                          "    - barrier\n"
                          "    - redistribute: {tensor: t, to: \"S(0), R\", into: u}\n"
                          "    - matmul: {tensor: t, other: u, into: v, name: product}\n");
    cr_assert(s->is_program && s->tensor_count == 1 && s->step_count == 4);
    cr_assert(s->tensors[0].placements.at[1].sizes[1] == 7 && s->tensors[0].source == -1);
    cr_assert(s->steps[0].kind == LS_STEP_ALL_REDUCE && s->steps[0].call.axis == 1);
    cr_assert(s->steps[0].except_count == 1 && s->steps[0].excepts[0].op == LS_MAX);
    cr_assert(ls_node_has(&s->steps[0].excepts[0].node, "op"));
    cr_assert(!ls_node_has(&s->steps[0].excepts[0].node, "count"));
    cr_assert(strcmp(s->steps[0].name, "0_all_reduce") == 0);
    cr_assert(s->steps[1].kind == LS_STEP_BARRIER && s->steps[1].call.axis == -1);
    cr_assert(strcmp(s->steps[3].name, "product") == 0);
    cr_assert(s->steps[2].to.given && s->steps[2].to.placements.at[0].kind == LS_PLACE_SHARD);
    cr_assert(strcmp(ls_scenario_where(s, &s->steps[2].node), "t.yaml:10") == 0);
    ls_scenario_free(s);
}

// Columns count characters, not bytes, and a byte order mark counts as none.
Test(scenario, columns_are_characters) {
    static const char text[] = "\xEF\xBB\xBFlockstep: 1\nname: x\nmesh: {shape: [4]}\n"
                               "tables:\n  - {name: \"t\xC3\xA4\xC3\xB6l\", rows: x, dim: 1}\n"
                               "inputs: {batch: 2}\n";
    bad(text, sizeof text - 1, 5, 26, "rows: not an integer: x");
    bad("\xEF\xBB\xBFlockstep: 2\n", 15, 1, 1, "missing");
}

// The line of an error is shown with any line ending, without a byte order mark.
Test(scenario, lines_are_shown_whatever_ends_them) {
    const char *const ends[] = {"\n", "\r", "\r\n", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};
    for (size_t i = 0; i < 2 * sizeof ends / sizeof *ends; i++) {
        const char *end = ends[i / 2], *mark = i % 2 == 0 ? "" : "\xEF\xBB\xBF";
        char text[128];
        (void)snprintf(text, sizeof text, "%slockstep: 2%sname: x%smesh: {shap: [4]}%s", mark, end,
                       end, end);
        ls_diagnostics *diagnostics = NULL;
        ls_scenario *scenario = NULL;
        cr_assert(ls_diagnostics_create(&diagnostics, "t.yaml") == LS_OK);
        cr_assert(ls_scenario_parse(&scenario, diagnostics, "t.yaml", text, strlen(text), NULL) ==
                  LS_ERR_FORMAT);
        ls_text said = {0};
        ls_diagnostics_format(&said, diagnostics);
        cr_expect(strstr(ls_text_string(&said), "    1 | lockstep: 2\n") != NULL, "%zu: %s", i,
                  ls_text_string(&said));
        cr_expect(strstr(ls_text_string(&said), "    3 | mesh: {shap: [4]}\n"
                                                "      |        ^") != NULL,
                  "%zu: %s", i, ls_text_string(&said));
        ls_text_free(&said);
        ls_diagnostics_free(diagnostics);
    }
}

// Aliases are allowed for whole values.
Test(scenario, aliases) {
    ls_scenario *s =
        good(HEAD "tables:\n"
                  "  - {name: a, rows: 10, dim: 16, sharding: &s {type: data_parallel}}\n"
                  "  - {name: b, rows: 10, dim: 16, sharding: *s}\n"
                  "inputs: {batch: 2}\n");
    cr_assert(s->tables[1].sharding.type == LS_DATA_PARALLEL);
    cr_assert(s->tables[1].sharding.node.mark.line == 6);
    ls_scenario_free(s);
    // Text after the anchor's value is not after its alias.
    s = good(HEAD "tables:\n"
                  "  - {name: a, rows: &n 10, dim: 16}\n"
                  "  - {name: b, dim: 8, rows: *n}\n"
                  "inputs: {batch: 2}\n");
    cr_assert(s->tables[1].rows == 10 && s->tables[1].dim == 8);
    ls_scenario_free(s);
}

// A file above the limit, a missing one and a folder are clean errors.
Test(scenario, unreadable_files) {
    size_t bytes = LS_SCENARIO_BYTES_MAX + 1;
    char *large = malloc(bytes);
    memset(large, '#', bytes);
    bad(large, bytes, 0, 0, "larger than 1048576 bytes");
    free(large);
    const char *paths[] = {"/nonexistent/x.yaml", "/"};
    for (int i = 0; i < 2; i++) {
        ls_diagnostics *diagnostics = NULL;
        ls_scenario *scenario = NULL;
        cr_assert(ls_diagnostics_create(&diagnostics, paths[i]) == LS_OK);
        int expected = i == 0 ? LS_ERR_IO : LS_ERR_FORMAT;
        cr_assert(ls_scenario_load(&scenario, diagnostics, paths[i], NULL) == expected);
        cr_assert(ls_diagnostics_count(diagnostics) == 1);
        ls_diagnostics_free(diagnostics);
    }
}

static int load_status(const char *path, bool allow_outside) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    cr_assert(ls_diagnostics_create(&diagnostics, path) == LS_OK);
    ls_scenario_options options = {.allow_outside = allow_outside};
    int status = ls_scenario_load(&scenario, diagnostics, path, &options);
    ls_scenario_free(scenario);
    ls_diagnostics_free(diagnostics);
    return status;
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL);
    (void)fputs(text, file);
    (void)fclose(file);
}

// A path may not leave the scenario's folder: not by .., not by a link, not to a sibling whose name
// begins with its name; --allow-outside permits it.
Test(scenario, paths_stay_inside) {
    char root[] = "/tmp/lockstep-test-XXXXXX";
    cr_assert(mkdtemp(root) != NULL && chdir(root) == 0);
    cr_assert(mkdir("in", 0700) == 0 && mkdir("in_too", 0700) == 0 && mkdir("in/sub", 0700) == 0);
    cr_assert(symlink("../in_too", "in/link") == 0);
    float values[160] = {0};
    int64_t dim[2] = {10, 16};
    cr_assert(write_npy("in/sub/w.npy", LS_F32, 2, dim, values));
    cr_assert(write_npy("in_too/w.npy", LS_F32, 2, dim, values));
    const char *names[] = {"sub/w.npy", "sub/../sub/w.npy", "../in_too/w.npy", "link/w.npy",
                           "../in/sub/w.npy"};
    const bool inside[] = {true, true, false, false, true};
    for (int i = 0; i < 5; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       HEAD "tables:\n  - {name: a, rows: 10, dim: 16, weights: {file: %s}}\n"
                            "inputs: {batch: 2}\n",
                       names[i]);
        write_file("in/s.yaml", text);
        cr_assert(load_status("in/s.yaml", false) == (inside[i] ? LS_OK : LS_ERR_FORMAT), "%s",
                  names[i]);
        cr_assert(load_status("in/s.yaml", true) == LS_OK, "%s", names[i]);
    }
    const char *left[] = {"in/link", "in/s.yaml",    "in/sub/w.npy", "in/sub",
                          "in",      "in_too/w.npy", "in_too",       root};
    for (int i = 0; i < 8; i++) {
        cr_assert(remove(left[i]) == 0, "%s", left[i]);
    }
}

// A megabyte of keys, of duplicates and of open brackets each take less than ten seconds.
Test(scenario, hostile_files_are_quick) {
    // before and after an increasing number; without the number if `numbered` is false
    const char *before[] = {"a", "a: 1\n", "[", "- ", "{a: ", "&a", "\"", "? "};
    const char *after[] = {": 1\n", "", "", "", "", " [", "", ""};
    const bool numbered[] = {true, false, false, false, false, true, false, false};
    for (size_t p = 0; p < sizeof before / sizeof *before; p++) {
        char *text = malloc(LS_SCENARIO_BYTES_MAX + 32);
        size_t length = 0;
        for (unsigned i = 0; length < LS_SCENARIO_BYTES_MAX - 16; i++) {
            char number[16] = "";
            if (numbered[p]) {
                (void)snprintf(number, sizeof number, "%u", i);
            }
            length += (size_t)snprintf(text + length, 32, "%s%s%s", before[p], number, after[p]);
        }
        ls_diagnostics *diagnostics = NULL;
        ls_scenario *scenario = NULL;
        clock_t start = clock();
        cr_assert(ls_diagnostics_create(&diagnostics, "t.yaml") == LS_OK);
        cr_assert(ls_scenario_parse(&scenario, diagnostics, "t.yaml", text, length, NULL) ==
                  LS_ERR_FORMAT);
        ls_text said = {0};
        ls_diagnostics_format(&said, diagnostics);
        cr_assert(said.length < 1 << 20);
        cr_assert((double)(clock() - start) / CLOCKS_PER_SEC < 10, "%s", before[p]);
        ls_text_free(&said);
        ls_diagnostics_free(diagnostics);
        free(text);
    }
}

// The explanation and the JSON schema name every key of every record, with its meaning.
Test(schema, says_every_key) {
    ls_text explained = {0};
    ls_text json = {0};
    ls_schema_explain(&explained);
    ls_schema_json(&json);
    const ls_schema_record *records[LS_SCHEMA_RECORDS_MAX];
    int count = ls_schema_records(records);
    cr_assert(count > 30);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < records[i]->field_count; j++) {
            const ls_schema_field *field = &records[i]->fields[j];
            char key[128];
            (void)snprintf(key, sizeof key, "  %s\n", field->key);
            cr_assert(strstr(ls_text_string(&explained), key) != NULL, "%s", field->key);
            (void)snprintf(key, sizeof key, "\"%s\": {", field->key);
            cr_assert(strstr(ls_text_string(&json), key) != NULL, "%s", field->key);
            cr_assert(strstr(ls_text_string(&json), field->doc) != NULL, "%s", field->doc);
            cr_assert(strncmp(field->example, field->key, strlen(field->key)) == 0, "%s",
                      field->example);
        }
        for (int j = 0; j < i; j++) {
            cr_assert(strcmp(records[i]->name, records[j]->name) != 0, "%s", records[i]->name);
        }
    }
    ls_text_free(&explained);
    ls_text_free(&json);
}

// The reference has every finding by its name, with its code and its example.
Test(schema, reference_has_every_finding) {
    char *reference = read_all(source_path("docs/reference.md"));
    cr_assert(reference != NULL);
    const char *at = reference;
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        char row[256];
        (void)snprintf(row, sizeof row, "| `%s` | %s | %s |\n", ls_finding_name((ls_finding_id)id),
                       ls_finding_reads((ls_finding_id)id), ls_finding_text((ls_finding_id)id));
        at = strstr(at, row);
        cr_assert(at != NULL, "docs/reference.md lacks, or has in another place: %s", row);
    }
    free(reference);
}

// Defaults are parsed from the printed text, and apply if nothing is given.
Test(schema, ranges_hold_at_their_ends) {
    const char *rows[] = {"0",  "1", "1099511627776", "1099511627777", "-1", "1e3", "0x10", "1_0",
                          "+7", "+"};
    const bool right[] = {false, true, true, false, false, false, true, false, true, false};
    for (int i = 0; i < 10; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       HEAD "tables:\n  - {name: a, rows: %s, dim: 16}\ninputs: {batch: 2}\n",
                       rows[i]);
        if (right[i]) {
            ls_scenario_free(good(text));
        } else {
            bad(text, strlen(text), 5, 21, "rows: ");
        }
    }
}

// Decimal, with a fraction and an exponent or without.
Test(schema, real_numbers) {
    static const struct {
        const char *text;
        double value;  // 0: none
    } all[] = {{"2", 2},       {"2.5", 2.5}, {".5", 0.5},    {"5.", 5},   {"1e3", 1000},
               {"+1e+2", 100}, {"5E-1", .5}, {"1.e05", 1e5}, {"e5", 0},   {".", 0},
               {"1e", 0},      {"1e+", 0},   {"1ex3", 0},    {"1e5x", 0}, {"0x1p3", 0},
               {"inf", 0},     {"nan", 0},   {"1e999", 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       HEAD TABLES
                       "optimizer: {type: sgd, lr: %s}\nsteps: [forward, backward, update]\n",
                       all[i].text);
        if (all[i].value > 0) {
            ls_scenario *scenario = good(text);
            cr_expect_eq(scenario->optimizer.rule.lr, all[i].value, "%s", all[i].text);
            ls_scenario_free(scenario);
        } else {
            bad(text, strlen(text), 7, 28, "lr: ");
        }
    }
}
