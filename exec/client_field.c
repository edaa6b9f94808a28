// Arithmetic in a field for programs that `lockstep prove` runs: kernels/field.h by the names that
// fronts export.
#include "exec/client.h"
#include "kernels/field.h"

void ls_client_field_matmul(const ls_field_product *product) {
    ls_field_matmul(product);
}

void ls_client_field_pairwise(const ls_field_pairs *pairs, int op) {
    ls_field_pairwise(pairs, (ls_field_op)op);
}

void ls_client_field_inverse(int32_t *out, const int32_t *a, size_t count) {
    ls_field_inverse(out, a, count);
}

void ls_client_field_hash(int32_t *out, const int32_t *a, size_t count, uint64_t key) {
    ls_field_hash(out, a, count, key);
}

void ls_client_field_sum(int32_t *out, const int32_t *a, size_t outer, size_t middle,
                         size_t inner) {
    ls_field_sum(out, a, outer, middle, inner);
}
