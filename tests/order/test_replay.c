// Tests of the replay of NCCL's recorded results, including those of tests/data, and of damaged and
// hostile copies.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/replay/import.h"
#include "runner/scenario/numbers.h"

static char *in_source(const char *path) {
    static char full[1024];
    const char *source = getenv("LOCKSTEP_SOURCE");
    (void)snprintf(full, sizeof full, "%s/%s", source == NULL ? "." : source, path);
    return full;
}

static int import(ls_results *results, ls_text *summary, const char *dir) {
    const ls_run_options options = {.reproduce = "lockstep replay", .reproduce_of = dir};
    bool recording = true;
    int status = ls_import_dir(results, summary, &recording, dir, &options);
    cr_expect(!recording);
    return status;
}

static ls_results *replay(const char *dir, ls_text *summary) {
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "replay") == LS_OK);
    cr_assert(import(results, summary, dir) == LS_OK, "%s", ls_error_last()->text);
    return results;
}

static void expect_all_bit_exact(const char *dir, int at_least) {
    ls_text summary = {0};
    ls_results *results = replay(dir, &summary);
    cr_expect(results->case_count >= at_least && results->skipped == 0);
    for (int i = 0; i < results->case_count; i++) {
        const ls_case_result *c = &results->cases[i];
        cr_expect(c->class_ == LS_CLASS_BIT_EXACT && c->pass, "%s: %s", c->name,
                  ls_class_name(c->class_));
    }
    cr_expect(strstr(ls_text_string(&summary), "bit_exact") != NULL);
    cr_expect(strstr(ls_text_string(&summary), "wrong") == NULL);
    ls_text_free(&summary);
    ls_results_free(results);
}

// Results of four and three H200s, stored beside this test: rings, trees, every protocol, averages.
Test(replay, kept_results_are_bit_exact) {
    expect_all_bit_exact(in_source("tests/order/nccl_truth"), 30);
}

// f8, factors per rank, averages of three ranks and symmetric-memory kernels, as recorded on H200s.
Test(replay, f8_factors_and_symmetric_kernels_are_bit_exact) {
    expect_all_bit_exact(in_source("tests/order/nccl_more"), 38);
}

// Two hundred more results, of every combination.
Test(replay, more_measured_results_are_bit_exact) {
    expect_all_bit_exact(in_source("tests/data/nccl_truth"), 237);
}

// ---- Damaged copies -----------------------------------------------------------------------------
typedef struct copy {
    char dir[64];
    char manifest[128];
    char file[128];
} copy;

// A directory with one result, with the manifest given or that of the kept result, 2074 f32 of an
// average of three ranks under LL128.
#define KEPT "w3_all_reduce_f32_avg_2074_s21_Ring_LL128_1ch.bin"
static const char kept_entry[] =
    "[{\"file\": \"" KEPT "\", \"world\": 3, \"op\": \"all_reduce\", \"dtype\": \"f32\","
    "\"reduce\": \"avg\", \"count\": 2074, \"seed\": 21, \"env\": {}, \"nccl\": \"2.28.9\","
    "\"algo\": \"ring\", \"proto\": \"ll128\", \"channels\": 1, \"pinned_channels\": 1}]";

static copy make_copy(const char *manifest) {
    copy c;
    (void)snprintf(c.dir, sizeof c.dir, "/tmp/lockstep_replay_XXXXXX");
    cr_assert(mkdtemp(c.dir) != NULL);
    (void)snprintf(c.manifest, sizeof c.manifest, "%s/manifest.json", c.dir);
    (void)snprintf(c.file, sizeof c.file, "%s/" KEPT, c.dir);
    FILE *out = fopen(c.manifest, "w");
    cr_assert(out != NULL && fputs(manifest, out) >= 0 && fclose(out) == 0);
    FILE *in = fopen(in_source("tests/order/nccl_truth/" KEPT), "rb");
    out = fopen(c.file, "wb");
    cr_assert(in != NULL && out != NULL);
    char buffer[16384];
    size_t length = fread(buffer, 1, sizeof buffer, in);
    cr_assert(length == 2074 * 4 && fwrite(buffer, 1, length, out) == length);
    cr_assert(fclose(in) == 0 && fclose(out) == 0);
    return c;
}

static void remove_copy(const copy *c) {
    (void)unlink(c->manifest);
    (void)unlink(c->file);
    (void)rmdir(c->dir);
}

