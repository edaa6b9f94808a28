// Optimizers: what each kind is called, which state it keeps, its formula and defaults. Updating
// rows by them and what comes before (gradients per row) are kernels of kernels/training.h.
//
// Weights are f32, f16, bf16 or f64; state and gradients are f32, of f64 tables f64 ("T" below).
// Hyperparameters are rounded to T first. A sum of squares over a row of D columns is taken in T in
// eight partial sums, column c into number c % 8, each from +0, then ((0+1)+(2+3))+((4+5)+(6+7)):
// the order of FBGEMM's CPU kernels.
#ifndef LS_KERNELS_OPTIMIZER_H
#define LS_KERNELS_OPTIMIZER_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_OPTIMIZER_MAP(X)                                                                        \
    X(SGD, sgd)                                                                                    \
    X(ADAGRAD, adagrad)                                                                            \
    X(ROWWISE_ADAGRAD, rowwise_adagrad)                                                            \
    X(ADAM, adam)                                                                                  \
    X(ADAMW, adamw)                                                                                \
    X(PARTIAL_ROWWISE_ADAM, partial_rowwise_adam)                                                  \
    X(LAMB, lamb)                                                                                  \
    X(PARTIAL_ROWWISE_LAMB, partial_rowwise_lamb)                                                  \
    X(LARS_SGD, lars_sgd)

typedef enum ls_optimizer_kind {
#define LS_OPTIMIZER_ENUM(name, text) LS_OPTIMIZER_##name,
    LS_OPTIMIZER_MAP(LS_OPTIMIZER_ENUM)
#undef LS_OPTIMIZER_ENUM
        LS_OPTIMIZER_KIND_COUNT
} ls_optimizer_kind;

typedef enum ls_weight_decay {
    LS_DECAY_DEFAULT,    // the value of the kind's row for the form
    LS_DECAY_NONE,       // weight_decay does nothing
    LS_DECAY_L2,         // added to the gradient: g + weight_decay w
    LS_DECAY_DECOUPLED,  // beside the gradient: w - lr weight_decay w
    LS_WEIGHT_DECAY_COUNT
} ls_weight_decay;

typedef enum ls_optimizer_form {
    LS_OPTIMIZER_FUSED,  // FBGEMM's formulas, only for rows with a gradient
    LS_OPTIMIZER_DENSE,  // torch.optim's, for every row; of a kind that torch.optim lacks, FBGEMM's
    LS_OPTIMIZER_FORM_COUNT
} ls_optimizer_form;

typedef struct ls_optimizer {
    ls_optimizer_kind kind;
    ls_optimizer_form form;
    double lr;
    double eps;
    double beta1;
    double beta2;
    double momentum;  // lars_sgd, and sgd in the dense form
    double weight_decay;
    double eta;                  // lars_sgd
    double initial_accumulator;  // initial value of the first state of adagrad and rowwise_adagrad
    ls_weight_decay decay;
    bool stochastic_rounding;  // of f16 and bf16 weights; else to nearest even
    uint64_t seed;             // of stochastic rounding
} ls_optimizer;

// One state of a kind. per_row: one number for each row, else one for each element.
typedef struct ls_optimizer_state_traits {
    const char *name;        // FBGEMM's: "momentum1", "momentum2"
    const char *torch_name;  // torch.optim's: "exp_avg", ...
    bool per_row;
} ls_optimizer_state_traits;

// Properties of the kind. Of the arrays of two, the first is of the fused form.
typedef struct ls_optimizer_traits {
    const char *name;                     // as scenarios have it: "rowwise_adagrad"
    int state_count;                      // at most; ls_optimizer_state_count: in use
    ls_optimizer_state_traits states[2];  //
    ls_weight_decay decay[2];             // LS_DECAY_DEFAULT means this
    unsigned decays[2];                   // those that the form has: bit 1 << ls_weight_decay
    double eps[2];                        // default
    bool dense_differs;                   // torch.optim has the kind: the forms' formulas differ
    bool row_norms;                       // reads a whole row at once: column shards change it
    const char *formula;                  // fused
    const char *dense_formula;            // or NULL
    const char *source;                   // where the formulas are from
} ls_optimizer_traits;

LS_API_BACKENDS const ls_optimizer_traits *ls_optimizer_about(ls_optimizer_kind kind);
int ls_optimizer_parse(ls_optimizer_kind *out, const char *text);  // LS_ERR_NOT_FOUND
const char *ls_weight_decay_name(ls_weight_decay decay);           // "default", "none", "l2", ...

// Whether the kind's formula reads a constant, a member of ls_optimizer by name; others have no
// effect. ls_optimizer_check() has the rules of weight decay and the forms of momentum.
bool ls_optimizer_reads(ls_optimizer_kind kind, const char *constant);
// The state that TorchRec's planner counts, in the weights' bytes; -1: one number for each row.
double ls_optimizer_torchrec_states(ls_optimizer_kind kind);

// lr 0.01, beta1 0.9, beta2 0.999, momentum 0.9 (sgd: 0), weight_decay 0, eta 0.001, nearest.
LS_API ls_optimizer ls_optimizer_default(ls_optimizer_kind kind, ls_optimizer_form form);
// LS_ERR_INVALID names the invalid field: not finite or out of its range, or a weight decay that
// the form ignores.
LS_API_BACKENDS int ls_optimizer_check(const ls_optimizer *optimizer);
// States in use: the traits' number, but sgd has one only in the dense form with momentum.
LS_API_BACKENDS int ls_optimizer_state_count(const ls_optimizer *optimizer);
// The initial value of every element of its states: initial_accumulator, of the kinds that have
// one.
double ls_optimizer_start(const ls_optimizer *optimizer);
// The decay, LS_DECAY_DEFAULT resolved; LS_DECAY_NONE where weight_decay is 0.
ls_weight_decay ls_optimizer_decay(const ls_optimizer *optimizer);
// f32, or f64 of f64: the type of the state and the gradients of a table.
ls_dtype ls_optimizer_state_dtype(ls_dtype table_dtype);

#ifdef __cplusplus
}
#endif
#endif
