// Imports quantised rows: the bytes that torch packed from weights, and the values that it
// unpacked. There is no scenario to run: both must be equal, since the formulas allow only one
// result.
#include <math.h>
#include <string.h>

#include "kernels/quantise.h"
#include "runner/replay/import_torch.h"

// The name of one layout in the file.
typedef struct layout {
    const char *rows, *dequantised;
    ls_row_format format;
} layout;

static const layout layouts[] = {
    {"rows_8bit", "dequantized_8bit", {.element = LS_ROW_INT8, .scale_f32 = true}},
    {"rows_4bit", "dequantized_4bit", {.element = LS_ROW_INT4}},
    {"rows_2bit", "dequantized_2bit", {.element = LS_ROW_INT2}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

typedef struct quantised {
    ls_import *import;
    const ls_safetensors *file;
    ls_arena *arena;
    float *weight;  // [rows, dim]
    size_t rows, dim;
} quantised;

// *out: the matrix of `dtype` with this name in the file.
static int read(void *out, size_t *rows, size_t *columns, const quantised *q, const char *name,
                ls_dtype dtype) {
    const ls_safetensor *tensor = ls_safetensors_find(q->file, name);
    if (tensor == NULL || tensor->dtype != (int)dtype || tensor->ndim != 2) {
        return LS_FAIL(LS_ERR_FORMAT, "tensor %s %s", name,
                       tensor != NULL ? "is not a matrix of its type" : "is missing");
    }
    *rows = (size_t)tensor->dim[0];
    *columns = (size_t)tensor->dim[1];
    void *data = ls_arena_alloc(q->arena, tensor->bytes, 1);
    memcpy(out, &data, sizeof data);
    return data != NULL ? ls_safetensors_read(data, tensor->bytes, q->file, tensor) : LS_ERR_MEMORY;
}

static int read_like(void *out, const quantised *q, const char *name, ls_dtype dtype,
                     size_t wanted) {
    size_t rows = 0, columns = 0;
    LS_TRY(read(out, &rows, &columns, q, name, dtype));
    return rows == q->rows && columns == wanted
               ? LS_OK
               : LS_FAIL(LS_ERR_FORMAT, "tensor %s is %zu x %zu, expected %zu x %zu", name, rows,
                         columns, q->rows, wanted);
}

static ls_stage_result begin(const char *name, size_t elements) {
    ls_stage_result stage = {.name = name, .judge = LS_JUDGE_REAL};
    ls_stage_result_compared(&stage, elements);
    return stage;
}

static bool first_wrong(ls_stage_result *stage) {
    stage->class_ = LS_CLASS_WRONG;
    return stage->differing++ == 0;
}

static int judge_bytes(const quantised *q, const layout *l, const unsigned char *torch,
                       size_t row_bytes) {
    size_t bytes = q->rows * row_bytes;
    ls_stage_result stage = begin(l->rows, bytes);
    unsigned char *ours = ls_arena_alloc(q->arena, bytes, 1);
    LS_TRY(ours != NULL ? LS_OK : LS_ERR_MEMORY);
    bool done = ls_kernel_quantise_rows(ours, &l->format, q->weight, q->dim, q->rows, q->dim,
                                        NULL) == LS_OK;
    if (!done && first_wrong(&stage)) {
        stage.divergence = ls_arena_strdup(q->import->arena, ls_error_last()->text);
    }
    for (size_t i = 0; done && i < bytes; i++) {
        if (torch[i] != ours[i] && first_wrong(&stage)) {
            stage.divergence =
                ls_arena_printf(q->import->arena, "row %zu, byte %zu of %zu: torch %d, lockstep %d",
                                i / row_bytes, i % row_bytes, row_bytes, torch[i], ours[i]);
        }
    }
    return ls_import_stage(q->import, &stage);
}

// The values of torch's own bytes.
static int judge_values(const quantised *q, const layout *l, const unsigned char *rows) {
    float *torch = NULL;
    LS_TRY(read_like(&torch, q, l->dequantised, LS_F32, q->dim));
    size_t count = q->rows * q->dim;
    ls_stage_result stage = begin(l->dequantised, count);
    float *ours = ls_arena_alloc(q->arena, count, sizeof *ours);
    LS_TRY(ours != NULL ? LS_OK : LS_ERR_MEMORY);
    ls_kernel_dequantise_rows(ours, rows, &l->format, q->rows, q->dim);
    for (size_t i = 0; i < count; i++) {
        bool same = memcmp(&torch[i], &ours[i], sizeof *ours) == 0;
        if (!same && !(isnan(torch[i]) && isnan(ours[i])) && first_wrong(&stage)) {
            stage.divergence =
                ls_arena_printf(q->import->arena, "row %zu, column %zu: torch %.9g, lockstep %.9g",
                                i / q->dim, i % q->dim, (double)torch[i], (double)ours[i]);
        }
    }
    return ls_import_stage(q->import, &stage);
}

static int judge_layout(const quantised *q, const layout *l) {
    size_t row_bytes = 0;
    unsigned char *torch = NULL;
    LS_TRY(ls_row_format_bytes(&row_bytes, &l->format, q->dim));
    LS_TRY(read_like(&torch, q, l->rows, LS_U8, row_bytes));
    LS_TRY(judge_bytes(q, l, torch, row_bytes));
    return ls_safetensors_find(q->file, l->dequantised) != NULL ? judge_values(q, l, torch) : LS_OK;
}

// The parts of the file and the arguments that nothing here reads, including values without their
// rows.
static void note_unknown(ls_import *import, const ls_safetensors *file, const json_t *args) {
    static const char *const none[] = {NULL};
    ls_import_unknown_keys(&import->unknown, args, none);
    for (size_t i = 0; i < ls_safetensors_count(file); i++) {
        const char *name = ls_safetensors_at(file, i)->name;
        bool known = strcmp(name, "weight") == 0;
        for (int l = 0; l < LAYOUTS; l++) {
            known = known || strcmp(name, layouts[l].rows) == 0 ||
                    (strcmp(name, layouts[l].dequantised) == 0 &&
                     ls_safetensors_find(file, layouts[l].rows) != NULL);
        }
        if (!known) {
            ls_text_printf(&import->unknown, "%s%.100s", import->unknown.length > 0 ? ", " : "",
                           name);
        }
    }
}

int ls_torch__quantised(ls_import *import, const ls_safetensors *file, const json_t *args) {
    quantised q = {.import = import, .file = file};
    bool any = false;
    LS_TRY(ls_arena_create(&q.arena));
    int status = read(&q.weight, &q.rows, &q.dim, &q, "weight", LS_F32);
    for (int l = 0; l < LAYOUTS && status == LS_OK; l++) {
        if (ls_safetensors_find(file, layouts[l].rows) != NULL) {
            any = true;
            status = judge_layout(&q, &layouts[l]);
        }
    }
    ls_arena_free(q.arena);
    if (status == LS_OK && !any) {
        status =
            LS_FAIL(LS_ERR_FORMAT, "no quantised rows: there is no tensor %s", layouts[0].rows);
    }
    note_unknown(import, file, args);
    return status;
}
