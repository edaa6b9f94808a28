// Three processes: the command, which only waits; the supervisor, which holds the outputs, the
// terminal and what was seen of each rank (ranks/seen.h); and the ranks. The supervisor ends
// whatever the program leaves behind, also where the command was killed.
#define _GNU_SOURCE  // pipe2
#include "cli/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/debugger.h"
#include "process/child.h"
#include "ranks/seen.h"
#include "process/reaper.h"

#define STEP_MS        1000
#define REAPER_SECONDS 10  // it waits for what it ends

// How the process ended.
typedef struct ending {
    bool exec;     // it became another program
    bool stopped;  // it was stopped for longer than the deadline
    int how;       // from waitpid
} ending;

static volatile sig_atomic_t child_of_signal, ended_by;

static void on_signal(int number) {
    ended_by = number;
    (void)kill((pid_t)child_of_signal, SIGKILL);
}

// ---- Remains ------------------------------------------------------------------------------------
// Whether it cleans up after a run itself, since its owner has ended (process/reaper.h).
static bool is_reaper(pid_t pid) {
    char path[64], name[32] = "";
    (void)snprintf(path, sizeof path, "/proc/%ld/comm", (long)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, name, sizeof name - 1) : 0;
    if (file >= 0) {
        (void)close(file);
    }
    name[got > 0 ? got - 1 : 0] = 0;
    return strcmp(name, LS_REAPER_NAME) == 0;
}

// A child of this process, a reaper only where there are no others; 0: none.
static pid_t next_child(bool *reaper) {
    char text[4096];
    int file = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    if (file >= 0) {
        (void)close(file);
    }
    text[got > 0 ? got : 0] = 0;
    pid_t found = 0;
    *reaper = true;
    for (char *at = text, *end; *reaper && (end = strchr(at, ' ')) != NULL; at = end + 1) {
        found = (pid_t)strtol(at, NULL, 10);
        *reaper = is_reaper(found);
    }
    return found;
}

// Orphans of the program have become this process's children (PR_SET_CHILD_SUBREAPER).
static void end_left(void) {
    int count = 0;
    bool reaper;
    for (pid_t child; (child = next_child(&reaper)) > 0;) {
        if (!reaper || !ls_child_wait_for(child, NULL, REAPER_SECONDS)) {
            ls_child_end(child, false, NULL);
        }
        count += reaper ? 0 : 1;
    }
    if (count > 0) {
        cli_note("the program has left %d process%s behind, which %s ended", count,
                 count == 1 ? "" : "es", count == 1 ? "was" : "were");
    }
}

// ---- The process of the ranks -------------------------------------------------------------------
static bool same_program(pid_t pid) {
    char path[64];
    struct stat own, its;
    (void)snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    return stat("/proc/self/exe", &own) != 0 || stat(path, &its) != 0 ||
           (own.st_dev == its.st_dev && own.st_ino == its.st_ino);
}

// `end` closes when the process ends or becomes another program, or when the program closes files
// that it has not opened; `command` when the command has been killed.
static ending watch(pid_t child, int end, int command, double deadline) {
    ending ended = {0};
    double stopped = 0;
    struct pollfd waits[3] = {
        {.fd = end, .events = POLLIN}, {.events = POLLIN}, {.fd = command, .events = POLLIN}};
    waits[1].fd = ls_child_open(child);
    while (true) {
        bool any = poll(waits, 3, STEP_MS) > 0, event = any && waits[0].revents != 0;
        if (any && waits[2].revents != 0) {
            ls_child_end(child, false, &ended.how);
            end_left();
            _exit(LS_EXIT_ENVIRONMENT);
        }
        pid_t got = waitpid(child, &ended.how, WNOHANG | WUNTRACED | WCONTINUED);
        if (got == child && (WIFEXITED(ended.how) || WIFSIGNALED(ended.how))) {
            break;
        }
        if (got == child) {
            stopped = WIFSTOPPED(ended.how) && WSTOPSIG(ended.how) == SIGSTOP ? 1 : 0;
        } else if (stopped > 0) {
            stopped += STEP_MS / 1000.0;
        }
        ended.exec = event && !same_program(child);
        ended.stopped = deadline > 0 && stopped > deadline;
        if (ended.exec || ended.stopped) {
            ls_child_end(child, false, &ended.how);
            break;
        }
        if (event) {
            waits[0].fd = -1;  // closed
        }
    }
    (void)close(waits[1].fd);
    return ended;
}

