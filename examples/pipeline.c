// A pipeline: every rank is a stage and passes activations to the next one; gradients come back.
// Each stage multiplies by its factor; micro-batches go through one after the other.
//
// The bug: a stage asks for the gradient before it has sent the activation that the gradient is of,
// so it and the next stage wait for each other.
#include <stdio.h>

#include "launch.h"

#define MICRO_BATCHES 3
#define WIDTH         4

static int micro_batch(ls_rank *self, const example *given, int number) {
    ls_rank_comm *world = ls_rank_world(self);
    int stage = ls_rank_id(self), last = ls_rank_count(self) - 1;
    float activation[WIDTH], gradient[WIDTH], factor = (float)(stage + 2) / 2;
    if (stage > 0) {
        CHECK(ls_recv(activation, WIDTH, LS_F32, stage - 1, world));
    }
    for (int i = 0; i < WIDTH; i++) {
        activation[i] = stage > 0 ? activation[i] * factor : (float)(number * WIDTH + i);
    }
    if (stage < last) {
        bool gradient_first = given->bug && stage == 1;
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) != gradient_first) {
                CHECK(ls_send(activation, WIDTH, LS_F32, stage + 1, world));
            } else {
                CHECK(ls_recv(gradient, WIDTH, LS_F32, stage + 1, world));
            }
        }
    }
    for (int i = 0; i < WIDTH; i++) {
        gradient[i] = stage < last ? gradient[i] * factor : activation[i] - 1;
    }
    if (stage > 0) {
        CHECK(ls_send(gradient, WIDTH, LS_F32, stage - 1, world));
    } else {
        printf("micro-batch %d: gradient %g %g %g %g\n", number, (double)gradient[0],
               (double)gradient[1], (double)gradient[2], (double)gradient[3]);
    }
    return LS_OK;
}

static int run(ls_rank *self, void *arg) {
    for (int number = 0; number < MICRO_BATCHES; number++) {
        CHECK(micro_batch(self, arg, number));
    }
    return LS_OK;
}

int main(int argc, char **argv) {
    return example_spmd(argc, argv, run, 3);
}
