// Compares captures tensor by tensor, with compare.h. This file computes the expected value of each
// rank and the allowed difference.
#include "runner/diff/diff.h"

#include <fnmatch.h>
#include <string.h>

#include "orders/explain.h"
#include "runner/compare/compare.h"
#include "runner/diff/diff_internal.h"
#include "runner/diff/explain.h"
#include "runner/diff/field.h"

#define SEARCH_ELEMENTS_MAX                                                                        \
    (UINT64_C(1) << 30)  // limit on input elements of all searches for summation orders

typedef struct diff {
    ls_diff_sides sides;
    ls_comparison comparison;
    bool wrong;       // an order was found
    uint64_t search;  // elements that searches may still fold
    ls_diff_drift drift;
    ls_diff_batches batches;
    ls_omitted *omitted;
    int omitted_count, omitted_room;
} diff;

// ---- One tensor ---------------------------------------------------------------------------------
// A stage's name has no slash.
static const char *name_of(const diff *d, const ls_captured *tensor) {
    char *name = ls_arena_strdup(d->comparison.arena, tensor->name);
    for (char *at = name; at != NULL && *at != 0; at++) {
        *at = *at == '/' ? '|' : *at;
    }
    return name;
}

// Names of tensors become stage names; a name that is no valid stage name is reported.
static ls_stage_output output_of(const char *stage, const ls_assembled *run,
                                 const ls_assembled_piece *piece, const void *data) {
    return (ls_stage_output){.stage = stage,
                             .field = "values",
                             .rank = piece->rank,
                             .dtype = run->dtype,
                             .shape = piece->local,
                             .data = data,
                             .in_room = true};  // borrowed from both sides until the end of the
                                                // comparison
}

static int emit(ls_stages *to, const ls_stage_output *output) {
    ls_stage_sink sink = ls_stages_sink(to);
    return sink.emit(sink.arg, output);
}

enum { REFERENCE, RUN, EXPECTED, STAGES };
// A rank's expected value, the allowed one, and its own.
static int emit_piece(ls_stages *const stages[STAGES], const diff *d, const char *stage,
                      const ls_assembled *tensor, const ls_assembled_piece *piece,
                      const void *wanted, const ls_diff_allowance *allowed) {
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    const void *value = NULL, *due = NULL, *has = NULL;
    const void *exact = NULL, *bounds = NULL, *overflow = NULL;
    LS_TRY(ls_assembled_value(&value, d->sides.arena, tensor, piece->copy));
    LS_TRY(ls_assembled_cut(&due, d->sides.arena, tensor, piece, wanted, bytes));
    LS_TRY(ls_assembled_cut(&has, d->sides.arena, tensor, piece, value, bytes));
    ls_stage_output output = output_of(stage, tensor, piece, due);
    LS_TRY(emit(stages[REFERENCE], &output));
    if (allowed->exact != NULL) {
        const unsigned char *ways = allowed->overflow;
        if (ways == NULL) {
            ways = ls_arena_alloc(d->sides.arena, tensor->count + 1, 1);
        }
        LS_TRY_MEMORY(ways != NULL);
        LS_TRY(ls_assembled_cut(&exact, d->sides.arena, tensor, piece, allowed->exact,
                                sizeof(double)));
        LS_TRY(ls_assembled_cut(&bounds, d->sides.arena, tensor, piece, allowed->bounds,
                                sizeof(double)));
        LS_TRY(ls_assembled_cut(&overflow, d->sides.arena, tensor, piece, ways, 1));
        output.exact = exact;
        output.bounds = bounds;
        output.overflow = overflow;
    }
    LS_TRY(emit(stages[EXPECTED], &output));
    output = output_of(stage, tensor, piece, has);
    return emit(stages[RUN], &output);
}

// Whether every rank has the reference's bits; *elements: the number on these ranks.
static int is_same(bool *out, uint64_t *elements, const diff *d, const ls_diff_pair *p) {
    const ls_assembled *run = &p->run;
    *out = true;
    *elements = 0;
    for (int copy = 0; copy < (p->alike ? 1 : run->copies) && *out; copy++) {
        const void *value = NULL;
        LS_TRY(ls_assembled_value(&value, d->sides.arena, run, copy));
        *out = memcmp(value, p->wanted[copy], run->count * ls_dtype_bytes(run->dtype)) == 0;
    }
    for (int i = 0; i < run->piece_count; i++) {
        size_t count = 0;
        LS_TRY(ls_shape_count(&count, &run->pieces[i].local));
        *elements += run->pieces[i].term == 0 ? count : 0;
    }
    return LS_OK;
}

