// Compares a run's outputs with what another system computed: one array in a .npy or .safetensors
// file, whose rows are the samples of all ranks in rank order and whose columns are the outputs of
// the features side by side.
#include <inttypes.h>
#include <string.h>

#include "formats/npy.h"
#include "formats/safetensors.h"
#include "kernels/kernels.h"
#include "runner/compare/compare.h"
#include "runner/compare/difference.h"
#include "runner/compare/reason.h"

// A dense [rows, columns] array.
struct matrix {
    ls_dtype dtype;
    size_t rows, columns;
    void *data;  // in the comparison's arena
    // Of the run: the allowed values of each element; exact NULL: the bits of `data`.
    double *exact, *bounds;
    unsigned char *overflow;
    bool sums;  // of the run's: some element may differ
    int ranks;  // of the run
};

// Leading dimensions count as rows: torch's sequence outputs are [batch, length, dim].
static int to_matrix(struct matrix *out, int ndim, const int64_t *dim, const char *file) {
    if (ndim < 1) {
        return LS_FAIL(LS_ERR_FORMAT, "%s: a reference has at least one dimension", file);
    }
    out->rows = (size_t)dim[0];
    out->columns = ndim > 1 ? (size_t)dim[ndim - 1] : 1;
    for (int d = 1; d + 1 < ndim; d++) {
        LS_TRY(ls_size_mul(&out->rows, out->rows, (size_t)dim[d]));
    }
    return LS_OK;
}

static int read_npy(struct matrix *out, ls_arena *arena, const char *file) {
    ls_npy npy = {0};
    LS_TRY(ls_npy_read(&npy, file));
    int status = to_matrix(out, npy.ndim, npy.dim, file);
    out->dtype = npy.dtype;
    out->data = ls_arena_copy(arena, npy.data, npy.count * ls_dtype_bytes(npy.dtype));
    ls_npy_free(&npy);
    return status == LS_OK && out->data == NULL ? LS_ERR_MEMORY : status;
}

static int read_tensor(struct matrix *out, ls_arena *arena, const ls_safetensors *file,
                       const ls_scenario_reference *reference) {
    const ls_safetensor *tensor;
    if (reference->tensor != NULL) {
        tensor = ls_safetensors_find(file, reference->tensor);
    } else {
        tensor = ls_safetensors_count(file) == 1 ? ls_safetensors_at(file, 0) : NULL;
    }
    if (tensor == NULL) {
        return LS_FAIL(LS_ERR_FORMAT, "%s has no tensor \"%s\"", reference->file,
                       reference->tensor != NULL ? reference->tensor : "(the only one)");
    }
    if (tensor->dtype < 0) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "%s: type %s", reference->file, tensor->dtype_text);
    }
    LS_TRY(to_matrix(out, tensor->ndim, tensor->dim, reference->file));
    out->dtype = (ls_dtype)tensor->dtype;
    out->data = ls_arena_alloc(arena, tensor->bytes, 1);
    LS_TRY_MEMORY(out->data != NULL);
    return ls_safetensors_read(out->data, tensor->bytes, file, tensor);
}

static int read_reference(struct matrix *out, ls_arena *arena,
                          const ls_scenario_reference *reference) {
    size_t length = strlen(reference->file);
    if (length > 4 && strcmp(reference->file + length - 4, ".npy") == 0) {
        return read_npy(out, arena, reference->file);
    }
    ls_safetensors *file = NULL;
    LS_TRY(ls_safetensors_open(&file, reference->file));
    int status = read_tensor(out, arena, file, reference);
    ls_safetensors_free(file);
    return status;
}

static bool belongs(const ls_stage_entry *entry, const char *stage,
                    const ls_scenario_reference *reference) {
    return strcmp(entry->stage, stage) == 0 &&
           (reference->table == NULL ||
            (entry->table != NULL && strcmp(entry->table, reference->table) == 0));
}

static size_t columns_of(const ls_stage_array *array) {
    return array->shape.ndim == 2 ? (size_t)array->shape.dim[1] : 1;
}

static size_t rows_of(const ls_stage_array *array) {
    return array->shape.ndim >= 1 ? (size_t)array->shape.dim[0] : 1;
}

// Adds up rows over ranks and columns over entries; every entry must have the same rows per rank.
static int measure(struct matrix *out, const ls_stages *run, const char *stage,
                   const ls_scenario_reference *reference) {
    *out = (struct matrix){.dtype = LS_DTYPE_COUNT};
    for (int i = 0; i < ls_stages_count(run); i++) {
        const ls_stage_entry *entry = ls_stages_at(run, i);
        if (!belongs(entry, stage, reference)) {
            continue;
        }
        if (out->dtype != LS_DTYPE_COUNT && out->dtype != entry->dtype) {
            return LS_FAIL(LS_ERR_INVALID, "stage %s has outputs of several types; name a table",
                           stage);
        }
        out->dtype = entry->dtype;
        size_t rows = 0;
        size_t columns = 0;
        for (int rank = 0; rank < ls_stages_ranks(run); rank++) {
            if (entry->ranks[rank].present) {
                rows += rows_of(&entry->ranks[rank]);
                columns = columns_of(&entry->ranks[rank]);
            }
        }
        if (out->columns > 0 && rows != out->rows) {
            return LS_FAIL(LS_ERR_INVALID, "stage %s has outputs of unequal rows; name a table",
                           stage);
        }
        out->rows = rows;
        out->columns += columns;
    }
    if (out->dtype == LS_DTYPE_COUNT) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "the run has no output of stage %s%s%s", stage,
                       reference->table != NULL ? ", table " : "",
                       reference->table != NULL ? reference->table : "");
    }
    return LS_OK;
}

