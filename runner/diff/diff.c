// Compares captures tensor by tensor. The comparison itself is that of all runs (compare.h): here a
// tensor becomes what each rank must have, with what is allowed of it.
#include "runner/diff/diff.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "orders/bound.h"
#include "orders/explain.h"
#include "runner/compare/compare.h"
#include "runner/diff/explain.h"
#include "runner/diff/made.h"

// By what a tensor's elements are judged where their bits differ.
#define SEARCH_ELEMENTS_MAX                                                                        \
    (UINT64_C(1) << 30)  // of inputs, in all searches for the orders of sums

typedef enum basis {
    BASIS_MOVED,      // every bit counts
    BASIS_MADE,       // the bound of what it was computed of
    BASIS_PARTS,      // the bound of a sum of known parts
    BASIS_TOLERANCE,  // what the user allows
    BASIS_NONE,       // nothing: half of the digits
} basis;

typedef struct diff {
    ls_arena *arena;  // of the tensor at hand
    const ls_capture *ref, *run;
    const ls_diff_options *options;
    ls_comparison comparison;
    bool wrong;       // one was found
    uint64_t search;  // elements that searches may still fold
} diff;

// What the run may have in place of the reference's value; of each copy the same.
typedef struct allowance {
    basis by;
    double *exact, *bounds;  // [count]; NULL: every bit counts
    unsigned char *overflow;
} allowance;

// ---- What is allowed ----------------------------------------------------------------------------
// The sum that a partial tensor is, or a gradient whose parts are known. False: it is none.
static bool is_sum(ls_reduction *out, const ls_assembled *run, const ls_assembled *parts) {
    const ls_assembled *of = run->terms > 1 ? run : parts;
    int count = run->terms > 1 ? run->terms : parts != NULL ? parts->copies : 0;
    if (count < 2 || of->count != run->count || of->dtype != run->dtype ||
        (of == parts && parts->terms != 1)) {
        return false;
    }
    *out = (ls_reduction){.in = (const void *const *)of->whole,
                          .in_count = count,
                          .dtype = run->dtype,
                          .op = run->terms > 1 ? run->op : run->of->parts_op,
                          .count = run->count};
    return true;
}

// Its parts, added up exactly.
static int allow_parts(allowance *out, ls_arena *arena, const ls_assembled *run,
                       const ls_assembled *parts, const void *ref) {
    ls_reduction reduction;
    if (!is_sum(&reduction, run, parts)) {
        return LS_OK;
    }
    ls_bound_element *sums = ls_arena_alloc(arena, run->count + 1, sizeof *sums);
    double *exact = ls_arena_alloc(arena, run->count + 1, sizeof *exact);
    double *bounds = ls_arena_alloc(arena, run->count + 1, sizeof *bounds);
    unsigned char *overflow = ls_arena_alloc(arena, run->count + 1, 1);
    if (sums == NULL || exact == NULL || bounds == NULL || overflow == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls_bound_reduction(sums, &reduction, 0, run->count));
    for (size_t i = 0; i < run->count; i++) {
        exact[i] = sums[i].hi + sums[i].lo;
        bounds[i] = sums[i].bound;
        overflow[i] = sums[i].overflow;
    }
    // It says nothing of how the parts themselves were rounded: where more than their sum's order
    // lies between the two runs, it is no judge.
    ls_difference difference;
    ls_difference_compute(&difference, ref, ref, run->dtype, run->count, NULL);
    const ls_allowance allowed = {.exact = exact, .bounds = bounds, .overflow = overflow};
    ls_difference_from_exact(&difference, ref, run->dtype, run->count, &allowed);
    if (difference.bound_ratio <= 1.0) {
        *out = (allowance){BASIS_PARTS, exact, bounds, overflow};
    }
    return LS_OK;
}

