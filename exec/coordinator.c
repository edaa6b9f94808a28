// The run from its start to its end: one loop over messages of processes, output of their streams,
// and ended processes.
#define _GNU_SOURCE  // ppoll, pidfd
#include "exec/coordinator.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/hosts.h"
#include "ranks/front.h"
#include "process/reaper.h"
#include "process/processes.h"

#define SETTLE_SECONDS 0.5   // without any message for this long, waiting ranks count as stuck
#define WORKS_SECONDS  10.0  // the same, of threads that are not blocked; they may make a call
#define GRACE_SECONDS  2.0   // for a program to end by itself after the run
#define SPINS          200   // polls of the streams' output before the loop sleeps

// ---- Starting -----------------------------------------------------------------------------------
static int listen_here(ls_exec *exec) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(exec->socket, sizeof exec->socket, "lockstep-exec-%ld-%llx", (long)getpid(),
                   (unsigned long long)ls_time_wall_ns());
    size_t length = strlen(exec->socket);
    memcpy(address.sun_path + 1, exec->socket, length);
    exec->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (exec->listening < 0 ||
        bind(exec->listening, (const struct sockaddr *)&address, bytes) != 0 ||
        listen(exec->listening, 4096) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot create a socket for the program's processes: %s",
                       strerror(errno));
    }
    return LS_OK;
}

// ---- Ends ---------------------------------------------------------------------------------------
// Whether the launcher was killed: then no process is left to end its ranks. One that is a rank
// itself ends as such first.
static bool is_abandoned(const ls_exec *exec) {
    const ls_exec_child *launcher = &exec->children[0];
    bool killed =
        exec->options->processes == 0 && launcher->watch < 0 && WIFSIGNALED(launcher->status);
    for (const ls_exec_process *at = exec->processes; at != NULL && killed; at = at->next) {
        killed = at->gone || at->host != NULL || at->pid != launcher->pid;
    }
    return killed;
}

static bool anybody(const ls_exec *exec) {
    if (ls_exec__living_children(exec) > 0 || ls_exec__hosts_live(exec)) {
        return true;
    }
    for (const ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
        if (!at->gone && ls_exec__takes_part(at)) {
            return true;
        }
    }
    return false;
}

// ---- The loop -----------------------------------------------------------------------------------
static int poll_all(ls_exec *exec, int64_t nanoseconds) {
    const size_t hosts = ls_exec__hosts_count(exec);
    size_t count = 3 + hosts + 2 * ((size_t)exec->process_count + (size_t)exec->child_count);
    size_t at = 0;
    struct pollfd *fds = calloc(count, sizeof *fds);
    if (fds == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory");
    }
    fds[at++] = (struct pollfd){.fd = exec->listening, .events = POLLIN};
    for (const ls_exec_process *p = exec->processes; p != NULL; p = p->next) {
        fds[at++] =
            (struct pollfd){.fd = ls_exec__agent_reads(exec) ? p->socket : -1, .events = POLLIN};
        fds[at++] = (struct pollfd){.fd = p->watch, .events = POLLIN};
    }
    for (int i = 0; i < exec->child_count; i++) {
        fds[at++] = (struct pollfd){.fd = exec->children[i].watch, .events = POLLIN};
        fds[at++] = (struct pollfd){.fd = exec->children[i].errors, .events = POLLIN};
    }
    fds[at++] = (struct pollfd){.fd = exec->debugger, .events = POLLIN};
    ls_exec__agent_poll(exec, &fds[at]);
    ls_exec__hosts_poll(exec, &fds[at + 1]);
    const struct timespec most = {.tv_sec = nanoseconds / 1000000000,
                                  .tv_nsec = nanoseconds % 1000000000};
    int ready = ppoll(fds, count, &most, NULL), status = LS_OK;
    if (ready > 0 && fds[at - 1].revents != 0) {
        ls_exec__debug_read(exec);
    }
    if (ready > 0) {
        size_t i = 1;
        for (ls_exec_process *p = exec->processes; p != NULL && status == LS_OK; p = p->next) {
            status = fds[i].revents != 0 ? ls_exec__read(exec, p) : LS_OK;
            i += 2;
        }
        i = 1;
        // New ones are at the end of the list, behind those that were polled.
        for (ls_exec_process *p = exec->processes; p != NULL; p = p->next, i += 2) {
            bool closed = p->watch < 0 && p->socket < 0 && p->host == NULL;
            if (!p->gone && (fds[i + 1].revents != 0 || closed)) {
                int heard = ls_exec__ended(exec, p);
                status = status != LS_OK ? status : heard;
            }
        }
        for (int c = 0; c < exec->child_count; c++) {
            ls_exec__reap(exec, &exec->children[c], false);
        }
        if (status == LS_OK && fds[0].revents != 0) {
            status = ls_exec__accept(exec);
        }
    }
    for (int c = 0; c < exec->child_count; c++) {
        if (fds[at - 2 * (size_t)(exec->child_count - c)].revents != 0) {
            ls_exec__hear(exec, &exec->children[c], false);
        }
    }
    free(fds);
    ls_exec__agent_work(exec);
    ls_exec__hosts_work(exec);
    return status;
}