static void flip(const copy *c, size_t element, uint32_t mask) {
    FILE *file = fopen(c->file, "r+b");
    uint32_t bits = 0;
    cr_assert(file != NULL && fseek(file, (long)element * 4, SEEK_SET) == 0);
    cr_assert(fread(&bits, 4, 1, file) == 1 && fseek(file, (long)element * 4, SEEK_SET) == 0);
    bits ^= mask;
    cr_assert(fwrite(&bits, 4, 1, file) == 1 && fclose(file) == 0);
}

// One damaged element is wrong at that element, whether its top or its last bit differs.
Test(replay, a_damaged_element_is_wrong_at_that_element) {
    static const uint32_t masks[] = {0x80000000u, 0x40000000u, 0x00400000u, 0x00000001u,
                                     0x7f800000u};
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        copy c = make_copy(kept_entry);
        flip(&c, 1234 + m, masks[m]);
        ls_results *results = replay(c.dir, NULL);
        cr_assert(results->case_count == 1 && results->cases[0].stage_count == 1);
        const ls_stage_result *stage = &results->cases[0].stages[0];
        cr_expect(stage->class_ == LS_CLASS_WRONG && !results->cases[0].pass, "mask %x: %s",
                  masks[m], ls_class_name(stage->class_));
        char want[32];
        (void)snprintf(want, sizeof want, "rank 0, element %zu [", 1234 + m);
        cr_expect(stage->differing == 1);
        cr_assert(stage->divergence != NULL);
        cr_expect(strstr(stage->divergence, want) != NULL, "%s", stage->divergence);
        ls_results_free(results);
        remove_copy(&c);
    }
}

// A wrong protocol in the manifest is detected: the bits have another order, which is named.
Test(replay, another_protocol_is_named) {
    char manifest[sizeof kept_entry];
    memcpy(manifest, kept_entry, sizeof manifest);
    memcpy(strstr(manifest, "\"ll128\""), "\"ll\"   ", 7);
    copy c = make_copy(manifest);
    ls_results *results = replay(c.dir, NULL);
    const ls_stage_result *stage = &results->cases[0].stages[0];
    cr_expect(stage->class_ == LS_CLASS_REORDERED, "%s", ls_class_name(stage->class_));
    cr_expect(strstr(stage->order, "ll128") != NULL, "%s", stage->order);
    cr_expect(stage->differing > 0);
    ls_results_free(results);
    remove_copy(&c);
}

// Unsupported results are skipped with a reason, never passed.
Test(replay, unsupported_is_skipped) {
    static const char *const changes[][2] = {{"\"ring\"", "\"nvls\""},
                                             {"\"f32\"", "\"q32\""},
                                             {"\"2.28.9\"", "\"2.99.9\""},
                                             {"\"avg\"", "\"gcd\""}};
    for (size_t i = 0; i < 4; i++) {
        char manifest[sizeof kept_entry];
        memcpy(manifest, kept_entry, sizeof manifest);
        memcpy(strstr(manifest, changes[i][0]), changes[i][1], strlen(changes[i][1]));
        copy c = make_copy(manifest);
        ls_results *results = replay(c.dir, NULL);
        cr_expect(results->skipped == 1 && results->passed == 0, "%s", changes[i][1]);
        cr_expect(results->cases[0].skip_reason != NULL);
        ls_results_free(results);
        remove_copy(&c);
    }
}

// Missing, short and mismeasured files are errors; names cannot leave the folder.
Test(replay, hostile_entries_are_errors) {
    static const char *const changes[][2] = {{"2074", "2075"},     {"2074", "9e99"},
                                             {"2074", "  -1"},     {": 3,", ": 0,"},
                                             {"w3_all", "../all"}, {"w3_all", "w9_all"}};
    for (size_t i = 0; i < 6; i++) {
        char manifest[sizeof kept_entry];
        memcpy(manifest, kept_entry, sizeof manifest);
        char *at = strstr(manifest, changes[i][0]);
        if (i < 3) {
            at = strstr(manifest, "\"count\": ") + 9;
        }
        memcpy(at, changes[i][1], strlen(changes[i][1]));
        copy c = make_copy(manifest);
        ls_results *results = replay(c.dir, NULL);
        int unnamed = i >= 4;  // the file that is there, which the manifest no longer names
        cr_expect(results->case_count == 1 + unnamed && results->skipped == unnamed, "%s",
                  changes[i][1]);
        cr_expect(results->cases[0].class_ == LS_CLASS_ERROR, "%s", changes[i][1]);
        cr_expect(results->passed == 0 && results->failed == 1);
        ls_results_free(results);
        remove_copy(&c);
    }
    static const char *const manifests[] = {"", "{}", "[", "{\"a\": [}"};
    for (size_t i = 0; i < 4; i++) {
        copy c = make_copy(manifests[i]);
        ls_results *results = NULL;
        cr_assert(ls_results_create(&results, "replay") == LS_OK);
        cr_expect(import(results, NULL, c.dir) == LS_ERR_FORMAT, "%s", manifests[i]);
        cr_expect(results->case_count == 0);
        ls_results_free(results);
        remove_copy(&c);
    }
}

