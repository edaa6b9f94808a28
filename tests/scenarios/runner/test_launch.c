// Tests of starting and watching processes: a death is reported with its rank, a hang is ended.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/launch/launch_internal.h"
#include "process/processes.h"

// Gives argv one run of two ranks, with all files in `dir`.
static void launch(ls_launch_result *result, const char *const *argv, const char *dir,
                   double deadline, const ls_launch_hang *hang) {
    ls_process_set *set = NULL;
    ls_launch_run run = {.deadline_seconds = deadline};
    (void)snprintf(run.marks, sizeof run.marks, "%s", dir);
    cr_assert(ls_process_set_start(&set, argv, 2, dir) == LS_OK);
    cr_assert(ls_process_set_run(result, set, &run, 2, hang) == LS_OK);
    cr_expect(!ls_process_set_ready(set), "its processes are gone");
    cr_expect(ls_process_set_end(set, 20) == LS_OK);
}

static void remove_all(const char *dir) {
    char command[160];
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    cr_assert(system(command) == 0);
}

// A shell in place of mpiexec: starts two "ranks" that announce themselves in the directory $1 and
// end as the script says.
static void run_hanging(ls_launch_result *result, const char *script, double deadline,
                        const ls_launch_hang *hang) {
    char dir[] = "/tmp/lockstep-launch-XXXXXX";
    cr_assert(mkdtemp(dir) != NULL);
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", dir, NULL};
    launch(result, argv, dir, deadline, hang);
    remove_all(dir);
}

static void run_script(ls_launch_result *result, const char *script, double deadline) {
    run_hanging(result, script, deadline, NULL);
}

// Two ranks that announce themselves, finish and report it: no finding.
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

// A shell in place of the single process of all ranks: for each run that it receives, two ranks
// report their end. `then` runs after each.
static int run_twice(bool ready[2], const char *then) {
    char dir[] = "/tmp/lockstep-launch-XXXXXX", script[512];
    cr_assert(mkdtemp(dir) != NULL);
    (void)snprintf(script, sizeof script,
                   "while head -c %zu <&3 | grep -q .; do for r in 0 1; do echo $$ > "
                   "$1/rank_$r.pid; echo 1 > $1/rank_$r.done; done; printf . > $1/said; %s; "
                   "done 3< $1/rank_0.runs",
                   sizeof(ls_launch_run), then);
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", dir, NULL};
    ls_process_set *set = NULL;
    ls_launch_run run = {.deadline_seconds = 20};
    (void)snprintf(run.marks, sizeof run.marks, "%s", dir);
    cr_assert(ls_process_set_start(&set, argv, 1, dir) == LS_OK);
    for (int i = 0; i < 2; i++) {
        ls_launch_result result;
        cr_assert(ls_process_set_run(&result, set, &run, 2, NULL) == LS_OK);
        cr_expect(result.exit_code == 0 && !result.timed_out && result.started == 2);
        ready[i] = ls_process_set_ready(set);
        ls_launch_result_free(&result);
    }
    int status = ls_process_set_end(set, 20);
    remove_all(dir);
    return status;
}

