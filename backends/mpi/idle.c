// Where MPICH runs over UCX, a rank that waits looks for messages without ever letting another
// process have the processor: more ranks than there are processors take seconds to do nothing.
// Linked into a program of MPI's, this stands before UCX's own function, and lets it sleep for a
// moment after it has found nothing a few times, and longer in a long wait. No other MPI calls it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

#define TRIES 20
#define LONG  (200 * TRIES)  // some 10 ms

__attribute__((visibility("default"))) unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*own)(void *);
    static _Thread_local int idle;
    if (own == NULL) {
        *(void **)&own = dlsym(RTLD_NEXT, "ucp_worker_progress");
    }
    unsigned found = own(worker);
    idle = found > 0 ? 0 : idle + 1;
    if (idle > 0 && idle % TRIES == 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = idle < LONG ? 1000 : 500000}, NULL);
    }
    if (idle == LONG) {
        idle -= TRIES;
    }
    return found;
}
