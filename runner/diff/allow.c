// The values that a run may have in place of the reference's, by several rules.
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "orders/bound.h"
#include "runner/compare/difference.h"
#include "runner/diff/diff_internal.h"
#include "runner/diff/made.h"

// Below 1, so that a missing or negated gradient stays wrong.
#define FLIPPED_MAX 0.7
#define SUMMED_MAX  0.7
// The share of what is allowed without a bound from which noisy updates count: below it, looking at
// the gradients of all steps costs more than it tells.
#define DRIFT_MIN 0.125

bool ls_diff__is_sum(ls_reduction *out, const ls_diff_pair *p) {
    const ls_assembled *run = &p->run, *of = run->terms > 1 ? run : &p->parts;
    int count = p->has_parts ? p->parts.copies : 0;
    if (run->terms > 1) {
        count = run->terms;
    }
    if (count < 2 || of->count != run->count || of->dtype != run->dtype ||
        (of == &p->parts && p->parts.terms != 1)) {
        return false;
    }
    *out = (ls_reduction){.in = (const void *const *)of->whole,
                          .in_count = count,
                          .dtype = run->dtype,
                          .op = run->terms > 1 ? run->op : run->of->parts_op,
                          .count = run->count};
    return true;
}

static double ratio_of(const void *values, const ls_assembled *tensor,
                       const ls_allowance *allowed) {
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    double most = 0;
    for (size_t i = 0; i < tensor->count; i++) {
        const char *at = (const char *)values + i * bytes;
        double ratio = ls_bound_ratio_of(ls_element_to_f64(at, tensor->dtype), allowed->exact[i],
                                         allowed->bounds[i],
                                         allowed->overflow != NULL ? allowed->overflow[i] : 0);
        if (ratio > most && !ls_element_is_rounded(at, allowed->exact[i], tensor->dtype)) {
            most = ratio;
        }
    }
    return most;
}

static double largest_of(const void *values, const ls_assembled *tensor) {
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    double most = 0;
    for (size_t i = 0; i < tensor->count; i++) {
        double value = fabs(ls_element_to_f64((const char *)values + i * bytes, tensor->dtype));
        most = isfinite(value) && value > most ? value : most;
    }
    return most;
}

static bool is_output(const ls_captured *of) {
    size_t step = 0, after = ls_diff__step(&step, of->name);
    return after > 0 && strncmp(of->name + after, "forward ", 8) == 0;
}

// Half of the digits of the type, or of a narrower type that a module before the tensor computed
// in: under autocast gradients and updates of f32 have bf16's roundings. Values below the type's
// normal range have fewer digits (largest 0: not considered).
static double digits_of(const ls_diff_sides *d, const ls_assembled *tensor, double largest) {
    double roundoff = ls_bound_roundoff(tensor->dtype);
    const ls_captured *end = ls_capture_find(d->run, tensor->of->name);
    for (const ls_captured *of = d->run->tensors; of <= end; of++) {
        bool coarser = ls_dtype_is_float(of->dtype) && ls_bound_roundoff(of->dtype) > roundoff;
        bool output = coarser && (of->made == LS_MADE_LINEAR || is_output(of));
        roundoff = output ? ls_bound_roundoff(of->dtype) : roundoff;
        bool rounded = of->made == LS_MADE_ROUNDED;
        roundoff = rounded ? fmax(roundoff, ls_bound_roundoff(of->rounded)) : roundoff;
    }
    double least = ldexp(0.5, ls_dtype_format(tensor->dtype).subnormal_exponent);
    return sqrt(largest > 0 ? fmax(roundoff, least / largest) : roundoff);
}

// PyTorch's layer norm adds its gradients' rows in a type of 16 bits. The errors of n roundings add
// up to sqrt(n) of one, on both sides.
static double of_rows(const ls_captured *tensor) {
    bool rows = tensor != NULL && tensor->made == LS_MADE_ROWS;
    return rows ? 2 * ls_bound_roundoff(tensor->rounded) * sqrt(fmax(tensor->rows, 0)) : 0;
}

double ls_diff__half_of_digits(const ls_diff_sides *d, const ls_assembled *tensor,
                               const void *wanted) {
    double drift = d->drift->apart > 0 ? d->drift->apart / d->drift->largest : 0;
    drift = fmax(drift, d->drift->share);
    size_t step = 0;
    bool flipped = ls_diff__step(&step, tensor->of->name) > 0 && step == d->drift->step;
    double largest = largest_of(wanted, tensor);
    double rows = fmax(of_rows(tensor->of), of_rows(ls_capture_find(d->ref, tensor->of->name)));
    double share = fmax(digits_of(d, tensor, largest), fmin(SUMMED_MAX, rows));
    return (share + drift + (flipped ? d->drift->flipped : 0)) * largest;
}

