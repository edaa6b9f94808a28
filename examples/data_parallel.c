// Data parallel training: every rank has the whole model (a line, y = weight x + bias) and samples
// of its own; gradients are averaged, so that the models stay the same on all ranks, bit for bit.
//
// The bug: the bias's gradient is left out of the average. Every rank then has its own bias.
#include <stdio.h>

#include "launch.h"

#define SAMPLES 16  // per rank
#define STEPS   5

// Mean gradient of the squared error: out [2], of weight and bias. model [2].
static void gradient(float *out, const float *model, ls_rank *self, int step) {
    out[0] = out[1] = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float x = (float)ls_rank_uniform(self, "x", (uint64_t)(step * SAMPLES + i));
        float error = model[0] * x + model[1] - (3 * x + 1);
        out[0] += 2 * error * x / SAMPLES;
        out[1] += 2 * error / SAMPLES;
    }
}

static int train(ls_rank *self, void *arg) {
    const example *given = arg;
    ls_rank_comm *world = ls_rank_world(self);
    float model[2] = {0, 0}, grad[2];
    for (int step = 0; step < STEPS; step++) {
        gradient(grad, model, self, step);
        size_t reduced = given->bug ? 1 : 2;
        CHECK(ls_all_reduce(grad, grad, reduced, LS_F32, LS_AVG, world));
        for (int i = 0; i < 2; i++) {
            model[i] -= 0.5F * grad[i];
        }
    }
    CHECK(ls_check_replica(model, 2, LS_F32, world));
    if (ls_rank_id(self) == 0) {
        printf("after %d steps on %d ranks: weight %.9g, bias %.9g\n", STEPS, ls_rank_count(self),
               (double)model[0], (double)model[1]);
    }
    return LS_OK;
}

int main(int argc, char **argv) {
    return example_spmd(argc, argv, train, 4);
}