// So much of the largest value, whichever it is.
static int allow_share(allowance *out, ls_arena *arena, const ls_assembled *run, const void *ref,
                       basis by, double share) {
    size_t bytes = ls_dtype_bytes(run->dtype);
    double *exact = ls_arena_alloc(arena, run->count + 1, sizeof *exact);
    double *bounds = ls_arena_alloc(arena, run->count + 1, sizeof *bounds);
    double most = 0;
    if (exact == NULL || bounds == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < run->count; i++) {
        exact[i] = ls_element_to_f64((const char *)ref + i * bytes, run->dtype);
        most = isfinite(exact[i]) && fabs(exact[i]) > most ? fabs(exact[i]) : most;
    }
    for (size_t i = 0; i < run->count; i++) {
        bounds[i] = share * most;
    }
    *out = (allowance){by, exact, bounds, NULL};
    return LS_OK;
}

static int allow(allowance *out, const diff *d, const ls_assembled *run, const ls_assembled *parts,
                 const void *ref) {
    *out = (allowance){.by = BASIS_MOVED};
    if (!ls_dtype_is_float(run->dtype)) {
        return LS_OK;
    }
    LS_TRY(ls_made_expect(&out->exact, &out->bounds, d->arena, d->run, d->ref, run));
    if (out->exact != NULL) {
        out->by = BASIS_MADE;
        return LS_OK;
    }
    LS_TRY(allow_parts(out, d->arena, run, parts, ref));
    if (out->by == BASIS_PARTS) {
        return LS_OK;
    }
    return d->options->has_tolerance
               ? allow_share(out, d->arena, run, ref, BASIS_TOLERANCE, d->options->tolerance)
               : allow_share(out, d->arena, run, ref, BASIS_NONE,
                             sqrt(ls_bound_roundoff(run->dtype)));
}

// ---- One tensor ---------------------------------------------------------------------------------
static const char *name_of(const diff *d, const ls_captured *tensor) {
    return ls_arena_strdup(d->comparison.arena, tensor->name);
}

// Names of tensors are stages; a name that no stage can have says so.
static ls_stage_output output_of(const char *stage, const ls_assembled *run,
                                 const ls_assembled_piece *piece, const void *data) {
    return (ls_stage_output){.stage = stage,
                             .field = "values",
                             .rank = piece->rank,
                             .dtype = run->dtype,
                             .shape = piece->local,
                             .data = data};
}

static int emit(ls_stages *to, const ls_stage_output *output) {
    ls_stage_sink sink = ls_stages_sink(to);
    return sink.emit(sink.arg, output);
}

// What a rank must have, what it may have instead, and what it has.
static int emit_piece(ls_stages *ref, ls_stages *run, ls_stages *expected, const diff *d,
                      const char *stage, const ls_assembled *tensor,
                      const ls_assembled_piece *piece, const void *wanted,
                      const allowance *allowed) {
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    const void *value = NULL;
    void *due = NULL, *has = NULL, *exact = NULL, *bounds = NULL, *overflow = NULL;
    LS_TRY(ls_assembled_value(&value, d->arena, tensor, piece->copy));
    LS_TRY(ls_assembled_cut(&due, d->arena, tensor, piece, wanted, bytes));
    LS_TRY(ls_assembled_cut(&has, d->arena, tensor, piece, value, bytes));
    ls_stage_output output = output_of(stage, tensor, piece, due);
    LS_TRY(emit(ref, &output));
    if (allowed->exact != NULL) {
        const unsigned char *ways = allowed->overflow;
        if (ways == NULL) {
            ways = ls_arena_alloc(d->arena, tensor->count + 1, 1);
        }
        if (ways == NULL) {
            return LS_ERR_MEMORY;
        }
        LS_TRY(ls_assembled_cut(&exact, d->arena, tensor, piece, allowed->exact, sizeof(double)));
        LS_TRY(ls_assembled_cut(&bounds, d->arena, tensor, piece, allowed->bounds, sizeof(double)));
        LS_TRY(ls_assembled_cut(&overflow, d->arena, tensor, piece, ways, 1));
        output.exact = exact;
        output.bounds = bounds;
        output.overflow = overflow;
    }
    LS_TRY(emit(expected, &output));
    output = output_of(stage, tensor, piece, has);
    return emit(run, &output);
}

