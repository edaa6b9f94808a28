// Traps of the hardware: an access to closed pages of a call in flight (flight.c), and the end of a
// rank's stack. And the signal by which the watchdog ends a rank that makes no call. Anything else
// goes to the earlier handler.
#define _GNU_SOURCE  // REG_ERR
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "ranks/internal.h"

static pthread_mutex_t users_mutex = PTHREAD_MUTEX_INITIALIZER;
static int users;  // runs
static struct sigaction before, before_escape;
static const int ends[] = {SIGABRT, SIGFPE, SIGBUS, SIGILL};
static const char *const end_names[] = {"Aborted", "Floating point exception", "Bus error",
                                        "Illegal instruction"};
#define END_COUNT (sizeof ends / sizeof ends[0])
static struct sigaction before_ends[END_COUNT];

// Whether another thread could have opened the page between this access and its handler: then the
// access is repeated. The same access without any opening in between is not caused by lockstep.
static bool may_be_open(uintptr_t address, uint64_t opened) {
    static _Thread_local uintptr_t last_address;
    static _Thread_local uint64_t last_opened;
    bool again = last_address == address && last_opened == opened;
    last_address = address;
    last_opened = opened;
    return !again;
}

static bool is_write(const void *context) {
#if defined(__x86_64__)
    const ucontext_t *at = context;
    return (at->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    (void)context;
    return false;
#endif
}

static bool at_stack_end(const ls_rank *rank, uintptr_t address) {
    return rank->stack_low != 0 && address >= rank->stack_low - LS_STACK_GUARD_BYTES &&
           address < rank->stack_low + LS_STACK_GUARD_BYTES;
}

// Not a helper's that is attached to it.
static bool own_thread(const ls_rank *rank) {
    return rank->escape != NULL && pthread_equal(rank->thread, pthread_self()) != 0;
}

static bool ends_stack(const ls_rank *rank, uintptr_t address) {
    return rank != NULL && own_thread(rank) && at_stack_end(rank, address);
}

static void pass_on(int signal, siginfo_t *info, void *context) {
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        (void)sigaction(SIGSEGV, &before, NULL);  // the access is made again, without us
    } else {
        before.sa_handler(signal);
    }
}

// The owner of an address in a buffer of an incomplete call: another rank's thread may move its
// data.
static const ls_rank *owner_of(const ls_spmd *run, const ls_rank *mover, uintptr_t address) {
    const ls_front *front = run->front;
    for (int r = 0; r < run->rank_count && address >= LS_PAGE_BYTES; r++) {
        const ls_rank *rank = &run->ranks[r];
        if (front != NULL && front->holds != NULL && front->holds(rank, address)) {
            return rank;
        }
        const ls_request *current = rank->main.current;
        for (const ls_request *at = current != NULL ? current : rank->open; at != NULL;
             at = at == current ? rank->open : at->next) {
            if (at->front == NULL && (address - (uintptr_t)at->call.send < at->send_bytes ||
                                      address - (uintptr_t)at->call.recv < at->recv_bytes)) {
                return rank;
            }
            if (at == current && rank->open == current) {
                break;
            }
        }
    }
    return mover;
}

