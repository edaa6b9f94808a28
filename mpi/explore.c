// Every match that receives from any source can make, run by run: stateless, depth first. A run is
// told which sends its first receives meet, and takes the first that is there from then on; what it
// had to choose from says what comes next. Receives are let go one at a time, when nobody can go on
// without them, so orders of independent matches are not tried (POE, see ranks/p2p.c).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi/internal.h"

#define CHOICES_MAX 4096

typedef struct trail {
    int status;
    int count;
    int choice[CHOICES_MAX], of[CHOICES_MAX];
} trail;

static ls_mpi_options with_trail(const ls_mpi_options *options, const int *choices, int count,
                                 trail *out) {
    ls_mpi_options own = *options;
    own.choices = choices;
    own.choice_count = count;
    own.made_choice = out->choice;
    own.made_of = out->of;
    own.made_room = CHOICES_MAX;
    own.made_count = &out->count;
    out->count = 0;
    return own;
}

static bool transfer_all(int file, void *data, size_t bytes, bool out) {
    char *at = data;
    while (bytes > 0) {
        ssize_t n = out ? write(file, at, bytes) : read(file, at, bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

// The program's output goes nowhere; returns what it was.
static int silence(void) {
    int kept = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)fflush(stdout);
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)close(nowhere);
    return kept;
}

// A run in a process of its own, whatever becomes of it.
static int run_apart(const ls_mpi_options *options, const int *choices, int count, trail *out) {
    int ends[2];
    (void)fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "no pipe: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        (void)silence();
        ls_spmd_result *result = NULL;
        ls_mpi_options own = with_trail(options, choices, count, out);
        own.spmd.met = NULL;
        out->status = ls_mpi_run(&result, &own);
        _exit(transfer_all(ends[1], out, sizeof *out, true) ? 0 : 1);
    }
    (void)close(ends[1]);
    bool complete = child > 0 && transfer_all(ends[0], out, sizeof *out, false);
    (void)close(ends[0]);
    int ignored;
    while (child > 0 && waitpid(child, &ignored, 0) < 0 && errno == EINTR) {
    }
    if (!complete) {
        return LS_FAIL(LS_ERR_RANK_DIED, "the process of a run ended by itself");
    }
    return LS_OK;
}

int ls_mpi_explore(ls_spmd_result **out, const ls_mpi_options *options, int most,
                   ls_mpi_explored *explored) {
    trail *at = ls_mpi__alloc(sizeof *at);
    ls_mpi_options own = with_trail(options, options->choices, options->choice_count, at);
    int status = ls_mpi_run(out, &own);
    *explored = (ls_mpi_explored){.runs = 1};
    while (status == LS_OK) {
        int last = at->count - 1;
        while (last >= options->choice_count && at->choice[last] + 1 >= at->of[last]) {
            last -= 1;
        }
        if (last < options->choice_count || explored->runs >= most) {
            explored->exhaustive = last < options->choice_count && at->count < CHOICES_MAX;
            break;
        }
        at->choice[last] += 1;
        int *choices = ls_mpi__alloc((size_t)(last + 1) * sizeof *choices);
        memcpy(choices, at->choice, (size_t)(last + 1) * sizeof *choices);
        status = run_apart(options, choices, last + 1, at);
        explored->runs += 1;
        if (status == LS_OK && at->status != LS_OK) {  // once more, to tell of it
            ls_spmd_result_free(*out);
            int kept = silence();
            own = with_trail(options, choices, last + 1, at);
            status = ls_mpi_run(out, &own);
            (void)fflush(stdout);
            (void)dup2(kept, STDOUT_FILENO);
            (void)close(kept);
            explored->choices = choices;
            explored->choice_count = last + 1;
            break;
        }
        free(choices);
    }
    free(at);
    return status;
}