// The exact sum of the tensor's parts, if the reference is also a sum of them.
static int allow_parts(ls_diff_allowance *out, ls_arena *arena, const ls_diff_pair *p) {
    ls_reduction reduction;
    const ls_assembled *run = &p->run;
    if (!ls_diff__is_sum(&reduction, p)) {
        return LS_OK;
    }
    ls_bound_element *sums = ls_arena_alloc(arena, run->count + 1, sizeof *sums);
    double *exact = ls_arena_alloc(arena, run->count + 1, sizeof *exact);
    double *bounds = ls_arena_alloc(arena, run->count + 1, sizeof *bounds);
    unsigned char *overflow = ls_arena_alloc(arena, run->count + 1, 1);
    LS_TRY_MEMORY(sums != NULL && exact != NULL && bounds != NULL && overflow != NULL);
    LS_TRY(ls_bound_reduction(sums, &reduction, 0, run->count));
    for (size_t i = 0; i < run->count; i++) {
        exact[i] = sums[i].hi + sums[i].lo;
        bounds[i] = sums[i].bound;
        overflow[i] = sums[i].overflow;
    }
    // The bound does not include the rounding of the parts. If the runs differ by more than the
    // order of the sum, it cannot judge.
    const ls_allowance allowed = {.exact = exact, .bounds = bounds, .overflow = overflow};
    if (ratio_of(p->wanted[0], run, &allowed) <= 1.0) {
        *out = (ls_diff_allowance){
            .by = BASIS_PARTS, .exact = exact, .bounds = bounds, .overflow = overflow};
    }
    return LS_OK;
}

// A share of the largest value.
static int allow_share(ls_diff_allowance *out, ls_arena *arena, const ls_assembled *run,
                       const void *ref, ls_diff_basis by, double share) {
    size_t bytes = ls_dtype_bytes(run->dtype);
    double *exact = ls_arena_alloc(arena, run->count + 1, sizeof *exact);
    double *bounds = ls_arena_alloc(arena, run->count + 1, sizeof *bounds);
    LS_TRY_MEMORY(exact != NULL && bounds != NULL);
    for (size_t i = 0; i < run->count; i++) {
        exact[i] = ls_element_to_f64((const char *)ref + i * bytes, run->dtype);
        bounds[i] = share;
    }
    *out = (ls_diff_allowance){.by = by, .exact = exact, .bounds = bounds};
    return LS_OK;
}

// The largest ratio over all copies of the run.
static int ratio_of_run(double *out, const ls_diff_sides *d, const ls_diff_pair *p,
                        const ls_allowance *allowed) {
    const ls_assembled *run = &p->run;
    *out = 0;
    for (int copy = 0; copy < (p->alike ? 1 : run->copies); copy++) {
        const void *value = NULL;
        LS_TRY(ls_assembled_value(&value, d->arena, run, copy));
        *out = fmax(*out, ratio_of(value, run, allowed));
    }
    return LS_OK;
}

