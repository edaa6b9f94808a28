// Shared by the fuzzers: each gives untrusted bytes to one reader. The reader may refuse them; it
// may not crash, hang, leak, or take memory that their size does not justify.
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

// A file with these bytes, for readers that take a path; the path is the same for every input of a
// process.
const char *fuzz_file(const uint8_t *data, size_t bytes);
// A copy that ends with a zero; the caller frees it.
char *fuzz_text(const uint8_t *data, size_t bytes);
