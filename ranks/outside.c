// The threads of a rank outside of the library: whether one may still make a call.
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"
#include "ranks/internal.h"

#define SPINS_NS    UINT64_C(250000000)  // of computing, after which a rank waits no longer
#define HALVED_MAX  8                    // each time that it did so halves this for the next
#define SPINS_TIMES 200                  // that it began to run: it yields a busy machine
#define YIELDS      50                   // looks before the first nap
#define NAP_NS_MAX  1000000L

// Call these two with `turn` locked.
static ls_thread *find(ls_rank *rank, int number) {
    ls_thread *at = &rank->main;
    while (at != NULL && at->number != number) {
        at = at->next;
    }
    return at;
}

static void forget(ls_thread *thread) {
    ls_rank *rank = thread->rank;
    ls_thread **at = &rank->main.next;
    while (*at != NULL && *at != thread) {
        at = &(*at)->next;
    }
    if (*at == thread) {
        *at = thread->next;
        rank->thread_count -= 1;
        (void)sem_destroy(&thread->go);
        free(thread);
    }
}

void ls_outside__never_began(ls_thread *thread) {
    ls_rank *rank = thread->rank;
    (void)pthread_mutex_lock(&rank->turn);
    forget(thread);
    (void)pthread_mutex_unlock(&rank->turn);
}

typedef enum doing {
    DOING_GONE,
    DOING_SLEEPS,   // until another thread wakes it
    DOING_RETURNS,  // sleeps until a time, or until something outside of the process happens
    DOING_RUNS,
} doing;

// out [bytes]: the content of that file of a thread. False: there is no such thread.
static bool read_about(char *out, size_t bytes, int tid, const char *name) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, out, bytes - 1) : -1;
    if (file >= 0) {
        (void)close(file);
    }
    out[length > 0 ? length : 0] = 0;
    return length > 0;
}

double ls_outside__delayed(int tid) {
    char text[256];
    unsigned long long used, delayed_ns = 0;
    if (tid != 0 && read_about(text, sizeof text, tid, "schedstat")) {
        (void)sscanf(text, "%llu %llu", &used, &delayed_ns);
    }
    return (double)delayed_ns / 1e9;
}

// cpu_ns: that it has used; times: it has begun to run so often.
static doing look_at(int tid, uint64_t *cpu_ns, uint64_t *times) {
    char text[256];
    unsigned long waited, args[4] = {0};
    long number = -1;
    if (read_about(text, sizeof text, tid, "schedstat")) {
        (void)sscanf(text, "%" SCNu64 " %lu %" SCNu64, cpu_ns, &waited, times);
    }
    if (!read_about(text, sizeof text, tid, "syscall")) {
        (void)snprintf(text, sizeof text, "/proc/self/task/%d", tid);
        bool there = access(text, F_OK) == 0;
        if (!there) {
            return DOING_GONE;
        }
        return access("/proc/self/syscall", R_OK) == 0 ? DOING_RUNS : DOING_SLEEPS;
    }
    if (sscanf(text, "%ld %lx %lx %lx %lx", &number, &args[0], &args[1], &args[2], &args[3]) < 5 ||
        number < 0) {
        return DOING_RUNS;
    }
    return number == SYS_futex && args[3] == 0 ? DOING_SLEEPS : DOING_RETURNS;
}

typedef struct looks {
    uint64_t times;  // that the threads have begun to run, all together
    uint64_t spun;   // the same of those that spin, which are not in `times` and `count`
    int count;
    bool runs, returns;
} looks;

static void add_look(looks *out, ls_thread *at, doing what, uint64_t cpu_ns, uint64_t times) {
    if (at->cpu_ns == 0) {
        at->cpu_ns = cpu_ns;
        at->times = times;
    }
    ls_rank *rank = at->rank;
    if (!at->spins && cpu_ns - at->cpu_ns > SPINS_NS >> rank->spins) {
        at->spins = true;
        rank->spins += rank->spins < HALVED_MAX ? 1 : 0;
    }
    at->spins = at->spins || times - at->times > SPINS_TIMES;
    out->count += at->spins ? 0 : 1;
    out->times += at->spins ? 0 : times;
    out->spun += at->spins ? times : 0;
    out->runs = out->runs || (what == DOING_RUNS && !at->spins);
    out->returns = out->returns || what == DOING_RETURNS || (what == DOING_RUNS && at->spins);
}

