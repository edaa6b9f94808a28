// DTensor's own shards against ours: a few cases that PyTorch produced, kept here.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "torch_cases.h"

// A few of PyTorch's cases: uneven and empty shards, nested shards, a 2 x 2 mesh.
Test(torch, committed_cases) {
    char path[4096];
    const char *source = getenv("LOCKSTEP_SOURCE");
    cr_assert(source != NULL);
    (void)snprintf(path, sizeof path, "%s/tests/local_tensor/dtensor_cases.json", source);
    cr_expect(check_torch_cases(path) == 6 * 4);
}
