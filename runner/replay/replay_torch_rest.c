// What torch's files of a lookup hold beside its output: the weights after it, and what nothing
// here replays.
#include <string.h>

#include "runner/replay/replay_torch_internal.h"
#include "formats/safetensors.h"

int ls_torch__tensor(void **out, size_t *count, const ls_safetensors *file, const char *name,
                     ls_dtype dtype, bool optional) {
    *out = NULL;
    *count = 0;
    const ls_safetensor *tensor = ls_safetensors_find(file, name);
    if (!tensor && optional) {
        return LS_OK;
    }
    if (!tensor || tensor->dtype != (int)dtype) {
        return LS_FAIL(LS_ERR_FORMAT, "tensor %s %s", name,
                       tensor ? "has the wrong dtype" : "is missing");
    }
    LS_TRY(ls_alloc(out, NULL, tensor->count, ls_dtype_bytes(dtype)));
    *count = tensor->count;
    int status = ls_safetensors_read(*out, tensor->bytes, file, tensor);
    if (status) {
        ls_free(NULL, *out, *count, ls_dtype_bytes(dtype));
        *out = NULL;
    }
    return status;
}

// What of the file and its arguments nothing here reads. Other arguments than these may change the
// output; these two only change gradients.
void ls_torch__rest(ls_torch_rest *rest, const ls_safetensors *file, bool bag, const json_t *args) {
    static const char *const bag_args[] = {
        "padding_idx",        "max_norm", "norm_type",           "sparse",
        "scale_grad_by_freq", "mode",     "include_last_offset", NULL};
    static const char *const args_alone[] = {"padding_idx", "max_norm",           "norm_type",
                                             "sparse",      "scale_grad_by_freq", NULL};
    static const char *const tensors[] = {"weight", "output", "ids", "weight_after"};
    static const char *const bag_tensors[] = {"offsets", "lengths", "per_sample_weights"};
    ls_replay__unknown_keys(&rest->unknown, args, bag ? bag_args : args_alone);
    for (size_t i = 0; i < ls_safetensors_count(file); i++) {
        const char *name = ls_safetensors_at(file, i)->name;
        bool read = false;
        for (size_t k = 0; k < sizeof tensors / sizeof *tensors; k++) {
            read = read || strcmp(tensors[k], name) == 0;
        }
        for (size_t k = 0; bag && k < sizeof bag_tensors / sizeof *bag_tensors; k++) {
            read = read || strcmp(bag_tensors[k], name) == 0;
        }
        ls_text *to = strncmp(name, "grad_", 5) == 0 ? &rest->gradients : &rest->unknown;
        if (!read) {
            ls_text_printf(to, "%s%.100s", to->length > 0 ? ", " : "", name);
        }
    }
}

int ls_torch__weights_after(ls_results *results, ls_case_result *result,
                            const ls_torch_weights *before, const ls_safetensors *file) {
    float *after;
    size_t count;
    LS_TRY(ls_torch__tensor((void **)&after, &count, file, "weight_after", LS_F32, true));
    if (after == NULL) {
        return LS_OK;
    }
    int status = LS_OK;
    ls_stage_result *stage = &result->stages[result->stage_count];
    *stage = (ls_stage_result){.name = "weight_after", .judge = LS_JUDGE_REAL};
    ls_stage_result_compared(stage, before->count);
    if (count != before->count) {
        status = LS_FAIL(LS_ERR_FORMAT, "weight_after has %zu elements, weight %zu", count,
                         before->count);
    }
    for (size_t i = 0; status == LS_OK && i < count; i++) {
        if (memcmp(&after[i], &before->weight[i], sizeof *after) == 0) {
            continue;
        }
        if (stage->differing == 0) {
            stage->class_ = LS_CLASS_WRONG;
            stage->divergence = ls_arena_printf(
                results->arena, "row %zu, column %zu: torch %.9g, before the lookup %.9g",
                i / before->columns, i % before->columns, (double)after[i],
                (double)before->weight[i]);
        }
        stage->differing++;
    }
    ls_free(NULL, after, count, sizeof(*after));
    if (status == LS_OK) {
        result->stage_count++;
        result->pass = result->pass && stage->class_ != LS_CLASS_WRONG;
    }
    return status;
}
