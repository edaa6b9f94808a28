// The grid under a picture: where blocks begin and end along each dimension.
#pragma once

#include "report/show.h"

// Cuts [count + 1] of one dimension, ascending, from 0 to the dimension's size: interval i is
// [at[i], at[i + 1]). A dimension of size 0 has no interval.
typedef struct ls_show_cuts {
    int64_t *at;
    int count;
} ls_show_cuts;

// Cuts of every dimension of the picture, at every edge of a block that is not empty.
int ls_show__cuts(ls_show_cuts cuts[LS_DIMS_MAX], ls_arena *arena, const ls_picture *picture);
// Ranks that hold the cell whose first element is `first`, ascending, without repetition:
// out [picture->block_count]. Returns how many.
int ls_show__holders(int *out, const ls_picture *picture, const int64_t first[LS_DIMS_MAX]);
// Ranks that hold no element at all: out [picture->ranks]. Returns how many.
int ls_show__idle(int *out, const ls_picture *picture);