void ls_exec__judge(ls_exec *exec, double quiet) {
    if (ls_exec__judge_elsewhere(exec, quiet) || ls_exec__judge_early(exec, quiet)) {
        return;
    }
    const double most = exec->options->deadline_seconds;
    const bool late = most > 0 && quiet > most && ls_exec__hosts_seen(exec);
    if (exec->run == NULL || ls_remote_status(exec->run, NULL) != LS_OK) {
        if (exec->run == NULL && exec->joining != NULL && (late || ls_exec__never_joined(exec))) {
            (void)ls_exec__explain_joining(exec);
        }
        return;
    }
    if (exec->joining != NULL && ls_exec__never_joined(exec)) {
        (void)ls_exec__explain_joining(exec);
        return;
    }
    if (ls_exec__explain_data(exec, true) || ls_remote_doomed(exec->run)) {
        return;
    }
    // The next calls of the ranks name a mismatch: none of them must be only slow.
    const bool undecided =
        ls_remote_undecided(exec->run) && (ls_exec__all_rest(exec) || quiet > WORKS_SECONDS);
    const bool stuck = undecided || (!ls_remote_undecided(exec->run) &&
                                     ls_remote_stuck(exec->run) && exec->jobs == NULL);
    if (!(stuck && quiet > SETTLE_SECONDS && ls_remote_explain(exec->run)) && late) {
        ls_exec__place_running(exec);
        (void)(ls_exec__explain_data(exec, false) || ls_remote_explain(exec->run) ||
               ls_exec__explain_joining(exec));
    }
}

static int64_t pause_of(const ls_exec *exec, int idle) {
    if (exec->jobs != NULL && !exec->over) {
        if (idle < SPINS) {
            return 0;
        }
        return idle < 4 * SPINS ? 50000 : 500000;
    }
    return exec->over ? 20000000 : 100000000;
}

static void note_over(ls_exec *exec) {
    const char *why = "";
    if (exec->over || exec->run == NULL || ls_remote_status(exec->run, &why) == LS_OK) {
        return;
    }
    char sentence[LS_WIRE_WHY_BYTES];
    const ls_finding *found = ls_remote_found(exec->run);
    const char *text = found != NULL ? found->text : "";
    // All but the histories.
    const char *histories = strstr(text, "last calls of ");
    int length = histories != NULL ? (int)(histories - text) : (int)strlen(text);
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' ')) {
        length -= 1;
    }
    (void)snprintf(sentence, sizeof sentence, "lockstep: %s%s%.*s", why, length > 0 ? ": " : "",
                   length, text);
    exec->over = true;
    exec->moved = ls_time_now();
    ls_exec__tell_all(exec, 1, sentence);
}

// Whether the deadline that the user gave is over, whatever ranks do. The default one ends only
// those that wait: a program may compute for long.
static bool is_late(const ls_exec *exec, double quiet) {
    const ls_exec_options *options = exec->options;
    return options->deadline_given && options->deadline_seconds > 0 &&
           quiet > options->deadline_seconds;
}

// How long a program may continue after the run. A session of tests ends after its tests, also one
// that starts its ranks, and a launcher may start its ranks again.
static double grace_of(const ls_exec *exec) {
    const double most = exec->options->deadline_seconds;
    const bool starts = exec->options->processes == 0;
    for (const ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
        if ((at->session && (starts || !at->gone)) || at->last_attempt > exec->attempt) {
            return most > 0 ? most : INFINITY;
        }
    }
    return (ls_gdb_debugs_processes ? 10 : 1) * GRACE_SECONDS;  // in gdb, ends take long
}

