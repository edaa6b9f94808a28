// The threads of a run, one for each rank or one for all (fibers.h): their programs, ends of
// programs that did not return, and the watchdog.
#define _GNU_SOURCE  // pthread_setname_np, syscall, RTLD_NEXT, unshare
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "ranks/fibers.h"
#include "ranks/internal.h"

#define ESCAPE_SECONDS      5  // in which a rank that is taken out of its program comes out
#define STACK_BYTES_DEFAULT ((size_t)1 << 20)  // reserved; what is touched counts

void ls_threads__lost(ls_rank *rank, ls_finding_id id, const char *format, ...) {
    ls_spmd *run = rank->run;
    char why[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    rank->state = LS_RANK_DIED;
    rank->exit_status = LS_ERR_RANK_DIED;
    if (run->status == LS_OK) {
        ls_text text = {0};
        ls_text_printf(&text, "rank %d %s\n", rank->id, why);
        ls_findings__history(&text, rank, 4);
        (void)ls_findings__add(run, id, &rank->id, 1, rank->file, rank->line,
                               ls_findings__string(run, &text));
        ls_text_free(&text);
        ls_spmd__fail(run, run->checks[id] ? LS_ERR_FINDING : LS_ERR_RANK_DIED,
                      ls_finding_name(id));
    }
}

static void finish(ls_rank *rank) {
    ls_spmd *run = rank->run;
    rank->escape = NULL;
    ls_request__drain(rank);
    if (rank->state != LS_RANK_DIED) {
        ls_kept__returned(rank);
    }
    run->result->exit_status[rank->id] = rank->exit_status;
    ls_schedule__finish(rank, rank->state == LS_RANK_DIED ? LS_RANK_DIED : LS_RANK_RETURNED);
    ls_schedule__leave(rank);
    if (run->parks) {
        ls_gdb_hook_parked(run, rank);
        while (sem_wait(&run->over) != 0) {
            // Interrupted by the debugger.
        }
    }
    rank->escape = NULL;
}

// The program has ended its thread (pthread_exit), which unwinds.
static void on_thread_end(void *arg) {
    ls_rank *rank = arg;
    ls_schedule__enter(rank);
    ls_threads__lost(rank, LS_FINDING_RANK_DIED,
                     "ended its thread (pthread_exit) after its last call%s",
                     rank->line > 0 ? "" : ", of which there was none");
    finish(rank);
}

// Kept apart, as the error's text is as large as all else that a rank has on its stack below its
// program: of many ranks each page is dear.
__attribute__((noinline)) static void end_program(ls_rank *rank) {
    const ls_error failed = *ls_error_last();
    ls_schedule__enter(rank);
    if (rank->exit_status != LS_OK && failed.code == rank->exit_status &&
        rank->run->status == LS_OK) {
        rank->why = ls_arena_strdup(rank->run->arena, failed.text);
    }
}

static void run_program(ls_rank *rank) {
    ls_spmd *run = rank->run;
    sigjmp_buf escape;
    rank->escape = &escape;
    int escaped = sigsetjmp(escape, 0);  // our handlers block no signal
    rank->left_behind = escaped != 0 && run->front != NULL;
    switch (escaped) {
    case LS_ESCAPE_STACK:
        if (!ls_schedule__inside()) {
            ls_schedule__enter(rank);
        }
        ls_threads__lost(
            rank, LS_FINDING_RANK_DIED,
            "used up its stack of %zu KiB (--stack or options.stack_bytes sets a larger one)",
            rank->stack_bytes / 1024);
        break;
    case LS_ESCAPE_DEADLINE:
        ls_schedule__enter(rank);
        ls_threads__lost(
            rank, LS_FINDING_MISSING_RANK,
            "has run for %g s without a call (--deadline, options.deadline_seconds), while the "
            "others wait",
            run->deadline_seconds);
        break;
    case LS_ESCAPE_EXIT:
        ls_schedule__enter(rank);
        break;
    case LS_ESCAPE_EXIT_CALL:
        ls_schedule__enter(rank);
        ls_threads__lost(rank, LS_FINDING_RANK_DIED,
                         "called %s(%d)%s: a rank is a thread, and must end by returning",
                         rank->ended_by, rank->exit_status,
                         rank->line > 0 ? " after its last call" : " before its first call");
        break;
    default:
        rank->exit_status = run->program(rank, run->arg);
        if (ls_seen__forked) {  // a separate process: no thread waits for it here
            (void)fflush(NULL);
            _exit(rank->exit_status);
        }
        end_program(rank);
        break;
    }
}

// exit and _exit of the C library would end all ranks without a report, and once they run they
// cannot be left. So these definitions precede them. A call of a rank's program ends its thread, or
// ends the rank for another thread that calls for it; every other call, such as that of a forked
// child, is passed on.
static void end_rank(int status, const char *name) {
    ls_rank *rank = ls_schedule__current();
    if (rank == NULL || rank->escape == NULL || ls_schedule__inside() ||
        rank->run->process != getpid()) {
        return;
    }
    rank->ended_by = name;
    rank->exit_status = status;
    if (rank->tid == (int)syscall(SYS_gettid)) {
        siglongjmp(*rank->escape, LS_ESCAPE_EXIT_CALL);
    }
    ls_schedule__enter(rank);
    ls_threads__lost(rank, LS_FINDING_RANK_DIED,
                     "called %s(%d) on a thread that it has attached: a rank is a thread, and must "
                     "end by returning",
                     name, status);
    ls_schedule__leave(rank);
    ls_turns__end();
    pthread_exit(NULL);
}

LS_API void exit(int status) {
    end_rank(status, "exit");
    void (*next)(int) LS_NORETURN = NULL;
    void *symbol = dlsym(RTLD_NEXT, "exit");
    LS_ASSERT(symbol != NULL);
    memcpy(&next, &symbol, sizeof next);
    next(status);
}

// Children of a fork end by it, in which no more than system calls may be made.
LS_API void _exit(int status) {
    end_rank(status, "_exit");
    while (true) {
        (void)syscall(SYS_exit_group, status);
    }
}

LS_API void _Exit(int status) {
    _exit(status);
}

void ls_threads__escape(ls_rank *rank, int escape) {
    rank->escaping = escape;
    (void)pthread_kill(rank->thread, LS_SIGNAL_ESCAPE);
}

static void *rank_main(void *arg) {
    ls_rank *rank = arg;
    ls_spmd *run = rank->run;
    rank->tid = (int)syscall(SYS_gettid);
    (void)unshare(CLONE_FS);  // a separate working folder and umask, as in a process
    (void)pthread_setname_np(pthread_self(), rank->name);  // of another thread it takes three calls
    if (run->parks) {
        (void)sem_post(&run->done);  // there to be seen
    }
    ls_trap__enter_thread(rank);
    ls_schedule__wait_for_start(rank);
    int status = LS_OK;
    if (run->program != NULL && run->backend->ops->enter_rank != NULL) {
        status = run->backend->ops->enter_rank(run->backend, rank->id);
    }
    pthread_cleanup_push(on_thread_end, rank);
    if (run->program != NULL && status == LS_OK) {
        run_program(rank);
    } else {
        ls_schedule__enter(rank);
    }
    pthread_cleanup_pop(0);
    if (status != LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
    bool stays = rank->left_behind;
    finish(rank);
    while (stays) {  // libraries take its end for that of what they were in; the rank may be gone
        (void)pause();
    }
    ls_trap__leave_thread(rank);
    return NULL;
}

// The same on a fiber.
static void fiber_main(ls_rank *rank) {
    ls_schedule__wait_for_start(rank);
    run_program(rank);
    finish(rank);
}

static void *carrier_main(void *arg) {
    ls_spmd *run = arg;
    (void)unshare(CLONE_FS);  // the reporting thread stays in its working folder
    // The stack of signals is the thread's, and so one for all.
    ls_rank handlers = {.handler_stack = ls_arena_alloc_raw(run->arena, 1, LS_HANDLER_STACK_BYTES)};
    for (int r = 0; r < run->rank_count; r++) {
        run->ranks[r].thread = pthread_self();
    }
    ls_trap__enter_thread(&handlers);
    ls_fibers__run(run);
    ls_trap__leave_thread(&handlers);
    return NULL;
}

// Whether a debugger has the process, which may stop it for as long as it likes.
static bool is_traced(void) {
    char line[128];
    bool traced = false;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        traced =
            traced || (strncmp(line, "TracerPid:", 10) == 0 && strtol(line + 10, NULL, 10) > 0);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return traced;
}

static size_t stack_of(const ls_spmd *run) {
    // A device's runtime is less modest than the library.
    size_t stack = run->borrowed ? 4 * STACK_BYTES_DEFAULT : STACK_BYTES_DEFAULT;
    stack = run->options.stack_bytes != 0 ? run->options.stack_bytes : stack;
    stack = stack < (size_t)PTHREAD_STACK_MIN ? (size_t)PTHREAD_STACK_MIN : stack;
    return (stack + 4095) / 4096 * 4096;
}

// The ranks' stacks are in one mapping, each between its guard and its signal handlers' stack:
// allocated one by one, they would dominate the start of a rank.
static int make_stacks(ls_spmd *run) {
    size_t each, stack = stack_of(run);
    LS_TRY(ls_size_add(&each, stack, LS_STACK_GUARD_BYTES + LS_HANDLER_STACK_BYTES));
    LS_TRY(ls_size_mul(&run->stacks_bytes, each, (size_t)run->rank_count));
    void *memory = mmap(NULL, run->stacks_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot allocate %d stacks of %zu bytes", run->rank_count,
                       stack);
    }
    run->stacks = memory;
    return LS_OK;
}

static int start_thread(ls_rank *rank, pthread_attr_t *attributes) {
    const ls_spmd *run = rank->run;
    size_t each = run->stacks_bytes / (size_t)run->rank_count;
    // The guard area is so large that a frame of ordinary size cannot step over it.
    char *low = run->stacks + (size_t)rank->id * each + LS_STACK_GUARD_BYTES;
    rank->stack_low = (uintptr_t)low;
    rank->stack_bytes = each - LS_STACK_GUARD_BYTES - LS_HANDLER_STACK_BYTES;
    rank->handler_stack = low + rank->stack_bytes;
    if (mprotect(low, each - LS_STACK_GUARD_BYTES, PROT_READ | PROT_WRITE) != 0) {
        return LS_FAIL_RANK(LS_ERR_RESOURCE, rank->id, "rank %d: cannot allocate its stack",
                            rank->id);
    }
    if (pthread_attr_setstack(attributes, low, rank->stack_bytes) != 0) {
        return LS_FAIL(LS_ERR_INVALID, "cannot use a stack of %zu bytes", rank->stack_bytes);
    }
    if (pthread_create(&rank->thread, attributes, rank_main, rank) != 0) {
        return LS_FAIL_RANK(LS_ERR_RESOURCE, rank->id, "rank %d: cannot start its thread",
                            rank->id);
    }
    return LS_OK;
}

// Starts all threads, or none of the programs.
static int start_threads(ls_spmd *run, int *started) {
    pthread_attr_t attributes;
    LS_TRY(make_stacks(run));
    if (pthread_attr_init(&attributes) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "no attributes for threads");
    }
    int status = LS_OK;
    for (int r = 0; r < run->rank_count && status == LS_OK; r++) {
        status = start_thread(&run->ranks[r], &attributes);
        *started += status == LS_OK ? 1 : 0;
    }
    (void)pthread_attr_destroy(&attributes);
    return status;
}

