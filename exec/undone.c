// Calls that are not over: those whose data does not come, which ends the run, and what is left of
// others at its end.
#include <stdio.h>
#include <stdlib.h>

#include "exec/internal.h"

#define GPU_QUEUES 32  // that a process's streams share

// Streams of the process with calls that are not done.
static int streams_in_use(const ls_exec *exec, const ls_exec_process *process) {
    int count = 0;
    for (int r = 0; r < exec->rank_count; r++) {
        const ls_exec_rank *rank = &exec->ranks[r];
        for (const ls_exec_stream *s = rank->streams; s != NULL && rank->process == process;
             s = s->next) {
            const ls_exec_op *op = rank->open;
            while (op != NULL && op->stream != s) {
                op = op->next;
            }
            count += op != NULL ? 1 : 0;
        }
    }
    return count;
}

bool ls_exec__explain_data(ls_exec *exec, bool gone) {
    for (const ls_exec_job *job = exec->jobs; job != NULL; job = job->next) {
        const ls_exec_op *op = ls_exec__first_missing(job);
        if (op == NULL || (gone && !op->process->gone)) {
            continue;
        }
        const ls_call *call = &op->call.call;
        bool ended = op->process->gone;
        char text[640], queues[160] = "";
        int streams = ended ? 0 : streams_in_use(exec, op->process);
        if (streams > GPU_QUEUES) {
            (void)snprintf(queues, sizeof queues,
                           "; %d streams of its process wait at once, and streams that share one "
                           "of the GPU's %d queues block one another",
                           streams, GPU_QUEUES);
        }
        (void)snprintf(
            text, sizeof text,
            "rank %d made its %s at %s:%d as the others did, but its data never arrived: %s%s\n",
            op->rank->id, ls_kind_name(call->kind), call->file, call->line,
            ended ? "its process ended before its stream got there"
                  : "its stream does not get there",
            queues);
        ls_remote_finding(exec->run, ended ? LS_FINDING_RANK_EXITED_EARLY : LS_FINDING_MISSING_RANK,
                          &op->rank->id, 1, call->file, call->line, text);
        return true;
    }
    return false;
}

void ls_exec__note_begun(const ls_exec *exec) {
    for (int r = 0; exec->flight != NULL && r < exec->rank_count; r++) {
        for (const ls_exec_op *op = exec->ranks[r].open; op != NULL; op = op->next) {
            if (op->met && ls_exec__has_arrived(op)) {
                ls_exec__flight_state(exec, op, LS_EXEC_FLIGHT_STARTED);
            }
        }
    }
}

void ls_exec__drop_calls(ls_exec *exec) {
    ls_exec__note_begun(exec);
    while (exec->jobs != NULL) {
        ls_exec_job *next = exec->jobs->next;
        free(exec->jobs);
        exec->jobs = next;
    }
    for (int r = 0; r < exec->rank_count; r++) {
        ls_exec_rank *rank = &exec->ranks[r];
        ls_exec_op *lists[] = {rank->first, rank->open};
        for (int i = 0; i < 2; i++) {
            while (lists[i] != NULL) {
                ls_exec_op *next = lists[i]->next;
                ls_exec__free_op(lists[i]);
                lists[i] = next;
            }
        }
        while (rank->streams != NULL) {
            ls_exec_stream *next = rank->streams->next;
            free(rank->streams);
            rank->streams = next;
        }
        rank->first = rank->last = rank->open = rank->open_last = NULL;
        rank->splits = 0;
    }
}
