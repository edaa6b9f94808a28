// Tests of starting and watching processes: a death is named by its rank, a hang is ended.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scenarios/runner/launch.h"

// A shell that stands for mpiexec: starts two "ranks" that announce themselves in the directory $1
// and end as the script says.
static void run_script(ls_launch_result *result, const char *script, double deadline) {
    char dir[] = "/tmp/lockstep-launch-XXXXXX";
    cr_assert(mkdtemp(dir) != NULL);
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", dir, NULL};
    cr_assert(ls_launch(result, argv, 2, dir, deadline) == LS_OK);
    char command[128];
    (void)snprintf(command, sizeof command, "%s", dir);
    for (int rank = 0; rank < 2; rank++) {
        char path[160];
        (void)snprintf(path, sizeof path, "%s/rank_%d.pid", command, rank);
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/rank_%d.done", command, rank);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

// Two ranks that announce themselves, finish and say so are no finding.
Test(launch, ranks_that_finish_are_fine, .timeout = 30) {
    ls_launch_result result;
    run_script(&result,
               "for r in 0 1; do (sh -c 'echo $$ > '$1/rank_$r.pid'; sleep 0.2; echo 1 > "
               "'$1/rank_$r.done) & done; wait; echo out; echo err >&2",
               20);
    cr_expect(result.exit_code == 0);
    cr_expect(!result.timed_out);
    cr_expect(result.died_rank == LS_RANK_NONE, "rank %d", result.died_rank);
    cr_expect(strstr(ls_text_string(&result.output), "out") != NULL);
    cr_expect(strstr(ls_text_string(&result.output), "err") != NULL);
    ls_launch_result_free(&result);
}

// The rank that is killed first is the one that is named, with its signal.
Test(launch, a_killed_rank_is_named, .timeout = 30) {
    ls_launch_result result;
    run_script(&result,
               "for r in 0 1; do (sh -c 'echo $$ > '$1/rank_$r.pid'; exec sleep 20') & done; "
               "sleep 0.4; kill -9 $(cat $1/rank_1.pid); sleep 0.3; kill $(cat $1/rank_0.pid); "
               "echo 'EXIT STRING: Killed (signal 9)'; exit 9",
               20);
    cr_expect(result.died_rank == 1, "rank %d", result.died_rank);
    cr_expect(result.died_signal == SIGKILL);
    cr_expect(result.exit_code == 9);
    ls_launch_result_free(&result);
}

// Past the deadline everything is ended, ranks that left the process group too.
Test(launch, the_deadline_ends_every_process, .timeout = 30) {
    ls_launch_result result;
    run_script(&result,
               "setsid sh -c 'echo $$ > '$1'/rank_0.pid; exec sleep 60' & echo $! > /dev/null; "
               "sleep 60",
               1.0);
    cr_expect(result.timed_out);
    cr_expect(result.exit_code == -1);
    cr_expect(result.seconds < 10);
    ls_launch_result_free(&result);
}

// A program that does not exist is a clear failure, not a hang.
Test(launch, a_missing_program_fails, .timeout = 30) {
    const char *const argv[] = {"/nonexistent/mpiexec", "-n", "2", NULL};
    ls_launch_result result;
    cr_assert(ls_launch(&result, argv, 2, "/tmp", 20) == LS_OK);
    cr_expect(result.exit_code == 127);
    cr_expect(strstr(ls_text_string(&result.output), "/nonexistent/mpiexec") != NULL);
    ls_launch_result_free(&result);
}