// A rank whose thread is gone (SYS_exit) has not passed on its turn.
static void end_gone(ls_rank *rank) {
    if (rank->state != LS_RANK_RUNNING || rank->tid == 0 || rank->run->fibers != NULL ||
        syscall(SYS_tgkill, rank->run->process, rank->tid, 0) == 0 || errno != ESRCH) {
        return;
    }
    ls_schedule__enter(rank);
    ls_threads__lost(rank, LS_FINDING_RANK_DIED, "ended its thread by a system call");
    rank->run->result->exit_status[rank->id] = rank->exit_status;
    ls_schedule__finish(rank, LS_RANK_DIED);
    ls_schedule__leave(rank);
}

// A busy machine keeps a rank from its processor: that time is not the rank's own.
typedef struct delay {
    int tid;
    double seconds;
} delay;

static double delayed_since(delay *last, const ls_rank *rank) {
    const delay before = *last;
    last->tid = rank != NULL ? rank->tid : 0;
    last->seconds = ls_outside__delayed(last->tid);
    return last->tid == before.tid ? last->seconds - before.seconds : 0;
}

// Waits for the end of all ranks. A rank that runs for longer than the deadline and makes no call
// is taken out of its program.
static void watch_threads(ls_spmd *run) {
    uint64_t beat = 0;
    double waited = 0;
    delay last = {0};
    struct timespec until;
    while (true) {
        double step = run->deadline_seconds < 2 ? run->deadline_seconds / 2 : 1;
        int64_t at = ls_time_wall_ns() + (int64_t)(step * 1e9);
        until = (struct timespec){.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
        int failed =
            run->deadline_seconds > 0 ? sem_timedwait(&run->done, &until) : sem_wait(&run->done);
        if (failed == 0) {
            return;
        }
        uint64_t now = atomic_load(&run->beat);
        bool same = errno == ETIMEDOUT && now == beat;
        int running = atomic_load(&run->token);
        double own = step - delayed_since(&last, running >= 0 ? &run->ranks[running] : NULL);
        waited = same ? waited : 0;
        waited += same && own > 0 ? own : 0;
        beat = now;
        if (!run->parallel && running >= 0 && waited > 0) {
            end_gone(&run->ranks[running]);
        }
        if (ls_seen__here != NULL && run->deadline_seconds > 0 && running >= 0 &&
            waited > 2 * run->deadline_seconds + ESCAPE_SECONDS) {
            ls_seen__lost(&run->ranks[running], LS_FINDING_MISSING_RANK,
                          "has not returned within the deadline");
            (void)syscall(SYS_exit_group, LS_ERR_RANK_DIED);
        }
        if (waited < run->deadline_seconds || run->deadline_seconds <= 0 || is_traced()) {
            continue;
        }
        for (int r = 0; r < run->rank_count; r++) {
            if (running == r || run->parallel) {
                (void)pthread_kill(run->ranks[r].thread, LS_SIGNAL_ESCAPE);
            }
        }
    }
}

static int run_fibers(ls_spmd *run) {
    pthread_t carrier;
    int status = ls_fibers__open(run, fiber_main, stack_of(run));
    run->alive = run->rank_count;
    if (status == LS_OK) {
        ls_gdb_hook_run(run, 0);
        ls_schedule__start(run);
        if (pthread_create(&carrier, NULL, carrier_main, run) != 0) {
            status = LS_FAIL(LS_ERR_RESOURCE, "cannot start a thread for the ranks");
        }
    }
    if (status == LS_OK) {
        watch_threads(run);
        (void)pthread_join(carrier, NULL);
        ls_spmd__judge(run);
    }
    ls_fibers__close(run);
    return status;
}

int ls_threads__run(ls_spmd *run) {
    ls_spmd_program program = run->program;
    run->parks = is_traced();
    run->process = (int)getpid();
    ls_seen__begin();
    // A debugger shows threads, so it gets them.
    if (run->options.fibers && !run->parallel && !run->parks &&
        run->backend->ops->enter_rank == NULL) {
        return run_fibers(run);
    }
    bool left_behind = false;
    int started = 0, status = start_threads(run, &started);
    if (status != LS_OK) {
        run->program = NULL;  // those that exist end at once
        run->rank_count = started;
    }
    run->alive = started;
    run->program = status == LS_OK ? program : NULL;
    for (int r = 0; run->parks && r < started; r++) {
        while (sem_wait(&run->done) != 0) {
        }
    }
    if (started > 0) {
        ls_gdb_hook_run(run, 0);
        ls_schedule__start(run);
        watch_threads(run);
        if (status == LS_OK) {
            ls_spmd__judge(run);
        }
        for (int r = 0; run->parks && r < started; r++) {
            (void)sem_post(&run->over);
        }
        for (int r = 0; r < started; r++) {
            if (run->ranks[r].left_behind) {
                left_behind = true;
            } else {
                (void)pthread_join(run->ranks[r].thread, NULL);
            }
        }
    }
    if (run->stacks != NULL && !left_behind) {
        (void)munmap(run->stacks, run->stacks_bytes);
    }
    return status;
}
