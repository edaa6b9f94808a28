// The supervisor is the parent: it holds the outputs, the terminal and what was seen of each rank
// (ranks/seen.h), and ends whatever the program leaves behind.
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/debugger.h"
#include "ranks/seen.h"

#define STEP_MS 1000

// How the process ended.
typedef struct ending {
    bool exec;     // it became another program
    bool stopped;  // it was stopped for longer than the deadline
    int how;       // as waitpid says
} ending;

static volatile sig_atomic_t child_of_signal, ended_by;

static void on_signal(int number) {
    ended_by = number;
    (void)kill((pid_t)child_of_signal, SIGKILL);
}

// ---- What is left -------------------------------------------------------------------------------
// A child of this process; 0: none.
static pid_t next_child(void) {
    char text[4096];
    int file = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    if (file >= 0) {
        (void)close(file);
    }
    text[got > 0 ? got : 0] = 0;
    return (pid_t)strtol(text, NULL, 10);
}

// Orphans of the program have become this process's children (PR_SET_CHILD_SUBREAPER).
static void end_left(void) {
    int count = 0;
    for (pid_t child; (child = next_child()) > 0; count++) {
        (void)kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
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
// that it has not opened.
static ending watch(pid_t child, int end, double deadline) {
    ending ended = {0};
    double stopped = 0;
    struct pollfd waits[2] = {{.fd = end, .events = POLLIN}, {.events = POLLIN}};
    waits[1].fd = (int)syscall(SYS_pidfd_open, child, 0);
    while (true) {
        bool event = poll(waits, 2, STEP_MS) > 0 && waits[0].revents != 0;
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
            (void)kill(child, SIGKILL);
            while (waitpid(child, &ended.how, 0) < 0 && errno == EINTR) {
            }
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
    row.error = count > 0 ? NULL : "the process of the ranks was ended while no rank ran";
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
static int supervise(const cli_supervised *what, ls_seen *seen, const int ends[2]) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    (void)fflush(NULL);
    pid_t own = getpid(), child = fork();
    if (child < 0) {
        return cli_fail(LS_FAIL(LS_ERR_RESOURCE, "cannot start a process: %s", strerror(errno)));
    }
    if (child == 0) {
        (void)close(ends[0]);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != own) {
            return LS_EXIT_ENVIRONMENT;
        }
        return run_apart(what, seen);
    }
    (void)close(ends[1]);
    child_of_signal = (sig_atomic_t)child;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        (void)sigaction(signals[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
    }
    ending ended = watch(child, ends[0], what->deadline_seconds);
    (void)close(ends[0]);
    end_left();
    if (ended_by != 0) {
        (void)signal(ended_by, SIG_DFL);
        (void)raise(ended_by);
    }
    return seen->told ? seen->code : report(what, seen, &ended);
}

int cli_supervise(const cli_supervised *what) {
    LS_ASSERT(what != NULL && what->ranks > 0);
    ls_seen *seen = NULL;
    int ends[2];
    if (cli_debugger_has() != 0) {
        return what->run(what->arg);
    }
    int status = ls_seen_open(&seen, what->ranks);
    if (status == LS_OK && pipe2(ends, O_CLOEXEC) != 0) {
        status = LS_FAIL(LS_ERR_RESOURCE, "no pipe: %s", strerror(errno));
    }
    if (status != LS_OK) {
        ls_seen_close(seen);
        return cli_fail(status);
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    int code = supervise(what, seen, ends);
    if (ls_seen__here == NULL) {  // the ranks' process may still look at it as it ends
        ls_seen_close(seen);
    }
    return code;
}