// All copies share the verdict of one copy.
static int count_copies(diff *d, const char *name, int copies) {
    ls_stage_result *stage = ls_comparison__stage(&d->comparison, LS_JUDGE_REAL, 0, name);
    LS_TRY_MEMORY(stage != NULL);
    stage->elements *= (uint64_t)copies;
    stage->differing *= (uint64_t)copies;
    stage->unjudged *= (uint64_t)copies;
    stage->vacuous *= (uint64_t)copies;
    return LS_OK;
}

// allowed [copies]
static int compare_values(diff *d, const char *stage, const ls_diff_pair *p,
                          const ls_diff_allowance *allowed) {
    ls_stages *stages[3] = {NULL};
    const ls_assembled *run = &p->run;
    int status = LS_OK;
    for (int i = 0; i < 3 && status == LS_OK; i++) {
        status = ls_stages_create(&stages[i], d->sides.run->ranks);
    }
    for (int i = 0; i < run->piece_count && status == LS_OK; i++) {
        const ls_assembled_piece *piece = &run->pieces[i];
        if (piece->term == 0 && (piece->copy == 0 || !p->alike)) {
            status = emit_piece(stages, d, stage, run, piece, p->wanted[piece->copy],
                                &allowed[piece->copy]);
        }
    }
    if (status == LS_OK) {
        const ls_expectation expectation = {.expected = stages[2]};
        status =
            ls_compare_runs(&d->comparison, stages[0], stages[1], &expectation, "reference", "run");
    }
    if (status == LS_OK && p->alike) {
        status = count_copies(d, stage, run->copies);
    }
    for (int i = 0; i < 3; i++) {
        ls_stages_free(stages[i]);
    }
    return status;
}

// The place in the whole of the first wrong element, and a possible reason.
static int explain(diff *d, ls_stage_result *stage, const ls_diff_pair *p,
                   const ls_diff_allowance *allowed) {
    const ls_assembled *run = &p->run;
    const char *const why[] = {
        [BASIS_MOVED] = run->of->modulus > 0 ? "exact arithmetic in a field" : "every bit counts",
        [BASIS_MADE] = "the run's own inputs, in any order",
        [BASIS_PARTS] = "the sum of the ranks' parts, in any order",
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
            ls_text_printf(&text, ", placed as %s", placed);
        }
    }
    int copy = piece != NULL ? piece->copy : 0;
    ls_text_printf(&text, "\n  judged by: %s", why[allowed[copy].by]);
    (void)ls_diff_explain(&text, &d->sides, p, copy);
    stage->divergence = ls_result_text(d->comparison.arena, &text);
    return stage->divergence != NULL ? LS_OK : LS_ERR_MEMORY;
}

// For a sum within its bound: searches an order of the same parts that gives the reference's bits.
static int find_order(diff *d, ls_stage_result *stage, const ls_diff_pair *p) {
    ls_reduction reduction;
    if (!ls_diff__is_sum(&reduction, p)) {
        return LS_OK;
    }
    const ls_order_observation observation = {
        .call = LS_ORDER_ALL_REDUCE, .reduction = &reduction, .actual = p->wanted[0]};
    ls_order_explanation found;
    LS_TRY(ls_order_explain(&found, NULL, &observation, &d->search));
    if (found.found) {
        stage->class_ = LS_CLASS_REORDERED;
        stage->unjudged -= stage->vacuous;
        stage->elements += stage->vacuous;
        stage->vacuous = 0;
        stage->order = ls_arena_strdup(d->comparison.arena, ls_order_text(found.order));
    }
    ls_order_explanation_clear(&found);
    return stage->class_ != LS_CLASS_REORDERED || stage->order != NULL ? LS_OK : LS_ERR_MEMORY;
}