static int run_apart(const cli_supervised *what, ls_seen *seen) {
    ls_seen__here = seen;
    seen->code = what->run(what->arg);
    seen->told = true;
    return seen->code;
}

// ---- The report ---------------------------------------------------------------------------------
// What ended the process where no handler saw it.
static void guess(ls_seen *seen, const ending *ended) {
    int rank = seen->running;
    ls_seen_finding *out = &seen->end;
    if (out->there || seen->check.there || rank < 0) {
        return;
    }
    const ls_seen_place *place = &seen->places[rank];
    bool exits = !ended->exec && !ended->stopped && WIFEXITED(ended->how);
    char why[160];
    if (ended->exec) {
        (void)snprintf(why, sizeof why, "has become another program (exec)");
    } else if (ended->stopped) {
        (void)snprintf(why, sizeof why, "has stopped the process (SIGSTOP)");
    } else if (exits) {
        (void)snprintf(why, sizeof why, "has ended the process with code %d, without a return",
                       WEXITSTATUS(ended->how));
    } else {
        (void)snprintf(why, sizeof why, "ran when the process was ended by signal %d (%s)",
                       WTERMSIG(ended->how), strsignal(WTERMSIG(ended->how)));
    }
    out->id = ended->exec || exits ? LS_FINDING_RANK_EXITED_EARLY : LS_FINDING_RANK_DIED;
    out->ranks[0] = rank;
    out->rank_count = 1;
    if (place->line > 0) {
        (void)snprintf(out->where, sizeof out->where, "%s:%d", place->file, place->line);
    }
    (void)snprintf(out->text, sizeof out->text, "rank %d %s, %s%s\n", rank, why,
                   place->line > 0 ? "in or after its call at " : "before its first call",
                   out->where);
    out->there = true;
}

static int add_findings(ls_results *results, const cli_supervised *what, const ls_seen *seen) {
    const ls_seen_finding *of[] = {&seen->check, &seen->end};
    ls_finding *findings = ls_arena_alloc(results->arena, 2, sizeof *findings);
    int count = 0;
    for (size_t i = 0; findings != NULL && i < sizeof of / sizeof *of; i++) {
        if (of[i]->there) {
            findings[count++] = (ls_finding){.id = of[i]->id,
                                             .ranks = of[i]->ranks,
                                             .rank_count = of[i]->rank_count,
                                             .where = of[i]->where,
                                             .text = of[i]->text};
        }
    }
    ls_text again = what->reproduce(what->arg, seen->options);
    ls_case_result row = {.name = what->name,
                          .file = what->name,
                          .backend = "sim",
                          .class_ = count > 0 ? LS_CLASS_FINDING : LS_CLASS_ERROR,
                          .findings = findings,
                          .finding_count = count,
                          .environment = count == 0,
                          .reproduce = ls_result_text(results->arena, &again)};
    row.error = count > 0 ? NULL : "the process of the ranks was killed while no rank ran";
    return findings == NULL || row.reproduce == NULL ? LS_ERR_MEMORY
                                                     : ls_results_add(results, &row);
}

static int report(const cli_supervised *what, ls_seen *seen, const ending *ended) {
    ls_results *results = NULL;
    guess(seen, ended);
    if (seen->runs > 0) {
        cli_note("explored %d run%s: one has a finding", seen->runs, seen->runs == 1 ? "" : "s");
    }
    int status = ls_results_create(&results, what->command);
    status = status == LS_OK ? add_findings(results, what, seen) : status;
    int code = status == LS_OK ? cli_report(results) : cli_fail(status);
    ls_results_free(results);
    return code;
}

