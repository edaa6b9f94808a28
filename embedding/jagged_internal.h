// Shared by the two files of jagged inputs: the memory of one.
#pragma once

#include "embedding/jagged.h"

// Memory of an ls_keyed_jagged: one allocation per array.
typedef struct keyed_jagged_owner {
    ls_keyed_jagged jagged;  // first, so that a pointer to it is a pointer to the owner
    char **keys;
    int64_t *starts, *lengths, *offsets, *values, *inverse_indices;
    float *weights;
    size_t bag_count, inverse_room;  // the latter 0 in a plain input
} keyed_jagged_owner;

// Allocates everything but leaves lengths, offsets, values, weights and, with strides (NULL: of a
// plain input), inverse indices to be filled.
int ls_keyed_jagged__owner_create(keyed_jagged_owner **out, int rank, const char *const *keys,
                                  int key_count, int64_t batch, int64_t value_count, bool weighted,
                                  const int64_t *strides);