// A result outside of the folder is not read, although it exists and is correct; the error names
// the manifest and the entry.
Test(replay, results_outside_the_folder_are_not_read) {
    static const char *const names[] = {"../result.bin", "deeper/../../result.bin", ".result.bin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char manifest[sizeof kept_entry + 64];
        (void)snprintf(manifest, sizeof manifest, "[{\"file\": \"%s\"%s", names[i],
                       kept_entry + strlen("[{\"file\": \"" KEPT "\""));
        copy c = make_copy(manifest);
        char inner[96], line[256];
        (void)snprintf(inner, sizeof inner, "%s/in", c.dir);
        (void)snprintf(line, sizeof line,
                       "cd %s && mkdir -p in/deeper && mv manifest.json in && cp %s "
                       "result.bin && cp result.bin in/.result.bin",
                       c.dir, KEPT);
        cr_assert(system(line) == 0);
        ls_results *results = replay(inner, NULL);
        cr_assert(results->case_count == 1 && results->unusable == 1, "%s: %s", names[i],
                  ls_class_name(results->cases[0].class_));
        cr_expect(strstr(results->cases[0].error, "manifest.json': entry 0") != NULL, "%s",
                  results->cases[0].error);
        ls_results_free(results);
        (void)snprintf(line, sizeof line, "rm -r %s", c.dir);
        cr_assert(system(line) == 0);
    }
}

// One element in 32 of those by which orders can be distinguished (about 1,340 of 2074) may be
// damaged for the rest to prove the order, and no more: with 41 a damaged one within the bound is
// wrong; 42 leave it open.
Test(replay, few_may_be_damaged) {
    for (int damaged = 41; damaged <= 42; damaged++) {
        copy c = make_copy(kept_entry);
        for (int i = 0; i < damaged; i++) {
            flip(&c, (size_t)i * 49, 1);
        }
        ls_results *results = replay(c.dir, NULL);
        const ls_stage_result *stage = &results->cases[0].stages[0];
        cr_expect(stage->differing == (uint64_t)damaged && stage->bound_ratio <= 1, "%g",
                  stage->bound_ratio);
        cr_expect(stage->class_ == (damaged == 41 ? LS_CLASS_WRONG : LS_CLASS_WITHIN_BOUND),
                  "%d: %s", damaged, ls_class_name(stage->class_));
        ls_results_free(results);
        remove_copy(&c);
    }
}

// An unused key is reported as skipped; the result itself is replayed.
Test(replay, unknown_keys_are_told) {
    char manifest[sizeof kept_entry + 32];
    (void)snprintf(manifest, sizeof manifest, "[{\"split\": [1, 2], %s", kept_entry + 2);
    copy c = make_copy(manifest);
    ls_results *results = replay(c.dir, NULL);
    cr_assert(results->passed == 1 && results->skipped == 1);
    cr_expect_str_eq(results->cases[1].name, KEPT "/unknown");
    cr_expect(strstr(results->cases[1].skip_reason, "split") != NULL);
    ls_results_free(results);
    remove_copy(&c);
}

enum { WORLD = 4 };

