// softmax, log_softmax, cross_entropy, norm: along a dimension that may be sharded, without
// gathering it.
#include "runner/steps/fields.h"

static const ls_schema_name reduction_names[] = {
    {"none", LS_LOSS_EACH}, {"sum", LS_LOSS_SUM}, {"mean", LS_LOSS_MEAN}};
static const ls_schema_names reductions = {reduction_names, 3};

#define LINE_FIELDS LS_STEP_TENSOR_FIELDS, LS_STEP_DIM_FIELD(fold.dim)

static const ls_schema_field fields[] = {LINE_FIELDS};

// clang-format off
static const ls_schema_field norm_fields[] = {
    LINE_FIELDS,
    {"p", LS_FIELD_REAL, LS_MEMBER(fold.p), .min = 1, .max = 1000, .fallback = "2",
     .doc = "Which norm: the p-th root of the sum of the p-th powers.", .example = "p: 1"},
};

static const ls_schema_field loss_fields[] = {
    LS_STEP_NAME_FIELD,
    LS_STEP_EXCEPT_FIELD,
    {"into", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(into),
     .doc = "The name of the result.", .example = "into: losses"},
    {"tensor", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(tensor),
     .doc = "The logits [samples, classes]; either dimension may be sharded.",
     .example = "tensor: logits"},
    {"other", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(cross_entropy.other),
     .doc = "The targets [samples], i64.", .example = "other: targets"},
    {"ignored", LS_FIELD_INT, LS_MEMBER(cross_entropy.ignored), .min = -LS_SCENARIO_COUNT_MAX,
     .max = LS_SCENARIO_COUNT_MAX, .fallback = "-100",
     .doc = "The target of samples that do not count (ignore_index): their loss is 0.",
     .example = "ignored: 0"},
    {"weights", LS_FIELD_STRING, LS_MEMBER(cross_entropy.weights), .otherwise = "all 1",
     .doc = "A tensor [classes], of the logits' type: the factor of a loss by its target's class.",
     .example = "weights: of_classes"},
    {"smoothing", LS_FIELD_REAL, LS_MEMBER(cross_entropy.smoothing), .min = 0, .max = 1,
     .fallback = "0", .doc = "How much of each label goes to all classes alike (label_smoothing).",
     .example = "smoothing: 0.1"},
    {"reduction", LS_FIELD_ENUM, LS_MEMBER(cross_entropy.reduction), .names = &reductions,
     .fallback = "none",
     .doc = "none: one loss per sample. sum: their sum. mean: their sum divided by the weights of "
            "the targets that count.",
     .example = "reduction: mean"},
};
// clang-format on

// Partial values are reduced first.
static bool bring(ls_placements *to, const ls_scenario_step *step, const ls_local_tensor *const *in,
                  int count, int index) {
    (void)step, (void)count;
    const ls_placements *lie = ls_local_tensor_placements(in[index]);
    for (int d = 0; lie != NULL && d < lie->count; d++) {
        to->at[d] = lie->at[d].kind == LS_PLACE_PARTIAL ? LS_REPLICATE : lie->at[d];
    }
    to->count = lie != NULL ? lie->count : 0;
    return ls_placements_any_partial(lie);
}

static int dim_of(const ls_scenario_step *step, const ls_cells *in) {
    return step->fold.dim + (step->fold.dim < 0 ? in->shape.ndim : 0);
}

static void without(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                    const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)step, (void)first, (void)last;
    made->copies = scenario->ranks;
}

// ---- softmax ------------------------------------------------------------------------------------
static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)count;
    return ls_tensor_softmax(out, program->backend, in[0], step->fold.dim,
                             step->kind == LS_STEP_LOG_SOFTMAX);
}

static int know(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    out->whole = in->known.whole != NULL ? ls_arena_alloc(arena, 1, sizeof *out->whole) : NULL;
    return out->whole != NULL
               ? ls_cells__softmax(out->whole, arena, in->known.whole,
                                   dim_of(step, in->known.whole), ls_local_tensor_dtype(made),
                                   step->kind == LS_STEP_LOG_SOFTMAX)
               : LS_OK;
}

static const char *has_exponentials(ls_scenario_step *step) {
    (void)step;
    return "has a maximum and exponentials, which are not modelled";
}

#define SOFTMAX(name_, doc_)                                                                       \
    const ls_step_type ls_step__##name_ = {LS_STEP_RECORD(#name_, fields, doc_),                   \
                                           .form = LS_STEP_OF_TENSORS,                             \
                                           .to_field = has_exponentials,                           \
                                           .bring = bring,                                         \
                                           .run = ls_program__tensor_step,                         \
                                           .make = make,                                           \
                                           .sums = sums,                                           \
                                           .know = know}

