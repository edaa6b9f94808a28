// A run: the program's main and its threads are fibers of the thread of rank 0, as the threads of
// kernels are; the other ranks are the devices. The C library's functions by which threads wait for
// each other are answered here.
#define _GNU_SOURCE  // pthread_mutex_t's kinds
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/image/image.h"
#include "device/internal.h"

#define EXPORT __attribute__((visibility("default")))

static struct {
    int argc;
    char **argv;
} program;
static int left;  // processes whose main has not returned

// ---- Threads of the host ------------------------------------------------------------------------
device_thread *ls_device__host_thread(void (*main)(device_thread *), void *arg, int rank) {
    device_thread *made = ls_device__alloc(sizeof *made);
    device_thread *by = ls_device__state.running;
    made->seen = ls_device__no_thread;
    made->group = ls_device__alloc(sizeof *made->group);
    ls_device__group_open(made->group, rank);
    made->unit =
        ls_device__unit_make(rank, -1, 0, by != NULL ? &by->unit->known : &(device_clock){0});
    if (by != NULL) {
        ls_device__unit_step(by->unit);
    }
    made->main = main;
    made->arg = arg;
    made->rank = rank;
    made->all = ls_device__state.threads;
    ls_device__state.threads = made;
    LS_ASSERT(ls_device__stack_take(made, true));
    ls_device__ready(made);
    return made;
}

void ls_device__stop(int status) {
    ls_device__state.status = status;
    ls_device__state.over = true;
    for (;;) {
        ls_device__suspend();
    }
}

static void run_main(device_thread *self) {
    ls_device_program main = *(ls_device_program *)self->arg;
    int status = main(program.argc, program.argv, NULL);
    ls_device__state.status = status != 0 ? status : ls_device__state.status;
    left -= 1;
    if (left == 0 || status != 0) {
        ls_device__stop(ls_device__state.status);
    }
    ls_device__thread_end(self);
}

EXPORT void __wrap_exit(int status) {
    (void)fflush(NULL);
    ls_device__stop(status);
}

typedef struct start {
    void *(*run)(void *);
    void *arg;
} start;

static void run_thread(device_thread *self) {
    start begin = *(start *)self->arg;
    free(self->arg);
    self->result = begin.run(begin.arg);
    ls_device__thread_end(self);
}

EXPORT int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                                 void *(*run)(void *), void *arg) {
    start *begin = ls_device__alloc(sizeof *begin);
    *begin = (start){run, arg};
    (void)attributes;
    *out = (pthread_t)(uintptr_t)ls_device__host_thread(run_thread, begin,
                                                        ls_device__state.running->rank);
    return 0;
}

EXPORT int __wrap_pthread_join(pthread_t of, void **result) {
    device_thread *thread = (device_thread *)(uintptr_t)of;
    while (!thread->ended) {
        ls_device__wait(&thread->joiners, ls_device__describe_host, "pthread_join", 0,
                        (ls_cuda_site){"", 0});
    }
    if (result != NULL) {
        *result = thread->result;
    }
    ls_device__clock_join(&ls_device__state.running->unit->known, &thread->unit->known);
    return 0;
}

EXPORT int __wrap_pthread_detach(pthread_t of) {
    (void)of;
    return 0;
}

EXPORT pthread_t __wrap_pthread_self(void) {
    return (pthread_t)(uintptr_t)ls_device__state.running;
}

// ---- Locks, conditions, barriers ----------------------------------------------------------------
static device_queue locks, conditions;

static void meet_all(device_clock *clock) {
    device_unit *unit = ls_device__state.running->unit;
    ls_device__clock_join(clock, &unit->known);
    ls_device__clock_join(&unit->known, clock);
    ls_device__unit_step(unit);
}

static device_clock host_clock;  // of locks, conditions and barriers of host threads

EXPORT int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    int status;
    while ((status = pthread_mutex_trylock(mutex)) == EBUSY) {
        ls_device__wait(&locks, ls_device__describe_host, "pthread_mutex_lock", 0,
                        (ls_cuda_site){"", 0});
    }
    if (ls_device__state.running != NULL) {
        meet_all(&host_clock);
    }
    return status;
}

EXPORT int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    int status = pthread_mutex_unlock(mutex);
    if (ls_device__state.running != NULL) {
        meet_all(&host_clock);
    }
    ls_device__wake(&locks);
    return status;
}

EXPORT int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    (void)condition;
    (void)__wrap_pthread_mutex_unlock(mutex);
    ls_device__wait(&conditions, ls_device__describe_host, "pthread_cond_wait", 0,
                    (ls_cuda_site){"", 0});
    return __wrap_pthread_mutex_lock(mutex);
}

EXPORT int __wrap_pthread_cond_broadcast(pthread_cond_t *condition) {
    (void)condition;
    ls_device__wake(&conditions);  // a waiter looks again
    return 0;
}

EXPORT int __wrap_pthread_cond_signal(pthread_cond_t *condition) {
    return __wrap_pthread_cond_broadcast(condition);
}

typedef struct host_barrier {
    const void *at;
    unsigned count, arrived;
    uint64_t generation;
    device_queue waiting;
    struct host_barrier *next;
} host_barrier;
static host_barrier *host_barriers;

EXPORT int __wrap_pthread_barrier_init(pthread_barrier_t *barrier,
                                       const pthread_barrierattr_t *attributes, unsigned count) {
    host_barrier *made = ls_device__alloc(sizeof *made);
    (void)attributes;
    *made = (host_barrier){.at = barrier, .count = count, .next = host_barriers};
    host_barriers = made;
    return 0;
}

