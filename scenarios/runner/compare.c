// Compares stage outputs with an oracle and with another run's, stage by stage.
#include "scenarios/runner/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "scenarios/runner/difference.h"

static ls_class worse(ls_class a, ls_class b) {
    return a > b ? a : b;
}

// Notes a wrong output of a stage; the first one's explanation is kept.
static void note_wrong(ls_comparison *comparison, ls_stage_result *stage, const ls_text *text) {
    stage->class_ = worse(stage->class_, LS_CLASS_WRONG);
    if (stage->divergence == NULL) {
        stage->divergence = ls_arena_strdup(comparison->arena, ls_text_string(text));
    }
}

// An output that one side lacks.
static void note_absent(ls_comparison *comparison, ls_stage_result *stage, const char *key,
                        int rank, const ls_text *text) {
    note_wrong(comparison, stage, text);
    const char *kept = ls_arena_strdup(comparison->arena, key);
    if (kept != NULL) {
        ls_comparison__place(
            comparison, stage,
            &(ls_divergence_place){.class_ = LS_CLASS_WRONG, .key = kept, .rank = rank});
    }
}

static ls_stage_output output_of(const ls_stage_entry *entry, int rank) {
    const ls_stage_array *array = &entry->ranks[rank];
    return (ls_stage_output){
        .stage = entry->stage,
        .table = entry->table,
        .feature = entry->feature,
        .field = entry->field,
        .rank = rank,
        .dtype = entry->dtype,
        .shape = array->shape,
        .data = array->data,
        .reduces = entry->reduces,
        .bounds = array->bounds,
    };
}

// ---- Against the oracle -------------------------------------------------------------------------
static void judge_output(ls_comparison *comparison, ls_stage_result *stage,
                         const ls_stage_entry *entry, int rank, const ls_oracle *oracle) {
    const ls_stage_output of_rank = output_of(entry, rank), *output = &of_rank;
    ls_judgement judgement;
    int status = ls_oracle_judge(oracle, output, &judgement);
    ls_text text = {0};
    if (status != LS_OK) {
        ls_text_puts(&text, ls_error_last()->text);
        note_absent(comparison, stage, entry->key, rank, &text);
        ls_text_free(&text);
        return;
    }
    stage->elements += judgement.elements;
    stage->differing += judgement.differing;
    if (judgement.max_ulps > stage->max_ulps) {
        stage->max_ulps = judgement.max_ulps;
    }
    if (judgement.bound_ratio > stage->bound_ratio) {
        stage->bound_ratio = judgement.bound_ratio;
    }
    ls_divergence_place place = {
        .key = entry->key,
        .entry = entry,
        .dtype = entry->dtype,
        .rank = output->rank,
        .element = judgement.first_differing,
        .count = entry->ranks[output->rank].count,
        .ours = output->data,
    };
    if (judgement.wrong > 0) {
        ls_text_puts(&text, judgement.text);
        note_wrong(comparison, stage, &text);
        place.class_ = LS_CLASS_WRONG;
        place.element = judgement.first_wrong;
    } else if (judgement.differing > 0) {
        stage->class_ = worse(stage->class_, LS_CLASS_WITHIN_BOUND);
        place.class_ = LS_CLASS_WITHIN_BOUND;
    }
    ls_comparison__place(comparison, stage, &place);
    ls_text_free(&text);
}

// Outputs that the oracle knows and the run did not give.
static int note_missing(ls_comparison *comparison, const ls_stages *run, const ls_oracle *oracle,
                        const char *prefix) {
    size_t count = ls_oracle_output_count(oracle);
    for (size_t i = 0; i < count; i++) {
        ls_stage_output output;
        LS_TRY(ls_oracle_output(oracle, i, &output));
        char key[LS_STAGE_KEY_MAX];
        LS_TRY(ls_stage_key(key, sizeof key, &output));
        const ls_stage_entry *entry = ls_stages_find(run, key);
        if (entry != NULL && entry->ranks[output.rank].present) {
            continue;
        }
        ls_stage_result *stage = ls_comparison__stage(comparison, prefix, output.stage);
        if (stage == NULL) {
            return LS_ERR_MEMORY;
        }
        ls_text text = {0};
        ls_text_printf(&text, "rank %d gives no %s", output.rank, key);
        note_absent(comparison, stage, key, output.rank, &text);
        ls_text_free(&text);
    }
    return LS_OK;
}

