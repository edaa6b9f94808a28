// Ids whose rows are used as often as in a published production batch (facebookresearch/
// dlrm_datasets, 2022: 788 tables, 131,072 samples, 1.405e9 ids to 1.103e8 rows). A third of the
// rows is used once, while most ids go to rows that are used hundreds of times. The number of uses
// of each row is exact; the row and the positions of its ids in the step are drawn.
#pragma once

#include <stdint.h>

#include "base/base.h"

#define LS_REUSE_BINS 17  // uses in (2^(b - 1), 2^b], the first (0, 1], the last above 2^15

typedef struct ls_reuse {
    uint64_t seed;
    uint32_t stream;
    int64_t ids, rows;                     // of the step; of the table
    int64_t first_id[LS_REUSE_BINS + 1];   // the ids of each bin, before the permutation
    int64_t first_row[LS_REUSE_BINS + 1];  // and its rows
} ls_reuse;

// For `ids` ids of all ranks in a step. If a batch is too small for a bin's uses, its ids go to one
// row. LS_ERR_INVALID: the table has too few rows; the text gives the minimum.
int ls_reuse_init(ls_reuse *out, int64_t ids, int64_t rows, uint64_t seed, uint32_t stream);
// The row of id number `index` of the step, in [0, ids).
int64_t ls_reuse_draw(const ls_reuse *reuse, int64_t index);