// The result of the tensor's module for the run's own inputs. The reference must equal the module's
// result for its inputs. If neither does, both were changed afterwards, and nothing is derived.
static int allow_made(ls_diff_allowance *out, const ls_diff_sides *d, const ls_diff_pair *p) {
    ls_made made, theirs;
    const ls_assembled *run = &p->run;
    double of_run = 0;
    LS_TRY(ls_made_expect(&made, d->arena, d->run, d->ref, run->of, run));
    if (made.exact == NULL) {
        return LS_OK;
    }
    ls_allowance allowed = {.exact = made.exact, .bounds = made.bounds, .overflow = made.overflow};
    double of_ref = ratio_of(p->wanted[0], run, &allowed);
    LS_TRY(ratio_of_run(&of_run, d, p, &allowed));
    if (of_ref > 1) {
        LS_TRY(ls_made_expect(&theirs, d->arena, d->ref, d->run, run->of, &p->ref));
        if (theirs.exact == NULL) {
            return LS_OK;
        }
        allowed = (ls_allowance){
            .exact = theirs.exact, .bounds = theirs.bounds, .overflow = theirs.overflow};
        of_ref = ratio_of(p->wanted[0], run, &allowed);
    }
    if (of_ref > 1 && of_run > 1) {
        return LS_OK;
    }
    *out = (ls_diff_allowance){
        .by = BASIS_MADE, .exact = made.exact, .bounds = made.bounds, .overflow = made.overflow};
    if (of_ref > 1) {
        out->refuted =
            ls_arena_printf(d->arena,
                            "the reference does not match its own inputs: it is %.3g times the "
                            "bound away; the run matches its own within the bound",
                            of_ref);
        return out->refuted != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    out->vacuous = ls_bound_is_vacuous(made.exact, made.bounds, run->count);
    double most = made.firm ? INFINITY : ls_diff__half_of_digits(d, run, p->wanted[0]);
    for (size_t i = 0; i < run->count && !made.firm; i++) {
        made.bounds[i] = fmin(made.bounds[i], most);
    }
    return LS_OK;
}

// A value of the reference and one of a copy of the run.
typedef struct couple {
    const void *ref, *run;
    ls_dtype dtype;
} couple;

static double of_couple(const couple *of, size_t i, bool run) {
    const char *values = run ? of->run : of->ref;
    return ls_element_to_f64(values + i * ls_dtype_bytes(of->dtype), of->dtype);
}

// *out.ref NULL: no such tensor of the sizes of `like` in both runs.
static int find_couple(couple *out, const ls_diff_sides *d, const char *name, int copy,
                       const ls_assembled *like) {
    const ls_captured *ref = ls_capture_find(d->ref, name), *run = ls_capture_find(d->run, name);
    const char *why = NULL;
    ls_diff_pair p;
    *out = (couple){0};
    if (ref == NULL || run == NULL) {
        return LS_OK;
    }
    LS_TRY(ls_diff__pair(&p, &why, d, ref, run));
    if (why == NULL && copy < p.run.copies && p.run.count == like->count) {
        *out = (couple){.ref = p.wanted[copy], .dtype = p.run.dtype};
        LS_TRY(ls_assembled_value(&out->run, d->arena, &p.run, copy));
    }
    return LS_OK;
}

// noisy[i]: the gradients that the optimizer took until now agree in less than half of their
// digits, or their squares, a thousandth of which Adam adds up, are below the type's normal
// numbers.
static int find_noise(bool *noisy, const ls_diff_sides *d, const ls_assembled *run, int copy) {
    size_t last = 0;
    const char *rest = run->of->gradient + ls_diff__step(&last, run->of->gradient);
    double digits = digits_of(d, run, 0);
    const ls_float_format format = ls_dtype_format(run->dtype);
    double least = sqrt(1000 * ldexp(1, format.subnormal_exponent + format.precision - 1));
    for (size_t step = 0; step <= last && step < d->run->count; step++) {
        couple gradient;
        const char *name = ls_arena_printf(d->arena, "step %zu %s", step, rest);
        LS_TRY(name != NULL ? LS_OK : LS_ERR_MEMORY);
        LS_TRY(find_couple(&gradient, d, name, copy, run));
        for (size_t i = 0; gradient.ref != NULL && i < run->count; i++) {
            double one = of_couple(&gradient, i, false), other = of_couple(&gradient, i, true);
            double larger = fmax(fabs(one), fabs(other));
            noisy[i] =
                noisy[i] || fabs(one - other) > digits * larger || (one != other && larger < least);
        }
    }
    return LS_OK;
}

// An optimizer that divides by a gradient's size, as Adam does, makes a full step of a gradient
// that is only rounding. There a parameter may differ by two steps, and so may values computed from
// it.
static int allow_steps(ls_diff_allowance *out, const ls_diff_sides *d, const ls_diff_pair *p,
                       int copy) {
    const ls_assembled *run = &p->run;
    couple before, after = {.ref = p->wanted[copy], .dtype = run->dtype};
    if (run->of->made != LS_MADE_UPDATE || run->of->gradient == NULL) {
        return LS_OK;
    }
    LS_TRY(ls_assembled_value(&after.run, d->arena, run, copy));
    d->drift->largest = fmax(d->drift->largest, largest_of(p->wanted[copy], run));
    const ls_allowance allowed = {.exact = out->exact, .bounds = out->bounds, .overflow = NULL};
    if (ratio_of(after.run, run, &allowed) <= DRIFT_MIN) {
        return LS_OK;
    }
    LS_TRY(find_couple(&before, d, run->of->weight, copy, run));
    bool *noisy = ls_arena_alloc(d->arena, run->count + 1, sizeof *noisy);
    LS_TRY(noisy != NULL ? LS_OK : LS_ERR_MEMORY);
    LS_TRY(before.ref != NULL ? find_noise(noisy, d, run, copy) : LS_OK);
    double most = 0, apart = 0;
    for (size_t i = 0; before.ref != NULL && i < run->count; i++) {
        double step = fabs(of_couple(&after, i, false) - of_couple(&before, i, false));
        most = isfinite(step) ? fmax(most, step) : most;
    }
    for (size_t i = 0; before.ref != NULL && i < run->count; i++) {
        double off = fabs(of_couple(&before, i, true) - of_couple(&before, i, false));
        double is = fabs(of_couple(&after, i, true) - of_couple(&after, i, false));
        if (noisy[i]) {
            out->bounds[i] =
                is > out->bounds[i] ? fmax(out->bounds[i], off + 2 * most) : out->bounds[i];
            apart = isfinite(is) ? fmax(apart, is) : apart;
        }
    }
    d->drift->apart = fmax(d->drift->apart, apart);
    if (run->shape.ndim > 1 && ls_dtype_bytes(run->dtype) < 4 && apart > 0) {
        d->drift->share = fmax(d->drift->share, apart / largest_of(p->wanted[copy], run));
    }
    return LS_OK;
}

// A ReLU passes a gradient if its input is positive. If rounding decides the sign of the input, the
// runs' gradients may differ by their full size.
static int allow_flips(ls_diff_allowance *out, const ls_diff_sides *d, const ls_diff_pair *p,
                       int copy) {
    const ls_assembled *run = &p->run;
    const ls_allowance allowed = {.exact = out->exact, .bounds = out->bounds};
    couple forward, gradient = {.ref = p->wanted[copy], .dtype = run->dtype};
    size_t step = 0, length = ls_diff__step(&step, run->of->name);
    LS_TRY(ls_assembled_value(&gradient.run, d->arena, run, copy));
    if (length == 0 || strncmp(run->of->name + length, "backward ", 9) != 0 ||
        ratio_of(gradient.run, run, &allowed) <= 1.0) {
        return LS_OK;
    }
    const char *name =
        ls_arena_printf(d->arena, "step %zu forward %s", step, run->of->name + length + 9);
    LS_TRY(name != NULL ? LS_OK : LS_ERR_MEMORY);
    LS_TRY(find_couple(&forward, d, name, copy, run));
    double largest = largest_of(p->wanted[copy], run), flipped = 0;
    for (size_t i = 0; forward.ref != NULL && i < run->count; i++) {
        double off = fabs(of_couple(&gradient, i, true) - of_couple(&gradient, i, false));
        bool flips = (of_couple(&forward, i, true) > 0) != (of_couple(&forward, i, false) > 0);
        if (flips && off > out->bounds[i]) {
            out->bounds[i] = largest;
            flipped = fmax(flipped, off / largest);
        }
    }
    double before = step == d->drift->step ? d->drift->flipped : 0;
    d->drift->flipped = fmin(FLIPPED_MAX, fmax(before, flipped));
    d->drift->step = step;
    return LS_OK;
}

int ls_diff__allow(ls_diff_allowance *out, const ls_diff_sides *d, const ls_diff_pair *p,
                   int copy) {
    const ls_assembled *run = &p->run;
    const void *wanted = p->wanted[copy];
    *out = (ls_diff_allowance){.by = BASIS_MOVED};
    if (!ls_dtype_is_float(run->dtype) || d->options->exact || run->of->moves || p->ref_of->moves) {
        return LS_OK;
    }
    if (p->same) {
        LS_TRY(allow_made(out, d, p));
        LS_TRY(out->by == BASIS_MOVED ? allow_parts(out, d->arena, p) : LS_OK);
    }
    if (out->by != BASIS_MOVED) {
        return LS_OK;
    }
    if (d->options->has_tolerance) {
        return allow_share(out, d->arena, run, wanted, BASIS_TOLERANCE,
                           d->options->tolerance * largest_of(wanted, run));
    }
    LS_TRY(allow_share(out, d->arena, run, wanted, BASIS_NONE,
                       ls_diff__half_of_digits(d, run, wanted)));
    LS_TRY(allow_flips(out, d, p, copy));
    return allow_steps(out, d, p, copy);
}