// The allowed values of one rank's output. Without an expectation, or if its data only moves, they
// are its own bits.
static int put_allowed(struct matrix *out, const ls_expectation *expectation,
                       const ls_stage_entry *entry, int rank, size_t row, size_t column) {
    const ls_stage_array *array = &entry->ranks[rank];
    size_t columns = columns_of(array), bytes = ls_dtype_bytes(entry->dtype);
    ls_expected expected;
    ls_allowance allowed;
    bool sums = false;
    int status = ls_comparison__allowed(&expected, &allowed, &sums, expectation, entry, rank);
    if (status != LS_OK && status != LS_ERR_NOT_FOUND) {
        return status;
    }
    out->sums = out->sums || sums;
    for (size_t i = 0; i < array->count; i++) {
        size_t at = (row + i / columns) * out->columns + column + i % columns;
        const char *own = (const char *)array->data + i * bytes;
        out->exact[at] = sums ? allowed.exact[i] : ls_element_to_f64(own, entry->dtype);
        out->bounds[at] = sums ? allowed.bounds[i] : 0.0;
        out->overflow[at] = sums && allowed.overflow != NULL ? allowed.overflow[i] : 0;
    }
    ls_expected_free(&expected);
    return LS_OK;
}

static int gather(struct matrix *out, const ls_stages *run, const char *stage,
                  const ls_scenario_reference *reference, const ls_expectation *expectation,
                  ls_arena *arena) {
    LS_TRY(measure(out, run, stage, reference));
    size_t bytes = ls_dtype_bytes(out->dtype);
    size_t count = 0;
    LS_TRY(ls_size_mul(&count, out->rows, out->columns));
    out->data = ls_arena_alloc(arena, count, bytes);
    out->exact = ls_arena_alloc(arena, count, sizeof *out->exact);
    out->bounds = ls_arena_alloc(arena, count, sizeof *out->bounds);
    out->overflow = ls_arena_alloc(arena, count, 1);
    LS_TRY_MEMORY(out->data != NULL && out->exact != NULL && out->bounds != NULL &&
                  out->overflow != NULL);
    out->ranks = ls_stages_ranks(run);
    size_t column = 0;
    for (int i = 0; i < ls_stages_count(run); i++) {
        const ls_stage_entry *entry = ls_stages_at(run, i);
        if (!belongs(entry, stage, reference)) {
            continue;
        }
        size_t row = 0;
        size_t columns = 0;
        for (int rank = 0; rank < ls_stages_ranks(run); rank++) {
            const ls_stage_array *array = &entry->ranks[rank];
            if (!array->present) {
                continue;
            }
            columns = columns_of(array);
            ls_kernel_copy_2d((char *)out->data + (row * out->columns + column) * bytes,
                              out->columns * bytes, array->data, columns * bytes, columns * bytes,
                              rows_of(array));
            LS_TRY(put_allowed(out, expectation, entry, rank, row, column));
            row += rows_of(array);
        }
        column += columns;
    }
    return LS_OK;
}

// Finds the rank and key of the output that element `at` of the matrix is in.
static void find_place(ls_divergence_place *place, const struct matrix *ours, size_t at,
                       const ls_stages *run, const char *stage,
                       const ls_scenario_reference *reference) {
    size_t row = at / ours->columns, column = at % ours->columns;
    for (int i = 0; i < ls_stages_count(run); i++) {
        const ls_stage_entry *entry = ls_stages_at(run, i);
        if (!belongs(entry, stage, reference)) {
            continue;
        }
        size_t columns = 0, before = 0;
        for (int rank = 0; rank < ls_stages_ranks(run); rank++) {
            const ls_stage_array *array = &entry->ranks[rank];
            if (!array->present) {
                continue;
            }
            columns = columns_of(array);
            if (column < columns && row - before < rows_of(array)) {
                place->key = entry->key;
                place->rank = rank;
                return;
            }
            before += rows_of(array);
        }
        column -= columns;
    }
}

