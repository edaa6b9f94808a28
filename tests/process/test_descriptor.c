// All descriptors from one on are closed, with Linux's close_range and without.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/descriptor.h"

// From here on the process has no close_range, as before Linux 5.9.
static bool forget_close_range(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// The exit code of a child that closes all but 0 to `last`: 0 if it has exactly those.
static int close_in_child(bool old, int last) {
    pid_t child = fork();
    if (child == 0) {
        int high = fcntl(0, F_DUPFD, 700);
        if (high < 700 || dup2(0, last) != last || dup2(0, last + 1) != last + 1 ||
            (old && !forget_close_range())) {
            _exit(2);
        }
        ls_descriptors_close(last + 1);
        _exit(fcntl(last, F_GETFD) >= 0 && fcntl(last + 1, F_GETFD) < 0 && fcntl(high, F_GETFD) < 0
                  ? 0
                  : 1);
    }
    int how = 0;
    cr_assert(waitpid(child, &how, 0) == child && WIFEXITED(how));
    return WEXITSTATUS(how);
}

Test(descriptor, all_from_one_on_are_closed) {
    cr_assert(close_in_child(false, 0) == 0);
    cr_assert(close_in_child(false, 5) == 0);
}

Test(descriptor, all_from_one_on_are_closed_without_close_range) {
    cr_assert(close_in_child(true, 0) == 0);
    cr_assert(close_in_child(true, 5) == 0);
}
