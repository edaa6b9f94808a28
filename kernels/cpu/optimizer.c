// The properties of each kind of optimizer: one row each.
#include "kernels/optimizer.h"

#include <math.h>
#include <string.h>

#define NONE      (1u << LS_DECAY_NONE)
#define L2        (1u << LS_DECAY_L2)
#define DECOUPLED (1u << LS_DECAY_DECOUPLED)

typedef struct kind_of {
    ls_optimizer_traits about;
    const char *reads;  // the constants of ls_optimizer in the formula
    double torchrec_states;
} kind_of;

// Formulas of both forms. g: the gradient; m, v: the states; mean_sq(g): its sum of squares / D.
// clang-format off
static const kind_of sgd = {
    .reads = "momentum", .about = {
        .name = "sgd", .state_count = 1, .states = {{"momentum1", "momentum_buffer", false}},
        .decay = {LS_DECAY_NONE, LS_DECAY_L2}, .decays = {NONE, NONE | L2}, .eps = {0, 0},
        .dense_differs = true,
        .formula = "w -= lr g",
        .dense_formula = "g += weight_decay w; m = momentum m + g; w -= lr m",
        .source = "FBGEMM EXACT_SGD; torch.optim.SGD"}};
static const kind_of adagrad = {
    .reads = "eps initial_accumulator", .torchrec_states = 1, .about = {
        .name = "adagrad", .state_count = 1, .states = {{"momentum1", "sum", false}},
        .decay = {LS_DECAY_NONE, LS_DECAY_L2}, .decays = {NONE, NONE | L2}, .eps = {1e-8, 1e-10},
        .dense_differs = true,
        .formula = "m += g g; w -= lr g / (sqrt(m) + eps)",
        .dense_formula = "g += weight_decay w; m += g g; w -= lr g / (sqrt(m) + eps)",
        .source = "FBGEMM EXACT_ADAGRAD; torch.optim.Adagrad"}};
static const kind_of rowwise_adagrad = {
    .reads = "eps initial_accumulator", .torchrec_states = -1, .about = {
        .name = "rowwise_adagrad", .state_count = 1, .states = {{"momentum1", "sum", true}},
        .decay = {LS_DECAY_NONE, LS_DECAY_NONE},
        .decays = {NONE | L2 | DECOUPLED, NONE | L2 | DECOUPLED}, .eps = {1e-8, 1e-8},
        .row_norms = true,
        .formula = "m += mean_sq(g, l2: g + weight_decay w); k = lr / (sqrt(m) + eps); w = c w - k "
                   "g, c = 1 (l2: 1 - k weight_decay; decoupled: 1 - lr weight_decay)",
        .source = "FBGEMM EXACT_ROWWISE_ADAGRAD"}};
static const kind_of adam = {
    .reads = "eps beta1 beta2", .torchrec_states = 2, .about = {
        .name = "adam", .state_count = 2,
        .states = {{"momentum1", "exp_avg", false}, {"momentum2", "exp_avg_sq", false}},
        .decay = {LS_DECAY_DECOUPLED, LS_DECAY_L2},
        .decays = {NONE | DECOUPLED, NONE | L2 | DECOUPLED}, .eps = {1e-8, 1e-8},
        .dense_differs = true,
        .formula = "m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g; w -= lr ((m / (1 - "
                   "beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w)",
        .dense_formula = "g += weight_decay w (decoupled: w *= 1 - lr weight_decay); m += (1 - "
                         "beta1) (g - m); v = beta2 v + (1 - beta2) g g; w -= (lr / (1 - beta1^t)) "
                         "m / (sqrt(v) / sqrt(1 - beta2^t) + eps)",
        .source = "FBGEMM ADAM; torch.optim.Adam"}};
static const kind_of adamw = {
    .reads = "eps beta1 beta2", .torchrec_states = 2, .about = {
        .name = "adamw", .state_count = 2,
        .states = {{"momentum1", "exp_avg", false}, {"momentum2", "exp_avg_sq", false}},
        .decay = {LS_DECAY_DECOUPLED, LS_DECAY_DECOUPLED},
        .decays = {NONE | DECOUPLED, NONE | DECOUPLED}, .eps = {1e-8, 1e-8}, .dense_differs = true,
        .formula = "as adam, whose fused form has decoupled decay",
        .dense_formula = "w *= 1 - lr weight_decay, then as adam",
        .source = "FBGEMM ADAM; torch.optim.AdamW"}};