// A tensor without a bound that proves anything is unjudged, unless all bits are equal or it is
// clearly different.
static int settle(diff *d, ls_stage_result *stage, const ls_diff_pair *p,
                  const ls_diff_allowance *allowed) {
    const char *opaque = p->run.of->opaque != NULL ? p->run.of->opaque : p->ref_of->opaque;
    if (stage->class_ == LS_CLASS_WRONG && p->run.of->modulus > 0 && opaque != NULL) {
        return ls_diff__field_leave(stage, d->comparison.arena, opaque);
    }
    if (stage->class_ == LS_CLASS_WRONG) {
        d->wrong = true;
        return explain(d, stage, p, allowed);
    }
    if (ls_stage_wants_order(stage) && allowed->by == BASIS_PARTS) {
        LS_TRY(find_order(d, stage, p));
    }
    bool is_free = allowed->by == BASIS_NONE || allowed->by == BASIS_TOLERANCE;
    if (stage->class_ != LS_CLASS_WITHIN_BOUND || !(is_free || allowed->vacuous)) {
        return LS_OK;
    }
    stage->class_ = LS_CLASS_UNJUDGED;
    stage->bound_ratio = 0;
    stage->order = allowed->by == BASIS_TOLERANCE ? "by --tolerance" : "the bound proves nothing";
    if (allowed->by == BASIS_NONE) {
        stage->order = "no bound";
    }
    return LS_OK;
}

static int note_wrong(diff *d, const ls_captured *tensor, const char *why) {
    const char *name = name_of(d, tensor);
    ls_stage_result *stage =
        name != NULL ? ls_comparison__stage(&d->comparison, LS_JUDGE_REAL, 0, name) : NULL;
    ls_text text = {0};
    LS_TRY_MEMORY(stage != NULL);
    ls_text_puts(&text, why);
    stage->elements += 1;
    stage->differing += 1;
    ls_comparison__note_wrong(&d->comparison, stage, &text);
    d->wrong = true;
    return LS_OK;
}

// Lists a tensor as not compared.
static int omit(diff *d, const char *name, const char *why) {
    ls_arena *arena = d->comparison.arena;
    ls_omitted *more =
        ls_arena_grow(arena, d->omitted, d->omitted_count, &d->omitted_room, sizeof *more);
    LS_TRY_MEMORY(more != NULL);
    d->omitted = more;
    ls_omitted *added = &more[d->omitted_count++];
    *added = (ls_omitted){ls_arena_strdup(arena, name), ls_arena_strdup(arena, why)};
    return added->name != NULL && added->why != NULL ? LS_OK : LS_ERR_MEMORY;
}

static const char other_rows[] = "the module's calls take other parts of the batch";

static int compare_assembled(diff *d, const char *name, ls_diff_pair *p) {
    uint64_t elements = 0;
    bool same = false;
    LS_TRY(is_same(&same, &elements, d, p));
    bool recut = false;
    ls_diff_order order = LS_DIFF_ORDER_KEPT;
    LS_TRY(ls_diff__deal(&order, &d->sides, p, same));
    LS_TRY(order == LS_DIFF_ORDER_FOUND ? is_same(&same, &elements, d, p) : LS_OK);
    LS_TRY(same ? LS_OK : ls_diff__recut(&recut, &d->sides, p));
    bool counted = !same && !recut && ls_diff__is_counted(&d->sides, p);
    if (recut || (order == LS_DIFF_ORDER_UNKNOWN && !counted)) {
        return omit(d, name, recut ? other_rows : "no input has the order of its rows");
    }
    bool parts = !same && ls_diff__field_is_parts(&d->sides, p);
    bool other_call = !same && !parts && ls_diff__is_other_call(&d->sides, p);
    same = same || parts || other_call || counted;
    ls_diff_allowance *allowed =
        ls_arena_alloc(d->sides.arena, (size_t)p->run.copies, sizeof *allowed);
    LS_TRY_MEMORY(allowed != NULL);
    for (int copy = 0; copy < p->run.copies && !same; copy++) {
        if (copy > 0 && p->same) {
            allowed[copy] = allowed[0];
        } else {
            LS_TRY(ls_diff__allow(&allowed[copy], &d->sides, p, copy));
        }
    }
    if (allowed->refuted != NULL) {
        return note_wrong(d, p->run.of, allowed->refuted);
    }
    if (!same) {
        LS_TRY(compare_values(d, name, p, allowed));
    }
    ls_stage_result *stage = ls_comparison__stage(&d->comparison, LS_JUDGE_REAL, 0, name);
    LS_TRY_MEMORY(stage != NULL);
    if (same) {
        ls_stage_result_compared(stage, elements);
        // An empty tensor counts, too.
        stage->class_ = p->run.of->modulus > 0 ? LS_CLASS_PROVED : LS_CLASS_BIT_EXACT;
        stage->order = parts ? "parts of a sum" : p->losses;
        stage->order = other_call ? "the module's calls in another order" : stage->order;
        stage->order = counted ? "counted from each rank's rows" : stage->order;
        const ls_deal *deal = p->run.of->deal;
        if (p->run.dealt && strstr(name, " input ") != NULL) {
            stage->order = deal->in_turns ? "rows dealt round-robin" : "rows in another order";
            stage->order = deal->joined ? "rows of joined batches" : stage->order;
        }
        return LS_OK;
    }
    return settle(d, stage, p, allowed);
}

