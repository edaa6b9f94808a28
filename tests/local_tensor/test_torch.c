// DTensor's own shards against lockstep's.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "torch_cases.h"

// PyTorch's cases: uneven and empty shards, nested shards, a 2 x 2 mesh.
Test(torch, shards_are_dtensors) {
    char path[4096];
    const char *source = getenv("LOCKSTEP_SOURCE");
    cr_assert(source != NULL);
    (void)snprintf(path, sizeof path, "%s/tests/data/torch_truth/dtensor_w4.json", source);
    cr_expect(check_torch_cases(path) == 60 * 4);
}