// A directory with one f32 result [count] (all of the ranks' blocks for reduce_scatter) that was
// summed in `order_text`, under a manifest that says ring, LL and so many channels.
static copy make_result(const char *op, const char *order_text, size_t count, int channels) {
    bool scatter = op[0] == 'r';
    size_t elements = scatter ? count * WORLD : count;
    float *memory = calloc((WORLD + 1) * elements, sizeof *memory);
    cr_assert(memory != NULL);
    float *out = memory + WORLD * elements;
    for (int r = 0; r < WORLD; r++) {
        ls_numbers__splitmix(memory + (size_t)r * elements, LS_F32, 77, (uint32_t)r, 0, elements);
    }
    ls_order *order = NULL;
    cr_assert(ls_order_parse(&order, order_text) == LS_OK, "%s", ls_error_last()->text);
    for (int b = 0; b < (scatter ? WORLD : 1); b++) {
        const void *in[WORLD];
        for (int r = 0; r < WORLD; r++) {
            in[r] = memory + (size_t)r * elements + (size_t)b * count;
        }
        ls_reduction reduction = {in, WORLD, LS_F32, LS_SUM, NULL, count, NULL};
        float *to = out + (size_t)b * count;
        cr_assert(
            (scatter ? ls_order_reduce(order, LS_ORDER_REDUCE_SCATTER, to, &reduction, b, 0, count)
                     : ls_order_reduce(order, LS_ORDER_ALL_REDUCE, to, &reduction, 0, 0, count)) ==
            LS_OK);
    }
    ls_order_free(order);
    char manifest[512];
    (void)snprintf(manifest, sizeof manifest,
                   "[{\"file\": \"" KEPT "\", \"world\": 4, \"op\": \"%s\", \"dtype\": \"f32\","
                   "\"reduce\": \"sum\", \"count\": %zu, \"seed\": 77, \"nccl\": \"2.28.9\","
                   "\"algo\": \"ring\", \"proto\": \"ll\", \"channels\": %d}]",
                   op, count, channels);
    copy c = make_copy(manifest);
    FILE *file = fopen(c.file, "wb");
    cr_assert(file != NULL && fwrite(out, sizeof *out, elements, file) == elements);
    cr_assert(fclose(file) == 0);
    free(memory);
    return c;
}

// A stored result with one changed hop, chunk boundary or channel count: the replay names the
// change, and its order gives the bits.
Test(replay, a_changed_order_is_named) {
    static const char *const cases[][3] = {
        {"all_reduce", "ring:proto=ll,allowed=4", "another number of channels"},
        {"all_reduce", "ring:proto=ll,at=1000..2000:1(3(0(2)))",
         "one hop: channel 0, loop 0, chunk 1"},
        {"all_reduce", "ring:proto=ll,at=2900..3000:3(2(1(0)))",
         "one chunk boundary: channel 0, loop 0"},
        {"reduce_scatter", "ring:proto=ll,at=3@0..4000:3(0(2(1)))", "one hop: block 3"},
    };
    for (size_t i = 0; i < 4; i++) {
        copy c = make_result(cases[i][0], cases[i][1], 4000, cases[i][0][0] == 'r' ? 3 : 1);
        ls_results *results = replay(c.dir, NULL);
        const ls_stage_result *stage = &results->cases[0].stages[0];
        cr_assert(results->cases[0].stage_count == 1);
        cr_expect(stage->class_ == LS_CLASS_REORDERED, "%s: %s", cases[i][1],
                  ls_class_name(stage->class_));
        cr_expect(stage->divergence != NULL && strstr(stage->divergence, cases[i][2]) != NULL,
                  "%s: %s", cases[i][1], stage->divergence);
        ls_results_free(results);
        remove_copy(&c);
    }
}

static int last_channel(void *arg, const ls_order_run *run) {
    int *channels = arg;
    *channels = run->channel + 1 > *channels ? run->channel + 1 : *channels;
    return LS_OK;
}

// A log contains the number of channels that a call used, not the tuner's limit: for any limit, the
// result has the recorded order.
Test(replay, whatever_the_tuner_allowed_is_bit_exact) {
    const size_t count = 30198;
    for (int allowed = 1; allowed <= 24; allowed++) {
        int channels = 0;
        char text[64];
        (void)snprintf(text, sizeof text, "ring:proto=ll,allowed=%d", allowed);
        ls_order *order = NULL;
        cr_assert(ls_order_parse(&order, text) == LS_OK);
        const ls_order_range range = {LS_ORDER_ALL_REDUCE, WORLD, LS_F32, count, 0, 0, count};
        cr_assert(ls_order_runs(order, &range, last_channel, &channels) == LS_OK);
        ls_order_free(order);
        copy c = make_result("all_reduce", text, count, channels);
        ls_results *results = replay(c.dir, NULL);
        const ls_stage_result *stage = &results->cases[0].stages[0];
        cr_expect(stage->class_ == LS_CLASS_BIT_EXACT && stage->differing == 0, "%s of %zu: %s, %s",
                  text, count, ls_class_name(stage->class_), stage->order);
        ls_results_free(results);
        remove_copy(&c);
    }
}
