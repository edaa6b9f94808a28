// The function that debuggers stop at. The empty asm keeps calls of it from being optimised away.
#include "runner/hooks.h"

#include <pthread.h>

ls_gdb_execution *ls_gdb_executions;
const struct ls_case_run *ls_gdb_case;
bool ls_gdb_keeps;
static pthread_mutex_t executions_mutex = PTHREAD_MUTEX_INITIALIZER;

void ls_hooks__execution_open(ls_gdb_execution *execution) {
    LS_ASSERT(execution->next == NULL &&
              (execution->program == NULL) != (execution->module == NULL));
    (void)pthread_mutex_lock(&executions_mutex);
    execution->next = ls_gdb_executions;
    if (execution->next != NULL) {
        execution->next->link = &execution->next;
    }
    execution->link = &ls_gdb_executions;
    ls_gdb_executions = execution;
    (void)pthread_mutex_unlock(&executions_mutex);
}

void ls_hooks__execution_close(ls_gdb_execution *execution) {
    (void)pthread_mutex_lock(&executions_mutex);
    LS_ASSERT(*execution->link == execution);
    *execution->link = execution->next;
    if (execution->next != NULL) {
        execution->next->link = execution->link;
    }
    (void)pthread_mutex_unlock(&executions_mutex);
}

__attribute__((noinline, used)) void ls_gdb_hook_divergence(const ls_gdb_divergence *divergence) {
    __asm__ volatile("" ::"r"(divergence) : "memory");
}
