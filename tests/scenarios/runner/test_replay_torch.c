// Tests of replaying torch's results, on generated directories: correct, wrong and hostile.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"
#include "tests/scenarios/runner/torch_dir.h"

// An embedding_bag of two bags over a table of three rows: ids 0 2 | 1; and `more` [more_count].
static void write_bag_out(const char *dir, const float output[4], int64_t last_id,
                          const ls_safetensor_source *more, size_t more_count) {
    static const float weight[] = {1, 2, 10, 20, 100, 200};
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

static void write_bag_with(const char *dir, float first_output, int64_t last_id,
                           const ls_safetensor_source *more, size_t more_count) {
    const float output[] = {first_output, 202, 10, 20};
    write_bag_out(dir, output, last_id, more, more_count);
}

static void write_bag(const char *dir, float first_output, int64_t last_id) {
    write_bag_with(dir, first_output, last_id, NULL, 0);
}

static const char *const bag_manifest =
    "{\"torch\": \"2\", \"cases\": [{\"file\": \"bag.safetensors\", \"kind\": \"embedding_bag\","
    " \"args\": {\"mode\": \"sum\", \"padding_idx\": null, \"include_last_offset\": false}}]}";

// A correct result passes under every sharding type on every world, which the stages name.
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

// A result that is off by one ulp, where rounding explains half of one, is wrong, with its place.
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

// An unknown tensor, argument or key is a skipped case that names it; so are gradients by a rule
// that is not replayed.
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
               "{\"mode\": \"sum\", \"freeze\": true, \"scale_grad_by_freq\": true}}]}");
    write_bag_with(dir, 101, 1, more, 3);
    ls_results *results = replay(dir, &status);
    cr_assert(status == LS_OK && results->passed == 1 && results->skipped == 3);
    cr_expect_str_eq(results->cases[1].name, "bag.safetensors/gradients");
    cr_expect(strstr(results->cases[1].skip_reason, "grad_weight, scaled") != NULL, "%s",
              results->cases[1].skip_reason);
    cr_expect_str_eq(results->cases[2].name, "bag.safetensors/unknown");
    cr_expect(strstr(results->cases[2].skip_reason, "rounds, freeze, moments") != NULL, "%s",
              results->cases[2].skip_reason);
    cr_expect(strstr(results->cases[3].skip_reason, "device") != NULL);
    ls_results_free(results);
    remove_dir(dir);
}

// Gradients of a backward pass, of the weights and of the ids' weights: correct ones, one that is
// off by an ulp, one where no id was looked up, and one of an id's weight.
Test(replay_torch, gradients_are_judged) {
    static const float per_id[] = {2, 0.5f, 3}, grad_output[] = {1, -1, 4, 8};
    static const float output[] = {52, 104, 30, 60};
    float by_id[] = {-1, -100, 200};
    char *dir = make_dir();
    int status;
    write_text(dir, "manifest.json", bag_manifest);
    for (int i = 0; i < 4; i++) {
        // Row 1 alone is of id 1; row 0 and 2 of ids 0 and 2.
        float by_row[] = {2, -2, 12, 24, 0.5f, i == 1 ? -0.50000006f : -0.5f};
        by_row[2] = i == 2 ? 12.5f : 12;
        by_id[2] = i == 3 ? 200.25f : 200;
        const ls_safetensor_source more[] = {{"per_sample_weights", LS_F32, 1, {3}, per_id},
                                             {"grad_output", LS_F32, 2, {2, 2}, grad_output},
                                             {"grad_weight", LS_F32, 2, {3, 2}, by_row},
                                             {"grad_per_sample_weights", LS_F32, 1, {3}, by_id}};
        write_bag_out(dir, output, 1, more, 4);
        ls_results *results = replay(dir, &status);
        const ls_case_result *result = &results->cases[0];
        cr_assert(status == LS_OK && results->case_count == 1 && result->stage_count == 21 + 2,
                  "%s", result->error);
        cr_expect_str_eq(result->stages[21].name, "gradients, input_dist_backward");
        cr_expect_str_eq(result->stages[22].name, "gradients, all_reduce");
        cr_expect(result->stages[21].elements == 3 && result->stages[22].elements == 6);
        cr_expect(result->pass == (i == 0), "%d", i);
        cr_expect((result->stages[21].class_ == LS_CLASS_WRONG) == (i == 3), "%d", i);
        cr_expect((result->stages[22].class_ == LS_CLASS_WRONG) == (i == 1 || i == 2), "%d", i);
        ls_results_free(results);
    }
    remove_dir(dir);
}

