// Questions about the calls of a communicator that change nothing.
#include <stdio.h>
#include <stdlib.h>

#include "exec/internal.h"

void ls_exec__free_op(ls_exec_op *op) {
    free(op->counts);
    free(op);
}

// ---- Matched calls ------------------------------------------------------------------------------
void ls_exec__met(void *arg, ls_request *const *requests, int size) {
    ls_exec *exec = arg;
    ls_exec_job *job = calloc(1, sizeof *job + (size_t)size * sizeof(ls_request *));
    if (job == NULL) {
        exec->no_memory = true;
        return;
    }
    job->size = size;
    for (int m = 0; m < size; m++) {
        job->requests[m] = requests[m];
        ls_exec_op *op = ls_remote_owner(requests[m]);
        op->met = true;
        if (op->stream != NULL) {
            op->stream->unmet -= 1;
        }
    }
    if (exec->jobs_last != NULL) {
        exec->jobs_last->next = job;
    } else {
        exec->jobs = job;
    }
    exec->jobs_last = job;
}

bool ls_exec__has_arrived(const ls_exec_op *op) {
    return __atomic_load_n(&op->process->control->slots[op->slot].arrived, __ATOMIC_ACQUIRE) != 0;
}

ls_exec_op *ls_exec__first_missing(const ls_exec_job *job) {
    for (int m = 0; m < job->size; m++) {
        ls_exec_op *op = ls_remote_owner(job->requests[m]);
        if (!ls_exec__has_arrived(op)) {
            return op;
        }
    }
    return NULL;
}
