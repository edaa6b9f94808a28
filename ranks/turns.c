// The threads of a rank: which of them runs in the library. A thread that comes to a call parks
// there until it is chosen. While a rank has the run token, a parked thread of it (the warden)
// waits until all of its other threads have come to a call too, or sleep, and then chooses one of
// those that could continue: so the choice is a function of the seed, not of the threads' speed.
//
// Invariant: one thread of a rank is INSIDE at most, and only while the rank has the run token (or
// where nobody passes one on: parallel and direct runs). States change under `turn`.
#define _GNU_SOURCE  // syscall
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ranks/internal.h"

#define CHOICE_STREAM 0x74687264u  // of random draws

static _Thread_local ls_thread *own;

int ls_turns__open(ls_rank *rank) {
    rank->main.rank = rank;
    rank->main.state = LS_THREAD_READY;
    rank->thread_count = 1;
    rank->last = -1;
    if (sem_init(&rank->main.go, 0, 0) != 0 || pthread_mutex_init(&rank->turn, NULL) != 0) {
        return LS_FAIL_RANK(LS_ERR_RESOURCE, rank->id, "rank %d: no semaphore", rank->id);
    }
    return LS_OK;
}

bool ls_turns__left(const ls_rank *rank) {
    bool left = true;
    for (const ls_thread *at = rank->main.next; at != NULL; at = at->next) {
        left = left && at->left;
    }
    return left;
}

void ls_turns__close(ls_rank *rank) {
    while (rank->main.next != NULL) {
        ls_thread *gone = rank->main.next;
        rank->main.next = gone->next;
        (void)sem_destroy(&gone->go);
        free(gone);
    }
    (void)sem_destroy(&rank->main.go);
    (void)pthread_mutex_destroy(&rank->turn);
}

ls_thread *ls_turns__me(ls_rank *rank) {
    return own != NULL && own->rank == rank ? own : &rank->main;
}

void ls_turns__set_own(ls_thread *thread) {
    own = thread;
}

// ---- Threads begin and end ----------------------------------------------------------------------
ls_thread *ls_turns__make(ls_rank *rank) {
    ls_thread *made = calloc(1, sizeof *made);
    if (made == NULL || sem_init(&made->go, 0, 0) != 0) {
        free(made);
        return NULL;
    }
    made->rank = rank;
    rank->run->has_threads = true;
    (void)pthread_mutex_lock(&rank->turn);
    ls_thread *last = &rank->main;
    while (last->next != NULL) {
        last = last->next;
    }
    made->number = ++rank->threads_made;
    rank->thread_count += 1;
    last->next = made;
    if (rank->main.tid == 0) {
        rank->main.tid = rank->tid;
    }
    (void)pthread_mutex_unlock(&rank->turn);
    return made;
}

void ls_turns__begin(ls_thread *thread) {
    ls_schedule__set_current(thread->rank);
    own = thread;
    thread->tid = (int)syscall(SYS_gettid);
}

// It is forgotten once the kernel has ended it, since until then it may wake the thread that joins
// it.
void ls_turns__end(void) {
    own->left = true;
    ls_schedule__set_current(NULL);
}

// ---- Choosing -----------------------------------------------------------------------------------
// One that could continue, which is INSIDE then; NULL: none. Call with `turn` locked.
static ls_thread *choose(ls_rank *rank) {
    ls_spmd *run = rank->run;
    int count = 0;
    for (ls_thread *at = &rank->main; at != NULL; at = at->next) {
        count += at->state == LS_THREAD_READY ? 1 : 0;
    }
    uint64_t draw = 0;
    bool random = count > 1 && run->options.schedule == LS_SCHEDULE_RANDOM;
    if (random) {
        draw = ls_random_below((uint64_t)count, run->options.seed, CHOICE_STREAM, 0,
                               run->thread_choices++);
    }
    ls_thread *first = NULL, *after = NULL;
    for (ls_thread *at = &rank->main; at != NULL; at = at->next) {
        if (at->state != LS_THREAD_READY) {
            continue;
        }
        bool wanted = random ? draw-- == 0 : at->number > rank->last;
        first = first == NULL ? at : first;
        after = after == NULL && wanted ? at : after;
    }
    ls_thread *chosen = after != NULL ? after : first;
    if (chosen != NULL) {
        chosen->state = LS_THREAD_INSIDE;
        rank->in = chosen;
        rank->last = rank->threads_made > 0 ? chosen->number : -1;
    }
    return chosen;
}

ls_thread *ls_turns__take(ls_rank *rank) {
    (void)pthread_mutex_lock(&rank->turn);
    rank->holds = true;
    ls_thread *chosen = choose(rank);
    (void)pthread_mutex_unlock(&rank->turn);
    return chosen != NULL ? chosen : &rank->main;
}

bool ls_turns__stop(ls_thread *me, ls_thread_state state) {
    ls_rank *rank = me->rank;
    if (state == LS_THREAD_BLOCKED && rank->thread_count > 1) {
        ls_outside__settle(rank, me);
    }
    (void)pthread_mutex_lock(&rank->turn);
    bool ready = false;
    me->state = state;
    rank->in = NULL;
    rank->holds = false;
    for (const ls_thread *at = &rank->main; at != NULL; at = at->next) {
        ready = ready || at->state == LS_THREAD_READY;
    }
    (void)pthread_mutex_unlock(&rank->turn);
    return ready;
}