// The process cannot go on: a lock of the C library may be held, memory may be damaged. The process
// that supervises it reports.
static void end_process(int signal, const siginfo_t *info) {
    static atomic_bool ending;
    const ls_spmd *run = ls_gdb_runs;
    const ls_rank *rank = ls_schedule__current();
    int running = ls_seen__here->running;
    if (rank == NULL && run != NULL && running >= 0 && running < run->rank_count) {
        rank = &run->ranks[running];
    }
    if (rank != NULL && !atomic_exchange(&ending, true)) {
        char why[128];
        bool fault = signal == SIGSEGV || signal == SIGBUS;
        const char *name = "Segmentation fault";
        for (size_t i = 0; i < END_COUNT; i++) {
            name = ends[i] == signal ? end_names[i] : name;
        }
        (void)snprintf(why, sizeof why, "was ended by signal %d (%s)", signal, name);
        rank = fault ? owner_of(rank->run, rank, (uintptr_t)info->si_addr) : rank;
        ls_seen__lost(rank, LS_FINDING_RANK_DIED, why);
        ls_hooks__before_stop();
    }
    (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    (void)raise(signal);
}

// The library's own faults are not for the program.
static bool programs_own(int signal, siginfo_t *info, void *context) {
    const ls_front *front = ls_gdb_runs != NULL ? ls_gdb_runs->front : NULL;
    return front != NULL && front->signalled != NULL && !ls_schedule__inside() &&
           front->signalled(signal, info, context);
}

static void on_end(int signal, siginfo_t *info, void *context) {
    if (!programs_own(signal, info, context)) {
        end_process(signal, info);
    }
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    uintptr_t address = (uintptr_t)info->si_addr;
    ls_rank *rank = ls_schedule__current();
    if (info->si_code == SEGV_ACCERR) {
        uint64_t opened = 0;
        ls_request *request = ls_flight__trapped(&opened, address, is_write(context));
        if (request != NULL) {
            // Another thread's access is reported at the wait; the library's own is no use.
            if (ls_schedule__inside()) {
                request->trapped = false;
            } else if (rank != NULL && request->rank == rank) {
                ls_schedule__enter(rank);
                ls_flight__tell(request);
                ls_schedule__leave(rank);
            }
            return;
        }
        if (!ends_stack(rank, address) && may_be_open(address, opened)) {
            return;
        }
    }
    if (ends_stack(rank, address)) {  // a fiber's guard may be no mapping: SEGV_MAPERR
        siglongjmp(*rank->escape, LS_ESCAPE_STACK);
    }
    if (programs_own(signal, info, context)) {
        return;
    }
    if (ls_seen__here != NULL) {
        end_process(signal, info);
        return;
    }
    pass_on(signal, info, context);
}

static void on_escape(int signal) {
    ls_rank *rank = ls_schedule__current();
    (void)signal;
    if (rank != NULL && own_thread(rank) && !ls_schedule__inside()) {
        siglongjmp(*rank->escape, rank->escaping != 0 ? rank->escaping : LS_ESCAPE_DEADLINE);
    }
}

void ls_trap__open(void) {
    (void)pthread_mutex_lock(&users_mutex);
    if (users++ == 0) {
        struct sigaction own = {.sa_sigaction = on_fault,
                                .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
        (void)sigemptyset(&own.sa_mask);
        (void)sigaction(SIGSEGV, &own, &before);
        struct sigaction escape = {.sa_handler = on_escape, .sa_flags = SA_ONSTACK | SA_NODEFER};
        (void)sigemptyset(&escape.sa_mask);
        (void)sigaction(LS_SIGNAL_ESCAPE, &escape, &before_escape);
        own.sa_sigaction = on_end;
        for (size_t i = 0; i < END_COUNT && ls_seen__here != NULL; i++) {
            (void)sigaction(ends[i], &own, &before_ends[i]);
        }
    }
    (void)pthread_mutex_unlock(&users_mutex);
}

void ls_trap__close(void) {
    (void)pthread_mutex_lock(&users_mutex);
    LS_ASSERT(users > 0);
    if (--users == 0) {
        struct sigaction now;
        if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == on_fault) {
            (void)sigaction(SIGSEGV, &before, NULL);
        }
        (void)sigaction(LS_SIGNAL_ESCAPE, &before_escape, NULL);
        for (size_t i = 0; i < END_COUNT && ls_seen__here != NULL; i++) {
            (void)sigaction(ends[i], &before_ends[i], NULL);
        }
    }
    (void)pthread_mutex_unlock(&users_mutex);
}

void ls_trap__enter_thread(ls_rank *rank) {
    const stack_t own = {.ss_sp = rank->handler_stack, .ss_size = LS_HANDLER_STACK_BYTES};
    rank->other_stack.ss_flags = SS_DISABLE;
    if (rank->handler_stack != NULL) {
        (void)sigaltstack(&own, &rank->other_stack);
    }
}

void ls_trap__leave_thread(ls_rank *rank) {
    rank->escape = NULL;
    if ((rank->other_stack.ss_flags & SS_DISABLE) == 0) {  // a sanitizer has its own
        (void)sigaltstack(&rank->other_stack, NULL);
    }
}
