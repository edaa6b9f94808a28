// The runs of a job, one after another. One ends with its finding or with its processes; the next
// one begins when a session of tests makes a world again, when a launcher starts its ranks again,
// or when a test has started new ranks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"
#include "ranks/front.h"

// ---- Kept results -------------------------------------------------------------------------------
static const ls_exec_process *process_of(const ls_exec *exec, int rank) {
    const ls_exec_process *at = exec->processes;
    while (at != NULL && at != exec->ranks[rank].process &&
           (exec->ranks[rank].process != NULL || at->rank != rank)) {
        at = at->next;
    }
    return at;
}

// The places of each rank's last calls, the last first.
static int keep_places(ls_exec *exec) {
    size_t most = (size_t)exec->place_count + (size_t)exec->rank_count * LS_EXEC_RECENT;
    ls_exec_place *places = ls_arena_alloc(exec->arena, most + 1, sizeof *places);
    LS_TRY(places != NULL ? LS_OK : LS_ERR_MEMORY);
    int made = 0, run = 1;
    for (const ls_exec_ended *at = exec->before; at != NULL; at = at->next) {
        run += 1;
    }
    for (int r = 0; r < exec->rank_count; r++) {
        const ls_exec_process *p = process_of(exec, r);
        uint32_t count = p != NULL ? p->recent_count : 0;
        for (uint32_t i = 1; i <= count && i <= LS_EXEC_RECENT; i++) {
            const ls_exec_site *site = ls_exec__site(p, p->recent[(count - i) % LS_EXEC_RECENT]);
            places[made++] = (ls_exec_place){run, r, site->file, site->line, site->stack};
        }
    }
    for (int i = 0; i < exec->place_count; i++) {
        places[made++] = exec->places[i];
    }
    exec->places = places;
    exec->place_count = made;
    return LS_OK;
}

// ---- The end of one -----------------------------------------------------------------------------
void ls_exec__forget_joining(ls_exec *exec) {
    while (exec->joining != NULL) {
        ls_exec_joining *next = exec->joining->next;
        free(exec->joining);
        exec->joining = next;
    }
}

int ls_exec__end_run(ls_exec *exec, ls_spmd_result **out, int status, const char *why) {
    LS_ASSERT(exec->run != NULL);
    LS_TRY(keep_places(exec));
    if (status != LS_OK) {  // not caused by a rank: none has left the others waiting
        ls_spmd__fail(exec->run, status, why);
    }
    ls_exec__end_notes(exec, status == LS_OK && ls_remote_status(exec->run, NULL) == LS_OK);
    ls_exec__note_open(exec);  // of communicators that end with the run
    for (int r = 0; r < exec->rank_count; r++) {
        if (!exec->ranks[r].ended) {
            ls_remote_return(exec->ranks[r].rank, 0);
        }
    }
    int ended = ls_remote_close(out, exec->run);
    exec->run = NULL;
    ls_exec__drop_calls(exec);
    return ended;
}

// ---- The next one -------------------------------------------------------------------------------
// Whether all that was found is that a rank ended.
static bool ended_alone(const ls_spmd_result *spmd) {
    for (int i = 0; i < ls_spmd_finding_count(spmd); i++) {
        ls_finding_id id = ls_spmd_finding(spmd, i)->id;
        if (id != LS_FINDING_RANK_DIED && id != LS_FINDING_RANK_EXITED_EARLY) {
            return false;
        }
    }
    return true;
}

static void tell_restart(const ls_exec_ended *ended) {
    const ls_finding *found =
        ls_spmd_finding_count(ended->spmd) > 0 ? ls_spmd_finding(ended->spmd, 0) : NULL;
    char line[LS_ERROR_TEXT_MAX];
    (void)snprintf(
        line, sizeof line, "attempt %d of the launcher ended, and the next one counts%s%.*s",
        ended->attempt, found != NULL ? ": " : "",
        found != NULL ? (int)strcspn(found->text, "\n") : 0, found != NULL ? found->text : "");
    ls_exec__warn(line);
}

static int begin_next(ls_exec *exec, int attempt) {
    if (exec->run != NULL) {
        ls_exec_ended *made = ls_arena_alloc(exec->arena, 1, sizeof *made);
        LS_TRY(made != NULL ? LS_OK : LS_ERR_MEMORY);
        *made = (ls_exec_ended){.attempt = exec->attempt};
        made->status = ls_exec__end_run(exec, &made->spmd, LS_OK, "");
        LS_TRY(made->spmd != NULL ? LS_OK : made->status);
        made->forgiven = attempt > exec->attempt && ended_alone(made->spmd);
        ls_exec_ended **at = &exec->before;
        while (*at != NULL) {
            at = &(*at)->next;
        }
        *at = made;
        if (made->forgiven) {
            tell_restart(made);
            exec->died = false;
        }
    }
    ls_exec__forget_joining(exec);
    exec->ranks = NULL;
    exec->rank_count = 0;
    exec->joined = 0;
    exec->over = false;
    exec->attempt = attempt;
    exec->number += 1;
    return LS_OK;
}

bool ls_exec__is_past(const ls_exec *exec, const ls_exec_process *process, uint32_t comm) {
    return exec->number > 0 && (process->run != exec->number || comm >= process->comm_room ||
                                process->comms[comm].run != exec->number);
}

// Whether a new process follows ranks that have all ended. Ranks that a launcher numbers may have
// no process yet, but those of a test are started by it.
static bool follows(const ls_exec *exec, const ls_exec_process *process) {
    if (process->run >= 0 || exec->run == NULL || (process->ranks > 0 && !process->session)) {
        return false;
    }
    for (const ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
        if (at->run == exec->number && !at->gone) {
            return false;
        }
    }
    return true;
}

int ls_exec__admit(bool *out, ls_exec *exec, ls_exec_process *process,
                   const ls_wire_comm_init *message) {
    const bool later = message->later != 0;
    const bool world = message->ranks == (process->ranks > 0 ? process->ranks : exec->rank_count);
    *out = false;
    if (process->attempt > exec->attempt || (exec->over && process->session && later && world) ||
        follows(exec, process)) {
        LS_TRY(begin_next(exec, process->attempt));
    }
    // One that does not know yet is of the run before.
    const bool stays = process->run >= 0 && !later;
    if (exec->over || process->attempt < exec->attempt || (process->run != exec->number && stays)) {
        return LS_OK;
    }
    if (process->run != exec->number) {
        process->run = exec->number;
        ls_exec__tell(process, 0, "");
    }
    *out = true;
    return LS_OK;
}