static int compare_values(diff *d, const char *stage, const ls_assembled *run, const void *wanted,
                          const allowance *allowed) {
    ls_stages *stages[3] = {NULL};
    int status = LS_OK;
    for (int i = 0; i < 3 && status == LS_OK; i++) {
        status = ls_stages_create(&stages[i], d->run->ranks);
    }
    for (int i = 0; i < run->piece_count && status == LS_OK; i++) {
        if (run->pieces[i].term == 0) {
            status = emit_piece(stages[0], stages[1], stages[2], d, stage, run, &run->pieces[i],
                                wanted, allowed);
        }
    }
    if (status == LS_OK) {
        const ls_expectation expectation = {.expected = stages[2]};
        status =
            ls_compare_runs(&d->comparison, stages[0], stages[1], &expectation, "reference", "run");
    }
    for (int i = 0; i < 3; i++) {
        ls_stages_free(stages[i]);
    }
    return status;
}

// Where in the whole the first wrong element is, and why it may be so.
static int explain(diff *d, ls_stage_result *stage, const ls_assembled *run, const void *wanted,
                   const ls_assembled *parts, const allowance *allowed) {
    static const char *const why[] = {
        [BASIS_MOVED] = "every bit counts",
        [BASIS_MADE] = "what the run's own inputs give, in any order",
        [BASIS_PARTS] = "what the sum of the ranks' parts gives, in any order",
        [BASIS_TOLERANCE] = "--tolerance",
        [BASIS_NONE] = "no bound is known; more than half of the digits of the largest value",
    };
    const ls_divergence_place *place = &d->comparison.places[stage - d->comparison.stages];
    const ls_assembled_piece *piece = NULL;
    ls_text text = {0};
    ls_text_puts(&text, stage->divergence);
    for (int i = 0; i < run->piece_count && piece == NULL; i++) {
        piece = run->pieces[i].rank == place->rank ? &run->pieces[i] : NULL;
    }
    if (piece != NULL && place->element < place->count && run->shape.ndim > 0) {
        size_t at = ls_assembled_position(run, piece, place->element);
        size_t inner = run->count / (size_t)(run->shape.dim[0] > 0 ? run->shape.dim[0] : 1);
        char shape[LS_SHAPE_TEXT_MAX];
        ls_shape_format(shape, sizeof shape, &run->shape);
        ls_text_printf(&text, "\n  row %zu of the whole %s", at / inner, shape);
        if (run->of->has_placements) {
            char placed[256];
            ls_placements_format(placed, sizeof placed, &run->of->placements);
            ls_text_printf(&text, ", which lies as %s", placed);
        }
    }
    ls_text_printf(&text, "\n  judged by: %s", why[allowed->by]);
    int copy = piece != NULL ? piece->copy : 0;
    (void)ls_diff_explain(&text, d->arena, wanted, run, copy, parts, d->run->ranks);
    stage->divergence = ls_arena_strdup(d->comparison.arena, ls_text_string(&text));
    ls_text_free(&text);
    return stage->divergence != NULL ? LS_OK : LS_ERR_MEMORY;
}

// A sum within its bound: whether the reference is the same parts', added up in an order that the
// search finds, bit by bit.
static int find_order(diff *d, ls_stage_result *stage, const ls_assembled *run,
                      const ls_assembled *parts, const void *wanted) {
    ls_reduction reduction;
    if (!is_sum(&reduction, run, parts)) {
        return LS_OK;
    }
    const ls_order_observation observation = {
        .call = LS_ORDER_ALL_REDUCE, .reduction = &reduction, .actual = wanted};
    ls_order_explanation found;
    LS_TRY(ls_order_explain(&found, NULL, &observation, &d->search));
    if (found.found) {
        stage->class_ = LS_CLASS_REORDERED;
        stage->order = ls_arena_strdup(d->comparison.arena, ls_order_text(found.order));
    }
    ls_order_explanation_clear(&found);
    return stage->class_ != LS_CLASS_REORDERED || stage->order != NULL ? LS_OK : LS_ERR_MEMORY;
}