static int loop(ls_exec *exec) {
    for (int idle = 0; anybody(exec) && !is_abandoned(exec); idle++) {
        LS_TRY(poll_all(exec, pause_of(exec, idle)));
        if (ls_exec__advance(exec)) {
            exec->progress = true;
        }
        if (exec->unrecorded || exec->unmoved) {
            return ls_error_wrap(exec->unmoved ? "moving data of a GPU" : "recording");
        }
        if (exec->no_memory) {
            return LS_FAIL(LS_ERR_MEMORY, "no memory for a call");
        }
        for (ls_exec_process *p = exec->processes; p != NULL; p = p->next) {
            if ((exec->progress || p->caller_count > 1) && ls_exec__waits(p) && !p->gone &&
                exec->run != NULL && !exec->over) {
                ls_exec__wait(exec, p);
            }
        }
        double now = ls_time_now();
        if (exec->progress) {
            exec->progress = false;
            exec->moved = exec->over ? exec->moved : now;
            idle = 0;
        }
        if (exec->over && now - exec->moved > grace_of(exec)) {
            return LS_OK;  // the rest is ended
        }
        if (exec->lost || !ls_exec__hosts_ready(exec)) {
            continue;
        }
        if (exec->quit) {
            return LS_FAIL(LS_ERR_BACKEND, "the debugger ended the run");
        }
        if (ls_exec__debug_holds(exec)) {
            exec->moved = now;
            continue;
        }
        ls_exec__judge(exec, now - exec->moved);
        if (ls_exec__debug_holds(exec)) {
            continue;
        }
        note_over(exec);
        if (!exec->over && is_late(exec, now - exec->moved)) {
            return ls_exec__fail_late(exec);
        }
        if (idle > 0 && idle < SPINS && exec->jobs != NULL) {
            (void)sched_yield();
        }
    }
    return LS_OK;
}

// ---- The end ------------------------------------------------------------------------------------
static void end_processes(ls_exec *exec, const char *dir) {
    const int status = exec->over ? LS_ERR_FINDING : LS_OK;
    exec->over = true;  // later ends are the coordinator's doing
    ls_exec__hosts_close(exec, status);
    ls_processes_end(dir);  // out of memory, it finds none
    for (int i = 0; i < exec->child_count; i++) {
        (void)(exec->children[i].watch >= 0 && kill(exec->children[i].pid, SIGKILL));
        ls_exec__reap(exec, &exec->children[i], true);
        ls_exec__hear(exec, &exec->children[i], true);
    }
    for (ls_exec_process *at = exec->processes; at != NULL && exec->agent != NULL; at = at->next) {
        if (!at->gone) {
            (void)ls_exec__ended(exec, at);  // ranks of other hosts may wait for it
        }
    }
    ls_exec__agent_close(exec);
}

void ls_exec__close(ls_exec *exec, ls_exec_result *out, int status) {
    (void)snprintf(out->why, sizeof out->why, "%s", ls_error_last()->text);
    out->failed_rank = exec->failed_rank;
    out->failed_code = exec->failed_code;
    if (exec->failed_rank >= 0) {
        (void)snprintf(out->failed_line, sizeof out->failed_line, "%s",
                       exec->children[exec->failed_rank].last);
    }
    out->status = status;
    out->ranks = exec->most_ranks;
    if (exec->run != NULL) {
        int run_status = ls_exec__end_run(exec, &out->spmd, status, out->why);
        out->calls = ls_spmd_call_count(out->spmd);
        if (status == LS_OK) {
            out->status = run_status;
            (void)snprintf(out->why, sizeof out->why, "%s", ls_error_last()->text);
        }
    }
    out->before = exec->before;
    for (const ls_exec_ended *at = out->before; at != NULL; at = at->next) {
        out->calls += ls_spmd_call_count(at->spmd);
        out->status = out->status == LS_OK && !at->forgiven ? at->status : out->status;
    }
    for (const ls_exec_process *p = exec->processes; p != NULL; p = p->next) {
        out->processes += ls_exec__takes_part(p) ? 1 : 0;
    }
    out->widest = exec->widest;
    out->loss = exec->loss[0] != 0 ? ls_arena_strdup(exec->arena, exec->loss) : NULL;
    out->agent_status = exec->child_count > 0 ? exec->children[0].status : -1;
    out->forked = exec->forked;
    out->quit = exec->quit && !exec->found;
    memcpy(out->start_why, exec->start_why, sizeof out->start_why);
    ls_text hints = {0};
    for (int i = 0; i < exec->hint_count; i++) {
        ls_text_printf(&hints, "%s%s", i > 0 ? "\n" : "", exec->hints[i]);
    }
    out->hints = exec->hint_count > 0 ? ls_arena_strdup(exec->arena, ls_text_string(&hints)) : NULL;
    ls_text_free(&hints);
    out->places = exec->places;
    out->place_count = exec->place_count;
    out->arena = exec->arena;  // the result has it from here on
    out->died = exec->died;
    out->sets = exec->sets;
    out->set_count = exec->set_count;
    out->made = exec->made;
    out->made_count = exec->made_count;
    ls_exec__drop_calls(exec);
    ls_exec__forget_joining(exec);
    while (exec->processes != NULL) {
        ls_exec_process *next = exec->processes->next;
        ls_exec__free_process(exec, exec->processes);
        exec->processes = next;
    }
    if (exec->listening >= 0) {
        (void)close(exec->listening);
    }
    if (exec->port_lock >= 0) {
        (void)close(exec->port_lock);
    }
    ls_exec_memory__close(&exec->memory);
    ls_exec__symbols_close(exec);
}

