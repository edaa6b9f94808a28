// Signals: each rank has handlers and a real-time timer of its own, as a process has. The functions
// replace those of the C library in the program (lockstep-cc). A signal that a rank sends to its
// process, and that of its timer, goes to its own thread.
#define _GNU_SOURCE  // SIGEV_THREAD_ID, REG_RIP, syscall
#include "mpi/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

typedef struct waiter {  // a thread in sigwait
    pid_t thread;
    const sigset_t *set;
    struct waiter *next;
} waiter;

struct mpi_signals {
    struct sigaction all[NSIG];
    bool ended;
    pthread_mutex_t turn;  // guards the next two
    waiter *waiters;
    bool parked[NSIG];  // sent to the process by a thread that blocks it; pending there
    pid_t timed;        // the process that has made the timer; 0: none
    timer_t timer;
};

// glibc has functions for both since 2.30.
static pid_t own_thread(void) {
    return (pid_t)syscall(SYS_gettid);
}

static int send_thread(pid_t thread, int signal) {
    return (int)syscall(SYS_tgkill, getpid(), thread, signal);
}

// ---- Delivery -----------------------------------------------------------------------------------
static const char *code_at(const void *context) {
    const ucontext_t *at = context;
#if defined(__x86_64__)
    return (const char *)at->uc_mcontext.gregs[REG_RIP];
#else
    return (const char *)at->uc_mcontext.pc;
#endif
}

// NULL: the signal is for the whole process.
static mpi_rank *receiver(const siginfo_t *info, const void *context) {
    const ls_rank *current = ls_schedule__current();
    if (current != NULL) {
        return &ls_mpi__state.ranks[current->id];
    }
    mpi_rank *me = ls_mpi__rank_of_code(code_at(context));
    int running = ls_seen__here != NULL ? ls_seen__here->running : -1;
    bool directed = info->si_code > 0 || info->si_code == SI_TKILL;
    if (me == NULL && directed && running >= 0 && running < ls_mpi__state.rank_count) {
        me = &ls_mpi__state.ranks[running];
    }
    return me;
}

static bool has_handler(const struct sigaction *of) {
    return (of->sa_flags & SA_SIGINFO) != 0 ||
           (of->sa_handler != SIG_DFL && of->sa_handler != SIG_IGN);
}

// False: the action is the default one.
static bool deliver(mpi_rank *me, int signal, siginfo_t *info, void *context) {
    struct mpi_signals *own = me->signals;
    if (own == NULL || own->ended) {
        return own != NULL;
    }
    const struct sigaction action = own->all[signal];
    sigset_t mask = action.sa_mask, it;
    if (!has_handler(&action)) {
        return action.sa_handler == SIG_IGN;
    }
    own->parked[signal] = false;
    if ((action.sa_flags & (int)SA_RESETHAND) != 0) {
        own->all[signal] = (struct sigaction){.sa_handler = SIG_DFL};
    }
    // The kernel restores the mask when its handler returns.
    (void)sigemptyset(&it);
    (void)sigaddset(&it, signal);
    (void)pthread_sigmask((action.sa_flags & SA_NODEFER) != 0 ? SIG_UNBLOCK : SIG_BLOCK, &it, NULL);
    (void)pthread_sigmask(SIG_BLOCK, &mask, NULL);
    if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(signal, info, context);
    } else {
        action.sa_handler(signal);
    }
    return true;
}

static void on_signal(int signal, siginfo_t *info, void *context);

static void act_by_default(int signal) {
    if (signal == SIGCHLD || signal == SIGURG || signal == SIGWINCH || signal == SIGCONT) {
        return;
    }
    struct sigaction before;
    sigset_t it;
    (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, &before);
    (void)sigemptyset(&it);
    (void)sigaddset(&it, signal);
    (void)raise(signal);
    (void)pthread_sigmask(SIG_UNBLOCK, &it, NULL);  // ends the process, or stops it
    (void)sigaction(signal, &before, NULL);
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    mpi_rank *me = receiver(info, context);
    bool taken = me != NULL && deliver(me, signal, info, context);
    for (int r = 0; me == NULL && r < ls_mpi__state.rank_count; r++) {
        const mpi_rank *rank = &ls_mpi__state.ranks[r];
        if (rank->signals != NULL && !rank->signals->ended && rank->rank != NULL &&
            has_handler(&rank->signals->all[signal])) {
            (void)pthread_kill(rank->rank->thread, signal);
            taken = true;
        }
    }
    if (!taken) {
        act_by_default(signal);
    }
}

bool ls_mpi__signalled(int signal, siginfo_t *info, void *context) {
    mpi_rank *me = receiver(info, context);
    return me != NULL && me->signals != NULL && !me->signals->ended &&
           (signal == SIGABRT || has_handler(&me->signals->all[signal])) &&
           deliver(me, signal, info, context);
}

// ---- Life ---------------------------------------------------------------------------------------
void ls_mpi__signals_open(mpi_rank *me) {
    me->signals = ls_mpi__alloc(sizeof *me->signals);
    (void)pthread_mutex_init(&me->signals->turn, NULL);
}