static const kind_of partial_rowwise_adam = {
    .reads = "eps beta1 beta2", .torchrec_states = 1, .about = {
        .name = "partial_rowwise_adam", .state_count = 2,
        .states = {{"momentum1", "exp_avg", false}, {"momentum2", "exp_avg_sq", true}},
        .decay = {LS_DECAY_DECOUPLED, LS_DECAY_DECOUPLED},
        .decays = {NONE | DECOUPLED, NONE | DECOUPLED}, .eps = {1e-8, 1e-8}, .row_norms = true,
        .formula = "as adam with v = beta2 v + (1 - beta2) mean_sq(g)",
        .source = "FBGEMM PARTIAL_ROWWISE_ADAM"}};
static const kind_of lamb = {
    .reads = "eps beta1 beta2", .torchrec_states = 1, .about = {
        .name = "lamb", .state_count = 2,
        .states = {{"momentum1", "exp_avg", false}, {"momentum2", "exp_avg_sq", false}},
        .decay = {LS_DECAY_DECOUPLED, LS_DECAY_DECOUPLED},
        .decays = {NONE | DECOUPLED, NONE | DECOUPLED}, .eps = {1e-8, 1e-8}, .row_norms = true,
        .formula = "m, v as adam; r = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + "
                   "weight_decay w; w -= lr (|w| / |r|) r, norms of the row, no guard against 0",
        .source = "FBGEMM LAMB"}};
static const kind_of partial_rowwise_lamb = {
    .reads = "eps beta1 beta2", .torchrec_states = 1, .about = {
        .name = "partial_rowwise_lamb", .state_count = 2,
        .states = {{"momentum1", "exp_avg", false}, {"momentum2", "exp_avg_sq", true}},
        .decay = {LS_DECAY_DECOUPLED, LS_DECAY_DECOUPLED},
        .decays = {NONE | DECOUPLED, NONE | DECOUPLED}, .eps = {1e-8, 1e-8}, .row_norms = true,
        .formula = "as lamb with v = beta2 v + (1 - beta2) mean_sq(g), and a product with 1 / "
                   "(sqrt(...) + eps)",
        .source = "FBGEMM PARTIAL_ROWWISE_LAMB"}};
static const kind_of lars_sgd = {
    .reads = "momentum eta", .torchrec_states = 1, .about = {
        .name = "lars_sgd", .state_count = 1, .states = {{"momentum1", "momentum_buffer", false}},
        .decay = {LS_DECAY_L2, LS_DECAY_L2}, .decays = {NONE | L2, NONE | L2}, .eps = {0, 0},
        .row_norms = true,
        .formula = "a = lr eta |w| / (|g| + weight_decay |w|); m = momentum m + a (g + "
                   "weight_decay w); w -= m, norms of the row, no guard against 0",
        .source = "FBGEMM LARS_SGD"}};
// clang-format on

#define KIND(NAME, name) [LS_OPTIMIZER_##NAME] = &name,
static const kind_of *const kinds[LS_OPTIMIZER_KIND_COUNT] = {LS_OPTIMIZER_MAP(KIND)};

static const char *const decay_names[LS_WEIGHT_DECAY_COUNT] = {
    [LS_DECAY_DEFAULT] = "default",
    [LS_DECAY_NONE] = "none",
    [LS_DECAY_L2] = "l2",
    [LS_DECAY_DECOUPLED] = "decoupled",
};

const ls_optimizer_traits *ls_optimizer_about(ls_optimizer_kind kind) {
    LS_ASSERT((unsigned)kind < LS_OPTIMIZER_KIND_COUNT);
    return &kinds[kind]->about;
}