EXPORT int __wrap_pthread_barrier_destroy(pthread_barrier_t *barrier) {
    (void)barrier;
    return 0;
}

EXPORT int __wrap_pthread_barrier_wait(pthread_barrier_t *barrier) {
    host_barrier *at = host_barriers;
    for (; at != NULL && at->at != barrier; at = at->next) {
    }
    if (at == NULL) {
        return EINVAL;
    }
    meet_all(&host_clock);
    at->arrived += 1;
    if (at->arrived == at->count) {
        at->arrived = 0;
        at->generation += 1;
        ls_device__wake(&at->waiting);
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    for (uint64_t generation = at->generation; at->generation == generation;) {
        ls_device__wait(&at->waiting, ls_device__describe_host, "pthread_barrier_wait", 0,
                        (ls_cuda_site){"", 0});
    }
    meet_all(&host_clock);
    return 0;
}

EXPORT int __wrap_nanosleep(const struct timespec *wanted, struct timespec *rest) {
    (void)wanted;
    (void)rest;
    ls_device__yield();
    return 0;
}

EXPORT int __wrap_usleep(unsigned wanted) {
    (void)wanted;
    ls_device__yield();
    return 0;
}

EXPORT unsigned __wrap_sleep(unsigned wanted) {
    (void)wanted;
    ls_device__yield();
    return 0;
}

EXPORT int __wrap_sched_yield(void) {
    ls_device__yield();
    return 0;
}

// ---- The run ------------------------------------------------------------------------------------
static void close_units(void) {
    device_state *s = &ls_device__state;
    for (int i = 0; i < s->unit_count; i++) {
        device_unit *unit = s->units[i];
        ls_device__clock_free(&unit->known);
        ls_device__clock_free(&unit->order);
        ls_device__clock_free(&unit->pending);
        ls_device__clock_free(&unit->released[0]);
        ls_device__clock_free(&unit->released[1]);
        free(unit);
    }
}

static void close_host(void) {
    device_state *s = &ls_device__state;
    while (s->threads != NULL) {
        device_thread *gone = s->threads;
        s->threads = gone->all;
        ls_device__stack_give(gone);
        free(gone->group);
        free(gone);
    }
    while (host_barriers != NULL) {
        host_barrier *gone = host_barriers;
        host_barriers = gone->next;
        free(gone);
    }
    locks = conditions = (device_queue){0};
    ls_device__clock_free(&host_clock);
}

static void close_run(void) {
    device_state *s = &ls_device__state;
    ls_device__nvshmem_close();
    ls_device__network_close();
    ls_device__calls_close();
    ls_device__comms_close();
    while (s->kernels != NULL) {
        device_kernel *gone = s->kernels;
        s->kernels = gone->next;
        ls_device__kernel_free(gone);
    }
    ls_device__streams_close();
    close_host();
    close_units();
    ls_device__syncs_close();
    ls_device__memory_close();
    free(s->groups);
    ls_device__no_self();
}

static const device_core core = {ls_device__put_due,       ls_device__put_step,
                                 ls_device__stream_due,    ls_device__stream_step,
                                 ls_device__kernels_widen, ls_device__block_close,
                                 ls_device__calls_arrive,  ls_device__explain};

static void open_run(ls_rank *rank) {
    const ls_spmd_options *options = &rank->run->options;
    ls_device__state = (device_state){.rank = rank,
                                      .run = rank->run,
                                      .rank_count = rank->run->rank_count,
                                      .seed = options->seed,
                                      .random = options->schedule == LS_SCHEDULE_RANDOM,
                                      .core = &core};
    ls_device__state.eager = 1 << (2 * ls_device__draw(4));
    ls_device__state.bursts = ls_device__draw(2) == 1;
    ls_device__memory_open();
    ls_device__streams_open();
}

static void run_here(ls_rank *self, int processes) {
    static ls_device_program mains[RANKS_MAX];
    for (int r = 0; r < processes; r++) {
        mains[r] = ls_device__image_main(r);
        (void)ls_device__host_thread(run_main, &mains[r], r);
    }
    left = processes;
    ls_device__run();
    self->run->started = true;
    self->run->calls += ls_device__state.calls;
    self->run->observed += ls_device__state.draws;
}

static void take_words(const ls_spmd_arguments *words) {
    program.argc = words != NULL ? words->count : 0;
    program.argv = ls_device__alloc((size_t)(program.argc + 1) * sizeof(char *));
    for (int i = 0; i < program.argc; i++) {
        program.argv[i] = strdup(words->values[i]);
    }
}

static void free_words(void) {
    for (int i = 0; i < program.argc; i++) {
        free(program.argv[i]);
    }
    free(program.argv);
}

// The entry of a program that lockstep-cuda-cc has linked.
EXPORT int ls_device_main(ls_rank *self, void *arg, ls_device_program main, bool processes) {
    if (self->id != 0) {
        return 0;
    }
    int count = self->run->rank_count;
    int status = count <= RANKS_MAX
                     ? LS_OK
                     : LS_FAIL(LS_ERR_LIMIT, "a CUDA program has at most %d devices", RANKS_MAX);
    if (status == LS_OK) {
        status = ls_device__images_open(main, processes ? count : 1);
    }
    if (status != LS_OK) {
        ls_schedule__enter(self);
        ls_spmd__fail(self->run, status, ls_error_last()->text);
        ls_schedule__leave(self);
        return 1;
    }
    take_words(arg);
    open_run(self);
    ls_device__images_name();
    run_here(self, processes ? count : 1);
    status = ls_device__state.status;
    close_run();
    free_words();
    return status;
}
