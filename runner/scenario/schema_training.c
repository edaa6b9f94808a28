// The schema of training. See schema.h; the members are in scenario.h.
#include "runner/scenario/schema_rows.h"

#include "runner/scenario/scenario.h"

static ls_schema_name optimizer_names[LS_OPTIMIZER_KIND_COUNT];  // of ls_optimizer_about
static const ls_schema_name form_names[] = {{"fused", LS_OPTIMIZER_FUSED},
                                            {"dense", LS_OPTIMIZER_DENSE}};
static const ls_schema_name decay_names[] = {
    {"none", LS_DECAY_NONE}, {"l2", LS_DECAY_L2}, {"decoupled", LS_DECAY_DECOUPLED}};
static const ls_schema_name division_names[] = {{"none", LS_GRADIENTS_SUMMED},
                                                {"world_size", LS_GRADIENTS_DIVIDED}};

// One line to a key: easier to read as a table than as clang-format has it.
// clang-format off
#define OF_TYPE      "as the type and form say"

#define S ls_scenario_optimizer
static const ls_schema_field optimizer_fields[] = {
    {"type", LS_FIELD_ENUM, .flags = LS_FIELD_REQUIRED, MEMBER(rule.kind),
     .names = NAMES(optimizer_names), .doc = "The rule.", .example = "type: rowwise_adagrad"},
    {"form", LS_FIELD_ENUM, MEMBER(rule.form), .names = NAMES(form_names), .fallback = "fused",
     .doc = "fused: FBGEMM's formulas, on the rows that a batch touched; dense: torch.optim's, on "
            "every row.",
     .example = "form: dense"},
    {"lr", LS_FIELD_REAL, MEMBER(rule.lr), .min = 0, .max = 1000000, .otherwise = OF_TYPE,
     .doc = "Learning rate.", .example = "lr: 0.02"},
    {"eps", LS_FIELD_REAL, MEMBER(rule.eps), .min = 0, .max = 1000000, .otherwise = OF_TYPE,
     .doc = "Added to a denominator.", .example = "eps: 0.002"},
    {"momentum", LS_FIELD_REAL, MEMBER(rule.momentum), .min = 0, .max = 1, .otherwise = OF_TYPE,
     .doc = "Momentum (sgd, lars_sgd).", .example = "momentum: 0.9"},
    {"beta1", LS_FIELD_REAL, MEMBER(rule.beta1), .min = 0, .max = 1, .otherwise = OF_TYPE,
     .doc = "Decay of the first moment (adam, lamb).", .example = "beta1: 0.9"},
    {"beta2", LS_FIELD_REAL, MEMBER(rule.beta2), .min = 0, .max = 1, .otherwise = OF_TYPE,
     .doc = "Decay of the second moment (adam, lamb).", .example = "beta2: 0.999"},
    {"eta", LS_FIELD_REAL, MEMBER(rule.eta), .min = 0, .max = 1000000, .otherwise = OF_TYPE,
     .doc = "Trust coefficient (lars_sgd).", .example = "eta: 0.001"},
    {"weight_decay", LS_FIELD_REAL, MEMBER(rule.weight_decay), .min = 0, .max = 1000000,
     .otherwise = OF_TYPE, .doc = "Weight decay.", .example = "weight_decay: 0.01"},
    {"weight_decay_mode", LS_FIELD_ENUM, MEMBER(rule.decay), .names = NAMES(decay_names),
     .otherwise = OF_TYPE,
     .doc = "none: no decay. l2: it is added to the gradient. decoupled: it is applied to the "
            "weights.",
     .example = "weight_decay_mode: decoupled"},
    {"initial_accumulator", LS_FIELD_REAL, MEMBER(rule.initial_accumulator), .min = 0,
     .max = 1000000, .otherwise = OF_TYPE, .doc = "Where adagrad's sums start.",
     .example = "initial_accumulator: 0.1"},
    {"stochastic_rounding", LS_FIELD_BOOL, MEMBER(rule.stochastic_rounding), .fallback = "false",
     .doc = "Weights of f16 and bf16 are rounded up or down by chance, drawn from the seed, the "
            "step, the table, and the row and column of the whole table.",
     .example = "stochastic_rounding: true"},
};
const ls_schema_record ls_schema__optimizer = {
    NODE_RECORD("optimizer", "How the gradients change the weights.", optimizer_fields)};
#undef S

#define S ls_scenario_train
static const ls_schema_field train_fields[] = {
    {"steps", LS_FIELD_INT32, MEMBER(steps), .min = 1, .max = LS_SCENARIO_STEPS_MAX,
     .fallback = "1",
     .doc = "Training steps. The inputs of each are drawn anew; values and files that are given "
            "either serve all steps or hold those of all steps, one step after another.",
     .example = "steps: 3"},
    {"gradients", LS_FIELD_RECORD, MEMBER(gradients), .record = &ls_schema__numbers,
     .otherwise = "normal",
     .doc = "The gradients of the outputs, drawn in every step for each rank and feature.",
     .example = "gradients: {uniform: [-1, 1]}"},
    {"gradient_division", LS_FIELD_ENUM, MEMBER(gradient_division), .names = NAMES(division_names),
     .fallback = "world_size",
     .doc = "The divisor of the sum of all ranks' gradients: 1 (none) or the number of ranks, as "
            "in TorchRec.",
     .example = "gradient_division: none"},
    {"clip_norm", LS_FIELD_REAL, .flags = LS_FIELD_POSITIVE, MEMBER(clip_norm), .min = 0,
     .max = 1000000, .otherwise = "none",
     .doc = "The largest norm of all tables' gradients together; larger ones are scaled down.",
     .example = "clip_norm: 1"},
};
const ls_schema_record ls_schema__train = {
    NODE_RECORD("train", "How often, and with what gradients, the tables are trained.",
                train_fields)};
#undef S
// clang-format on

void ls_schema__make_training(void) {
    for (int i = 0; i < LS_OPTIMIZER_KIND_COUNT; i++) {
        optimizer_names[i] = (ls_schema_name){ls_optimizer_about((ls_optimizer_kind)i)->name, i};
    }
}
