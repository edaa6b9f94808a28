// Bucketize without additional memory. Lengths [owners, bags] in memory order are exactly the
// segments of the output, so their prefix sums are the write positions. Once every id is written,
// the positions are the prefix sums of the next segment: subtraction restores the lengths.
#include "kernels/kernels.h"

// The last owner whose first row is at most id. An empty owner shares its start with the next one
// and is passed over.
static size_t owner_of(int64_t id, const int64_t *row_starts, size_t owners) {
    size_t low = 0;
    size_t length = owners;
    while (length > 1) {
        size_t half = length / 2;
        low += row_starts[low + half] <= id ? half : 0;
        length -= half;
    }
    return low;
}

void ls_kernel_bucketize(const ls_buckets *out, const int64_t *ids, const int64_t *lengths,
                         const float *weights, const int64_t *row_starts, size_t owners,
                         size_t bags) {
    LS_ASSERT(owners >= 1 && row_starts != NULL);
    LS_ASSERT(bags == 0 || (out->lengths != NULL && lengths != NULL));
    LS_ASSERT((out->weights != NULL) == (weights != NULL));
    for (size_t i = 0; i < owners * bags; i++) {
        out->lengths[i] = 0;
    }
    size_t index = 0;
    for (size_t bag = 0; bag < bags; bag++) {
        LS_ASSERT(lengths[bag] >= 0);
        for (int64_t i = 0; i < lengths[bag]; i++, index++) {
            LS_ASSERT(ids[index] >= row_starts[0] && ids[index] < row_starts[owners]);
            out->lengths[owner_of(ids[index], row_starts, owners) * bags + bag]++;
        }
    }
    int64_t total = 0;
    for (size_t i = 0; i < owners * bags; i++) {
        int64_t length = out->lengths[i];
        out->lengths[i] = total;
        total += length;
    }
    LS_ASSERT((size_t)total == index);
    index = 0;
    for (size_t bag = 0; bag < bags; bag++) {
        for (int64_t i = 0; i < lengths[bag]; i++, index++) {
            size_t owner = owner_of(ids[index], row_starts, owners);
            int64_t place = out->lengths[owner * bags + bag]++;
            out->ids[place] = ids[index] - row_starts[owner];
            if (weights != NULL) {
                out->weights[place] = weights[index];
            }
            if (out->positions != NULL) {
                out->positions[place] = (int64_t)index;
            }
        }
    }
    int64_t start = 0;
    for (size_t i = 0; i < owners * bags; i++) {
        int64_t end = out->lengths[i];
        out->lengths[i] = end - start;
        start = end;
    }
}
