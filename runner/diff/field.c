// See field.h.
#include "runner/diff/field.h"

void ls_diff__field_sum(int64_t *sum, const void *const *terms, const ls_assembled *tensor) {
    uint64_t p = tensor->of->modulus, factor = 1;
    for (uint64_t left = p - 2, n = (uint64_t)tensor->terms % p; tensor->op == LS_AVG && left > 0;
         left /= 2, n = n * n % p) {
        factor = left % 2 == 1 ? factor * n % p : factor;  // n^(p - 2) is 1 / n
    }
    for (size_t i = 0; i < tensor->count; i++) {
        uint64_t total = 0;
        for (int t = 0; t < tensor->terms; t++) {
            total = (total + (uint64_t)((const int64_t *)terms[t])[i] % p) % p;
        }
        sum[i] = (int64_t)(total * factor % p);
    }
}

int ls_diff__field_leave(ls_stage_result *stage, ls_arena *arena, const char *opaque) {
    stage->class_ = LS_CLASS_UNJUDGED;
    stage->unjudged = stage->elements;
    stage->elements = stage->differing = stage->max_difference = 0;
    stage->divergence = NULL;
    stage->order = ls_arena_printf(arena, "%s has no rule in the field", opaque);
    return stage->order != NULL ? LS_OK : LS_ERR_MEMORY;
}

int ls_diff__field_state(const char **out, const ls_comparison *comparison,
                         const ls_diff_sides *sides) {
    uint64_t modulus = 0;
    for (size_t i = 0; i < sides->run->count && modulus == 0; i++) {
        modulus = sides->run->tensors[i].modulus;
    }
    if (modulus == 0 || ls_comparison_class(comparison) != LS_CLASS_PROVED) {
        return LS_OK;
    }
    *out = ls_arena_printf(comparison->arena,
                           "proved tensors are equal for all values on the path of this run, on %d "
                           "ranks and on %d; a difference of degree n is missed with probability "
                           "n / %llu",
                           sides->run->ranks, sides->ref->ranks, (unsigned long long)modulus);
    return *out != NULL ? LS_OK : LS_ERR_MEMORY;
}