static int compare_tensor(diff *d, const ls_captured *ref, const ls_captured *run) {
    ls_diff_pair p;
    const char *why = NULL, *name = name_of(d, run);
    LS_TRY_MEMORY(name != NULL);
    if (run->recut) {
        return omit(d, name, other_rows);
    }
    LS_TRY(ls_diff__pair(&p, &why, &d->sides, ref, run));
    if (why != NULL && ref->optional &&
        ls_diff__calls_of(d->sides.arena, d->sides.ref, ref->name) !=
            ls_diff__calls_of(d->sides.arena, d->sides.run, ref->name)) {
        return omit(d, name, other_rows);
    }
    LS_TRY(why == NULL ? ls_diff__join_losses(&p, &d->sides, run) : LS_OK);
    const char *reason = ls_diff__beyond(&d->sides, &p, ref, run, why != NULL);
    if (reason != NULL) {
        return omit(d, name, reason);
    }
    return why != NULL ? note_wrong(d, run, why) : compare_assembled(d, name, &p);
}

// ---- All ----------------------------------------------------------------------------------------
// The reason why a tensor of the reference is not compared; NULL: it is compared.
static const char *reason_to_omit(const diff *d, const ls_captured *ref, const ls_captured *run) {
    for (size_t i = 0; i < d->sides.options->ignored_count; i++) {
        if (fnmatch(d->sides.options->ignored[i], ref->name, 0) == 0) {
            return "--ignore";
        }
    }
    for (int i = 0; run == NULL && i < d->sides.run->omitted_count; i++) {
        const ls_omitted *one = &d->sides.run->omitted[i];
        if (strcmp(one->name, ref->name) == 0) {
            return one->why;
        }
    }
    if (run != NULL && run->fused && ref->as != NULL && strncmp(ref->as, "parameter ", 10) == 0) {
        return "the run's backward updates it, and the reference takes no step";
    }
    if (run == NULL && ref->optional) {
        return "only the reference has it";
    }
    bool later = d->wrong && !d->sides.options->all;
    return later ? "it comes after the first wrong tensor; --all compares it" : NULL;
}

static int compare_all(diff *d) {
    for (size_t i = 0; i < d->sides.ref->count; i++) {
        const ls_captured *ref = &d->sides.ref->tensors[i];
        const ls_captured *run = ls_capture_find(d->sides.run, ref->name);
        bool seen = run != NULL && ref->as != NULL && run->as != NULL &&
                    strcmp(ref->as, run->as) == 0 && ls_capture_find(d->sides.run, run->as) != NULL;
        const char *why = reason_to_omit(d, ref, run);
        if (seen || (ref->part && (run == NULL || run->part))) {
            continue;
        }
        if (why != NULL) {
            LS_TRY(omit(d, ref->name, why));
            continue;
        }
        LS_TRY(ls_arena_create(&d->sides.arena));
        int status = run != NULL ? compare_tensor(d, ref, run)
                                 : note_wrong(d, ref, "no rank of the run has it");
        ls_arena_free(d->sides.arena);
        LS_TRY(status);
    }
    for (size_t i = 0; i < d->sides.run->count; i++) {
        const ls_captured *run = &d->sides.run->tensors[i];
        if (!run->part && ls_capture_find(d->sides.ref, run->name) == NULL) {
            LS_TRY(omit(d, run->name, "only the run has it"));
        }
    }
    const ls_capture *const sides[2] = {d->sides.ref, d->sides.run};
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < sides[side]->omitted_count; i++) {
            const ls_omitted *one = &sides[side]->omitted[i];
            bool twice = false;
            for (int k = 0; k < d->omitted_count; k++) {
                twice = twice || strcmp(d->omitted[k].name, one->name) == 0;
            }
            LS_TRY(twice ? LS_OK : omit(d, one->name, one->why));
        }
    }
    return LS_OK;
}