// Processes that have finished a run take the next; a failure after the last is reported.
Test(launch, processes_take_one_run_after_the_other, .timeout = 60) {
    bool ready[2];
    cr_expect(run_twice(ready, ":") == LS_OK, "%s", ls_error_last()->text);
    cr_expect(ready[0] && ready[1]);
    cr_expect(run_twice(ready, "trap 'echo late >&2; exit 9' EXIT") == LS_ERR_BACKEND);
    cr_expect(strstr(ls_error_last()->text, "exit code 9") != NULL, "%s", ls_error_last()->text);
    cr_expect(strstr(ls_error_last()->text, "late") != NULL);
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

// After the deadline everything is ended, including ranks that left the process group.
Test(launch, the_deadline_ends_every_process, .timeout = 30) {
    ls_launch_result result;
    run_script(&result,
               "setsid sh -c 'echo $$ > '$1'/rank_0.pid; exec sleep 60' & echo $! > /dev/null; "
               "sleep 60",
               1.0);
    cr_expect(result.timed_out);
    cr_expect(result.exit_code == -1);
    ls_launch_result_free(&result);
}

// A program that does not exist is a clear failure, not a hang.
Test(launch, a_missing_program_fails, .timeout = 30) {
    const char *const argv[] = {"/nonexistent/mpiexec", "-n", "2", NULL};
    char dir[] = "/tmp/lockstep-launch-XXXXXX";
    ls_launch_result result;
    cr_assert(mkdtemp(dir) != NULL);
    launch(&result, argv, dir, 20, NULL);
    remove_all(dir);
    cr_expect(result.exit_code == 127);
    cr_expect(strstr(ls_text_string(&result.output), "/nonexistent/mpiexec") != NULL);
    ls_launch_result_free(&result);
}

// Of several recorded deaths the earliest is reported, whichever rank it was: in the order of ranks
// it would be the first or the last of them.
Test(launch, the_earliest_death_is_told, .timeout = 30) {
    for (int first = 0; first < 2; first++) {
        char script[512];
        (void)snprintf(script, sizeof script,
                       "for r in 0 1; do (sh -c 'echo $$ > '$1/rank_$r.pid'; exec sleep 20') & "
                       "done; while [ ! -s $1/rank_0.pid ] || [ ! -s $1/rank_1.pid ]; do :; done; "
                       "echo %d > $1/rank_%d.died; touch -d '2001-01-01 00:00:05.2' "
                       "$1/rank_%d.died; echo %d > $1/rank_%d.died; "
                       "touch -d '2001-01-01 00:00:05.7' $1/rank_%d.died; exit 9",
                       SIGSEGV, first, first, SIGTERM, 1 - first, 1 - first);
        ls_launch_result result;
        run_script(&result, script, 20);
        cr_expect(result.died_rank == first, "rank %d", result.died_rank);
        cr_expect(result.died_signal == SIGSEGV);
        cr_expect(!result.launcher_died);
        ls_launch_result_free(&result);
    }
}

// A launcher that is killed is at fault itself, even if it took a rank with it.
Test(launch, a_killed_launcher_is_no_ranks_fault, .timeout = 30) {
    ls_launch_result result;
    run_script(&result, "echo 15 > $1/rank_1.died; kill -9 $$", 20);
    cr_expect(result.launcher_died);
    cr_expect(result.died_rank == LS_RANK_NONE, "rank %d", result.died_rank);
    ls_launch_result_free(&result);
    run_script(&result, "echo 1 > $1/rank_1.orphaned; exit 255", 20);
    cr_expect(result.launcher_died);
    ls_launch_result_free(&result);
    run_script(&result, "echo 1 > $1/rank_1.orphaned; echo 9 > $1/rank_0.died; exit 9", 20);
    cr_expect(!result.launcher_died, "a rank died first, and what started the other went then");
    cr_expect(result.died_rank == 0);
    ls_launch_result_free(&result);
    // It does not die of SIGPIPE if its proxy has ended.
    run_script(&result, "echo 15 > $1/rank_1.died; kill -PIPE $$", 20);
    cr_expect(!result.launcher_died);
    cr_expect(result.died_rank == 1 && result.died_signal == SIGTERM, "%d", result.died_rank);
    ls_launch_result_free(&result);
}

// The reason of a rank's failure is reported unless a signal had ended another before.
Test(launch, what_is_told_after_a_death_is_not_its_cause) {
    char dir[] = "/tmp/lockstep-launch-XXXXXX", told[LS_ERROR_TEXT_MAX];
    const struct timespec deaths[] = {{0}, {.tv_sec = 1}, {.tv_sec = INT32_MAX}};
    cr_assert(mkdtemp(dir) != NULL);
    for (int i = 0; i < 3; i++) {
        int code = LS_OK;
        cr_expect(!ls_launch_error(&code, told, sizeof told, dir, 2, &deaths[i]));
    }
    (void)LS_FAIL(LS_ERR_BACKEND, "a message failed");
    ls_launch_tell_error(dir, 1);
    for (int i = 0; i < 3; i++) {
        int code = LS_OK;
        cr_expect_eq(ls_launch_error(&code, told, sizeof told, dir, 2, &deaths[i]), i != 1);
        cr_expect(i == 1 || (code == LS_ERR_BACKEND && strcmp(told, "a message failed") == 0));
    }
    remove_all(dir);
}

// ---- Runs that are to hang ----------------------------------------------------------------------
// A file with the place that a rank writes.
static void write_place(char *out, size_t out_bytes, const ls_place *place) {
    (void)snprintf(out, out_bytes, "/tmp/lockstep-place-XXXXXX");
    int fd = mkstemp(out);
    cr_assert(fd >= 0 && write(fd, place, sizeof *place) == (ssize_t)sizeof *place);
    (void)close(fd);
}

static const ls_place waits = {
    .state = LS_PLACE_WAITS, .line = 9, .calls = 2, .awaited = 1, .what = "barrier on world"};
static const ls_place returned = {.state = LS_PLACE_RETURNED, .calls = 1};

// Longer than any machine needs until ranks are in their places.
static const double long_enough = 200;

// Two ranks that announce themselves, write `said` as their place or have returned, and `then` act;
// the first is expected to wait.
static void hang_in(ls_launch_result *result, ls_place said, const char *then, double cpu_seconds,
                    double deadline) {
    char path[2][64], script[512];
    const ls_launch_hang hang = {
        .places = (ls_place[]){waits, returned}, .quiet_seconds = 0.2, .cpu_seconds = cpu_seconds};
    for (int r = 0; r < 2; r++) {
        write_place(path[r], sizeof path[r], r == 0 ? &said : &returned);
    }
    (void)snprintf(script, sizeof script,
                   "cp %s $1/rank_0.place; cp %s $1/rank_1.place; "
                   "for r in 0 1; do sh -c 'echo $$ > '$1/rank_$r.pid'; %s' & done; wait",
                   path[0], path[1], then);
    run_hanging(result, script, deadline, &hang);
    for (int r = 0; r < 2; r++) {
        (void)unlink(path[r]);
    }
}

// Like hang_in, with a deadline until which the ranks reach their places: a busy machine takes
// longer to start them.
static void time_out_in(ls_launch_result *result, ls_place said, const char *then,
                        const char *seen) {
    double deadline = 3;
    hang_in(result, said, then, 0, deadline);
    while ((strstr(ls_text_string(&result->seen), seen) == NULL ||
            strstr(ls_text_string(&result->seen), "never started") != NULL) &&
           deadline < long_enough) {
        ls_launch_result_free(result);
        deadline *= 4;
        hang_in(result, said, then, 0, deadline);
    }
    cr_expect(!result->hung && result->timed_out);
    cr_expect(strstr(ls_text_string(&result->seen), seen) != NULL, "%s",
              ls_text_string(&result->seen));
}

// Every rank is in its place, and nothing moves: it hangs.
Test(launch, a_run_that_stays_where_it_should_hangs, .timeout = 600) {
    ls_launch_result result;
    hang_in(&result, waits, "exec sleep 300", 0, long_enough);
    cr_expect(result.hung && !result.timed_out);
    ls_launch_result_free(&result);
}

// One rank waits in another call: that is a time-out, which names it.
Test(launch, a_run_that_stays_elsewhere_times_out, .timeout = 600) {
    ls_place other = waits;
    other.awaited = 0;
    ls_launch_result result;
    time_out_in(&result, other, "exec sleep 300", "rank 0 waits in call 0");
    cr_expect(strstr(ls_text_string(&result.seen), "rank 1") == NULL);
    ls_launch_result_free(&result);
}

// A stopped rank waits for the process that stopped it.
Test(launch, a_stopped_rank_does_not_hang, .timeout = 600) {
    ls_launch_result result;
    time_out_in(&result, waits, "kill -STOP $$", "is stopped");
    ls_launch_result_free(&result);
}

// A waiting rank must have had time to poll.
Test(launch, a_rank_that_never_ran_does_not_hang, .timeout = 600) {
    ls_launch_result result;
    hang_in(&result, waits, "exec sleep 300", 0.05, 3);
    cr_expect(!result.hung && result.timed_out, "it sleeps");
    ls_launch_result_free(&result);
    hang_in(&result, waits, "while :; do :; done", 0.05, long_enough);
    cr_expect(result.hung, "it looks");
    ls_launch_result_free(&result);
}

// Ranks that never arrive are reported, and a run without them does not hang.
Test(launch, ranks_that_never_start_are_told, .timeout = 30) {
    const ls_launch_hang hang = {.places = (ls_place[]){{0}, {0}}, .quiet_seconds = 0.1};
    ls_launch_result result;
    run_hanging(&result, "sh -c 'echo $$ > '$1'/rank_0.pid; exec sleep 20'", 1, &hang);
    cr_expect(!result.hung && result.timed_out);
    cr_expect(strstr(ls_text_string(&result.seen), "rank 1 never started") != NULL);
    ls_launch_result_free(&result);
}

// Of ranks in other places eight are listed, with the number of others
Test(launch, many_ranks_elsewhere_are_counted) {
    enum { MOST = 12 };
    ls_place places[MOST];
    ls_watched_rank ranks[MOST] = {{.pid = 0}};
    for (int r = 0; r < MOST; r++) {
        places[r] = waits;
        ranks[r] = (ls_watched_rank){.pid = getpid(), .gone = r % 2 == 0};
    }
    const ls_launch_hang hang = {.places = places};
    for (int count = 8; count <= MOST; count++) {
        const ls_watch watch = {
            .home = "nowhere", .dir = "/nowhere", .ranks = count, .rank = ranks, .hang = &hang};
        ls_text text = {0};
        char more[64] = "";
        ls_launch__see(&text, &watch);
        cr_expect_not_null(strstr(ls_text_string(&text), "rank 6 is gone; simulated: it"));
        cr_expect_not_null(strstr(ls_text_string(&text), "rank 7 "));
        cr_expect_null(strstr(ls_text_string(&text), "rank 8 "));
        if (count > 8) {
            (void)snprintf(more, sizeof more, "; %d more ranks differ", count - 8);
        }
        cr_expect((strstr(ls_text_string(&text), " more ranks") != NULL) == (count > 8));
        cr_expect_not_null(strstr(ls_text_string(&text), more), "%s", ls_text_string(&text));
        ls_text_free(&text);
    }
}

// ---- Leftovers of MPI ----
static bool swept(const char *folder, const char *path, time_t since) {
    ls_processes_sweep_shared(folder, since);
    return access(path, F_OK) != 0;
}

// With too few descriptors to read the folder, or /proc as well, and no process.
static bool swept_with(rlim_t descriptors, const char *folder, const char *path, time_t since) {
    struct rlimit limit;
    const int next = dup(0);
    cr_assert(next >= 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)next + descriptors;
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    const bool gone = swept(folder, path, since);
    limit.rlim_cur = before;
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return gone;
}

// MPI's newer files are removed, if they have bytes and no process has them open or mapped.
Test(launch, shared_memory_that_nobody_has_is_removed) {
    static const char *const names[] = {"mpich_shar_tmp12", "ucx_shm_posix_34", "of_others"};
    char folder[] = "/dev/shm/lockstep-test-XXXXXX", path[64], other[64];
    struct stat about;
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(other, sizeof other, "%s/other", folder);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        cr_assert(fd >= 0 && close(fd) == 0);
        cr_expect(!swept(folder, path, 0), "whoever made it may be about to open it");
        fd = open(path, O_RDWR);
        cr_assert(ftruncate(fd, 4096) == 0 && fstat(fd, &about) == 0);
        const time_t made = about.st_ctim.tv_sec;
        cr_expect(!swept(folder, path, made), "it is open");
        void *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        cr_assert(mapped != MAP_FAILED && close(fd) == 0);
        cr_expect(!swept(folder, path, made), "it is mapped");
        (void)munmap(mapped, 4096);
        cr_assert(link(path, other) == 0 && (fd = open(other, O_RDONLY)) >= 0);
        cr_expect(!swept(folder, path, made), "it is open elsewhere, as under another root");
        cr_assert(close(fd) == 0 && unlink(other) == 0);
        cr_assert(stat(path, &about) == 0);
        cr_expect(!swept(folder, path, made + 100), "it was there before");
        cr_expect(!swept_with(1, folder, path, made), "nobody could look");
        cr_expect(!swept_with(2, folder, path, made), "nobody could look into a process");
        cr_expect_eq(swept(folder, path, made), i < 2);
    }
    cr_assert(unlink(path) == 0 && rmdir(folder) == 0);
}