// Explains how the run's values would become the reference's.
static void tell_reason(ls_text *text, const struct matrix *ours, const struct matrix *theirs) {
    ls_arena *arena = NULL;
    size_t count = ours->rows * ours->columns;
    double *got = NULL, *due = NULL;
    if (ls_arena_create(&arena) == LS_OK) {
        got = ls_reason_widened(arena, ours->data, ours->dtype, count);
        due = ls_reason_widened(arena, theirs->data, theirs->dtype, count);
    }
    if (got != NULL && due != NULL) {
        const ls_reason_values values = {.due = due,
                                         .got = got,
                                         .count = count,
                                         .width = ours->columns,
                                         .near = ls_reason_nearness(ours->dtype),
                                         .ranks = ours->ranks,
                                         .of = "the reference"};
        (void)(ls_reason_factor(text, &values) || ls_reason_moved(text, &values));
    }
    ls_arena_free(arena);
}

// place: receives the place of the stage's class, with the whole matrices.
static void judge(ls_stage_result *stage, ls_divergence_place *place, ls_comparison *comparison,
                  const struct matrix *ours, const struct matrix *theirs,
                  const ls_scenario_reference *reference) {
    ls_text text = {0};
    stage->elements = ours->rows * ours->columns;
    *place = (ls_divergence_place){
        .dtype = ours->dtype, .element = SIZE_MAX, .count = stage->elements, .ours = ours->data};
    if (ours->rows != theirs->rows || ours->columns != theirs->columns ||
        ours->dtype != theirs->dtype) {
        ls_text_printf(&text, "the run gives %s [%zu, %zu], %s holds %s [%zu, %zu]",
                       ls_dtype_name(ours->dtype), ours->rows, ours->columns, reference->file,
                       ls_dtype_name(theirs->dtype), theirs->rows, theirs->columns);
        stage->class_ = LS_CLASS_WRONG;
        stage->differing = stage->elements;
    } else {
        ls_difference difference;
        const ls_allowance allowed = {
            .exact = ours->exact, .bounds = ours->bounds, .overflow = ours->overflow};
        ls_difference_compute(&difference, ours->data, theirs->data, ours->dtype, stage->elements,
                              ours->sums ? &allowed : NULL);
        stage->elements -= difference.unjudged;
        stage->unjudged = difference.unjudged;
        stage->vacuous = difference.vacuous;
        stage->differing = difference.differing;
        ls_stage_result_distance(stage, ours->dtype, difference.max_ulps);
        stage->bound_ratio = difference.bound_ratio;
        place->theirs = theirs->data;
        bool wrong = difference.first_wrong < difference.elements;
        place->element = wrong ? difference.first_wrong : difference.first;
        if (wrong) {
            size_t bytes = ls_dtype_bytes(ours->dtype);
            size_t at = difference.first_wrong;
            stage->class_ = LS_CLASS_WRONG;
            ls_text_printf(
                &text, "row %zu, column %zu: the run gives %.9g, %s has %.9g", at / ours->columns,
                at % ours->columns, ls_element_to_f64((char *)ours->data + at * bytes, ours->dtype),
                reference->file, ls_element_to_f64((char *)theirs->data + at * bytes, ours->dtype));
            tell_reason(&text, ours, theirs);
        } else if (stage->elements > 0) {
            stage->class_ = difference.differing > 0 ? LS_CLASS_WITHIN_BOUND : LS_CLASS_BIT_EXACT;
        }
    }
    if (stage->class_ == LS_CLASS_WRONG) {
        stage->divergence = ls_result_text(comparison->arena, &text);
    }
    place->class_ = stage->class_;
}

static const char *last_stage(const ls_stages *run) {
    int count = ls_stages_count(run);
    return count > 0 ? ls_stages_at(run, count - 1)->stage : "";
}

int ls_compare_references(ls_comparison *comparison, const ls_stages *run,
                          const ls_scenario *scenario, const ls_expectation *expectation) {
    for (int i = 0; i < scenario->checks.reference_count; i++) {
        const ls_scenario_reference *reference = &scenario->checks.references[i];
        const char *stage_name = reference->stage != NULL ? reference->stage : last_stage(run);
        struct matrix ours;
        struct matrix theirs = {0};
        int status = gather(&ours, run, stage_name, reference, expectation, comparison->arena);
        status = status == LS_OK ? read_reference(&theirs, comparison->arena, reference) : status;
        if (status != LS_OK) {
            return ls_error_wrap("%s: reference", ls_scenario_where(scenario, &reference->node));
        }
        const char *name = ls_arena_printf(comparison->arena, "%s%s%s", stage_name,
                                           reference->table != NULL ? "/" : "",
                                           reference->table != NULL ? reference->table : "");
        ls_stage_result *stage =
            name != NULL ? ls_comparison__stage(comparison, LS_JUDGE_REFERENCE, i, name) : NULL;
        LS_TRY_MEMORY(stage != NULL);
        ls_divergence_place place;
        judge(stage, &place, comparison, &ours, &theirs, reference);
        place.key = stage->name;
        if (place.element < place.count) {
            find_place(&place, &ours, place.element, run, stage_name, reference);
        }
        ls_comparison__place(comparison, stage, &place);
    }
    return LS_OK;
}
