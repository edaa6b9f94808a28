// Tests of torch's results whose files or arguments have other types and shapes than torch's.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"
#include "tests/scenarios/runner/torch_dir.h"

// An argument of another type than torch's is invalid: the result is skipped for it.
Test(replay_torch_told, mistyped_arguments_are_skipped) {
    static const struct {
        const char *kind, *args, *key;
    } all[] = {{"embedding_bag", "\"padding_idx\": \"abc\"", "padding_idx"},
               {"embedding_bag", "\"padding_idx\": 1e300", "padding_idx"},
               {"embedding_bag", "\"padding_idx\": true", "padding_idx"},
               {"embedding_bag", "\"include_last_offset\": \"no\"", "include_last_offset"},
               {"embedding_bag", "\"scale_grad_by_freq\": 1", "scale_grad_by_freq"},
               {"embedding_bag", "\"sparse\": 1", "sparse"},
               {"embedding_bag", "\"norm_type\": \"2\"", "norm_type"},
               {"optimizer", "\"name\": \"sgd\", \"lr\": \"1\"", "lr"},
               {"optimizer", "\"name\": \"sgd\", \"momentum\": true", "momentum"},
               {"optimizer", "\"name\": \"adam\", \"betas\": [0.9]", "betas"},
               {"optimizer", "\"name\": \"adam\", \"betas\": [0.9, \"b\"]", "betas"}};
    char text[512], *dir = make_dir();
    int status;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(text, sizeof text,
                 "{\"torch\": \"2\", \"cases\": [{\"file\": \"bag.safetensors\", \"kind\": "
                 "\"%s\", \"args\": {\"mode\": \"sum\", %s}}]}",
                 all[i].kind, all[i].args);
        write_text(dir, "manifest.json", text);
        ls_results *results = replay(dir, &status);
        cr_assert(status == LS_OK && results->skipped == 1 && results->case_count == 1, "%s",
                  all[i].args);
        cr_expect(strstr(results->cases[0].skip_reason, all[i].key), "%s: %s", all[i].args,
                  results->cases[0].skip_reason);
        ls_results_free(results);
    }
    remove_dir(dir);
}

// As many elements in another shape are another result.
Test(replay_torch_told, other_shapes_are_errors) {
    static const float weight[] = {1, 2, 10, 20, 100, 200}, zeros[6] = {0};
    static const float output[] = {1, 2, 100, 200, 10, 20};
    static const int64_t ids[] = {0, 2, 1};
    char path[128], *dir = make_dir();
    int status;
    snprintf(path, sizeof path, "%s/bag.safetensors", dir);
    write_text(dir, "manifest.json",
               "{\"torch\": \"2\", \"cases\": [{\"file\": \"bag.safetensors\", \"kind\": "
               "\"embedding\", \"args\": {}}]}");
    static const char *const names[] = {"", "output", "grad_output", "weight_after", "grad_weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ls_safetensor_source tensors[] = {{"weight", LS_F32, 2, {3, 2}, weight},
                                          {"ids", LS_I64, 2, {3, 1}, ids},
                                          {"output", LS_F32, 3, {3, 1, 2}, output},
                                          {"grad_output", LS_F32, 3, {3, 1, 2}, zeros},
                                          {"weight_after", LS_F32, 2, {3, 2}, weight},
                                          {"grad_weight", LS_F32, 2, {3, 2}, zeros}};
        for (size_t k = 0; k < 6; k++) {
            if (strcmp(tensors[k].name, names[i]) == 0) {
                tensors[k].dim[0] = 2;
                tensors[k].dim[tensors[k].ndim - 1] = 3;
            }
        }
        cr_assert(ls_safetensors_write(path, tensors, 6, NULL, 0) == LS_OK);
        ls_results *results = replay(dir, &status);
        const ls_case_result *result = &results->cases[0];
        cr_assert(status == LS_OK && result->pass == (i == 0), "%s: %s", names[i], result->error);
        cr_expect(i == 0 || (result->unusable && strstr(result->error, names[i]) != NULL &&
                             strstr(result->error, "has shape [2, ") != NULL),
                  "%s: %s", names[i], result->error);
        ls_results_free(results);
    }
    remove_dir(dir);
}
