// Opening NCCL's library.
#include "backends/nccl/nccl_load_internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LOCKSTEP_NCCL_LIBRARY
#define LOCKSTEP_NCCL_LIBRARY ""
#endif

#define OLDEST NCCL_VERSION(2, 20, 0)  // the oldest with all that is used here

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ls_nccl_library library;
static bool loaded;

static int open_library(void **out) {
    const char *given = getenv("LOCKSTEP_NCCL_LIBRARY");
    const char *names[] = {"libnccl.so.2", LOCKSTEP_NCCL_LIBRARY};
    char why[256] = "";
    if (given != NULL && given[0] != '\0') {
        *out = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        if (*out == NULL) {
            return LS_FAIL(LS_ERR_BACKEND, "LOCKSTEP_NCCL_LIBRARY: NCCL cannot be opened: %s",
                           dlerror());
        }
        return LS_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *out = names[i][0] != '\0' ? dlopen(names[i], RTLD_NOW | RTLD_LOCAL) : NULL;
        if (*out != NULL) {
            return LS_OK;
        }
        if (i == 0) {
            (void)snprintf(why, sizeof why, "%s", dlerror());
        }
    }
    return LS_FAIL(LS_ERR_BACKEND,
                   "NCCL cannot be opened: %s (set LOCKSTEP_NCCL_LIBRARY to its libnccl.so.2)",
                   why);
}

static int find(void *address, void *handle, const char *name, bool needed) {
    void *symbol = dlsym(handle, name);
    if (symbol == NULL && needed) {
        return LS_FAIL(LS_ERR_BACKEND, "NCCL: the library has no %s; it is too old", name);
    }
    // POSIX lets a function's address travel as a void pointer; ISO C has no conversion for it.
    memcpy(address, &symbol, sizeof symbol);
    return LS_OK;
}

static int load(void) {
    void *handle = NULL;
    LS_TRY(open_library(&handle));
#define FIND_NEEDED(name) LS_TRY(find(&library.name, handle, #name, true));
#define FIND_NEW(name)    LS_TRY(find(&library.name, handle, #name, false));
    LS_NCCL_FUNCTIONS(FIND_NEEDED)
    LS_NCCL_FUNCTIONS_NEW(FIND_NEW)
#undef FIND_NEEDED
#undef FIND_NEW
    LS_TRY(ls_nccl__status(&library, library.ncclGetVersion(&library.version), "ncclGetVersion"));
    int v = library.version;
    (void)snprintf(library.text, sizeof library.text, "%d.%d.%d", v / 10000, v / 100 % 100,
                   v % 100);
    if (v < OLDEST) {
        return LS_FAIL(LS_ERR_BACKEND, "NCCL %s is too old: 2.20 is the oldest supported",
                       library.text);
    }
    return LS_OK;
}

int ls_nccl__load(const ls_nccl_library **out) {
    *out = NULL;
    (void)pthread_mutex_lock(&lock);
    int status = loaded ? LS_OK : load();
    loaded = status == LS_OK;
    (void)pthread_mutex_unlock(&lock);
    *out = &library;
    return status;
}

int ls_nccl__status(const ls_nccl_library *nccl, ncclResult_t result, const char *what) {
    if (result == ncclSuccess || result == ncclInProgress) {
        return LS_OK;
    }
    const char *detail = nccl->ncclGetLastError(NULL);
    bool more = detail != NULL && detail[0] != '\0';
    return LS_FAIL(LS_ERR_BACKEND, "%s failed: %s%s%.400s", what, nccl->ncclGetErrorString(result),
                   more ? ": " : "", more ? detail : "");
}
