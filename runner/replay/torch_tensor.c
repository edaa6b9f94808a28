// Tensors of torch's results: lookup, reading, and writing into a scenario.

#include "planner/plan.h"
#include "runner/replay/import_torch.h"

const char *ls_torch__mode(const ls_torch_lookup *l) {
    const char *mode = json_string_value(json_object_get(l->args, "mode"));
    return mode != NULL ? mode : "";
}

// ---- Its file -----------------------------------------------------------------------------------
int ls_torch__find(const ls_safetensor **out, const ls_safetensors *file, const char *name,
                   ls_dtype dtype) {
    *out = ls_safetensors_find(file, name);
    if (*out == NULL || (*out)->dtype != (int)dtype) {
        return LS_FAIL(LS_ERR_FORMAT, "tensor %s %s", name,
                       *out != NULL ? "has the wrong dtype" : "is missing");
    }
    return LS_OK;
}

ls_shape ls_torch__shape(const ls_safetensor *tensor) {
    ls_shape shape = {.ndim = tensor->ndim};
    for (int d = 0; d < tensor->ndim; d++) {
        shape.dim[d] = tensor->dim[d];
    }
    return shape;
}

int ls_torch__find_shaped(const ls_safetensor **out, const ls_safetensors *file, const char *name,
                          ls_dtype dtype, const ls_shape *shape) {
    LS_TRY(ls_torch__find(out, file, name, dtype));
    ls_shape has = ls_torch__shape(*out);
    if (!ls_shape_equal(&has, shape)) {
        char one[LS_SHAPE_TEXT_MAX], other[LS_SHAPE_TEXT_MAX];
        ls_shape_format(one, sizeof one, &has);
        ls_shape_format(other, sizeof other, shape);
        return LS_FAIL(LS_ERR_FORMAT, "tensor %s has shape %s, expected %s", name, one, other);
    }
    return LS_OK;
}

int ls_torch__read(void *out, ls_arena *arena, const ls_safetensors *file,
                   const ls_safetensor *tensor) {
    void *data = ls_arena_alloc(arena, tensor->bytes, 1);
    *(void **)out = data;
    return data != NULL ? ls_safetensors_read(data, tensor->bytes, file, tensor) : LS_ERR_MEMORY;
}

// ---- Scenario -----------------------------------------------------------------------------------
void ls_torch__write_file(ls_text *out, const char *file, const char *tensor) {
    ls_text_puts(out, "{file: ");
    ls_import_quote(out, file);
    ls_text_printf(out, ", tensor: %s}", tensor);
}

// Blocks on as many ranks as there are columns, in reverse order, so that no rank holds the block
// that it sends.
static void write_sharding(ls_text *out, ls_sharding sharding, int ranks, int per_host,
                           int64_t dim) {
    int hosts = ranks / per_host;
    int wanted = sharding == LS_GRID ? hosts : per_host;
    if (sharding == LS_COLUMN_WISE) {
        wanted = ranks;
    }
    int64_t blocks = dim < wanted ? dim : wanted, width = (dim + blocks - 1) / blocks;
    ls_text sizes = {0}, owners = {0};
    for (int64_t b = 0; b < blocks; b++) {
        ls_text_printf(&sizes, "%s%lld", b > 0 ? ", " : "",
                       (long long)(dim * (b + 1) / blocks - dim * b / blocks));
        ls_text_printf(&owners, "%s%lld", b > 0 ? ", " : "", (long long)(ranks - 1 - b));
    }
    ls_text_printf(out, "{type: %s", ls_sharding_name(sharding));
    if (sharding == LS_COLUMN_WISE || sharding == LS_TABLE_COLUMN_WISE) {
        ls_text_printf(out, ", sizes: [%s], ranks: [%s]", ls_text_string(&sizes),
                       ls_text_string(&owners));
    } else if (sharding == LS_TABLE_WISE) {
        ls_text_printf(out, ", ranks: %d", ranks - 1);
    } else if (sharding == LS_TABLE_ROW_WISE) {
        ls_text_printf(out, ", host: %d", hosts - 1);
    } else if (sharding == LS_GRID) {
        int64_t used = (dim + width - 1) / width;
        ls_text_printf(out, ", columns: %lld, ranks: [", (long long)width);
        for (int64_t b = 0; b < used; b++) {
            for (int k = 0; k < per_host; k++) {
                ls_text_printf(out, "%s%lld", b + k > 0 ? ", " : "",
                               (long long)((hosts - 1 - b) * per_host + k));
            }
        }
        ls_text_puts(out, "]");
    }
    out->failed = out->failed || sizes.failed || owners.failed;
    ls_text_free(&sizes);
    ls_text_free(&owners);
    ls_text_puts(out, "}");
}