// ---- The whole ----------------------------------------------------------------------------------
static volatile sig_atomic_t passed_on;  // a signal of the command's own

static void pass_on(int number) {
    passed_on = number;
    (void)kill((pid_t)child_of_signal, number);
}

static void on_signals(void (*handler)(int)) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction given;  // one that was ignored stays so, as nohup wants it
        if (sigaction(signals[i], NULL, &given) == 0 && given.sa_handler != SIG_IGN) {
            (void)sigaction(signals[i], &(struct sigaction){.sa_handler = handler}, NULL);
        }
    }
}

_Noreturn static void end_by(int number) {
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    _exit(LS_EXIT_ENVIRONMENT);
}

static int supervise(const cli_supervised *what, ls_seen *seen, const int ends[2], int command) {
    (void)fflush(NULL);
    pid_t child = ls_child_fork(SIGKILL);
    if (child < 0) {
        return cli_fail(LS_FAIL(LS_ERR_RESOURCE, "cannot start a process: %s", strerror(errno)));
    }
    if (child == 0) {
        (void)close(ends[0]);
        (void)close(command);
        return run_apart(what, seen);
    }
    (void)close(ends[1]);
    child_of_signal = (sig_atomic_t)child;
    on_signals(on_signal);
    ending ended = watch(child, ends[0], command, what->deadline_seconds);
    (void)close(ends[0]);
    end_left();
    if (ended_by != 0) {
        end_by(ended_by);
    }
    return seen->told ? seen->code : report(what, seen, &ended);
}

static int run_supervisor(const cli_supervised *what, int command) {
    ls_seen *seen = NULL;
    int ends[2];
    int status = ls_seen_open(&seen, what->ranks);
    if (status == LS_OK && pipe2(ends, O_CLOEXEC) != 0) {
        status = LS_FAIL(LS_ERR_RESOURCE, "no pipe: %s", strerror(errno));
    }
    if (status != LS_OK) {
        ls_seen_close(seen);
        return cli_fail(status);
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    int code = supervise(what, seen, ends, command);
    if (ls_seen__here == NULL) {  // the ranks' process may still read it as it ends
        ls_seen_close(seen);
    }
    return code;
}

int cli_supervise(const cli_supervised *what) {
    LS_ASSERT(what != NULL && what->ranks > 0);
    int alive[2], how = 0;
    if (cli_debugger_has() != 0) {
        return what->run(what->arg);
    }
    (void)fflush(NULL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);  // should the supervisor be killed
    pid_t supervisor = pipe2(alive, O_CLOEXEC) == 0 ? ls_child_fork(0) : -1;
    if (supervisor < 0) {
        return cli_fail(LS_FAIL(LS_ERR_RESOURCE, "cannot start a process: %s", strerror(errno)));
    }
    if (supervisor == 0) {
        (void)close(alive[1]);
        return run_supervisor(what, alive[0]);
    }
    (void)close(alive[0]);
    child_of_signal = (sig_atomic_t)supervisor;
    on_signals(pass_on);
    ls_child_wait(supervisor, &how);
    end_left();
    if (!WIFSIGNALED(how)) {
        return WEXITSTATUS(how);
    }
    int number = WTERMSIG(how);
    int code = passed_on != 0
                   ? cli_fail(LS_FAIL(LS_ERR_RESOURCE,
                                      "signal %d (%s) ended the command; there is no report",
                                      (int)passed_on, strsignal((int)passed_on)))
                   : cli_fail(LS_FAIL(LS_ERR_RESOURCE,
                                      "the process that supervises the ranks was killed by signal "
                                      "%d (%s); there is no report",
                                      number, strsignal(number)));
    if (passed_on == SIGINT || passed_on == SIGQUIT) {  // a shell ends its loop then
        end_by((int)passed_on);
    }
    return code;
}
