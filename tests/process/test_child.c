// A child is awaited under a deadline, ended with its group, and does not outlive its parent.
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "process/child.h"
#include "process/reaper.h"

static void sleep_on(void) {
    for (;;) {
        (void)pause();
    }
}

Test(child, has_its_exit_code) {
    pid_t child = ls_child_fork(SIGKILL);
    if (child == 0) {
        _exit(7);
    }
    int how = 0;
    ls_child_wait(child, &how);
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 7);
}

Test(child, that_sleeps_is_not_ended_in_time) {
    pid_t child = ls_child_fork(SIGKILL);
    if (child == 0) {
        sleep_on();
    }
    int how = 0, watch = ls_child_open(child);
    struct pollfd end = {.fd = watch, .events = POLLIN};
    cr_assert(!ls_child_wait_for(child, &how, 0));
    cr_assert(!ls_child_wait_for(child, &how, 0.02));
    cr_assert(poll(&end, 1, 0) == 0);
    ls_child_end(child, false, &how);
    cr_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    cr_assert(poll(&end, 1, -1) == 1);
    cr_assert(close(watch) == 0);
}

Test(child, is_awaited_while_it_runs) {
    pid_t child = ls_child_fork(SIGKILL);
    if (child == 0) {
        ls_time_sleep(0.03);
        _exit(3);
    }
    int how = 0;
    cr_assert(ls_child_wait_for(child, &how, 600));
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 3);
}

// The writing end of a pipe, which each process of a family holds, closes with the last of them.
static void closes(int ends[2]) {
    char byte;
    (void)close(ends[1]);
    cr_assert(read(ends[0], &byte, 1) == 0);
    (void)close(ends[0]);
}

Test(child, is_ended_with_its_group) {
    int ends[2], ready[2];
    char byte;
    cr_assert(pipe(ends) == 0 && pipe(ready) == 0);
    pid_t child = ls_child_fork(0);
    if (child == 0) {
        (void)setpgid(0, 0);
        if (ls_child_fork(0) == 0) {
            (void)!write(ready[1], "r", 1);
        }
        sleep_on();
    }
    cr_assert(read(ready[0], &byte, 1) == 1);
    ls_child_end(child, true, NULL);
    closes(ends);
}

Test(child, ends_with_its_parent) {
    int ends[2], ready[2];
    char byte;
    cr_assert(pipe(ends) == 0 && pipe(ready) == 0);
    pid_t parent = ls_child_fork(0);
    if (parent == 0) {
        if (ls_child_fork(SIGKILL) == 0) {
            (void)!write(ready[1], "r", 1);
        }
        sleep_on();
    }
    cr_assert(read(ready[0], &byte, 1) == 1);
    ls_child_end(parent, false, NULL);
    closes(ends);
}

// A tool that ends a killed process's children recognises the reaper by its name.
Test(reaper, has_its_name_from_the_start) {
    ls_reaper reaper;
    char path[64], name[32] = "";
    cr_assert(ls_reaper_make(&reaper, NULL) == LS_OK);
    (void)snprintf(path, sizeof path, "/proc/%ld/comm", (long)reaper.pid);
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL && fgets(name, sizeof name, file) != NULL);
    (void)fclose(file);
    cr_assert(strcmp(name, LS_REAPER_NAME "\n") == 0);
    ls_reaper_remove(&reaper);
}
