// Plan files, lockstep's own and TorchRec's.
#include "fuzzers.h"
#include "planner/plan_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_arena *arena = NULL;
    ls_plan plan;
    ls_text errors = {0};
    if (ls_arena_create(&arena) != LS_OK) {
        return 0;
    }
    (void)ls_plan_read(&plan, arena, &errors, "fuzzed.plan", (const char *)data, bytes);
    (void)ls_plan_read_torchrec(&plan, arena, (const char *)data, bytes, 4, 2, NULL, 0);
    ls_text_free(&errors);
    ls_arena_free(arena);
    return 0;
}
