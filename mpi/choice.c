// Applies an exploration's choices between matches in one run, and computes the sleep sets. See
// explore.c.
#include <stdlib.h>
#include <string.h>

#include "mpi/explore.h"

// A match, identified by the number of its receive and of its send on their ranks: these are the
// same in every run in which the match can be made.
typedef struct match {
    int receiver, recv, sender, send;
} match;

typedef struct mpi_sleeping {
    int count;
    match at[];
} mpi_sleeping;

static match match_of(const ls_match_choice *choice) {
    const mpi_record *recv = choice->recv->record, *send = choice->send->record;
    return (match){choice->recv->call.rank, recv->number, choice->send->call.rank, send->number};
}

static bool independent(const match *a, const match *b) {
    return (a->receiver != b->receiver || a->recv != b->recv) &&
           (a->sender != b->sender || a->send != b->send);
}

static bool sleeps(const mpi_sleeping *in, const match *of) {
    for (int i = 0; in != NULL && i < in->count; i++) {
        if (memcmp(&in->at[i], of, sizeof *of) == 0) {
            return true;
        }
    }
    return false;
}

// The first match from `at` on that does not sleep; -1: none.
static int first_awake(const ls_match_choice *choices, int at, int count) {
    for (; at < count; at++) {
        const match own = match_of(&choices[at]);
        if (!sleeps(ls_mpi__state.sleeping, &own)) {
            return at;
        }
    }
    return -1;
}

// The matches that sleep after match `chosen`: all that slept or were tried before it, except those
// that depend on it.
static void put_to_sleep(const ls_match_choice *choices, int chosen, int tried) {
    const mpi_sleeping *old = ls_mpi__state.sleeping;
    int room = (old != NULL ? old->count : 0) + tried;
    mpi_sleeping *made = ls_mpi__alloc(sizeof *made + (size_t)room * sizeof(match));
    const match now = match_of(&choices[chosen]);
    for (int i = 0; old != NULL && i < old->count; i++) {
        if (independent(&old->at[i], &now)) {
            made->at[made->count++] = old->at[i];
        }
    }
    for (int i = 0; i < tried; i++) {
        const match other = match_of(&choices[i]);
        if (independent(&other, &now) && !sleeps(old, &other)) {
            made->at[made->count++] = other;
        }
    }
    free(ls_mpi__state.sleeping);
    ls_mpi__state.sleeping = made;
}

int ls_mpi__explore_choose(ls_spmd *run, const ls_match_choice *choices, int count) {
    const ls_mpi_options *options = ls_mpi__state.options;
    ls_mpi_trail *trail = options->trail;
    int n = ls_mpi__state.choice_count++;
    (void)run;
    int chosen = n < options->choice_count ? options->choices[n] : first_awake(choices, 0, count);
    chosen = chosen < count ? chosen : count - 1;
    if (trail == NULL) {
        return chosen;
    }
    trail->partial = trail->partial || n >= CHOICES_MAX || count == LS_MATCH_CHOICES_MAX;
    trail->blocked = trail->blocked || chosen < 0;
    if (chosen >= 0 && n < CHOICES_MAX) {
        bool explored = n >= trail->base;
        trail->choice[n] = chosen;
        trail->next[n] = explored ? first_awake(choices, chosen + 1, count) : -1;
        trail->count = n + 1;
        put_to_sleep(choices, chosen, explored ? chosen : 0);
    }
    return chosen;
}

void ls_mpi__explore_end(void) {
    free(ls_mpi__state.sleeping);
    ls_mpi__state.sleeping = NULL;
}

void ls_mpi__observe(void) {
    ls_mpi__state.run->observed += 1;
}
