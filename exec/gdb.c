// All ranks in one gdb: it has this process, and from their start on those that this one starts
// (gdb/lockstep_gdb/processes.py). Ranks that have started wait until all have.
#define _GNU_SOURCE  // close-on-exec sockets
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/internal.h"

#define START_SECONDS 10.0  // for a program without the front, which does not say that it starts

volatile int ls_gdb_debugs_processes;

// A debugger stops here before ranks are started (pids NULL), and sets ls_gdb_debugs_processes if
// it wants them; and when they have been: pids [count] are those of ranks 0, 1, ...
__attribute__((noinline, used)) static void ls_gdb_hook_processes(const char *program,
                                                                  const int *pids, int count) {
    __asm__ volatile("" ::"r"(program), "r"(pids), "r"(count) : "memory");
}

int ls_exec__gdb_open(ls_exec *exec, int gate[2]) {
    gate[0] = gate[1] = -1;
    if (exec->options->processes > 0) {  // else the launcher's processes
        ls_gdb_hook_processes(exec->options->argv[0], NULL, exec->options->processes);
    }
    if (!ls_gdb_debugs_processes) {
        return LS_OK;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot create a socket: %s", strerror(errno));
    }
    (void)fcntl(gate[1], F_SETFD, 0);
    char text[16];
    (void)snprintf(text, sizeof text, "%d", gate[1]);
    (void)setenv(LS_WIRE_GATE, text, 1);
    return LS_OK;
}

void ls_exec__gdb_child(void) {
    if (ls_gdb_debugs_processes) {
        (void)setpgid(0, 0);  // Ctrl-C stops the coordinator, and gdb with it all of them
        int none = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(none, 0);  // the terminal's input is gdb's
    }
}

static int count_ended(const ls_exec *exec) {
    int count = 0;
    for (int i = 0; i < exec->child_count; i++) {
        siginfo_t how = {.si_pid = 0};
        bool known =
            waitid(P_PID, (id_t)exec->children[i].pid, &how, WEXITED | WNOHANG | WNOWAIT) == 0;
        count += known && how.si_pid != 0 ? 1 : 0;
    }
    return count;
}

void ls_exec__gdb_started(ls_exec *exec, const int gate[2]) {
    if (gate[0] < 0) {
        return;
    }
    (void)unsetenv(LS_WIRE_GATE);
    (void)close(gate[1]);
    const double began = ls_time_now();
    for (int there = 0;
         there + count_ended(exec) < exec->child_count && ls_time_now() - began < START_SECONDS;) {
        char bytes[64];
        struct pollfd at = {.fd = gate[0], .events = POLLIN};
        ssize_t got = poll(&at, 1, 100) > 0 ? recv(gate[0], bytes, sizeof bytes, MSG_DONTWAIT) : 0;
        there += got > 0 ? (int)got : 0;
    }
    int *pids = calloc((size_t)exec->child_count, sizeof *pids);
    for (int i = 0; pids != NULL && i < exec->child_count; i++) {
        pids[i] = (int)exec->children[i].pid;
    }
    if (pids != NULL) {
        ls_gdb_hook_processes(exec->options->argv[0], pids, exec->child_count);
    }
    free(pids);
    (void)close(gate[0]);  // they go on
}
