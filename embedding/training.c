// Training: optimizers, their states, and the stages backward and update on a pass.
#include "embedding/training.h"

#include "embedding/internal.h"

int ls_embedding_prepare_training(ls_embedding *module, const ls_training *training) {
    LS_ASSERT(module && training);
    return LS_FAIL(LS_ERR_UNSUPPORTED, "embedding: training is not built yet");
}

int ls_embedding_backward(ls_embedding_pass *pass, const void *const *const *gradients,
                          const ls_training *training, const ls_stage_sink *sink) {
    LS_ASSERT(pass && gradients && training);
    (void)sink;
    return ls_embedding_prepare_training(pass->module, training);
}

int ls_embedding_update(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    LS_ASSERT(pass);
    (void)sink;
    return LS_FAIL(LS_ERR_UNSUPPORTED, "embedding: training is not built yet");
}

void *ls_embedding_state(ls_embedding *module, int table, int rank, int shard, int state,
                         ls_shape *shape, ls_dtype *dtype) {
    LS_ASSERT(module && table >= 0 && table < module->table_count && shape && dtype);
    (void)rank;
    (void)shard;
    (void)state;
    return NULL;
}

int64_t ls_embedding_step(const ls_embedding *module) {
    return module->step;
}

void ls_embedding_set_step(ls_embedding *module, int64_t step) {
    LS_ASSERT(step >= 0);
    module->step = step;
}
