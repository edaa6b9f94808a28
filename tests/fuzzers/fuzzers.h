// What the fuzzers share: each gives one reader bytes that anybody could have written. It may
// refuse them; it may not crash, hang, leak, or take memory that their size does not justify.
#ifndef LS_TESTS_FUZZERS_FUZZERS_H
#define LS_TESTS_FUZZERS_FUZZERS_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

// A file with these bytes, for readers that take a path: its path, the same for every input of a
// process.
const char *fuzz_file(const uint8_t *data, size_t bytes);
// A copy that ends with a zero; to be freed.
char *fuzz_text(const uint8_t *data, size_t bytes);

#endif