// The gradient of a maximum goes to one row, the first of equal ones; that of a mean is divided
// once, possibly by a rounded 1/n.
Test(replay_torch, gradients_of_max_and_mean_are_judged) {
    static const float grad_output[] = {1}, third = 1.0f / 3;
    static const int64_t ids[] = {0, 2, 1}, offsets[] = {0};
    char path[128], *dir = make_dir();
    int status;
    snprintf(path, sizeof path, "%s/bag.safetensors", dir);
    for (int i = 0; i < 6; i++) {
        // 0: right; 1: to another row; 2: of equal rows to the first; 3: to the second; 4: a mean;
        // 5: a mean that is divided once more
        static const float rows[][3] = {{5, 7, 5}, {5, 7, 5}, {7, 5, 7},
                                        {7, 5, 7}, {3, 3, 3}, {3, 3, 3}};
        float largest[] = {i < 4 ? 7.0f : 3.0f};
        float gradient[3] = {0};
        if (i < 4) {
            gradient[(int[]){1, 0, 0, 2}[i]] = 1;
        } else {
            gradient[0] = gradient[1] = gradient[2] = i == 4 ? third : third / 3;
        }
        const ls_safetensor_source tensors[] = {{"weight", LS_F32, 2, {3, 1}, rows[i]},
                                                {"output", LS_F32, 2, {1, 1}, largest},
                                                {"ids", LS_I64, 1, {3}, ids},
                                                {"offsets", LS_I64, 1, {1}, offsets},
                                                {"grad_output", LS_F32, 2, {1, 1}, grad_output},
                                                {"grad_weight", LS_F32, 2, {3, 1}, gradient}};
        char text[512];
        snprintf(text, sizeof text,
                 "{\"torch\": \"2\", \"cases\": [{\"file\": \"bag.safetensors\", \"kind\": "
                 "\"embedding_bag\", \"args\": {\"mode\": \"%s\"}}]}",
                 i < 4 ? "max" : "mean");
        write_text(dir, "manifest.json", text);
        cr_assert(ls_safetensors_write(path, tensors, 6, NULL, 0) == LS_OK);
        ls_results *results = replay(dir, &status);
        const ls_case_result *result = &results->cases[0];
        cr_assert(status == LS_OK && result->stage_count == 21 + 1, "%d: %s", i, result->error);
        cr_expect(result->pass == (i % 2 == 0), "%d: %s", i, result->stages[21].divergence);
        cr_expect((result->stages[21].class_ == LS_CLASS_WRONG) == (i % 2 == 1), "%d", i);
        ls_results_free(results);
    }
    remove_dir(dir);
}