// Reports how many tensors were not judged or judged in part. NULL: all were judged.
static int count_unjudged(const char **out, const ls_comparison *comparison) {
    int whole = 0, part = 0;
    *out = NULL;
    for (int s = 0; s < comparison->stage_count; s++) {
        const ls_stage_result *stage = &comparison->stages[s];
        whole += stage->class_ == LS_CLASS_UNJUDGED;
        part += stage->class_ != LS_CLASS_UNJUDGED && stage->unjudged > 0;
    }
    if (whole + part == 0) {
        return LS_OK;
    }
    ls_text text = {0};
    ls_text_printf(&text, "%d of %d tensors not judged", whole, comparison->stage_count);
    if (part > 0) {
        ls_text_printf(&text, ", %d in part", part);
    }
    *out = ls_result_text(comparison->arena, &text);
    return *out != NULL ? LS_OK : LS_ERR_MEMORY;
}

int ls_diff_ignore(ls_diff_options *options, ls_arena *arena, const char *patterns) {
    size_t length = patterns != NULL ? strlen(patterns) : 0;
    const char **ignored = ls_arena_alloc(arena, length + 1, sizeof *ignored);
    char *words = ls_arena_strdup(arena, length > 0 ? patterns : ""), *rest = NULL;
    LS_TRY_MEMORY(ignored != NULL && words != NULL);
    for (char *at = strtok_r(words, ",", &rest); at != NULL; at = strtok_r(NULL, ",", &rest)) {
        ignored[options->ignored_count++] = at;
    }
    options->ignored = ignored;
    return LS_OK;
}

int ls_diff_run(ls_results *results, const ls_capture *ref, ls_capture *run,
                const ls_diff_options *options, const char *reproduce) {
    diff d = {.search = SEARCH_ELEMENTS_MAX,
              .sides = {.ref = ref, .run = run, .options = options},
              .comparison = {.arena = results->arena, .main = LS_JUDGE_REAL}};
    for (int side = 0; side < 2; side++) {
        size_t ranks = (size_t)(side == 0 ? ref : run)->ranks;
        d.sides.alone[side] = ls_arena_alloc(results->arena, ranks, ranks);
        LS_TRY(d.sides.alone[side] != NULL ? LS_OK : LS_ERR_MEMORY);
    }
    d.sides.drift = &d.drift;
    d.sides.batches = &d.batches;
    LS_TRY(compare_all(&d));
    ls_comparison_settle(&d.comparison);
    const char *unproven = NULL, *proof = NULL;
    LS_TRY(count_unjudged(&unproven, &d.comparison));
    LS_TRY(ls_diff__field_state(&proof, &d.comparison, &d.sides));
    ls_case_result result = {
        .name = options->name != NULL
                    ? options->name
                    : ls_arena_printf(results->arena, "%s (%d ranks) against %s (%d)", run->path,
                                      run->ranks, ref->path, ref->ranks),
        .file = ls_arena_strdup(results->arena, options->file != NULL ? options->file : run->path),
        .note = options->note,
        .real = options->name != NULL ? NULL : "recording",
        .class_ = ls_comparison_class(&d.comparison),
        .pass = !d.wrong,
        .stages = d.comparison.stages,
        .stage_count = d.comparison.stage_count,
        .omitted = d.omitted,
        .omitted_count = (size_t)d.omitted_count,
        .unproven = unproven,
        .checked = proof,
        .reproduce = reproduce,
    };
    if (result.pass && result.class_ == LS_CLASS_UNJUDGED && !options->has_tolerance) {
        result.skipped = true;
        result.skip_reason = "no tensor is equal, and none has a known bound";
    }
    ls_case_result_skip_unjudged(&result);
    return ls_results_add(results, &result);
}
