// Tests of replaying torch's results, on directories made here: right, wrong and hostile.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "runner/replay/import.h"

static ls_results *replay(const char *dir, int *status) {
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "replay") == LS_OK);
    const ls_run_options options = {.reproduce = "lockstep replay", .reproduce_of = dir};
    bool recording = true;
    *status = ls_import_dir(results, NULL, &recording, dir, &options);
    cr_expect(!recording);
    return results;
}

static char *make_dir(void) {
    static char dir[64];
    snprintf(dir, sizeof dir, "/tmp/lockstep_torch_XXXXXX");
    cr_assert(mkdtemp(dir));
    return dir;
}

static void write_text(const char *dir, const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void remove_dir(const char *dir) {
    static const char *const names[] = {"manifest.json", "bag.safetensors", "dtensor_x.json"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

// An embedding_bag of two bags over a table of three rows: ids 0 2 | 1; and `more` [more_count].
static void write_bag_with(const char *dir, float first_output, int64_t last_id,
                           const ls_safetensor_source *more, size_t more_count) {
    static const float weight[] = {1, 2, 10, 20, 100, 200};
    const float output[] = {first_output, 202, 10, 20};
    const int64_t ids[] = {0, 2, last_id}, offsets[] = {0, 2};
    ls_safetensor_source tensors[8] = {{"weight", LS_F32, 2, {3, 2}, weight},
                                       {"output", LS_F32, 2, {2, 2}, output},
                                       {"ids", LS_I64, 1, {3}, ids},
                                       {"offsets", LS_I64, 1, {2}, offsets}};
    for (size_t i = 0; i < more_count; i++) {
        tensors[4 + i] = more[i];
    }
    char path[128];
    snprintf(path, sizeof path, "%s/bag.safetensors", dir);
    cr_assert(ls_safetensors_write(path, tensors, 4 + more_count, NULL, 0) == LS_OK, "%s",
              ls_error_last()->text);
}

static void write_bag(const char *dir, float first_output, int64_t last_id) {
    write_bag_with(dir, first_output, last_id, NULL, 0);
}

static const char *const bag_manifest =
    "{\"torch\": \"2\", \"cases\": [{\"file\": \"bag.safetensors\", \"kind\": \"embedding_bag\","
    " \"args\": {\"mode\": \"sum\", \"padding_idx\": null, \"include_last_offset\": false}}]}";

// A right result passes under every sharding type on every world; stages tell which.
Test(replay_torch, a_right_result_passes) {
    char *dir = make_dir();
    int status;
    write_text(dir, "manifest.json", bag_manifest);
    write_bag(dir, 101, 1);
    ls_results *results = replay(dir, &status);
    cr_assert(status == LS_OK && results->passed == 1 && results->case_count == 1);
    cr_expect(results->cases[0].stage_count == 3 * 7);
    cr_expect(results->cases[0].class_ == LS_CLASS_BIT_EXACT);
    cr_expect_str_eq(results->cases[0].stages[0].name, "data_parallel on 1 rank");
    cr_expect(results->cases[0].stages[20].elements == 4);
    ls_results_free(results);
    remove_dir(dir);
}

// One that is off by one ulp, where rounding explains half of one, is wrong, with the place.
Test(replay_torch, a_wrong_result_is_found) {
    char *dir = make_dir();
    int status;
    write_text(dir, "manifest.json", bag_manifest);
    write_bag(dir, 101.00001f, 1);  // the next float
    ls_results *results = replay(dir, &status);
    cr_assert(status == LS_OK && results->failed == 1 && results->passed == 0);
    cr_expect(results->cases[0].class_ == LS_CLASS_WRONG);
    for (int s = 0; s < results->cases[0].stage_count; s++) {
        const ls_stage_result *stage = &results->cases[0].stages[s];
        cr_expect(stage->class_ == LS_CLASS_WRONG && stage->differing == 1);
        cr_expect(strstr(stage->divergence, "rank 0, element 0 [0, 0]"), "%s", stage->divergence);
    }
    ls_results_free(results);
    remove_dir(dir);
}

// Malformed entries are error cases with a reason; the others still run.
Test(replay_torch, malformed_entries_are_errors) {
    static const char *const manifests[] = {
        "{\"torch\": \"2\", \"cases\": [{\"file\": \"../bag.safetensors\", \"kind\": "
        "\"embedding_bag\", \"args\": {}}]}",
        "{\"torch\": \"2\", \"cases\": [{\"file\": \"none.safetensors\", \"kind\": \"embedding\","
        " \"args\": {}}]}",
        "{\"torch\": \"2\", \"cases\": [7]}",
    };
    char *dir = make_dir();
    int status;
    for (size_t i = 0; i < sizeof manifests / sizeof *manifests; i++) {
        write_text(dir, "manifest.json", manifests[i]);
        ls_results *results = replay(dir, &status);
        cr_assert(status == LS_OK && results->failed == 1, "%zu", i);
        cr_expect(results->cases[0].class_ == LS_CLASS_ERROR && results->cases[0].error);
        ls_results_free(results);
    }
    // An id outside the table.
    write_text(dir, "manifest.json", bag_manifest);
    write_bag(dir, 101, 3);
    ls_results *results = replay(dir, &status);
    cr_assert(status == LS_OK && results->failed == 1);
    cr_assert(results->cases[0].finding_count == 1);
    cr_expect(strstr(results->cases[0].findings[0].text, "id 3 is not among the table"), "%s",
              results->cases[0].findings[0].text);
    ls_results_free(results);
    write_text(dir, "manifest.json", "{\"cases\": 3");
    results = replay(dir, &status);
    cr_expect(status == LS_ERR_FORMAT && results->case_count == 0);
    ls_results_free(results);
    remove_dir(dir);
}

// Gradients are in torch's files and nothing here replays them: a skipped case says so by name. So
// does one for tensors, arguments and keys that nobody knows.
Test(replay_torch, what_is_not_replayed_is_told) {
    static const float numbers[6] = {0};
    const ls_safetensor_source more[] = {{"grad_weight", LS_F32, 2, {3, 2}, numbers},
                                         {"grad_output", LS_F32, 2, {2, 2}, numbers},
                                         {"moments", LS_F32, 1, {6}, numbers}};
    char *dir = make_dir();
    int status;
    write_text(dir, "manifest.json",
               "{\"torch\": \"2\", \"device\": \"x\", \"cases\": [{\"file\": "
               "\"bag.safetensors\", \"kind\": \"embedding_bag\", \"rounds\": 2, \"args\": "
               "{\"mode\": \"sum\", \"freeze\": true}}]}");
    write_bag_with(dir, 101, 1, more, 3);
    ls_results *results = replay(dir, &status);
    cr_assert(status == LS_OK && results->passed == 1 && results->skipped == 3);
    cr_expect_str_eq(results->cases[1].name, "bag.safetensors/gradients");
    cr_expect(strstr(results->cases[1].skip_reason, "grad_weight, grad_output") != NULL, "%s",
              results->cases[1].skip_reason);
    cr_expect_str_eq(results->cases[2].name, "bag.safetensors/unknown");
    cr_expect(strstr(results->cases[2].skip_reason, "rounds, freeze, moments") != NULL, "%s",
              results->cases[2].skip_reason);
    cr_expect(strstr(results->cases[3].skip_reason, "device") != NULL);
    ls_results_free(results);
    remove_dir(dir);
}

// A lookup leaves the weights alone, and lengths tell the bags that offsets tell.
Test(replay_torch, weights_after_and_lengths_are_read) {
    static const float same[] = {1, 2, 10, 20, 100, 200}, other[] = {1, 2, 10, 20, 100, 201};
    static const int64_t right[] = {2, 1}, wrong[] = {1, 2};
    char *dir = make_dir();
    int status;
    write_text(dir, "manifest.json", bag_manifest);
    for (int i = 0; i < 3; i++) {
        const ls_safetensor_source more[] = {
            {"weight_after", LS_F32, 2, {3, 2}, i == 1 ? other : same},
            {"lengths", LS_I64, 1, {2}, i == 2 ? wrong : right}};
        write_bag_with(dir, 101, 1, more, 2);
        ls_results *results = replay(dir, &status);
        const ls_case_result *result = &results->cases[0];
        cr_assert(status == LS_OK && results->case_count == 1);
        cr_expect(result->pass == (i == 0));
        cr_expect(i != 1 || (result->class_ == LS_CLASS_WRONG &&
                             strstr(result->stages[21].divergence, "[2, 1]") != NULL));
        cr_expect(i != 2 || (result->unusable && strstr(result->error, "bag.safetensors")));
        ls_results_free(results);
    }
    remove_dir(dir);
}

// What is not supported is skipped with a reason, and counts as neither passed nor failed.
Test(replay_torch, unsupported_kinds_are_skipped) {
    char *dir = make_dir();
    int status;
    write_text(
        dir, "manifest.json",
        "{\"torch\": \"2\", \"cases\": [{\"file\": \"a\", \"kind\": \"optimizer\", \"args\": "
        "{}}, {\"file\": \"b\", \"kind\": \"embedding\", \"args\": {\"max_norm\": 1.0}}]}");
    ls_results *results = replay(dir, &status);
    cr_assert(status == LS_OK && results->skipped == 2 && results->passed == 0);
    cr_expect(strstr(results->cases[1].skip_reason, "max_norm"));
    cr_expect(!ls_results_pass(results));
    ls_results_free(results);
    remove_dir(dir);
}

// A shard with another shape, and one with another value.
Test(replay_torch, wrong_shards_are_found) {
    static const char *const lists[] = {
        "[{\"mesh\": [2], \"size\": [3], \"placements\": [\"S(0)\"], \"local\": {\"0\": [[2], [0, "
        "1]], \"1\": [[1], [2]]}}]",
        "[{\"mesh\": [2], \"size\": [3], \"placements\": [\"S(0)\"], \"local\": {\"0\": [[1], "
        "[0]], \"1\": [[2], [1, 2]]}}]",
        "[{\"mesh\": [2], \"size\": [3], \"placements\": [\"S(0)\"], \"local\": {\"0\": [[2], [0, "
        "9]], \"1\": [[1], [2]]}}]",
        "[{\"mesh\": [2], \"size\": [3], \"placements\": [\"S(0)\"], \"local\": {\"0\": [[2], "
        "[0]], \"1\": [[1], [2]]}}]",
        "[{\"mesh\": [0], \"size\": [3], \"placements\": [\"S(0)\"], \"local\": {}}]",
        "[{\"mesh\": [2], \"size\": [3], \"placements\": [\"S(0)\"], \"full_ok\": false, "
        "\"local\": {\"0\": [[2], [0, 1]], \"1\": [[1], [2]]}}]",
        "[{\"mesh\": [2], \"size\": [3], \"placements\": [\"S(0)\"], \"world\": 3, "
        "\"local\": {\"0\": [[2], [0, 1]], \"1\": [[1], [2]]}}]",
        "[{\"mesh\": [2], \"size\": [3], \"placements\": [\"S(0)\"], "
        "\"local\": {\"0\": [[2], [0, 1], [9]], \"1\": [[1], [2]]}}]",
    };
    static const ls_class want[] = {LS_CLASS_BIT_EXACT, LS_CLASS_WRONG, LS_CLASS_WRONG,
                                    LS_CLASS_ERROR,     LS_CLASS_ERROR, LS_CLASS_WRONG,
                                    LS_CLASS_ERROR,     LS_CLASS_ERROR};
    char *dir = make_dir();
    int status;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        write_text(dir, "dtensor_x.json", lists[i]);
        ls_results *results = replay(dir, &status);
        cr_assert(status == LS_OK && results->case_count == 1);
        cr_expect(results->cases[0].class_ == want[i], "%zu: %s", i,
                  ls_class_name(results->cases[0].class_));
        ls_results_free(results);
    }
    remove_dir(dir);
}
