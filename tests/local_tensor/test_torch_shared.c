// DTensor's own shards against ours: all cases, where they are at hand beside the project.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "torch_cases.h"

// All of PyTorch's cases, where they are at hand.
Test(torch, all_cases) {
    char path[4096];
    const char *shared = getenv("LOCKSTEP_SHARED");
    (void)snprintf(path, sizeof path, "%s/torch_truth/dtensor_w4.json",
                   shared != NULL ? shared : "");
    if (access(path, R_OK) != 0) {
        cr_skip_test("%s is not there", path);
    }
    cr_expect(check_torch_cases(path) == 60 * 4);
}
