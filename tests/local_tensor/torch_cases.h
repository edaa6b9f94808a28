// Shared by the tests against PyTorch's DTensor shards.
#pragma once

#include <stddef.h>

// Shards every case of the JSON file at `path` and asserts that each rank's shape and values are
// PyTorch's. Returns the number of shards compared.
size_t check_torch_cases(const char *path);