static void write_inputs(ls_text *out, const ls_torch_lookup *l) {
    bool weighted = ls_safetensors_find(l->file, "per_sample_weights") != NULL && l->bag;
    ls_text_puts(out, "inputs:\n  batch: [");
    for (int rank = 0; rank < l->ranks; rank++) {
        int64_t offset = 0, batch = 0;
        ls_chunk(&offset, &batch, l->batch, l->ranks, rank);
        ls_text_printf(out, "%s%lld", rank > 0 ? ", " : "", (long long)batch);
    }
    ls_text_printf(
        out, "]\n  weighted: %s\n  features:\n    ids:\n      ids: ", weighted ? "true" : "false");
    ls_torch__write_file(out, l->name, "ids");
    if (weighted) {
        ls_text_puts(out, "\n      weights: ");
        ls_torch__write_file(out, l->name, "per_sample_weights");
    }
    ls_text_puts(out, "\n      lengths: ");
    if (l->bag && ls_safetensors_find(l->file, "lengths") != NULL) {
        ls_torch__write_file(out, l->name, "lengths");
    } else if (!l->bag) {
        ls_text_printf(out, "{constant: %lld}", (long long)(l->batch > 0 ? l->lengths[0] : 0));
    } else {
        ls_text_puts(out, "{values: [");
        for (int64_t b = 0; b < l->batch; b++) {
            ls_text_printf(out, "%s%lld", b > 0 ? ", " : "", (long long)l->lengths[b]);
        }
        ls_text_puts(out, "]}");
    }
    ls_text_puts(out, "\n");
}

// With max_norm torch looked up the weights that it had scaled.
void ls_torch__write_lookup(ls_text *out, ls_torch_lookup *l, ls_sharding sharding, int ranks) {
    int per_host = ranks == 4 ? 2 : ranks;
    const json_t *padding = json_object_get(l->args, "padding_idx");
    int64_t rows = l->weight->dim[0], padding_id = json_integer_value(padding);
    l->ranks = ranks;
    ls_text_puts(out, "lockstep: 1\nname: ");
    ls_import_quote(out, l->name);
    ls_text_printf(out, "\nmesh: {shape: [%d, %d], names: [host, gpu]}\ntables:\n",
                   ranks / per_host, per_host);
    ls_text_printf(out, "  - name: weight\n    rows: %lld\n    dim: %lld\n    pooling: %s\n",
                   (long long)rows, (long long)l->weight->dim[1],
                   l->bag ? ls_torch__mode(l) : "none");
    if (json_is_integer(padding)) {
        ls_text_printf(out, "    padding_id: %lld\n",
                       (long long)(padding_id < 0 ? padding_id + rows : padding_id));
    }
    ls_text_puts(out, "    features: ids\n    weights: ");
    ls_torch__write_file(out, l->name, l->renormalised ? "weight_after" : "weight");
    ls_text_puts(out, "\n    sharding: ");
    write_sharding(out, sharding, ranks, per_host, l->weight->dim[1]);
    ls_text_puts(out, "\n");
    write_inputs(out, l);
}