// Examines the threads of a rank outside of the library, except `me`. Not under `turn`: a thread
// that waits for it to make a call would seem asleep.
static void look_at_rank(looks *out, ls_rank *rank, const ls_thread *me) {
    int number = -1;
    while (true) {
        uint64_t cpu_ns = 0, times = 0;
        (void)pthread_mutex_lock(&rank->turn);
        ls_thread *at = &rank->main;
        while (at != NULL &&
               (at->number <= number || at == me || at->ended || at->state != LS_THREAD_OUT)) {
            at = at->next;
        }
        int tid = at != NULL ? at->tid : 0;
        (void)pthread_mutex_unlock(&rank->turn);
        if (at == NULL) {
            return;
        }
        number = at->number;
        doing what = tid == 0 ? DOING_RUNS : look_at(tid, &cpu_ns, &times);
        (void)pthread_mutex_lock(&rank->turn);
        at = find(rank, number);
        if (at != NULL && what == DOING_GONE && number > 0) {
            forget(at);
        } else if (at != NULL && at->state == LS_THREAD_OUT) {
            add_look(out, at, what, cpu_ns, times);
        } else {
            out->runs = true;  // it is about to make a call: look again
        }
        (void)pthread_mutex_unlock(&rank->turn);
    }
}

static void nap(int looked) {
    long ns = looked < YIELDS ? 0 : 20000L * (looked - YIELDS);
    if (ns == 0) {
        (void)sched_yield();
    } else {
        ls_time_sleep(1e-9 * (double)(ns < NAP_NS_MAX ? ns : NAP_NS_MAX));
    }
}

void ls_outside__settle(ls_rank *rank, const ls_thread *me) {
    looks before = {.runs = true};
    for (int i = 0; rank->calls_at_once && rank->run->status == LS_OK; i++) {
        looks now = {0};
        look_at_rank(&now, rank, me);
        bool same = now.times == before.times && now.count == before.count;
        if (!now.runs && (now.count == 0 || (!before.runs && same))) {
            return;
        }
        before = now;
        // The watch of the deadline sees that the rank is not stuck: how fast its threads get on
        // is the machine's affair.
        atomic_fetch_add_explicit(&rank->run->beat, 1, memory_order_relaxed);
        nap(i);
    }
}

// The same of the threads of all ranks: out, as they are then. Waits for those that sleep until a
// time, until `deadline_seconds` after `from` at most (false).
static bool settle_all(looks *out, ls_spmd *run, double from) {
    looks before = {.runs = true};
    for (int i = 0; !run->arrivals; i++) {
        *out = (looks){0};
        for (int r = 0; r < run->rank_count; r++) {
            ls_rank *rank = &run->ranks[r];
            bool lives = rank->state != LS_RANK_RETURNED && rank->state != LS_RANK_DIED;
            if (lives && rank->thread_count > 1) {
                look_at_rank(out, rank, NULL);
            }
        }
        if (run->deadline_seconds > 0 && ls_time_now() - from > run->deadline_seconds) {
            return false;
        }
        out->times += out->spun;
        if (!out->runs && !out->returns && !before.runs && out->times == before.times &&
            out->count == before.count) {
            return true;
        }
        before = *out;
        nap(i);
    }
    return true;
}

bool ls_outside__await_arrival(ls_spmd *run) {
    looks ignored;
    (void)settle_all(&ignored, run, ls_time_now());
    return run->arrivals;
}

bool ls_outside__may_change(ls_spmd *run) {
    looks now = {0};
    bool in_time = settle_all(&now, run, run->idle_from);
    bool changed =
        !run->outside_known || now.times != run->outside_times || now.count != run->outside_count;
    run->outside_known = !run->arrivals;
    run->outside_times = now.times;
    run->outside_count = now.count;
    return in_time && (changed || run->arrivals);
}