// Ranks add their sums if the dimension is sharded.
static bool sums(const ls_scenario_step *step, const ls_local_tensor *in) {
    const ls_placements *lie = ls_local_tensor_placements(in);
    bool sharded = false;
    for (int d = 0; lie != NULL && d < lie->count; d++) {
        int ndim = ls_local_tensor_shape(in)->ndim;
        int dim = step->kind == LS_STEP_CROSS_ENTROPY ? 1 : step->fold.dim;
        sharded =
            sharded || lie->at[d].kind == LS_PLACE_PARTIAL ||
            (lie->at[d].kind == LS_PLACE_SHARD && lie->at[d].dim == dim + (dim < 0 ? ndim : 0));
    }
    return sharded;
}

SOFTMAX(softmax, "exp(x) over the sum of its line along one dimension, sharded or not.");
SOFTMAX(log_softmax, "The logarithm of a softmax.");

// ---- cross_entropy ------------------------------------------------------------------------------
static bool loss_operand(ls_step_operand *out, const ls_scenario_step *step, int index) {
    const char *const keys[] = {"tensor", "other", "weights"};
    const char *const names[] = {step->tensor, step->cross_entropy.other,
                                 step->cross_entropy.weights};
    if (index > 2 || names[index] == NULL) {
        return false;
    }
    *out = (ls_step_operand){names[index], ls_node_mark(&step->node, keys[index])};
    return true;
}

// Targets get the placements of the logits' samples; class weights are replicated.
static bool bring_targets(ls_placements *to, const ls_scenario_step *step,
                          const ls_local_tensor *const *in, int count, int index) {
    const ls_placements *logits = ls_local_tensor_placements(in[0]);
    const ls_placements *targets = ls_local_tensor_placements(in[1]);
    if (index == 0 || logits == NULL || targets == NULL) {
        return index == 0 && bring(to, step, in, count, index);
    }
    if (index == 2) {
        targets = ls_local_tensor_placements(in[2]);
    }
    for (int d = 0; d < logits->count; d++) {
        bool samples = index == 1 && logits->at[d].kind == LS_PLACE_SHARD && logits->at[d].dim == 0;
        to->at[d] = samples ? logits->at[d] : LS_REPLICATE;
    }
    to->count = logits->count;
    return !ls_placements_equal(to, targets, to->count,
                                ls_world_mesh(ls_local_tensor_world(in[1]))->dim);
}

static int make_loss(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                     const ls_local_tensor *const *in, int count) {
    const ls_loss_options options = {.ignored = step->cross_entropy.ignored,
                                     .smoothing = step->cross_entropy.smoothing,
                                     .weights = count > 2 ? in[2] : NULL,
                                     .reduction = (ls_loss_reduction)step->cross_entropy.reduction};
    return ls_tensor_cross_entropy(out, program->backend, in[0], in[1], &options);
}

static int know_loss(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                     const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    const ls_cells_loss loss = {.logits = in[0].known.whole,
                                .targets = in[1].known.whole,
                                .weights = count > 2 ? in[2].known.whole : NULL,
                                .ignored = step->cross_entropy.ignored,
                                .smoothing = step->cross_entropy.smoothing};
    ls_cells each;
    if (loss.logits == NULL || loss.targets == NULL || (count > 2 && loss.weights == NULL)) {
        return LS_OK;
    }
    out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
    LS_TRY(out->whole != NULL ? LS_OK : LS_ERR_MEMORY);
    LS_TRY(ls_cells__cross_entropy(&each, arena, &loss, ls_local_tensor_dtype(made)));
    if (step->cross_entropy.reduction == LS_LOSS_EACH) {
        *out->whole = each;
        return LS_OK;
    }
    return ls_cells__sum_losses(out->whole, arena, &each, &loss,
                                step->cross_entropy.reduction == LS_LOSS_MEAN,
                                ls_local_tensor_dtype(made));
}

const ls_step_type ls_step__cross_entropy = {
    LS_STEP_RECORD("cross_entropy", loss_fields,
                   "Each sample's -log softmax of its target, or the sum or mean of all; the "
                   "classes may be sharded."),
    .form = LS_STEP_OF_TENSORS,
    .to_field = has_exponentials,
    .operand = loss_operand,
    .size = without,
    .bring = bring_targets,
    .run = ls_program__tensor_step,
    .make = make_loss,
    .refuses = true,
    .sums = sums,
    .know = know_loss,
};

// ---- norm ---------------------------------------------------------------------------------------
static int make_norm(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                     const ls_local_tensor *const *in, int count) {
    (void)count;
    return ls_tensor_norm(out, program->backend, in[0], step->fold.dim, step->fold.p);
}

static int know_norm(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                     const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    out->whole = in->known.whole != NULL ? ls_arena_alloc(arena, 1, sizeof *out->whole) : NULL;
    return out->whole != NULL
               ? ls_cells__norm(out->whole, arena, in->known.whole, dim_of(step, in->known.whole),
                                step->fold.p, ls_local_tensor_dtype(made))
               : LS_OK;
}

const ls_step_type ls_step__norm = {
    LS_STEP_RECORD("norm", norm_fields, "The p-norm along one dimension, sharded or not."),
    .form = LS_STEP_OF_TENSORS,
    .to_field = ls_step__compares,
    .size = without,
    .bring = bring,
    .run = ls_program__tensor_step,
    .make = make_norm,
    .sums = sums,
    .know = know_norm,
};
