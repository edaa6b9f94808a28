// A two-layer perceptron cut over ranks, as Megatron cuts it: the first layer by columns, the
// second by rows. Each rank computes its part of the hidden layer and, from that alone, a partial
// output; one all_reduce gives the output on every rank.
//
// The bug: the last rank sums one row less, as when its batch was cut differently.
#include <stdio.h>

#include "launch.h"

#define BATCH  4
#define INPUT  8
#define HIDDEN 16
#define OUTPUT 3

// Weights are integers / 8, so that every sum is exact and the ranks' number changes nothing.
static float weight(int layer, int row, int column) {
    return (float)((layer * 7 + row * 5 + column * 3) % 11 - 5) / 8;
}

// hidden [BATCH, columns] = relu(input [BATCH, INPUT] first[:, first_column ...])
static void first_layer(float *hidden, int first_column, int columns) {
    for (int b = 0; b < BATCH; b++) {
        for (int c = 0; c < columns; c++) {
            float sum = 0;
            for (int k = 0; k < INPUT; k++) {
                sum += (float)((b + k) % 5) * weight(1, k, first_column + c);
            }
            hidden[b * columns + c] = sum > 0 ? sum : 0;
        }
    }
}

// partial [BATCH, OUTPUT] = hidden [BATCH, rows] second[first_row ..., :]
static void second_layer(float *partial, const float *hidden, int first_row, int rows) {
    for (int b = 0; b < BATCH; b++) {
        for (int o = 0; o < OUTPUT; o++) {
            partial[b * OUTPUT + o] = 0;
            for (int r = 0; r < rows; r++) {
                partial[b * OUTPUT + o] += hidden[b * rows + r] * weight(2, first_row + r, o);
            }
        }
    }
}

static int forward(ls_rank *self, void *arg) {
    const example *given = arg;
    int rank = ls_rank_id(self), ranks = ls_rank_count(self);
    int first = HIDDEN * rank / ranks, own = HIDDEN * (rank + 1) / ranks - first;
    float hidden[BATCH * HIDDEN], output[BATCH * OUTPUT];
    first_layer(hidden, first, own);
    second_layer(output, hidden, first, own);
    size_t rows = given->bug && rank == ranks - 1 ? BATCH - 1 : BATCH;
    CHECK(ls_all_reduce(output, output, rows * OUTPUT, LS_F32, LS_SUM, ls_rank_world(self)));
    for (int b = 0; b < BATCH && rank == 0; b++) {
        printf("output %d: %g %g %g\n", b, (double)output[b * OUTPUT],
               (double)output[b * OUTPUT + 1], (double)output[b * OUTPUT + 2]);
    }
    return LS_OK;
}

int main(int argc, char **argv) {
    return example_spmd(argc, argv, forward, 4);
}
