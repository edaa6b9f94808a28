// Ranks that end while the others wait for them outside of calls, most often before they join; and
// runs without any progress for the time of --deadline.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "exec/internal.h"

#define FAILED_SECONDS 10.0  // after a rank failed to start; then the others are ended, too
#define SOURCE_COLUMNS 60    // of a line that a rank waits in

// ---- Early ranks --------------------------------------------------------------------------------
// The line of the program that a rank waits in; "torch.distributed" where it cannot be read.
static void read_source(char *out, size_t bytes, const char *file, int line) {
    char text[512] = "";
    FILE *source = fopen(file, "r");
    for (int i = 0; source != NULL && i < line && fgets(text, sizeof text, source) != NULL;) {
        i += strchr(text, '\n') != NULL ? 1 : 0;
    }
    if (source != NULL) {
        (void)fclose(source);
    }
    size_t skip = strspn(text, " \t"), length = strcspn(text + skip, "\n#");
    length = length < SOURCE_COLUMNS ? length : 0;
    while (length > 0 && text[skip + length - 1] == ' ') {
        length -= 1;
    }
    (void)snprintf(out, bytes, "%.*s", (int)(length > 0 ? length : strlen("torch.distributed")),
                   length > 0 ? text + skip : "torch.distributed");
}

// Whether the living rank waits for others, as far as is known.
static bool waits(const ls_exec *exec, int rank) {
    const ls_exec_process *process = ls_exec__own_process(exec, rank);
    return process != NULL && ls_exec__waits_outside(exec, process);
}

// "rank 0 waits in LINE OF THE PROGRAM at FILE:LINE"; the place, or NULL: none is known.
static const char *tell_living(ls_text *out, const ls_exec *exec, int rank, int *line) {
    const ls_exec_process *process = ls_exec__own_process(exec, rank);
    const bool opens = process != NULL && process->place_waits == LS_WIRE_WAITS_STORE;
    const char *file =
        opens || waits(exec, rank) ? ls_exec__outside_place(exec, process, line) : NULL;
    if (file != NULL) {
        char source[SOURCE_COLUMNS + 1];
        read_source(source, sizeof source, file, *line);
        ls_text_printf(out, "rank %d waits in %s at %s:%d", rank, source, file, *line);
    } else {
        ls_text_printf(out, "rank %d %s", rank,
                       ls_exec__has_joined(exec, rank) ? "runs" : "has not made a call");
    }
    return file;
}

// ---- A rank that does not take part ------------------------------------------------------------
static bool explain(ls_exec *exec, int who) {
    const ls_exec_child *child = &exec->children[who];
    ls_text text = {0};
    const char *place = NULL;
    int place_line = 0;
    if (exec->run == NULL && ls_exec__open_run(exec, exec->options->processes) != LS_OK) {
        return false;
    }
    ls_text_printf(&text, "rank %d ", who);
    ls_exec__describe_end(&text, child);
    ls_text_puts(&text, ls_exec__has_joined(exec, who) ? "" : " before it made a call");
    for (int r = 0; r < exec->child_count; r++) {
        int line = 0;
        if (exec->children[r].watch >= 0) {
            ls_text_puts(&text, place == NULL ? "; " : "\n");
            const char *file = tell_living(&text, exec, r, &line);
            place_line = place == NULL ? line : place_line;
            place = place == NULL ? file : place;
        }
    }
    ls_text_puts(&text, "\n");
    ls_exec__describe_stderr(&text, child, who);
    for (int r = who + 1; r < exec->child_count; r++) {
        if (ls_exec__ended_early(exec, r)) {
            ls_text_printf(&text, "rank %d ", r);
            ls_exec__describe_end(&text, &exec->children[r]);
            ls_text_puts(&text, ", too\n");
            ls_exec__describe_stderr(&text, &exec->children[r], r);
        }
    }
    bool died = WIFSIGNALED(child->status);
    ls_remote_finding(exec->run, died ? LS_FINDING_RANK_DIED : LS_FINDING_RANK_EXITED_EARLY, &who,
                      who < exec->rank_count ? 1 : 0, place != NULL ? place : "", place_line,
                      ls_text_string(&text));
    ls_text_free(&text);
    return true;
}

// The weight of a rank's end as an explanation: more for a rank that did not join, or that failed.
static int weight_of(const ls_exec *exec, int rank) {
    if (exec->children[rank].watch >= 0) {
        return 0;
    }
    return 1 + (ls_exec__ended_early(exec, rank) ? 2 : 0) +
           (exec->children[rank].status != 0 ? 1 : 0);
}

bool ls_exec__judge_early(ls_exec *exec, double quiet) {
    bool all_wait = ls_exec__all_rest(exec), failed = false;
    int who = -1, most = 0, living = 0;
    if (exec->over || (exec->run != NULL && ls_remote_status(exec->run, NULL) != LS_OK)) {
        return false;
    }
    for (int r = 0; r < exec->options->processes && r < exec->child_count; r++) {
        const int weight = weight_of(exec, r);
        who = weight > most ? r : who;
        most = weight > most ? weight : most;
        failed = failed || (ls_exec__ended_early(exec, r) && exec->children[r].status != 0);
        if (exec->children[r].watch >= 0) {
            living += 1;
            all_wait = all_wait && waits(exec, r);
        }
    }
    bool hopeless = all_wait || (failed && quiet > FAILED_SECONDS);
    return who >= 0 && living > 0 && hopeless && explain(exec, who);
}

// ---- Nothing moves -----------------------------------------------------------------------------
int ls_exec__fail_late(const ls_exec *exec) {
    ls_text text = {0};
    bool launched = exec->options->processes == 0;
    for (int r = 0; r < exec->child_count && !launched; r++) {
        int line = 0;
        if (exec->children[r].watch >= 0) {
            ls_text_puts(&text, text.length > 0 ? "; " : ": ");
            (void)tell_living(&text, exec, r, &line);
        }
    }
    int status = LS_FAIL(LS_ERR_TIMEOUT, "nothing moved for %g s (--deadline)%s",
                         exec->options->deadline_seconds, ls_text_string(&text));
    ls_text_free(&text);
    return status;
}
