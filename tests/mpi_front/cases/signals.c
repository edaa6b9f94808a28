// Signals that ranks send to themselves: each rank has handlers and a timer of its own.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "cases.h"

static volatile sig_atomic_t caught, caught_other;
static sigjmp_buf back;

static void count(int signal) {
    (void)signal;
    caught += 1;
}

static void count_other(int signal, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    caught_other += signal == SIGUSR1 ? 1 : 0;
}

static void leave(int signal) {
    siglongjmp(back, signal);
}

static void must(bool holds) {
    if (!holds) {
        abort();
    }
}

// Ranks with different handlers of one signal; the last rank ignores it.
static void handlers_of_each_rank(void) {
    struct sigaction other = {.sa_sigaction = count_other, .sa_flags = SA_SIGINFO}, before;
    if (rank == 0) {
        signal(SIGUSR1, count);
    } else if (rank == 1) {
        sigaction(SIGUSR1, &other, NULL);
    } else {
        signal(SIGUSR1, SIG_IGN);
    }
    if (wrong && rank == 1) {
        signal(SIGUSR1, SIG_DFL);
    }
    MPI_Barrier(WORLD);  // wrong: rank.died, signal 10
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    MPI_Barrier(WORLD);
    must(caught == (rank == 0 ? 2 : 0) && caught_other == (rank == 1 ? 2 : 0));
    sigaction(SIGUSR1, NULL, &before);
    must(rank != 1 || before.sa_sigaction == count_other);
    must(signal(SIGUSR1, SIG_DFL) != SIG_DFL);
}

static void timers_of_each_rank(void) {
    const struct itimerval soon = {.it_value = {0, 1000}, .it_interval = {0, 1000}};
    const struct itimerval never = {.it_value = {0, 0}};
    sigset_t alarms, none;
    sigemptyset(&none);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarms, NULL);
    if (rank != 1 || !wrong) {
        signal(SIGALRM, count);
    }
    must(alarm(1000) == 0 && alarm(0) > 900);
    MPI_Barrier(WORLD);  // wrong: rank.died, signal 14
    if (rank < 2) {
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    while (rank < 2 && caught < 3 + rank) {
        sigsuspend(&none);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    MPI_Barrier(WORLD);
    must(rank < 2 || caught == 0);
    alarm(1);  // which ends with its rank
    signal(SIGALRM, SIG_DFL);
}

static void fault_that_is_left(void) {
    volatile int *volatile nowhere = (volatile int *)8;
    struct sigaction action = {.sa_handler = leave};
    if (rank != 1 || !wrong) {
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGFPE, &action, NULL);
    }
    MPI_Barrier(WORLD);  // wrong: rank.died, signal 11
    for (int i = 0; i < 3; i++) {
        int signal = sigsetjmp(back, 1);
        if (signal == 0) {
            *nowhere = 1;
        }
        must(signal == SIGSEGV);
        caught += 1;
    }
    if (sigsetjmp(back, 1) == 0) {
        raise(SIGFPE);
    }
    MPI_Barrier(WORLD);
    must(caught == 3);
}

static void *wait_for_one(void *set) {
    int signal = 0;
    must(sigwait(set, &signal) == 0);
    caught = signal;
    return NULL;
}

// A thread waits for signals that all others block, in each rank.
static void thread_that_waits(void) {
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (rank != 1 || !wrong) {
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    MPI_Barrier(WORLD);  // wrong: rank.died, signal 10
    pthread_create(&thread, NULL, wait_for_one, &set);
    kill(getpid(), SIGUSR1);
    pthread_join(thread, NULL);
    MPI_Barrier(WORLD);
    must(caught == SIGUSR1);
}

static void *fault(void *arg) {
    volatile int *volatile nowhere = (volatile int *)8;
    if (sigsetjmp(back, 1) == 0) {
        *nowhere = 1;
    }
    caught = 1;
    return arg;
}

static void fault_of_a_thread(void) {
    pthread_t thread;
    signal(SIGSEGV, rank == 1 && wrong ? SIG_DFL : leave);
    MPI_Barrier(WORLD);  // wrong: rank.died, signal 11
    pthread_create(&thread, NULL, fault, NULL);
    pthread_join(thread, NULL);
    MPI_Barrier(WORLD);
    must(caught == 1);
}

// A handler for one signal only.
static void handler_of_once(void) {
    struct sigaction once = {.sa_handler = count, .sa_flags = (int)SA_RESETHAND}, now;
    sigaction(SIGUSR2, &once, NULL);
    raise(SIGUSR2);
    sigaction(SIGUSR2, NULL, &now);
    must(caught == 1 && now.sa_handler == SIG_DFL);
    MPI_Barrier(WORLD);  // wrong: rank.died, signal 12
    if (wrong && rank == 1) {
        raise(SIGUSR2);
    }
    MPI_Barrier(WORLD);
}

static void pipe_that_is_closed(void) {
    int ends[2];
    must(pipe(ends) == 0);
    close(ends[0]);
    signal(SIGPIPE, wrong && rank == 1 ? SIG_DFL : SIG_IGN);
    MPI_Barrier(WORLD);  // wrong: rank.died, signal 13
    must(write(ends[1], "x", 1) < 0 && errno == EPIPE);
    MPI_Barrier(WORLD);
}

#define CASE(name)                                                                                 \
    { #name, name }
CASES(CASE(handlers_of_each_rank), CASE(timers_of_each_rank), CASE(fault_that_is_left),
      CASE(thread_that_waits), CASE(fault_of_a_thread), CASE(handler_of_once),
      CASE(pipe_that_is_closed))
