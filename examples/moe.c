// A mixture of experts: every rank holds one expert. Tokens are dispatched to the rank of their
// expert by an all_to_all with uneven counts, each expert does its work, and a second one combines:
// the tokens come back to where they were.
//
// The bug: a rank takes for granted that it gets as many tokens from each rank as it sends to it.
#include <stdio.h>
#include <stdlib.h>

#include "launch.h"

#define TOKENS    12  // per rank
#define RANKS_MAX 64

// The expert of a rank's token: some experts are liked more than others.
static int expert_of(int rank, int token, int experts) {
    return (rank + token * token) % experts;
}

// Sorts this rank's tokens by expert: sent [TOKENS], their counts [experts].
static void route(float *sent, size_t *counts, int rank, int experts) {
    int next = 0;
    for (int e = 0; e < experts; e++) {
        counts[e] = 0;
        for (int t = 0; t < TOKENS; t++) {
            if (expert_of(rank, t, experts) == e) {
                sent[next++] = (float)(rank * 100 + t);
                counts[e] += 1;
            }
        }
    }
}

static int layer(ls_rank *self, void *arg) {
    const example *given = arg;
    ls_rank_comm *world = ls_rank_world(self);
    int rank = ls_rank_id(self), ranks = ls_rank_count(self);
    float sent[TOKENS], back[TOKENS];
    size_t send_counts[RANKS_MAX], recv_counts[RANKS_MAX], here = 0;
    if (ranks > RANKS_MAX) {
        return LS_ERR_LIMIT;
    }
    route(sent, send_counts, rank, ranks);
    CHECK(ls_all_to_all(send_counts, recv_counts, 1, LS_U64, world));
    for (int r = 0; r < ranks; r++) {
        recv_counts[r] = given->bug ? send_counts[r] : recv_counts[r];
        here += recv_counts[r];
    }
    float *tokens = ls_rank_alloc(self, (here > 0 ? here : 1) * sizeof *tokens);
    if (tokens == NULL) {
        return LS_ERR_MEMORY;
    }
    CHECK(ls_all_to_all_v(sent, tokens, send_counts, recv_counts, LS_F32, world));  // dispatch
    for (size_t i = 0; i < here; i++) {
        tokens[i] = tokens[i] * 2 + (float)rank;  // the expert
    }
    CHECK(ls_all_to_all_v(tokens, back, recv_counts, send_counts, LS_F32, world));  // combine
    ls_rank_free(self, tokens);
    double sum = 0, total = 0;
    for (int t = 0; t < TOKENS; t++) {
        sum += (double)back[t];
    }
    CHECK(ls_reduce(&sum, &total, 1, LS_F64, LS_SUM, 0, world));
    if (rank == 0) {
        printf("rank 0: %zu tokens arrived at its expert; all outputs add up to %g\n", here, total);
    }
    return LS_OK;
}

int main(int argc, char **argv) {
    return example_spmd(argc, argv, layer, 4);
}
