// The run token: the rank that runs. A rank passes it on when it blocks or ends, and, under some
// schedules, at every call; the next rank is a function of the seed and of the events so far. A
// parallel run has no run token: a mutex protects the run, and the operating system schedules.
#define _GNU_SOURCE  // environ, clearenv
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "ranks/fibers.h"
#include "ranks/internal.h"

#define SCHEDULE_STREAM 0x7363686eu  // of random draws
// A delayed rank runs after all others. Those may poll for its progress, so after this many polls
// it has a turn.
#define PASSED_OVER_MAX 1000

static _Thread_local ls_rank *current;
static _Thread_local int inside;  // of the library

bool ls_schedule__inside(void) {
    return inside > 0;
}

ls_rank *ls_schedule__current(void) {
    return current;
}

void ls_schedule__set_current(ls_rank *rank) {
    current = rank;
    ls_turns__set_own(rank != NULL ? &rank->main : NULL);
}

int ls_schedule__open(ls_spmd *run) {
    run->ready_words = ((size_t)run->rank_count + 63) / 64;
    for (int set = 0; set < 2; set++) {
        run->ready[set] = ls_arena_alloc(run->arena, run->ready_words, sizeof(uint64_t));
        LS_TRY_MEMORY(run->ready[set] != NULL);
    }
    if (sem_init(&run->done, 0, 0) != 0 || sem_init(&run->over, 0, 0) != 0 ||
        pthread_mutex_init(&run->mutex, NULL) != 0) {
        return LS_FAIL(LS_ERR_LIMIT, "no semaphore or mutex for a run of %d ranks",
                       run->rank_count);
    }
    run->digest = LS_HASH_START;
    return LS_OK;
}

void ls_schedule__close(ls_spmd *run) {
    (void)sem_destroy(&run->done);
    (void)sem_destroy(&run->over);
    (void)pthread_mutex_destroy(&run->mutex);
}

static void wait_for_token(ls_thread *me) {
    ls_rank *rank = me->rank;
    rank->waits = true;
    ls_gdb_hook_parked(rank->run, rank);
    if (rank->run->fibers != NULL) {
        int was_inside = inside;
        ls_fibers__wait(rank);
        ls_schedule__set_current(rank);
        inside = was_inside;
    } else {
        ls_turns__wait(me);
    }
    rank->waits = false;
}

void ls_schedule__enter(ls_rank *rank) {
    inside += 1;
    ls_turns__arrive(rank);
    atomic_fetch_add_explicit(&rank->run->beat, 1, memory_order_relaxed);
    if (rank->parted) {
        rank->parted = false;
        wait_for_token(&rank->main);
    }
    if (rank->run->parallel) {
        (void)pthread_mutex_lock(&rank->run->mutex);
    }
}

void ls_schedule__leave(ls_rank *rank) {
    if (rank->run->parallel) {
        (void)pthread_mutex_unlock(&rank->run->mutex);
    }
    ls_turns__depart(rank);
    inside -= 1;
}

// ---- The set of ranks that could run -----------------------------------------------------------
static void set_ready(ls_rank *rank) {
    ls_spmd *run = rank->run;
    bool last = rank->slow || (run->options.schedule == LS_SCHEDULE_DELAY &&
                               run->options.delayed_rank == rank->id);
    uint64_t *word = &run->ready[last ? 1 : 0][rank->id / 64];
    uint64_t bit = UINT64_C(1) << (rank->id % 64);
    run->ready_count[last ? 1 : 0] += (*word & bit) == 0 ? 1 : 0;
    *word |= bit;
}

static void clear_ready(ls_rank *rank) {
    ls_spmd *run = rank->run;
    uint64_t bit = UINT64_C(1) << (rank->id % 64);
    for (int set = 0; set < 2; set++) {
        uint64_t *word = &run->ready[set][rank->id / 64];
        run->ready_count[set] -= (*word & bit) != 0 ? 1 : 0;
        *word &= ~bit;
    }
}

static int lowest_bit(uint64_t word) {
    return __builtin_ctzll(word);
}

// The ready rank number `index` of a set, in ascending order.
static int ready_at(const ls_spmd *run, int set, int index) {
    for (size_t w = 0; w < run->ready_words; w++) {
        uint64_t word = run->ready[set][w];
        int here = __builtin_popcountll(word);
        if (index >= here) {
            index -= here;
            continue;
        }
        for (; index > 0; index--) {
            word &= word - 1;
        }
        return (int)(w * 64) + lowest_bit(word);
    }
    LS_ASSERT(!"fewer ranks are ready");
    return -1;
}

// The first ready rank after `rank`, going round.
static int ready_after(const ls_spmd *run, int set, int rank) {
    size_t words = run->ready_words, start = (size_t)(rank + 1) / 64;
    for (size_t i = 0; i <= words; i++) {
        size_t w = (start + i) % words;
        uint64_t word = run->ready[set][w];
        if (i == 0 && start < words) {
            word &= ~UINT64_C(0) << ((rank + 1) % 64);
        }
        if (word != 0) {
            return (int)(w * 64) + lowest_bit(word);
        }
    }
    return -1;
}

