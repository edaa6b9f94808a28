// Explores every class of interleavings that receives from any source allow, one run after the
// other: stateless, depth first. All other calls of a rank wait for what they name. So the only
// choices are matches that are made when no rank can continue: each such receive with each send
// that it could match (POE, see ranks/p2p.c). Sleep sets (Godefroid, Partial-Order Methods for the
// Verification of Concurrent Systems, 1996, chapter 5) skip runs that differ from others only in
// the order of independent matches. A match that was tried at a choice sleeps in later runs until a
// match of the same receive or send is made. A run ends where every possible match sleeps.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi/explore.h"
#include "process/child.h"
#include "ranks/seen.h"

// ---- Runs ---------------------------------------------------------------------------------------
static int run_here(ls_spmd_result **out, const ls_mpi_options *options, const int *choices,
                    int count, ls_mpi_trail *trail) {
    ls_mpi_options own = *options;
    own.choices = choices;
    own.choice_count = count;
    own.trail = trail;
    *trail = (ls_mpi_trail){.base = options->choice_count};
    trail->status = ls_mpi_run(out, &own);
    trail->observed = *out != NULL ? ls_spmd_observed_count(*out) : 0;
    trail->complete = true;
    return trail->status;
}

// Redirects the program's output to /dev/null; returns the old descriptor.
static int silence(void) {
    int kept = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)fflush(stdout);
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)close(nowhere);
    return kept;
}

// Runs once in a child process, which may crash. Both processes share the trail.
static int run_apart(const ls_mpi_options *options, const int *choices, int count,
                     ls_mpi_trail *trail) {
    (void)fflush(NULL);
    trail->complete = false;
    pid_t child = ls_child_fork(SIGKILL);
    if (child == 0) {
        ls_seen__forked = false;
        (void)silence();
        ls_spmd_result *result = NULL;
        ls_mpi_options own = *options;
        own.spmd.met = NULL;
        (void)run_here(&result, &own, choices, count, trail);
        _exit(0);
    }
    if (child > 0) {
        ls_child_wait(child, NULL);
    }
    if (!trail->complete) {  // a rank has ended the process
        trail->blocked = false;
        trail->status = LS_ERR_RANK_DIED;
    }
    return child > 0 ? LS_OK : LS_FAIL(LS_ERR_RESOURCE, "cannot start a process for a run");
}

// The choices [*count] of the run after the one in the trail; NULL: that was the last.
static int *next_choices(const ls_mpi_trail *trail, int *count) {
    int last = trail->count - 1;
    while (last >= trail->base && trail->next[last] < 0) {
        last -= 1;
    }
    if (last < trail->base) {
        return NULL;
    }
    int *made = ls_mpi__alloc((size_t)(last + 1) * sizeof *made);
    memcpy(made, trail->choice, (size_t)last * sizeof *made);
    made[last] = trail->next[last];
    *count = last + 1;
    return made;
}

// The choices that lead to the same run without sleep sets; the first match is chosen after the
// last of them.
static int *all_choices(const ls_mpi_trail *trail, int *count) {
    *count = trail->count;
    while (*count > trail->base && trail->choice[*count - 1] == 0) {
        *count -= 1;
    }
    int *made = ls_mpi__alloc((size_t)(*count + 1) * sizeof *made);
    memcpy(made, trail->choice, (size_t)*count * sizeof *made);
    return made;
}

// Tells the supervisor of this process, which the run may end.
static void tell_choices(const ls_mpi_trail *trail, int runs) {
    int count = 0, *choices = all_choices(trail, &count);
    size_t used = 0;
    ls_seen *seen = ls_seen__here;
    for (int i = 0; seen != NULL && i < count && used + 16 < sizeof seen->options; i++) {
        used += (size_t)snprintf(seen->options + used, sizeof seen->options - used, "%s%d",
                                 i == 0 ? " --choices " : ",", choices[i]);
    }
    if (seen != NULL) {
        seen->runs = runs;
    }
    free(choices);
}

static int explore(ls_spmd_result **out, const ls_mpi_options *options, int most,
                   ls_mpi_explored *explored, ls_mpi_trail *trail) {
    int status = run_here(out, options, options->choices, options->choice_count, trail);
    bool partial = trail->partial;
    *explored = (ls_mpi_explored){.runs = 1, .classes = 1, .observed = trail->observed};
    while (status == LS_OK) {
        int count = 0, *choices = next_choices(trail, &count);
        if (choices == NULL || explored->runs >= most) {
            explored->exhaustive = choices == NULL && !partial;
            free(choices);
            return LS_OK;
        }
        status = run_apart(options, choices, count, trail);
        explored->runs += 1;
        partial = partial || trail->partial;
        if (status == LS_OK && !trail->blocked) {
            explored->classes += 1;
            explored->observed += trail->observed;
        }
        if (status == LS_OK && !trail->blocked && trail->status != LS_OK) {
            ls_spmd_result_free(*out);  // run it again to report it
            tell_choices(trail, explored->runs);
            int kept = silence();
            status = run_here(out, options, choices, count, trail);
            (void)fflush(stdout);
            (void)dup2(kept, STDOUT_FILENO);
            (void)close(kept);
            free(choices);
            explored->choices = all_choices(trail, &explored->choice_count);
            return status;
        }
        free(choices);
    }
    return status;
}

int ls_mpi_explore(ls_spmd_result **out, const ls_mpi_options *options, int most,
                   ls_mpi_explored *explored) {
    *out = NULL;
    *explored = (ls_mpi_explored){0};
    ls_mpi_trail *trail =
        mmap(NULL, sizeof *trail, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trail == MAP_FAILED) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory that runs share");
    }
    int status = explore(out, options, most, explored, trail);
    (void)munmap(trail, sizeof *trail);
    return status;
}