// max_norm scales the looked-up rows first: 3-4-5 becomes 1.2-1.6, and torch's epsilon is within
// the bound. A row that is not looked up, or that is short, stays.
Test(replay_torch, renormalised_weights_are_judged) {
    static const float output[] = {1.2f, 1.6f};
    static const int64_t ids[] = {0, 1};
    char path[128], *dir = make_dir();
    int status;
    write_text(dir, "manifest.json",
               "{\"torch\": \"2\", \"cases\": [{\"file\": \"bag.safetensors\", \"kind\": "
               "\"embedding\", \"args\": {\"max_norm\": 2.0}}]}");
    snprintf(path, sizeof path, "%s/bag.safetensors", dir);
    for (int i = 0; i < 5; i++) {
        const float before[] = {3, 4, 0.5f, 0.25f, 30, 40};
        float after[] = {1.2f, 1.6f, 0.5f, 0.25f, 30, 40};
        after[0] = i == 1 ? 1.20001f : after[0];
        after[3] = i == 2 ? 0.25000003f : after[3];
        after[5] = i == 3 ? 1.6f : after[5];
        const float looked_up[] = {i == 4 ? 3 : after[0], output[1], after[2], after[3]};
        const ls_safetensor_source tensors[] = {{"weight", LS_F32, 2, {3, 2}, before},
                                                {"weight_after", LS_F32, 2, {3, 2}, after},
                                                {"output", LS_F32, 2, {2, 2}, looked_up},
                                                {"ids", LS_I64, 1, {2}, ids}};
        cr_assert(ls_safetensors_write(path, tensors, 4, NULL, 0) == LS_OK);
        ls_results *results = replay(dir, &status);
        const ls_case_result *result = &results->cases[0];
        cr_assert(status == LS_OK && result->stage_count == 21 + 1, "%s", result->error);
        cr_expect_str_eq(result->stages[21].name, "weight_after");
        cr_expect(result->pass == (i == 0), "%d", i);
        cr_expect((result->stages[21].class_ == LS_CLASS_WRONG) == (i > 0 && i < 4), "%d", i);
        cr_expect((result->stages[0].class_ == LS_CLASS_WRONG) == (i == 4), "%d", i);
        ls_results_free(results);
    }
    remove_dir(dir);
}

// Steps of SGD with momentum: correct ones; a step without the momentum; an unknown parameter; a
// kind that torch.optim lacks.
Test(replay_torch, optimizer_steps_are_judged) {
    static const float weight[] = {1, 2}, gradient[] = {0.5f, -0.25f};
    static const float first[] = {0.5f, 2.25f}, second[] = {-0.25f, 2.625f};
    static const float forgot[] = {0, 2.5f};
    static const char *const manifest =
        "{\"torch\": \"2\", \"cases\": [{\"file\": \"bag.safetensors\", \"kind\": "
        "\"optimizer\", \"args\": {\"name\": \"%s\", \"lr\": 1.0, \"momentum\": 0.5%s}}]}";
    char text[512], path[128], *dir = make_dir();
    int status;
    snprintf(path, sizeof path, "%s/bag.safetensors", dir);
    for (int i = 0; i < 4; i++) {
        const ls_safetensor_source tensors[] = {
            {"weight", LS_F32, 1, {2}, weight},
            {"grad_0", LS_F32, 1, {2}, gradient},
            {"weight_0", LS_F32, 1, {2}, first},
            {"grad_1", LS_F32, 1, {2}, gradient},
            {"weight_1", LS_F32, 1, {2}, i == 1 ? forgot : second}};
        cr_assert(ls_safetensors_write(path, tensors, 5, NULL, 0) == LS_OK);
        snprintf(text, sizeof text, manifest, i == 3 ? "lamb" : "sgd",
                 i == 2 ? ", \"nesterov\": true" : "");
        write_text(dir, "manifest.json", text);
        ls_results *results = replay(dir, &status);
        const ls_case_result *result = &results->cases[0];
        cr_assert(status == LS_OK && result->pass == (i == 0 || i == 2), "%d: %s", i,
                  result->error);
        cr_expect(i != 0 || (result->stage_count == 2 && results->case_count == 1));
        cr_expect(i != 1 || (result->stages[0].class_ == LS_CLASS_BIT_EXACT &&
                             result->stages[1].class_ == LS_CLASS_WRONG));
        cr_expect(i != 2 || (results->skipped == 1 &&
                             strstr(results->cases[1].skip_reason, "nesterov") != NULL));
        cr_expect(i != 3 || strstr(result->error, "torch.optim has no lamb") != NULL, "%s",
                  result->error);
        ls_results_free(results);
    }
    remove_dir(dir);
}

// A lookup does not change the weights, and lengths give the same bags as offsets.
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