int ls_optimizer_parse(ls_optimizer_kind *out, const char *text) {
    LS_ASSERT(out != NULL && text != NULL);
    for (int kind = 0; kind < LS_OPTIMIZER_KIND_COUNT; kind++) {
        if (strcmp(kinds[kind]->about.name, text) == 0) {
            *out = (ls_optimizer_kind)kind;
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_NOT_FOUND, "no optimizer is called '%s'", text);
}

const char *ls_weight_decay_name(ls_weight_decay decay) {
    LS_ASSERT((unsigned)decay < LS_WEIGHT_DECAY_COUNT);
    return decay_names[decay];
}

bool ls_optimizer_reads(ls_optimizer_kind kind, const char *constant) {
    LS_ASSERT((unsigned)kind < LS_OPTIMIZER_KIND_COUNT && constant != NULL);
    const char *reads = kinds[kind]->reads;
    size_t length = strlen(constant);
    for (const char *word = reads; *word != 0; word += strspn(word, " ")) {
        size_t here = strcspn(word, " ");
        if (here == length && strncmp(word, constant, length) == 0) {
            return true;
        }
        word += here;
    }
    return strcmp(constant, "lr") == 0 || strcmp(constant, "weight_decay") == 0;
}

double ls_optimizer_torchrec_states(ls_optimizer_kind kind) {
    LS_ASSERT((unsigned)kind < LS_OPTIMIZER_KIND_COUNT);
    return kinds[kind]->torchrec_states;
}

ls_optimizer ls_optimizer_default(ls_optimizer_kind kind, ls_optimizer_form form) {
    LS_ASSERT((unsigned)form < LS_OPTIMIZER_FORM_COUNT);
    return (ls_optimizer){.kind = kind,
                          .form = form,
                          .lr = 0.01,
                          .eps = ls_optimizer_about(kind)->eps[form],
                          .beta1 = 0.9,
                          .beta2 = 0.999,
                          .momentum = kind == LS_OPTIMIZER_SGD ? 0 : 0.9,
                          .eta = 0.001};
}

static int check_range(const char *kind, const char *field, double value, double end) {
    if (isfinite(value) && value >= 0 && value < end) {
        return LS_OK;
    }
    return isinf(end) ? LS_FAIL(LS_ERR_INVALID,
                                "optimizer %s: %s is %g; it must be finite and not negative", kind,
                                field, value)
                      : LS_FAIL(LS_ERR_INVALID, "optimizer %s: %s is %g; it must be in [0, %g)",
                                kind, field, value, end);
}

int ls_optimizer_check(const ls_optimizer *o) {
    LS_ASSERT(o != NULL && (unsigned)o->form < LS_OPTIMIZER_FORM_COUNT);
    LS_ASSERT((unsigned)o->decay < LS_WEIGHT_DECAY_COUNT);
    const ls_optimizer_traits *about = ls_optimizer_about(o->kind);
    const struct {
        const char *name;
        double value;
        double end;
    } fields[] = {{"lr", o->lr, INFINITY},
                  {"eps", o->eps, INFINITY},
                  {"beta1", o->beta1, 1},
                  {"beta2", o->beta2, 1},
                  {"momentum", o->momentum, INFINITY},
                  {"weight_decay", o->weight_decay, INFINITY},
                  {"eta", o->eta, INFINITY},
                  {"initial_accumulator", o->initial_accumulator, INFINITY}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        int status = check_range(about->name, fields[i].name, fields[i].value, fields[i].end);
        if (status != LS_OK) {
            return status;
        }
    }
    const char *form = o->form == LS_OPTIMIZER_FUSED ? "fused" : "dense";
    ls_weight_decay decay = o->decay == LS_DECAY_DEFAULT ? about->decay[o->form] : o->decay;
    if ((about->decays[o->form] & (1u << decay)) == 0) {
        return LS_FAIL(LS_ERR_INVALID, "optimizer %s: its %s form has no %s weight decay",
                       about->name, form, decay_names[decay]);
    }
    if (o->weight_decay > 0 && decay == LS_DECAY_NONE && o->decay == LS_DECAY_DEFAULT) {
        return LS_FAIL(
            LS_ERR_INVALID, "optimizer %s: weight_decay %g would do nothing: the %s form decays %s",
            about->name, o->weight_decay, form,
            about->decays[o->form] == NONE ? "no weights" : "weights only by a stated mode");
    }
    if (o->kind == LS_OPTIMIZER_SGD && o->form == LS_OPTIMIZER_FUSED && o->momentum > 0) {
        return LS_FAIL(LS_ERR_INVALID, "optimizer sgd: its fused form has no momentum");
    }
    return LS_OK;
}

double ls_optimizer_start(const ls_optimizer *o) {
    return ls_optimizer_reads(o->kind, "initial_accumulator") ? o->initial_accumulator : 0;
}

int ls_optimizer_state_count(const ls_optimizer *o) {
    LS_ASSERT(o != NULL);
    bool stateless =
        o->kind == LS_OPTIMIZER_SGD && (o->form == LS_OPTIMIZER_FUSED || !(o->momentum > 0));
    return stateless ? 0 : ls_optimizer_about(o->kind)->state_count;
}

ls_weight_decay ls_optimizer_decay(const ls_optimizer *o) {
    LS_ASSERT(o != NULL && (unsigned)o->decay < LS_WEIGHT_DECAY_COUNT);
    if (!(o->weight_decay > 0)) {
        return LS_DECAY_NONE;
    }
    return o->decay == LS_DECAY_DEFAULT ? ls_optimizer_about(o->kind)->decay[o->form] : o->decay;
}

ls_dtype ls_optimizer_state_dtype(ls_dtype table_dtype) {
    return table_dtype == LS_F64 || table_dtype == LS_FIELD ? table_dtype : LS_F32;
}