void ls_mpi__signals_end(mpi_rank *me) {
    me->signals->ended = true;
    if (me->signals->timed == getpid()) {
        (void)timer_delete(me->signals->timer);
    }
    me->signals->timed = 0;
}

void ls_mpi__signals_close(mpi_rank *me) {
    free(me->signals);
    me->signals = NULL;
}

// ---- Functions of the program -------------------------------------------------------------------
#define EXPORT __attribute__((visibility("default")))
#define HERE   __builtin_return_address(0)

// NULL: the code of no rank calls, or before its start.
static struct mpi_signals *signals_of(const void *caller) {
    const ls_rank *current = ls_schedule__current();
    const mpi_rank *me =
        current != NULL ? &ls_mpi__state.ranks[current->id] : ls_mpi__rank_of_code(caller);
    return me != NULL ? me->signals : NULL;
}

// Those of which lockstep has a handler (ranks/trap.c).
static bool is_fault(int signal) {
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
           signal == SIGABRT;
}

static int set(int signal, const struct sigaction *now, struct sigaction *before,
               const void *caller) {
    struct mpi_signals *own = signals_of(caller);
    if (own == NULL || signal <= 0 || signal >= NSIG || signal == SIGKILL || signal == SIGSTOP) {
        return sigaction(signal, now, before);
    }
    const struct sigaction was = own->all[signal];
    if (now != NULL) {
        struct sigaction process = {
            .sa_sigaction = on_signal,
            .sa_flags = SA_SIGINFO | (now->sa_flags & (int)(SA_RESTART | SA_ONSTACK | SA_NOCLDSTOP |
                                                            SA_NOCLDWAIT))};
        sigset_t all, mask;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_BLOCK, &all, &mask);
        own->all[signal] = *now;
        bool needs = has_handler(now) || now->sa_handler == SIG_IGN;
        // Invariant: ranks/trap.c handles faults and the signal by which lockstep ends ranks.
        int status = needs && !is_fault(signal) && signal != LS_SIGNAL_ESCAPE
                         ? sigaction(signal, &process, NULL)
                         : 0;
        (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
        if (status != 0) {
            return status;
        }
    }
    if (before != NULL) {
        *before = was;
    }
    return 0;
}

EXPORT int __wrap_sigaction(int signal, const struct sigaction *now, struct sigaction *before);
EXPORT int __wrap_sigaction(int signal, const struct sigaction *now, struct sigaction *before) {
    return set(signal, now, before, HERE);
}

static sighandler_t set_simple(int signal, sighandler_t handler, int flags, const void *caller) {
    struct sigaction now = {.sa_handler = handler, .sa_flags = flags}, before;
    return set(signal, &now, &before, caller) == 0 ? before.sa_handler : SIG_ERR;
}

EXPORT sighandler_t __wrap_signal(int signal, sighandler_t handler);
EXPORT sighandler_t __wrap_signal(int signal, sighandler_t handler) {
    return set_simple(signal, handler, SA_RESTART, HERE);
}

// signal of a strict C standard
EXPORT sighandler_t __wrap___sysv_signal(int signal, sighandler_t handler);
EXPORT sighandler_t __wrap___sysv_signal(int signal, sighandler_t handler) {
    return set_simple(signal, handler, (int)SA_RESETHAND | SA_NODEFER, HERE);
}

// Another thread of the rank may wait for it.
static int send_blocked(struct mpi_signals *own, int signal) {
    (void)pthread_mutex_lock(&own->turn);
    const waiter *at = own->waiters;
    while (at != NULL && sigismember(at->set, signal) == 0) {
        at = at->next;
    }
    int status = send_thread(at != NULL ? at->thread : own_thread(), signal);
    own->parked[signal] = own->parked[signal] || (at == NULL && status == 0);
    (void)pthread_mutex_unlock(&own->turn);
    return status;
}

EXPORT int __wrap_kill(pid_t process, int signal);
EXPORT int __wrap_kill(pid_t process, int signal) {
    struct mpi_signals *own = signals_of(HERE);
    sigset_t blocked;
    if (process != getpid() || own == NULL || signal <= 0 || signal >= NSIG) {
        return kill(process, signal);
    }
    (void)pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    return sigismember(&blocked, signal) != 0 ? send_blocked(own, signal)
                                              : send_thread(own_thread(), signal);
}

// Takes a signal of the set that another thread has sent; 0: there is none, and the thread waits.
static int take_parked(struct mpi_signals *own, waiter *made) {
    int found = 0;
    (void)pthread_mutex_lock(&own->turn);
    for (int signal = 1; signal < NSIG && found == 0; signal++) {
        found = own->parked[signal] && sigismember(made->set, signal) > 0 ? signal : 0;
    }
    own->parked[found] = false;
    if (found == 0) {
        made->next = own->waiters;
        own->waiters = made;
    }
    (void)pthread_mutex_unlock(&own->turn);
    return found;
}

