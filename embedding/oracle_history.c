// The oracle's memory of training: unsharded tables and optimizer states between steps.
#include "embedding/oracle_internal.h"

int ls_oracle_history_create(ls_oracle_history **out, const ls_oracle_options *options,
                             const ls_training *training) {
    LS_ASSERT(out && options && training);
    *out = NULL;
    return LS_FAIL(LS_ERR_UNSUPPORTED, "oracle: training is not built yet");
}

void ls_oracle_history_free(ls_oracle_history *history) {
    (void)history;
}

int ls_oracle_advance(ls_oracle *oracle) {
    LS_ASSERT(oracle);
    return LS_FAIL(LS_ERR_UNSUPPORTED, "oracle: training is not built yet");
}
