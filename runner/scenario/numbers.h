// Prepares a generator of numbers (weights, tensors, buffers) for access by index. Private to the
// runner; inputs.h describes the uses.
#pragma once

#include "runner/scenario/input_file.h"
#include "runner/scenario/scenario.h"

// A prepared generator: everything but the index is fixed.
typedef struct ls_numbers {
    const ls_generator *generator;
    ls_generator_kind kind;  // the kind, with the default resolved
    double low, high;        // uniform
    bool integers;
    bool is_signed;
    uint64_t seed;
    int draw;       // of numbers of the field
    bool by_value;  // equal numbers of a deterministic tensor stay equal in the field
    uint32_t stream, rank;
    const ls_input_array *array;  // files
} ls_numbers;

uint32_t ls_numbers__stream(const char *what, const char *name);
// The same for a training step, from 0; a checkpoint's steps precede the scenario's.
uint32_t ls_numbers__stream_of_step(const ls_scenario *scenario, const char *what, const char *name,
                                    int step);
// `standard`: the kind if the file names none. The caller sets stream and rank.
void ls_numbers__init(ls_numbers *out, const ls_scenario *scenario, const ls_generator *generator,
                      ls_generator_kind standard, ls_dtype dtype);
// Opens the file of a generator, if it has one; files and lists must have `count` elements.
int ls_numbers__open(ls_numbers *numbers, const ls_scenario *scenario, size_t count);
// out [count] of dtype = elements [first, first + count) of the generator.
void ls_numbers__fill(void *out, ls_dtype dtype, const ls_numbers *numbers, uint64_t first,
                      size_t count);
// out [count] of dtype = elements [first, first + count) of a rank's SplitMix64 numbers.
void ls_numbers__splitmix(void *out, ls_dtype dtype, uint64_t seed, uint32_t rank, uint64_t first,
                          size_t count);
// Prefixes the last error with the place of the generator.
int ls_numbers__place(const ls_scenario *scenario, const ls_generator *generator, const char *what);