void ls_turns__start(ls_rank *rank) {
    (void)pthread_mutex_lock(&rank->turn);
    rank->holds = true;
    ls_thread *chosen = rank->in == NULL ? choose(rank) : NULL;
    (void)pthread_mutex_unlock(&rank->turn);
    if (chosen != NULL) {
        (void)sem_post(&chosen->go);
    }
}

bool ls_turns__wake(ls_rank *rank) {
    bool any = false;
    (void)pthread_mutex_lock(&rank->turn);
    for (ls_thread *at = &rank->main; at != NULL; at = at->next) {
        if (at->state == LS_THREAD_BLOCKED && (at->waiting == 0 || rank->run->status != LS_OK)) {
            at->state = LS_THREAD_READY;
            any = true;
        }
    }
    (void)pthread_mutex_unlock(&rank->turn);
    return any;
}

// ---- Parked threads -----------------------------------------------------------------------------
// The rank has the run token and no thread inside: waits for its threads and chooses one, or gives
// the run token on.
static void guard(ls_rank *rank, ls_thread *me) {
    ls_outside__settle(rank, me);
    (void)pthread_mutex_lock(&rank->turn);
    rank->warden = NULL;
    ls_thread *chosen = choose(rank);
    rank->holds = chosen != NULL;
    (void)pthread_mutex_unlock(&rank->turn);
    if (chosen == NULL) {
        ls_schedule__hand_on(rank, me);
        return;
    }
    ls_schedule__count_choice(rank, chosen);
    if (chosen != me) {
        (void)sem_post(&chosen->go);
    }
}

static bool is_inside(ls_thread *me, bool *warden) {
    (void)pthread_mutex_lock(&me->rank->turn);
    bool inside = me->state == LS_THREAD_INSIDE;
    *warden = me->rank->warden == me;
    (void)pthread_mutex_unlock(&me->rank->turn);
    return inside;
}

void ls_turns__wait(ls_thread *me) {
    bool inside, warden;
    do {
        while (sem_wait(&me->go) != 0) {
            // Interrupted by a signal: a debugger's, most likely.
        }
        inside = is_inside(me, &warden);
        if (!inside && warden) {
            guard(me->rank, me);
            inside = is_inside(me, &warden);
        }
    } while (!inside);
}

static bool passes_on(const ls_rank *rank) {
    return !rank->run->parallel && !rank->run->direct;
}

void ls_turns__arrive(ls_rank *rank) {
    ls_thread *me = ls_turns__me(rank);
    if (me->depth++ > 0) {
        return;
    }
    (void)pthread_mutex_lock(&rank->turn);
    me->cpu_ns = 0;
    me->spins = false;
    bool free = rank->in == NULL && rank->warden == NULL;
    bool alone = rank->thread_count == 1 || (free && !passes_on(rank));
    bool guards = !alone && free && rank->holds;
    bool absent = !alone && !rank->holds && passes_on(rank);
    me->state = alone ? LS_THREAD_INSIDE : LS_THREAD_READY;
    rank->in = alone ? me : rank->in;
    rank->warden = guards ? me : rank->warden;
    (void)pthread_mutex_unlock(&rank->turn);
    if (absent) {
        rank->arrived = true;
        rank->run->arrivals = true;
    }
    if (guards) {
        bool warden;
        guard(rank, me);
        alone = is_inside(me, &warden);
    }
    if (!alone) {
        ls_turns__wait(me);
    }
}

void ls_turns__depart(ls_rank *rank) {
    ls_thread *me = ls_turns__me(rank), *next = NULL;
    if (--me->depth > 0) {
        return;
    }
    (void)pthread_mutex_lock(&rank->turn);
    me->state = LS_THREAD_OUT;
    rank->in = NULL;
    if (rank->thread_count > 1 && !passes_on(rank)) {
        next = choose(rank);
    } else if (rank->thread_count > 1 && rank->holds) {
        for (next = &rank->main; next != NULL && next->state == LS_THREAD_OUT;) {
            next = next->next;
        }
        rank->warden = next;
    }
    (void)pthread_mutex_unlock(&rank->turn);
    if (next != NULL) {
        (void)sem_post(&next->go);
    }
}

void ls_turns__quit(ls_rank *rank) {
    ls_thread *me = ls_turns__me(rank);
    me->ended = me->left = true;
    if (me->depth > 0) {
        me->depth = 1;
        ls_turns__depart(rank);
    }
}

bool ls_turns__other(ls_rank *rank, const char **file, int *line) {
    const ls_thread *me = ls_turns__me(rank), *other = NULL;
    (void)pthread_mutex_lock(&rank->turn);
    for (const ls_thread *at = &rank->main; at != NULL && other == NULL; at = at->next) {
        other = at != me && at->state != LS_THREAD_OUT ? at : NULL;
    }
    if (other != NULL) {
        *file = other->file;
        *line = other->line;
    }
    (void)pthread_mutex_unlock(&rank->turn);
    return other != NULL;
}

bool ls_turns__inside(ls_rank *rank) {
    (void)pthread_mutex_lock(&rank->turn);
    bool inside = rank->in != NULL && rank->in != ls_turns__me(rank);
    (void)pthread_mutex_unlock(&rank->turn);
    return inside;
}
