// Random legal programs of equal calls: straight lines, branches by rank, alternating roles,
// helpers, loops, communicators of some ranks, asynchronous calls; and the same with two calls
// swapped.
#include <string.h>

#include "sites.h"

#define CALLS_MAX 160
#define DATA_MAX  24

typedef struct planned {
    int line, comm, data;
    bool async;
    bool all;  // all ranks make it from this line
} planned;

typedef struct plan {
    uint64_t state;  // in the draws that are equal on all ranks
    int rank, ranks;
    int next_line, next_data;
    int count;
    planned calls[CALLS_MAX];
} plan;

static int draw(uint64_t *state, int below) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((*state >> 33) % (uint64_t)below);
}

static int new_data(plan *p) {
    p->next_data = (p->next_data + 1) % DATA_MAX;
    return p->next_data;
}

// A statement, drawn once; its execution may depend on the rank and the turn.
typedef struct statement {
    int kind, line, comm, data[2];
    bool async;
} statement;

enum { PLAIN, PLAIN_TOO, HELPER, BY_PARITY, BY_ROOT, TURNS, PARITY_TURNS, BY_DATA, KINDS };

static void add(plan *p, const statement *s, int line, int data) {
    if (p->count < CALLS_MAX) {
        p->calls[p->count++] = (planned){line, s->comm, data, s->async, s->kind <= HELPER};
    }
}

static statement draw_statement(plan *p) {
    statement s = {.kind = draw(&p->state, KINDS),
                   .line = p->next_line,
                   .comm = draw(&p->state, 4) % 3,
                   .data = {new_data(p), 0},
                   .async = draw(&p->state, 4) == 0};
    // If roles alternate, the calls use one buffer; fixed branches may have separate ones.
    bool stays = s.kind == BY_PARITY || s.kind == BY_ROOT;
    s.data[1] = stays && draw(&p->state, 2) == 0 ? new_data(p) : s.data[0];
    p->next_line += 2;
    return s;
}

static void run_statement(plan *p, const statement *s, int turn) {
    int side = 0, times = s->kind == TURNS ? p->ranks : s->kind == PARITY_TURNS ? 2 : 1;
    for (int i = 0; i < times; i++) {
        uint64_t own = (uint64_t)(s->line * 1000 + turn * 10 + p->rank) * UINT64_C(2654435761);
        side = s->kind == BY_PARITY      ? p->rank % 2
               : s->kind == BY_ROOT      ? p->rank == 0
               : s->kind == TURNS        ? i == p->rank
               : s->kind == PARITY_TURNS ? (i + p->rank) % 2
               : s->kind == BY_DATA      ? draw(&own, 3) == 0
                                         : 0;
        int line = s->kind == HELPER ? 5 : s->line + side;
        add(p, s, line, s->data[side]);
    }
}

static void make_plan(plan *p, uint64_t seed, int rank, int ranks) {
    memset(p, 0, sizeof *p);
    p->state = seed * 2 + 1;
    p->rank = rank;
    p->ranks = ranks;
    p->next_line = 10;
    int blocks = 1 + draw(&p->state, 4);
    for (int b = 0; b < blocks; b++) {
        statement body[4];
        int length = 1 + draw(&p->state, 4),
            times = draw(&p->state, 2) == 0 ? 1 : 2 + draw(&p->state, 6);
        for (int i = 0; i < length; i++) {
            body[i] = draw_statement(p);
        }
        for (int turn = 0; turn < times; turn++) {
            for (int i = 0; i < length; i++) {
                run_statement(p, &body[i], turn);
            }
        }
    }
}

static int members(int comm, int rank, int ranks) {
    int half = ranks / 2;
    return comm == 0     ? ranks
           : comm == 1   ? (ranks + 1 - rank % 2) / 2
           : rank < half ? half
                         : ranks - half;
}

// Swaps two calls of one rank that the others can only confuse with each other.
static int swap_calls(plan *p, uint64_t seed) {
    uint64_t state = seed ^ UINT64_C(0x9e3779b97f4a7c15);
    int at_rank = draw(&state, p->ranks), places[CALLS_MAX], count = 0;
    plan there;
    make_plan(&there, seed, at_rank, p->ranks);
    for (int i = 0; i + 1 < there.count; i++) {
        const planned *a = &there.calls[i], *b = &there.calls[i + 1];
        if (a->comm == b->comm && a->line != b->line && a->data != b->data &&
            members(a->comm, at_rank, p->ranks) > 1) {
            places[count++] = i;
        }
    }
    if (count == 0) {
        return RANDOM_SITES_SAME;
    }
    int place = places[draw(&state, count)];
    if (at_rank == p->rank) {
        planned first = p->calls[place];
        p->calls[place] = p->calls[place + 1];
        p->calls[place + 1] = first;
    }
    bool all = there.calls[place].all && there.calls[place + 1].all;
    bool plain = all && members(there.calls[place].comm, at_rank, p->ranks) > 2;
    return plain ? RANDOM_SITES_PLAIN : RANDOM_SITES_SWAPPED;
}

int random_sites_program(ls_rank *self, void *arg) {
    random_sites *run = arg;
    float data[DATA_MAX] = {0};
    ls_request *open[DATA_MAX] = {NULL};
    ls_rank_comm *comms[3] = {ls_rank_world(self), NULL, NULL};
    int rank = ls_rank_id(self), ranks = ls_rank_count(self);
    plan p;
    make_plan(&p, run->seed, rank, ranks);
    if (run->swap) {
        int swapped = swap_calls(&p, run->seed);
        run->swapped = swapped;  // all ranks reach the same one
    }
    LS_TRY(ls_comm_split(&comms[1], comms[0], rank % 2, 0));
    LS_TRY(ls_comm_split(&comms[2], comms[0], rank < ranks / 2, 0));
    for (int i = 0; i < p.count; i++) {
        const planned *call = &p.calls[i];
        float *at = &data[call->data];
        if (open[call->data] != NULL) {
            LS_TRY(ls_wait(open[call->data]));
            open[call->data] = NULL;
        }
        LS_TRY(ls_all_reduce_at("p.c", call->line, at, at, 1, LS_F32, LS_SUM, comms[call->comm],
                                call->async ? &open[call->data] : NULL));
    }
    for (int i = 0; i < DATA_MAX; i++) {
        LS_TRY(open[i] != NULL ? ls_wait(open[i]) : LS_OK);
    }
    LS_TRY(ls_comm_destroy(comms[1]));
    return ls_comm_destroy(comms[2]);
}