static void wait_no_more(struct mpi_signals *own, const waiter *of) {
    (void)pthread_mutex_lock(&own->turn);
    waiter **at = &own->waiters;
    while (*at != of) {
        at = &(*at)->next;
    }
    *at = of->next;
    (void)pthread_mutex_unlock(&own->turn);
}

// until NULL: waits without a limit
static int wait_for(const sigset_t *set, siginfo_t *info, const struct timespec *until,
                    const void *caller) {
    struct mpi_signals *own = signals_of(caller);
    waiter made = {.thread = own_thread(), .set = set};
    sigset_t pending;
    (void)sigpending(&pending);  // of this thread: taken from there
    for (int signal = 1; own != NULL && signal < NSIG; signal++) {
        if (sigismember(&pending, signal) > 0 && sigismember(set, signal) > 0) {
            own->parked[signal] = false;
        }
    }
    int found = own != NULL ? take_parked(own, &made) : 0;
    if (found == 0) {
        found = sigtimedwait(set, info, until);
        if (own != NULL) {
            wait_no_more(own, &made);
        }
    } else if (info != NULL) {
        *info = (siginfo_t){.si_signo = found, .si_code = SI_USER, .si_pid = getpid()};
    }
    return found;
}

EXPORT int __wrap_sigwait(const sigset_t *set, int *out);
EXPORT int __wrap_sigwait(const sigset_t *set, int *out) {
    int found;
    do {
        found = wait_for(set, NULL, NULL, HERE);
    } while (found < 0 && errno == EINTR);
    *out = found >= 0 ? found : *out;
    return found >= 0 ? 0 : errno;
}

EXPORT int __wrap_sigwaitinfo(const sigset_t *set, siginfo_t *info);
EXPORT int __wrap_sigwaitinfo(const sigset_t *set, siginfo_t *info) {
    return wait_for(set, info, NULL, HERE);
}

EXPORT int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *limit);
EXPORT int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *limit) {
    return wait_for(set, info, limit, HERE);
}

static void to_timer(struct itimerspec *out, const struct itimerval *of) {
    out->it_value.tv_sec = of->it_value.tv_sec;
    out->it_value.tv_nsec = of->it_value.tv_usec * 1000;
    out->it_interval.tv_sec = of->it_interval.tv_sec;
    out->it_interval.tv_nsec = of->it_interval.tv_usec * 1000;
}

static void of_timer(struct itimerval *out, const struct itimerspec *of) {
    out->it_value.tv_sec = of->it_value.tv_sec;
    out->it_value.tv_usec = of->it_value.tv_nsec / 1000;
    out->it_interval.tv_sec = of->it_interval.tv_sec;
    out->it_interval.tv_usec = of->it_interval.tv_nsec / 1000;
}

// now NULL: is not changed
static int set_timer(struct mpi_signals *own, const struct itimerval *now,
                     struct itimerval *before) {
    struct itimerspec at = {.it_value = {.tv_sec = 0}}, was;
    if (own->timed != getpid()) {  // a forked process has no timers
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
        event.sigev_notify_thread_id = own_thread();
        if (timer_create(CLOCK_MONOTONIC, &event, &own->timer) != 0) {
            return -1;
        }
        own->timed = getpid();
    }
    int status = timer_gettime(own->timer, &was);
    if (status == 0 && now != NULL) {
        to_timer(&at, now);
        status = timer_settime(own->timer, 0, &at, &was);
    }
    if (status == 0 && before != NULL) {
        of_timer(before, &was);
    }
    return status;
}

EXPORT int __wrap_setitimer(__itimer_which_t which, const struct itimerval *now,
                            struct itimerval *before);
EXPORT int __wrap_setitimer(__itimer_which_t which, const struct itimerval *now,
                            struct itimerval *before) {
    struct mpi_signals *own = signals_of(HERE);
    return which == ITIMER_REAL && own != NULL ? set_timer(own, now, before)
                                               : setitimer(which, now, before);
}

EXPORT int __wrap_getitimer(__itimer_which_t which, struct itimerval *now);
EXPORT int __wrap_getitimer(__itimer_which_t which, struct itimerval *now) {
    struct mpi_signals *own = signals_of(HERE);
    return which == ITIMER_REAL && own != NULL ? set_timer(own, NULL, now) : getitimer(which, now);
}

EXPORT unsigned __wrap_alarm(unsigned seconds);
EXPORT unsigned __wrap_alarm(unsigned seconds) {
    struct mpi_signals *own = signals_of(HERE);
    const struct itimerval now = {.it_value = {.tv_sec = (time_t)seconds}};
    struct itimerval before = {.it_value = {.tv_sec = 0}};
    if (own == NULL) {
        return alarm(seconds);
    }
    (void)set_timer(own, &now, &before);
    long rounded = before.it_value.tv_usec >= 500000 ? 1 : 0;
    bool soon = before.it_value.tv_sec == 0 && before.it_value.tv_usec > 0;
    return soon ? 1 : (unsigned)(before.it_value.tv_sec + rounded);
}