int ls_compare_oracle(ls_comparison *comparison, const ls_stages *run, const ls_oracle *oracle,
                      const char *prefix) {
    for (int i = 0; i < ls_stages_count(run); i++) {
        const ls_stage_entry *entry = ls_stages_at(run, i);
        ls_stage_result *stage = ls_comparison__stage(comparison, prefix, entry->stage);
        if (stage == NULL) {
            return LS_ERR_MEMORY;
        }
        for (int rank = 0; rank < ls_stages_ranks(run); rank++) {
            if (entry->ranks[rank].present) {
                judge_output(comparison, stage, entry, rank, oracle);
            }
        }
    }
    return note_missing(comparison, run, oracle, prefix);
}

// ---- Against another run ------------------------------------------------------------------------
struct pair {
    const ls_stage_entry *entry;  // of the run
    const ls_stage_array *a, *b;  // of one rank: the run's, the real one's
    int rank;
    const ls_oracle *oracle;
    const char *run_name, *real_name;
    bool expected;  // a is what should be, b what the run gave
};

static void note_pair(ls_comparison *comparison, const ls_stage_result *stage,
                      const struct pair *pair, ls_class class_, size_t element) {
    const ls_stage_array *ours = pair->expected ? pair->b : pair->a;
    const ls_stage_array *theirs = pair->expected ? pair->a : pair->b;
    ls_comparison__place(comparison, stage,
                         &(ls_divergence_place){.class_ = class_,
                                                .key = pair->entry->key,
                                                .dtype = pair->entry->dtype,
                                                .rank = pair->rank,
                                                .element = element,
                                                .count = ours->count,
                                                .ours = ours->data,
                                                .theirs = theirs->data});
}

static void format_value(ls_text *text, const void *data, ls_dtype dtype, size_t index) {
    size_t bytes = ls_dtype_bytes(dtype);
    const unsigned char *element = (const unsigned char *)data + index * bytes;
    if (ls_dtype_is_float(dtype)) {
        ls_text_printf(text, "%.9g (0x", ls_element_to_f64(element, dtype));
        for (size_t i = bytes; i-- > 0;) {
            ls_text_printf(text, "%02x", element[i]);
        }
        ls_text_puts(text, ")");
        return;
    }
    int64_t value = 0;
    memcpy(&value, element, bytes);
    if (dtype == LS_U64) {
        ls_text_printf(text, "%" PRIu64, (uint64_t)value);
    } else if (ls_dtype_is_signed(dtype)) {
        unsigned unused = 64u - 8u * (unsigned)bytes;
        ls_text_printf(text, "%" PRId64, (int64_t)((uint64_t)value << unused) >> unused);
    } else {
        ls_text_printf(text, "%" PRId64, value);
    }
}

static void format_place(ls_text *text, const struct pair *pair, size_t element) {
    const ls_stage_entry *entry = pair->entry;
    ls_text_printf(text, "stage %s", entry->stage);
    if (entry->table != NULL) {
        ls_text_printf(text, ", table %s", entry->table);
    }
    if (entry->feature != NULL) {
        ls_text_printf(text, ", feature %s", entry->feature);
    }
    ls_text_printf(text, ", %s, rank %d", entry->field, pair->rank);
    if (element < pair->a->count) {
        ls_text_printf(text, ", element %zu", element);
        const ls_shape *shape = &pair->a->shape;
        size_t rest = element;
        ls_text_puts(text, " [");
        size_t stride = pair->a->count;
        for (int d = 0; d < shape->ndim; d++) {
            stride /= (size_t)shape->dim[d];
            ls_text_printf(text, "%s%zu", d > 0 ? ", " : "", rest / stride);
            rest %= stride;
        }
        ls_text_puts(text, "]");
    }
}

