// The processes of one launch, wherever they have gone: mpiexec, its proxies, the ranks. All carry
// the launch's directory in their environment, which outlives their parents.
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#define LS_PROCESSES_VARIABLE "LOCKSTEP_RUN"  // of the environment: the launch's own directory

typedef struct ls_process {
    pid_t pid, parent;
    char name[32];
    bool stopped;        // by a signal, or by a debugger
    bool ending;         // about to be gone; its files may be closed already
    double cpu_seconds;  // it has run for so long
} ls_process;

// Whether the process exists, and its state.
bool ls_process_read(ls_process *out, pid_t pid);

// Whether a thread of the process, other than the caller, runs or would if it got a processor.
bool ls_process_has_work(pid_t pid);

// Whether the process belongs to the launch whose directory is `dir`, or runs in it.
bool ls_processes_has(const char *dir, pid_t pid);
// Whether a process of the launch whose directory is `dir`, or in it, is stopped; and which.
bool ls_processes_stopped(ls_process *out, const char *dir);
// Ends all of them; returns when none is left.
void ls_processes_end(const char *dir);
// Removes the segments of shared memory that MPI's processes left in folder `in` when they were
// ended: those of this user, made since then, that hold bytes and that no process has open or
// mapped; none where that cannot be seen.
#define LS_PROCESSES_SHARED "/dev/shm"
void ls_processes_sweep_shared(const char *in, time_t since);