static int run(ls_exec *exec, const char *dir) {
    LS_TRY(ls_exec_memory__create(&exec->memory));
    LS_TRY(listen_here(exec));
    dir = dir[0] != 0 ? dir : exec->socket;  // a name for the job's processes that no other has
    exec->dir = dir;
    exec->moved = ls_time_now();
    LS_TRY(ls_exec__debug_open(exec));
    int status = exec->options->join != NULL ? ls_exec__agent_open(exec) : LS_OK;
    if (status == LS_OK && exec->options->listen != NULL) {
        status = ls_exec__hosts_open(exec);
    }
    int gate[2] = {-1, -1};
    status = status == LS_OK ? ls_exec__gdb_open(exec, gate) : status;
    status = status == LS_OK ? ls_exec__start(exec, dir) : status;
    ls_exec__gdb_started(exec, gate);
    status = status == LS_OK ? loop(exec) : status;
    char why[LS_ERROR_TEXT_MAX];
    (void)snprintf(why, sizeof why, "%s", ls_error_last()->text);
    end_processes(exec, dir);
    status = status != LS_OK ? LS_FAIL(status, "%s", why) : LS_OK;
    if (status == LS_OK && exec->lost) {
        status = LS_FAIL(LS_ERR_BACKEND, "%s", exec->loss);
    }
    ls_exec__debug_close(exec);
    return status;
}

int ls_exec_run(ls_exec_result *out, const ls_exec_options *options) {
    LS_ASSERT(out != NULL && options != NULL && options->argv[0] != NULL);
    *out = (ls_exec_result){.failed_rank = -1};
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_exec)));
    ls_exec *exec = memory;
    exec->options = options;
    exec->listening = exec->debugger = exec->port_lock = -1;
    exec->failed_rank = -1;
    ls_reaper reaper = {.pid = 0};
    double began = ls_time_now();
    int status = ls_arena_create(&exec->arena);
    status = status == LS_OK ? ls_exec__flight_open(exec) : status;
    status = status == LS_OK ? ls_exec__record_open(exec) : status;
    if (status == LS_OK) {
        if (!ls_exec__stays(options)) {
            status = ls_reaper_make(&reaper, NULL);
        }
        status = status == LS_OK ? run(exec, reaper.dir) : status;
        ls_exec__note_begun(exec);
        int kept = ls_exec__record_close(exec), told = ls_exec__flight_close(exec);
        if (status == LS_OK) {
            status = kept != LS_OK ? kept : told;
        }
        ls_exec__close(exec, out, status);
        if (reaper.pid > 0) {
            ls_reaper_remove(&reaper);
        }
        status = LS_OK;
    } else {
        (void)ls_exec__flight_close(exec);
        ls_arena_free(exec->arena);
    }
    out->seconds = ls_time_now() - began;
    ls_free(memory, 1, sizeof(ls_exec));
    return status;
}

void ls_exec_result_free(ls_exec_result *result) {
    for (const ls_exec_ended *at = result->before; at != NULL; at = at->next) {
        ls_spmd_result_free(at->spmd);
    }
    ls_spmd_result_free(result->spmd);
    ls_arena_free(result->arena);
    *result = (ls_exec_result){.failed_rank = -1};
}