// What nothing is derived of is not judged, unless it is bit by bit the same or plainly another.
static int settle(diff *d, ls_stage_result *stage, const ls_assembled *run, const void *wanted,
                  const ls_assembled *parts, const allowance *allowed) {
    if (stage->class_ == LS_CLASS_WRONG) {
        d->wrong = true;
        return explain(d, stage, run, wanted, parts, allowed);
    }
    if (stage->class_ == LS_CLASS_WITHIN_BOUND && allowed->by == BASIS_PARTS) {
        return find_order(d, stage, run, parts, wanted);
    }
    if (stage->class_ != LS_CLASS_WITHIN_BOUND ||
        (allowed->by != BASIS_NONE && allowed->by != BASIS_TOLERANCE)) {
        return LS_OK;
    }
    stage->class_ = LS_CLASS_UNJUDGED;
    stage->bound_ratio = 0;
    stage->order = allowed->by == BASIS_NONE ? "no bound" : "by --tolerance";
    return LS_OK;
}

static int note_wrong(diff *d, const ls_captured *tensor, const char *why) {
    const char *name = name_of(d, tensor);
    ls_stage_result *stage =
        name != NULL ? ls_comparison__stage(&d->comparison, LS_JUDGE_REAL, 0, name) : NULL;
    ls_text text = {0};
    if (stage == NULL) {
        return LS_ERR_MEMORY;
    }
    ls_text_puts(&text, why);
    stage->elements += 1;
    stage->differing += 1;
    ls_comparison__note_wrong(&d->comparison, stage, &text);
    d->wrong = true;
    return LS_OK;
}

static const ls_shape *size_said(const ls_captured *tensor) {
    return tensor->has_shape ? &tensor->shape
           : tensor->piece_count == 1 && !tensor->has_placements && !tensor->pieces[0].placed
               ? &tensor->pieces[0].size
               : NULL;
}