static void explain(ls_text *text, const struct pair *pair, const ls_difference *difference) {
    size_t element = difference->first;
    format_place(text, pair, element);
    ls_text_printf(text, "\n  %s ", pair->run_name);
    format_value(text, pair->a->data, pair->entry->dtype, element);
    ls_text_printf(text, ", %s ", pair->real_name);
    format_value(text, pair->b->data, pair->entry->dtype, element);
    size_t bytes = ls_dtype_bytes(pair->entry->dtype);
    uint64_t ulps =
        ls_element_ulps((const char *)pair->a->data + element * bytes,
                        (const char *)pair->b->data + element * bytes, pair->entry->dtype);
    if (ulps == UINT64_MAX) {
        ls_text_puts(text, ": NaN against a number");
    } else {
        ls_text_printf(text, ": %" PRIu64 " ulps apart", ulps);
    }
    if (!pair->entry->reduces) {
        ls_text_puts(text, " where data only moves");
    }
    if (pair->oracle == NULL) {
        return;
    }
    ls_stage_output output = output_of(pair->entry, pair->rank);
    ls_provenance from;
    if (ls_oracle_provenance(pair->oracle, &output, element, &from) != LS_OK) {
        return;
    }
    if (from.source_rank >= 0) {
        ls_text_printf(text, "\n  sample %" PRId64 " of rank %d", from.sample, from.source_rank);
    }
    if (from.id >= 0) {
        ls_text_printf(text, ", id %" PRId64 " at position %" PRId64, from.id, from.position);
        if (from.owner_rank >= 0) {
            ls_text_printf(text, ", whose row rank %d holds", from.owner_rank);
        }
    }
}

// Bounds for the difference of two correct runs, each within the oracle's bound of the exact value.
// *out is NULL when nothing is known; the caller frees it.
static int pair_bounds(double **out, const struct pair *pair) {
    *out = NULL;
    ls_expected expected = {0};
    const double *one = pair->a->bounds;
    if (one == NULL && pair->oracle != NULL) {
        ls_stage_output output = output_of(pair->entry, pair->rank);
        if (ls_oracle_expect(pair->oracle, &output, &expected) == LS_OK &&
            expected.count == pair->a->count) {
            one = expected.bounds;
        }
    }
    int status = LS_OK;
    if (one != NULL) {
        void *memory = NULL;
        status = ls_alloc(&memory, NULL, pair->a->count, sizeof(double));
        *out = memory;
        for (size_t i = 0; status == LS_OK && i < pair->a->count; i++) {
            (*out)[i] = 2.0 * one[i];
        }
    }
    ls_expected_free(&expected);
    return status;
}

static int compare_pair(ls_comparison *comparison, ls_stage_result *stage,
                        const struct pair *pair) {
    ls_text text = {0};
    stage->elements += pair->a->count;
    if (!pair->b->present || !ls_shape_equal(&pair->a->shape, &pair->b->shape)) {
        char a[96];
        char b[96];
        ls_shape_format(a, sizeof a, &pair->a->shape);
        ls_shape_format(b, sizeof b, &pair->b->shape);
        format_place(&text, pair, pair->a->count);
        ls_text_printf(&text, "\n  %s has shape %s, %s has %s", pair->run_name, a, pair->real_name,
                       pair->b->present ? b : "no such output");
        stage->differing += pair->a->count;
        stage->bound_ratio = INFINITY;
        note_wrong(comparison, stage, &text);
        note_pair(comparison, stage, pair, LS_CLASS_WRONG, SIZE_MAX);
        ls_text_free(&text);
        return LS_OK;
    }
    ls_difference difference;
    double *bounds = NULL;
    ls_difference_compute(&difference, pair->a->data, pair->b->data, pair->entry->dtype,
                          pair->a->count, NULL);
    if (difference.differing > 0 && pair->entry->reduces) {
        LS_TRY(pair_bounds(&bounds, pair));
        ls_difference_compute(&difference, pair->a->data, pair->b->data, pair->entry->dtype,
                              pair->a->count, bounds);
        ls_free(NULL, bounds, pair->a->count, sizeof *bounds);
    }
    stage->differing += difference.differing;
    if (difference.max_ulps > stage->max_ulps) {
        stage->max_ulps = difference.max_ulps;
    }
    if (difference.bound_ratio > stage->bound_ratio) {
        stage->bound_ratio = difference.bound_ratio;
    }
    bool bounded = difference.bound_ratio <= 1.0 && pair->entry->reduces;
    if (difference.differing > 0 && bounded) {
        stage->class_ = worse(stage->class_, LS_CLASS_WITHIN_BOUND);
        note_pair(comparison, stage, pair, LS_CLASS_WITHIN_BOUND, difference.first);
    } else if (difference.differing > 0) {
        explain(&text, pair, &difference);
        note_wrong(comparison, stage, &text);
        note_pair(comparison, stage, pair, LS_CLASS_WRONG, difference.first);
        ls_text_free(&text);
    }
    return LS_OK;
}

