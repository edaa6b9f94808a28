// Starting a child, waiting for it, ending it. Linux: pidfd, the signal of a parent's death.
#define _GNU_SOURCE
#include "process/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

#define PAUSE_SECONDS 0.01

pid_t ls_child_fork(int death) {
    LS_ASSERT(death >= 0);
    pid_t own = getpid(), child = fork();
    if (child == 0 && death != 0 && (prctl(PR_SET_PDEATHSIG, death) != 0 || getppid() != own)) {
        _exit(127);
    }
    return child;
}

void ls_child_wait(pid_t child, int *how) {
    LS_ASSERT(child > 0);
    while (waitpid(child, how, 0) < 0 && errno == EINTR) {
    }
}

bool ls_child_wait_for(pid_t child, int *how, double seconds) {
    LS_ASSERT(child > 0);
    double from = ls_time_now();
    bool ended;
    while (!(ended = waitpid(child, how, WNOHANG) == child) && ls_time_now() - from < seconds) {
        ls_time_sleep(PAUSE_SECONDS);
    }
    return ended;
}

void ls_child_end(pid_t child, bool group, int *how) {
    LS_ASSERT(child > 0);
    (void)kill(group ? -child : child, SIGKILL);
    ls_child_wait(child, how);
}

int ls_child_open(pid_t process) {
    return (int)syscall(SYS_pidfd_open, process, 0);
}