// Both, put together; *why: they cannot be.
static int assemble_both(ls_assembled *a, ls_assembled *b, const char **why, const diff *d,
                         const ls_captured *ref, const ls_captured *run) {
    *why = NULL;
    int status = ls_assemble(a, d->arena, ref, size_said(run));
    const char *whose = "the reference's";
    if (status == LS_OK) {
        status = ls_assemble(b, d->arena, run, &a->shape);
        whose = "the run's";
    }
    if (status == LS_ERR_MISMATCH) {
        *why = ls_arena_printf(d->arena, "%s: %s", whose, ls_error_last()->text);
        ls_error_clear();
        return *why != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    LS_TRY(status);
    if (a->dtype != b->dtype || !ls_shape_equal(&a->shape, &b->shape)) {
        char one[LS_SHAPE_TEXT_MAX], other[LS_SHAPE_TEXT_MAX];
        ls_shape_format(one, sizeof one, &a->shape);
        ls_shape_format(other, sizeof other, &b->shape);
        *why = ls_arena_printf(d->arena, "the reference has %s %s, the run %s %s",
                               ls_dtype_name(a->dtype), one, ls_dtype_name(b->dtype), other);
        return *why != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    return LS_OK;
}

// A linear layer whose input is cut along what it adds up gives each rank a part of the sum. Fills
// in *placed, a copy of `run` that says so, and *ranks [of the run].
static bool is_part(ls_captured *placed, int *ranks, const diff *d, const ls_captured *ref,
                    const ls_captured *run) {
    const ls_captured *input = ls_capture_find(d->run, run->input);
    const ls_captured *whole = ls_capture_find(d->ref, run->input);
    if (run->made != LS_MADE_LINEAR || run->has_placements || run->piece_count < 2 ||
        input == NULL || whole == NULL || input->has_placements || ref->piece_count != 1 ||
        input->piece_count != run->piece_count) {
        return false;
    }
    const ls_shape *cut = &input->pieces[0].size, *full = &whole->pieces[0].size;
    if (cut->ndim != full->ndim || cut->ndim == 0 ||
        cut->dim[cut->ndim - 1] >= full->dim[full->ndim - 1] ||
        !ls_shape_equal(&run->pieces[0].size, &ref->pieces[0].size)) {
        return false;
    }
    *placed = *run;
    placed->has_placements = placed->has_shape = true;
    placed->shape = ref->pieces[0].size;
    placed->placements = LS_PLACE(LS_PARTIAL(LS_SUM));
    placed->mesh = LS_MESH(run->piece_count);
    for (int i = 0; i < run->piece_count; i++) {
        ranks[i] = run->pieces[i].rank;
    }
    placed->mesh_ranks = ranks;
    placed->mesh_count = 1;
    return true;
}

static int compare_tensor(diff *d, const ls_captured *ref, const ls_captured *run) {
    ls_assembled a, b, parts;
    const char *why = NULL, *name = name_of(d, run);
    const ls_captured *of_parts = ls_capture_find(d->run, run->parts);
    ls_captured placed;
    int *ranks = ls_arena_alloc(d->arena, (size_t)run->piece_count, sizeof *ranks);
    if (ranks == NULL || name == NULL) {
        return LS_ERR_MEMORY;
    }
    run = is_part(&placed, ranks, d, ref, run) ? &placed : run;
    LS_TRY(assemble_both(&a, &b, &why, d, ref, run));
    if (why != NULL) {
        return note_wrong(d, run, why);
    }
    bool has_parts = false;
    if (of_parts != NULL) {
        int status = ls_assemble(&parts, d->arena, of_parts, NULL);
        has_parts = status == LS_OK;
        if (status != LS_OK && status != LS_ERR_MISMATCH) {
            return status;
        }
        ls_error_clear();
    }
    allowance allowed;
    const void *wanted = NULL;
    LS_TRY(ls_assembled_value(&wanted, d->arena, &a, 0));
    LS_TRY(allow(&allowed, d, &b, has_parts ? &parts : NULL, wanted));
    LS_TRY(compare_values(d, name, &b, wanted, &allowed));
    ls_stage_result *stage = ls_comparison__stage(&d->comparison, LS_JUDGE_REAL, 0, name);
    return stage != NULL ? settle(d, stage, &b, wanted, has_parts ? &parts : NULL, &allowed)
                         : LS_ERR_MEMORY;
}

// ---- All ----------------------------------------------------------------------------------------
static int compare_all(diff *d, ls_diff_left_out *left_out) {
    for (size_t i = 0; i < d->ref->count; i++) {
        const ls_captured *ref = &d->ref->tensors[i];
        const ls_captured *run = ls_capture_find(d->run, ref->name);
        if (ref->part) {
            continue;
        }
        if (run == NULL && ref->optional) {
            left_out->ref += 1;
            left_out->first = left_out->first == NULL ? ref->name : left_out->first;
            continue;
        }
        if (d->wrong && !d->options->all) {
            left_out->after += 1;  // what comes after the first may well come of it
            continue;
        }
        LS_TRY(ls_arena_create(&d->arena));
        int status = run != NULL ? compare_tensor(d, ref, run)
                                 : note_wrong(d, ref, "no rank of the run has it");
        ls_arena_free(d->arena);
        LS_TRY(status);
    }
    for (size_t i = 0; i < d->run->count; i++) {
        const ls_captured *run = &d->run->tensors[i];
        if (!run->part && ls_capture_find(d->ref, run->name) == NULL) {
            left_out->run += 1;
            left_out->first = left_out->first == NULL ? run->name : left_out->first;
        }
    }
    return LS_OK;
}

int ls_diff_run(ls_results *results, ls_diff_left_out *left_out, const ls_capture *ref,
                const ls_capture *run, const ls_diff_options *options, const char *reproduce) {
    diff d = {.search = SEARCH_ELEMENTS_MAX,
              .ref = ref,
              .run = run,
              .options = options,
              .comparison = {.arena = results->arena, .main = LS_JUDGE_REAL}};
    *left_out = (ls_diff_left_out){0};
    LS_TRY(compare_all(&d, left_out));
    ls_comparison_settle(&d.comparison);
    ls_case_result result = {
        .name = ls_arena_printf(results->arena, "%s (%d ranks) against %s (%d)", run->path,
                                run->ranks, ref->path, ref->ranks),
        .file = ls_arena_strdup(results->arena, run->path),
        .real = "recording",
        .class_ = ls_comparison_class(&d.comparison),
        .pass = !d.wrong,
        .stages = d.comparison.stages,
        .stage_count = d.comparison.stage_count,
        .reproduce = reproduce,
    };
    if (result.pass && result.class_ == LS_CLASS_UNJUDGED && !options->has_tolerance) {
        result.skipped = true;
        result.skip_reason = "no tensor is the same, and no bound is known of any";
    }
    ls_case_result_skip_unjudged(&result);
    return ls_results_add(results, &result);
}