// Threads are about to make calls while their ranks lack the run token.
static void take_arrivals(ls_spmd *run) {
    if (!run->arrivals || !atomic_exchange(&run->arrivals, false)) {
        return;
    }
    for (int r = 0; r < run->rank_count; r++) {
        ls_rank *rank = &run->ranks[r];
        if (atomic_exchange(&rank->arrived, false) && rank->state == LS_RANK_BLOCKED) {
            rank->state = LS_RANK_READY;
            set_ready(rank);
        }
    }
}

// The next rank; NULL when no rank can run.
static ls_rank *choose(ls_spmd *run, int from) {
    take_arrivals(run);
    for (int set = 0; set < 2; set++) {
        int count = run->ready_count[set], id = -1;
        bool due = run->passed_over >= PASSED_OVER_MAX && run->ready_count[1] > 0;
        if (count == 0 || (set == 0 && due)) {
            continue;
        }
        run->passed_over = set == 1 ? 0 : run->passed_over;
        if (run->options.schedule == LS_SCHEDULE_RANDOM) {
            uint64_t draw = ls_random_below((uint64_t)count, run->options.seed, SCHEDULE_STREAM, 0,
                                            run->switches);
            id = ready_at(run, set, (int)draw);
        } else {
            id = ready_after(run, set, from);
        }
        return &run->ranks[id];
    }
    return NULL;
}

// The C library has copied the rank's variables into its own memory, which it would use for the
// next rank's; clearenv makes it forget that.
static void keep_environment(ls_rank *rank) {
    size_t count = 0;
    while (environ != NULL && environ[count] != NULL) {
        count += 1;
    }
    char **kept = calloc(count + 1, sizeof *kept);
    if (kept == NULL) {
        return;
    }
    if (count > 0) {
        memcpy(kept, environ, count * sizeof *kept);
    }
    free(rank->environment);
    rank->environment = kept;
    (void)clearenv();
}

void ls_schedule__count_choice(ls_rank *rank, const ls_thread *chosen) {
    uint64_t number = (uint64_t)chosen->number;
    rank->run->digest = ls_hash(rank->run->digest, &number, sizeof number);
}

// The chosen rank has the run token; every choice counts, also that of the rank that had it. me:
// the thread that gives it, which is not to be woken. Returns the thread that has it.
static const ls_thread *give(ls_spmd *run, ls_rank *from, const ls_thread *me, ls_rank *to) {
    clear_ready(to);
    to->state = LS_RANK_RUNNING;
    if (from != NULL && from->environment != NULL && environ != from->environment) {
        keep_environment(from);
    }
    environ = to->environment != NULL ? to->environment : environ;
    run->switches += 1;
    atomic_store_explicit(&run->token, to->id, memory_order_relaxed);
    if (ls_seen__here != NULL && !ls_seen__forked) {
        atomic_store_explicit(&ls_seen__here->running, to->id, memory_order_relaxed);
    }
    uint64_t chosen = (uint64_t)to->id;
    run->digest = ls_hash(run->digest, &chosen, sizeof chosen);
    ls_thread *next = ls_turns__take(to);
    if (to->threads_made > 0) {
        ls_schedule__count_choice(to, next);
    }
    if (from != to) {
        run->running = to;
        ls_gdb_hook_switch(run, from, to);
    }
    if (next != me && run->fibers == NULL) {
        (void)sem_post(&next->go);
    }
    return next;
}

// The rank has stopped: another one, or another thread of it, continues.
static void pass_on(ls_rank *rank, ls_thread *me, ls_rank *next) {
    if (give(rank->run, rank, me, next) != me) {
        wait_for_token(me);
    }
}

// In a debugger, all threads stopped: `to` runs next. The rank that had the run token continues in
// its program without it until it makes a call, and there waits for it.
LS_GDB_CALLED void ls_gdb_give_token(ls_rank *to) {
    ls_spmd *run = to->run;
    ls_rank *from = run->running != NULL ? &run->ranks[run->running->id] : NULL;
    if (run->parallel || to->state != LS_RANK_READY || from == NULL || run->has_threads) {
        return;
    }
    if (from->state == LS_RANK_RUNNING) {
        from->holds = false;
        if (from->waits || from->parted) {
            (void)sem_trywait(&from->main.go);  // it has not noticed yet
        }
        if (from->waits) {
            from->main.state = LS_THREAD_READY;
            from->in = NULL;
        }
        from->parted = !from->waits;
        from->state = LS_RANK_READY;
        set_ready(from);
    }
    (void)give(run, from, NULL, to);
}

// ---- Ranks -------------------------------------------------------------------------------------
void ls_schedule__start(ls_spmd *run) {
    for (int r = 0; r < run->rank_count; r++) {
        run->ranks[r].state = run->parallel ? LS_RANK_RUNNING : LS_RANK_READY;
        if (!run->parallel) {
            set_ready(&run->ranks[r]);
        }
    }
    run->running_count = run->rank_count;
    if (!run->parallel) {
        (void)give(run, NULL, NULL, choose(run, -1));
        return;
    }
    for (int r = 0; r < run->rank_count; r++) {
        ls_turns__start(&run->ranks[r]);
    }
}

