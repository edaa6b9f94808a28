// Generates ids with production-like reuse. See reuse.h.
//
// The step's ids form a sequence, bin by bin, with all uses of a row adjacent. One permutation maps
// an index to an id of the sequence, another maps its rows to rows of the table. Both are Feistel
// networks over the next power of 4, iterated until the value is in range, so each id is computed
// independently.
#include "runner/scenario/reuse.h"

#include <math.h>

#define ROUNDS 6
__extension__ typedef __int128 wide;

// Share of ids and of rows in each bin, in thousandths, as published; the rows of the last bins
// round to none, and use the middle of their bin instead.
static const struct {
    int ids, rows;
} shares[LS_REUSE_BINS] = {{27, 342}, {23, 144}, {40, 149}, {68, 138}, {105, 112}, {120, 68},
                           {99, 29},  {70, 10},  {59, 4},   {54, 2},   {40, 1},    {72, 1},
                           {64, 0},   {47, 0},   {21, 0},   {17, 0},   {76, 0}};
#define MEAN_USES 12.74  // ids / rows of the whole batch

// The mean uses of a row of a bin, inside of the bin.
static double uses_of(int bin) {
    double most = ldexp(1, bin), least = bin == 0 ? 1 : most / 2 + 1;
    double mean = shares[bin].rows > 1 ? MEAN_USES * shares[bin].ids / shares[bin].rows
                                       : most * 0.7071067811865476;
    mean = bin == LS_REUSE_BINS - 1 ? most : fmin(mean, most);
    return fmax(mean, least);
}

int ls_reuse_init(ls_reuse *out, int64_t ids, int64_t rows, uint64_t seed, uint32_t stream) {
    LS_ASSERT(ids >= 0 && rows >= 1);
    *out = (ls_reuse){.seed = seed, .stream = stream, .ids = ids, .rows = rows};
    int all = 0, sum = 0;
    for (int b = 0; b < LS_REUSE_BINS; b++) {
        all += shares[b].ids;
    }
    for (int b = 0; b < LS_REUSE_BINS; b++) {
        sum += shares[b].ids;
        out->first_id[b + 1] = (int64_t)((double)ids * sum / all);
        int64_t here = out->first_id[b + 1] - out->first_id[b];
        int64_t wanted = llround((double)here / uses_of(b));
        wanted = here > 0 && wanted == 0 ? 1 : wanted;
        out->first_row[b + 1] = out->first_row[b] + wanted;
    }
    out->first_id[LS_REUSE_BINS] = ids;
    if (out->first_row[LS_REUSE_BINS] > rows) {
        return LS_FAIL(LS_ERR_INVALID,
                       "%lld ids reused as in production touch %lld rows, and there are %lld",
                       (long long)ids, (long long)out->first_row[LS_REUSE_BINS], (long long)rows);
    }
    return LS_OK;
}

// A permutation of [0, count).
static int64_t permute(const ls_reuse *reuse, uint32_t which, int64_t value, int64_t count) {
    int half = 1;
    while (half < 31 && (INT64_C(1) << 2 * half) < count) {
        half++;
    }
    uint64_t mask = (UINT64_C(1) << half) - 1, at = (uint64_t)value;
    do {
        uint64_t left = at >> half, right = at & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint64_t mixed =
                ls_random_bits(reuse->seed, reuse->stream, which * ROUNDS + round, right) & mask;
            uint64_t next = left ^ mixed;
            left = right;
            right = next;
        }
        at = left << half | right;
    } while (at >= (uint64_t)count);
    return (int64_t)at;
}

int64_t ls_reuse_draw(const ls_reuse *reuse, int64_t index) {
    LS_ASSERT(index >= 0 && index < reuse->ids);
    int64_t place = permute(reuse, 0, index, reuse->ids);
    int bin = 0;
    while (place >= reuse->first_id[bin + 1]) {
        bin++;
    }
    int64_t ids = reuse->first_id[bin + 1] - reuse->first_id[bin];
    int64_t rows = reuse->first_row[bin + 1] - reuse->first_row[bin];
    int64_t within = place - reuse->first_id[bin];
    // ids / rows each, and one more for some.
    int64_t row = (int64_t)((wide)within * rows / ids);
    return permute(reuse, 1, reuse->first_row[bin] + row, reuse->rows);
}