// Unsupported results are skipped with a reason, and count as neither passed nor failed.
Test(replay_torch, unsupported_kinds_are_skipped) {
    char *dir = make_dir();
    int status;
    write_text(dir, "manifest.json",
               "{\"torch\": \"2\", \"cases\": [{\"file\": \"a\", \"kind\": \"unheard_of\", "
               "\"args\": {}}, {\"file\": \"b\", \"kind\": \"embedding\", \"args\": {\"max_norm\": "
               "0.0}}]}");
    ls_results *results = replay(dir, &status);
    cr_assert(status == LS_OK && results->skipped == 2 && results->passed == 0);
    cr_expect(strstr(results->cases[1].skip_reason, "max_norm"));
    cr_expect(!ls_results_pass(results));
    ls_results_free(results);
    remove_dir(dir);
}

// One row in torch's packed form: 8 bits with an f32 scale, 4 bits with one of f16.
static void write_quantised(const char *dir, size_t more, int wrong_byte, int wrong_float) {
    static const float weight[4] = {-1, 0, 0.5f, 2};
    unsigned char rows_8[12] = {0, 85, 128, 255, 0xC1, 0xC0, 0x40, 0x3C, 0, 0, 0x80, 0xBF};
    unsigned char rows_4[6] = {0x50, 0xF8, 0x66, 0x32, 0, 0xBC};
    static const float scale = 3.0f / 255;
    float floats[4] = {-1, fmaf(85, scale, -1), fmaf(128, scale, -1), fmaf(255, scale, -1)};
    rows_4[1] = (unsigned char)(rows_4[1] + (wrong_byte ? 1 : 0));
    floats[3] = wrong_float ? nextafterf(floats[3], 9) : floats[3];
    const ls_safetensor_source tensors[] = {{"weight", LS_F32, 2, {1, 4}, weight},
                                            {"rows_8bit", LS_U8, 2, {1, 12}, rows_8},
                                            {"rows_4bit", LS_U8, 2, {1, 6}, rows_4},
                                            {"dequantized_8bit", LS_F32, 2, {1, 4}, floats}};
    char path[128];
    snprintf(path, sizeof path, "%s/bag.safetensors", dir);
    cr_assert(ls_safetensors_write(path, tensors, 1 + more, NULL, 0) == LS_OK, "%s",
              ls_error_last()->text);
}

// Quantised rows pass where every byte and every value is torch's; one off fails, and is reported.
Test(replay_torch, quantised_rows) {
    char *dir = make_dir();
    write_text(dir, "manifest.json",
               "{\"torch\": \"2\", \"cases\": [{\"file\": \"bag.safetensors\", \"kind\": "
               "\"quantized_rows\", \"args\": {}, \"torch_op\": \"prepack\"}]}");
    for (int i = 0; i < 4; i++) {
        int status;
        write_quantised(dir, i == 3 ? 0 : 3, i == 1, i == 2);
        ls_results *results = replay(dir, &status);
        const ls_case_result *result = &results->cases[0];
        cr_assert(status == LS_OK && results->case_count == 1);
        cr_expect(result->pass == (i == 0) && !result->skipped, "case %d", i);
        cr_expect(i != 0 || (result->stage_count == 3 && result->class_ == LS_CLASS_BIT_EXACT));
        cr_expect(i != 1 || strstr(result->stages[2].divergence, "row 0, byte 1 of 6: torch 249"));
        cr_expect(i != 2 || strstr(result->stages[1].divergence, "row 0, column 3: torch 2"));
        cr_expect(i != 3 || (result->unusable && strstr(result->error, "no quantised rows")));
        ls_results_free(results);
    }
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
        "[{\"mesh\": [2], \"size\": [3], \"placements\": [\"S(0)\"], \"full_ok\": \"no\", "
        "\"local\": {\"0\": [[2], [0, 1]], \"1\": [[1], [2]]}}]",
    };
    static const ls_class want[] = {LS_CLASS_BIT_EXACT, LS_CLASS_WRONG, LS_CLASS_WRONG,
                                    LS_CLASS_ERROR,     LS_CLASS_ERROR, LS_CLASS_WRONG,
                                    LS_CLASS_ERROR,     LS_CLASS_ERROR, LS_CLASS_ERROR};
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
