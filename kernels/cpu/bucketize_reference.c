// Bucketize, the plain reference: for every owner and bag, scan that bag.
#include "kernels/kernels.h"

void ls_kernel_bucketize_reference(const ls_buckets *out, const int64_t *ids,
                                   const int64_t *lengths, const float *weights,
                                   const int64_t *row_starts, size_t owners, size_t bags) {
    size_t written = 0;
    for (size_t owner = 0; owner < owners; owner++) {
        size_t index = 0;
        for (size_t bag = 0; bag < bags; bag++) {
            out->lengths[owner * bags + bag] = 0;
            for (int64_t i = 0; i < lengths[bag]; i++, index++) {
                if (ids[index] < row_starts[owner] || ids[index] >= row_starts[owner + 1]) {
                    continue;
                }
                out->lengths[owner * bags + bag]++;
                out->ids[written] = ids[index] - row_starts[owner];
                if (weights != NULL) {
                    out->weights[written] = weights[index];
                }
                if (out->positions != NULL) {
                    out->positions[written] = (int64_t)index;
                }
                written++;
            }
        }
    }
}
