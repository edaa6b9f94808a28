// The program's own pthread_create, which the loader finds before the C library's: the threads of a
// program written for MPI are its rank's.
#define _GNU_SOURCE  // RTLD_NEXT
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/front.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Those that libraries make for a rank (OpenMP's), and those that its threads make, are the rank's,
// too.
typedef struct own_thread {
    void *(*function)(void *);
    void *arg;
    ls_thread *thread;
} own_thread;

static void *run_own(void *arg) {
    own_thread own = *(own_thread *)arg;
    free(arg);
    ls_turns__begin(own.thread);
    void *result = own.function(own.arg);
    ls_turns__end();
    return result;
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *out,
                                                          const pthread_attr_t *attributes,
                                                          void *(*function)(void *), void *arg) {
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    LS_ASSERT(symbol != NULL);
    memcpy(&next, &symbol, sizeof next);
    ls_rank *rank = ls_schedule__current();
    if (rank == NULL || rank->run->front == NULL || ls_schedule__inside()) {
        return next(out, attributes, function, arg);
    }
    own_thread *own = malloc(sizeof *own);
    if (own == NULL) {
        return EAGAIN;
    }
    *own = (own_thread){function, arg, ls_turns__make(rank)};
    if (own->thread == NULL) {
        free(own);
        return EAGAIN;
    }
    ls_thread *thread = own->thread;
    rank->run->observed += 1;
    int status = next(out, attributes, run_own, own);
    if (status != 0) {
        ls_outside__never_began(thread);
        free(own);
    }
    return status;
}
#endif