// Outputs that the real run gave and the run did not.
static int note_extra(ls_comparison *comparison, const ls_stages *run, const ls_stages *real,
                      const char *run_name, const char *real_name, const char *prefix) {
    for (int i = 0; i < ls_stages_count(real); i++) {
        const ls_stage_entry *entry = ls_stages_at(real, i);
        const ls_stage_entry *own = ls_stages_find(run, entry->key);
        for (int rank = 0; rank < ls_stages_ranks(real); rank++) {
            if (!entry->ranks[rank].present || (own != NULL && own->ranks[rank].present)) {
                continue;
            }
            ls_stage_result *stage = ls_comparison__stage(comparison, prefix, entry->stage);
            if (stage == NULL) {
                return LS_ERR_MEMORY;
            }
            ls_text text = {0};
            ls_text_printf(&text, "rank %d of the %s run gives %s, which the %s run lacks", rank,
                           real_name, entry->key, run_name);
            note_absent(comparison, stage, entry->key, rank, &text);
            ls_text_free(&text);
        }
    }
    return LS_OK;
}

int ls_compare_runs(ls_comparison *comparison, const ls_stages *run, const ls_stages *real,
                    const ls_oracle *oracle, const char *run_name, const char *real_name,
                    const char *prefix) {
    if (ls_stages_ranks(run) != ls_stages_ranks(real)) {
        return LS_FAIL(LS_ERR_INVALID, "the %s run has %d ranks, the %s one %d", run_name,
                       ls_stages_ranks(run), real_name, ls_stages_ranks(real));
    }
    const ls_stage_array nothing = {0};
    for (int i = 0; i < ls_stages_count(run); i++) {
        const ls_stage_entry *entry = ls_stages_at(run, i);
        const ls_stage_entry *other = ls_stages_find(real, entry->key);
        ls_stage_result *stage = ls_comparison__stage(comparison, prefix, entry->stage);
        if (stage == NULL) {
            return LS_ERR_MEMORY;
        }
        bool same_dtype = other != NULL && other->dtype == entry->dtype;
        for (int rank = 0; rank < ls_stages_ranks(run); rank++) {
            struct pair pair = {entry,
                                &entry->ranks[rank],
                                same_dtype ? &other->ranks[rank] : &nothing,
                                rank,
                                oracle,
                                run_name,
                                real_name,
                                false};
            if (pair.a->present) {
                LS_TRY(compare_pair(comparison, stage, &pair));
            }
        }
    }
    return note_extra(comparison, run, real, run_name, real_name, prefix);
}

int ls_compare_expected(ls_comparison *comparison, const ls_stages *expected, const ls_stages *run,
                        const char *run_name, const char *prefix) {
    const ls_stage_array nothing = {0};
    for (int i = 0; i < ls_stages_count(expected); i++) {
        const ls_stage_entry *entry = ls_stages_at(expected, i);
        const ls_stage_entry *other = ls_stages_find(run, entry->key);
        ls_stage_result *stage = ls_comparison__stage(comparison, prefix, entry->stage);
        if (stage == NULL) {
            return LS_ERR_MEMORY;
        }
        bool same_dtype = other != NULL && other->dtype == entry->dtype;
        for (int rank = 0; rank < ls_stages_ranks(expected); rank++) {
            struct pair pair = {
                .entry = entry,
                .a = &entry->ranks[rank],
                .b = same_dtype ? &other->ranks[rank] : &nothing,
                .rank = rank,
                .run_name = "expected",
                .real_name = run_name,
                .expected = true,
            };
            if (pair.a->present) {
                LS_TRY(compare_pair(comparison, stage, &pair));
            }
        }
    }
    return LS_OK;
}