void ls_schedule__wait_for_start(ls_rank *rank) {
    ls_schedule__set_current(rank);
    if (rank->run->fibers == NULL) {
        wait_for_token(&rank->main);
    }
    inside = 0;
    rank->waits = false;
    (void)pthread_mutex_lock(&rank->turn);  // a rank that fails examines all of them
    rank->main.state = LS_THREAD_OUT;
    rank->in = NULL;
    (void)pthread_mutex_unlock(&rank->turn);
}

void ls_schedule__make_ready(ls_rank *rank) {
    LS_ASSERT(rank->state == LS_RANK_BLOCKED || rank->state == LS_RANK_STALLED);
    if (rank->run->parallel) {
        rank->state = LS_RANK_RUNNING;
        rank->run->running_count += 1;
        ls_turns__start(rank);
        return;
    }
    rank->state = LS_RANK_READY;
    set_ready(rank);
}

void ls_schedule__yield(ls_rank *rank) {
    ls_spmd *run = rank->run;
    if (run->parallel || run->direct) {
        return;
    }
    bool last = rank->slow || (run->options.schedule == LS_SCHEDULE_DELAY &&
                               run->options.delayed_rank == rank->id);
    if (run->options.schedule != LS_SCHEDULE_RANDOM && !last) {
        return;
    }
    ls_thread *me = ls_turns__me(rank);
    (void)ls_turns__stop(me, LS_THREAD_READY);
    rank->state = LS_RANK_READY;
    set_ready(rank);
    pass_on(rank, me, choose(run, rank->id));
}

void ls_schedule__give_way(ls_rank *rank) {
    ls_spmd *run = rank->run;
    if (run->parallel) {
        (void)pthread_mutex_unlock(&run->mutex);
        (void)sched_yield();
        (void)pthread_mutex_lock(&run->mutex);
        return;
    }
    ls_thread *me = ls_turns__me(rank);
    (void)ls_turns__stop(me, LS_THREAD_READY);
    rank->state = LS_RANK_READY;
    set_ready(rank);
    run->passed_over += 1;
    pass_on(rank, me, choose(run, rank->id));
}

// No rank can run: lets receives from any member match sends until one can, which takes several if
// a rank waits for several; else the run fails, which makes every blocked rank ready.
static ls_rank *choose_or_explain(ls_spmd *run, int from) {
    ls_rank *next = choose(run, from);
    while (next == NULL &&
           (run->core->choose(run) || (run->has_threads && ls_outside__await_arrival(run)))) {
        next = choose(run, from);
    }
    if (next == NULL) {
        run->core->explain(run);
        next = choose(run, from);
        LS_ASSERT(next != NULL);
    }
    return next;
}

// The same for a parallel run.
static void choose_or_explain_all(ls_spmd *run) {
    while (run->running_count == 0 && run->core->choose(run)) {
    }
    if (run->running_count == 0 && run->has_threads) {
        (void)pthread_mutex_unlock(&run->mutex);
        (void)ls_outside__await_arrival(run);
        (void)pthread_mutex_lock(&run->mutex);
    }
    if (run->running_count == 0) {
        run->core->explain(run);
    }
}

void ls_schedule__block(ls_rank *rank, ls_rank_state state) {
    ls_spmd *run = rank->run;
    ls_thread *me = ls_turns__me(rank);
    bool ready = ls_turns__stop(me, LS_THREAD_BLOCKED);
    rank->state = ready ? LS_RANK_READY : state;
    if (run->parallel) {
        run->running_count -= 1;
        if (ready) {
            rank->state = state;
            ls_schedule__make_ready(rank);
        } else {
            choose_or_explain_all(run);
        }
        (void)pthread_mutex_unlock(&run->mutex);
        wait_for_token(me);
        (void)pthread_mutex_lock(&run->mutex);
        return;
    }
    if (ready) {
        set_ready(rank);
    }
    pass_on(rank, me, choose_or_explain(run, rank->id));
}

void ls_schedule__hand_on(ls_rank *rank, ls_thread *me) {
    rank->state = LS_RANK_BLOCKED;
    (void)give(rank->run, rank, me, choose_or_explain(rank->run, rank->id));
}

void ls_schedule__finish(ls_rank *rank, ls_rank_state state) {
    ls_spmd *run = rank->run;
    rank->state = state;
    rank->main.current = NULL;
    rank->holds = false;
    run->alive -= 1;
    run->running_count -= 1;
    if (run->alive == 0) {
        run->running = NULL;
        if (ls_seen__here != NULL && !ls_seen__forked) {
            ls_seen__here->running = -1;
        }
        (void)sem_post(&run->done);
        return;
    }
    if (!run->parallel) {
        (void)give(run, rank, &rank->main, choose_or_explain(run, rank->id));
    } else {
        choose_or_explain_all(run);
    }
}
