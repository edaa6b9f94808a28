// One thread per held rank: it owns the rank's GPU, stream and staging memory, and never waits for
// NCCL longer than the deadline.
#include <sched.h>
#include <time.h>

#include "backends/nccl/nccl_internal.h"

void ls_nccl__rest(int turn) {
    if (turn < 100) {
        (void)sched_yield();
    } else {
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

int ls_nccl_device_count(void) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary) {
        int driver = 0;
        (void)cudaDriverGetVersion(&driver);
        (void)(driver == 0
                   ? LS_FAIL(LS_ERR_BACKEND, "this machine has no NVIDIA driver")
                   : LS_FAIL(LS_ERR_BACKEND,
                             "the NVIDIA driver supports CUDA %d.%d, this build needs %d.%d",
                             driver / 1000, driver / 10 % 100, CUDART_VERSION / 1000,
                             CUDART_VERSION / 10 % 100));
        return 0;
    }
    if (error != cudaSuccess || count == 0) {
        (void)LS_FAIL(LS_ERR_BACKEND, "this machine has no usable GPU: %s",
                      cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error));
        return 0;
    }
    return count;
}

int ls_nccl__cuda(cudaError_t error, const char *what) {
    if (error == cudaSuccess) {
        return LS_OK;
    }
    int code = error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_BACKEND;
    return LS_FAIL(code, "%s: %s", what, cudaGetErrorString(error));
}

// ---- Waiting ------------------------------------------------------------------------------------
// LS_OK while it is worth waiting on. A short sleep after the first turns keeps a processor free
// for NCCL's own threads.
static int keep_waiting(nccl_worker *worker, int turn) {
    if (atomic_load(&worker->owner->failing)) {
        worker->stopped = true;
        return LS_FAIL_RANK(LS_ERR_BACKEND, worker->rank, "another rank failed");
    }
    if (ls_time_now() > worker->deadline) {
        return LS_FAIL_RANK(LS_ERR_TIMEOUT, worker->rank, "the deadline passed");
    }
    if (turn < 1000) {
        (void)sched_yield();
    } else {
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return LS_OK;
}

static int async_error(const nccl_worker *worker, ncclComm_t comm, ncclResult_t *state) {
    const ls_nccl_library *nccl = worker->owner->library;
    LS_TRY(
        ls_nccl__status(nccl, nccl->ncclCommGetAsyncError(comm, state), "ncclCommGetAsyncError"));
    return ls_nccl__status(nccl, *state, "NCCL");
}

int ls_nccl__wait_comm(nccl_worker *worker, ncclComm_t comm, const char *what) {
    ncclResult_t state = ncclInProgress;
    for (int turn = 0;; turn++) {
        LS_TRY(async_error(worker, comm, &state));
        if (state == ncclSuccess) {
            return LS_OK;
        }
        if (keep_waiting(worker, turn) != LS_OK) {
            return ls_error_wrap("rank %d, %s", worker->rank, what);
        }
    }
}

int ls_nccl__wait_stream(nccl_worker *worker, ncclComm_t comm) {
    for (int turn = 0;; turn++) {
        cudaError_t state = cudaStreamQuery(worker->stream);
        if (state == cudaSuccess) {
            return LS_OK;
        }
        if (state != cudaErrorNotReady) {
            return ls_nccl__cuda(state, "waiting for the GPU");
        }
        if (comm != NULL) {
            ncclResult_t ignored = ncclSuccess;
            LS_TRY(async_error(worker, comm, &ignored));
        }
        LS_TRY(keep_waiting(worker, turn));
    }
}

// ---- Threads ------------------------------------------------------------------------------------
static int open_device(nccl_worker *worker) {
    LS_CUDA_TRY(cudaSetDevice(worker->device), "cudaSetDevice");
    LS_CUDA_TRY(cudaStreamCreateWithFlags(&worker->stream, cudaStreamNonBlocking),
                "cudaStreamCreate");
    return LS_OK;
}

static void *work(void *arg) {
    nccl_worker *worker = arg;
    int device_status = open_device(worker);
    ls_error device_error = *ls_error_last();
    (void)pthread_mutex_lock(&worker->lock);
    while (true) {
        while (worker->job == NULL && !worker->quit) {
            (void)pthread_cond_wait(&worker->changed, &worker->lock);
        }
        if (worker->job == NULL) {
            break;
        }
        int (*job)(nccl_worker *, void *) = worker->job;
        (void)pthread_mutex_unlock(&worker->lock);
        int status = device_status == LS_OK ? job(worker, worker->arg) : device_status;
        if (status != LS_OK) {
            worker->error = device_status == LS_OK ? *ls_error_last() : device_error;
            atomic_store(&worker->owner->failing, true);
        }
        (void)pthread_mutex_lock(&worker->lock);
        worker->status = status;
        worker->job = NULL;
        (void)pthread_cond_broadcast(&worker->changed);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    if (worker->staging != NULL) {
        (void)cudaFree(worker->staging);
    }
    if (worker->stream != NULL) {
        (void)cudaStreamDestroy(worker->stream);
    }
    return NULL;
}

int ls_nccl__workers_open(nccl_owner *owner) {
    const int devices = ls_nccl_device_count();
    for (int i = 0; i < owner->held; i++) {
        nccl_worker *worker = &owner->workers[i];
        worker->owner = owner;
        worker->index = i;
        worker->rank = ls_world_held(owner->backend.world)[i];
        const ls_nccl_bootstrap *bootstrap = owner->options.bootstrap;
        worker->device = (bootstrap != NULL ? bootstrap->local_rank : i) % devices;
        (void)pthread_mutex_init(&worker->lock, NULL);
        (void)pthread_cond_init(&worker->changed, NULL);
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            return LS_FAIL_RANK(LS_ERR_MEMORY, worker->rank, "cannot start a thread for rank %d",
                                worker->rank);
        }
        worker->started = true;
    }
    return LS_OK;
}

void ls_nccl__workers_close(nccl_owner *owner) {
    for (int i = 0; i < owner->held; i++) {
        nccl_worker *worker = &owner->workers[i];
        if (worker->started) {
            (void)pthread_mutex_lock(&worker->lock);
            worker->quit = true;
            (void)pthread_cond_broadcast(&worker->changed);
            (void)pthread_mutex_unlock(&worker->lock);
            (void)pthread_join(worker->thread, NULL);
            (void)pthread_mutex_destroy(&worker->lock);
            (void)pthread_cond_destroy(&worker->changed);
        }
        ls_free(worker->calls, (size_t)worker->call_room, sizeof *worker->calls);
        ls_free(worker->staged, (size_t)worker->call_room, sizeof *worker->staged);
    }
}

static void begin_job(nccl_worker *worker, int (*job)(nccl_worker *, void *), void *arg) {
    (void)pthread_mutex_lock(&worker->lock);
    worker->job = job;
    worker->arg = arg;
    worker->stopped = false;
    (void)pthread_cond_broadcast(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
}

static bool job_done(nccl_worker *worker, bool wait) {
    (void)pthread_mutex_lock(&worker->lock);
    while (wait && worker->job != NULL) {
        (void)pthread_cond_wait(&worker->changed, &worker->lock);
    }
    bool done = worker->job == NULL;
    (void)pthread_mutex_unlock(&worker->lock);
    return done;
}

// A rank that stopped because of another failure explains least, one that ran into the deadline
// little.
static int blame(const nccl_worker *worker) {
    if (worker->status == LS_OK) {
        return 0;
    }
    if (worker->stopped) {
        return 1;
    }
    return worker->status == LS_ERR_TIMEOUT ? 2 : 3;
}

static void begin_all(nccl_owner *owner, int (*job)(nccl_worker *worker, void *arg), void *arg,
                      size_t arg_bytes) {
    atomic_store(&owner->failing, false);
    for (int i = 0; i < owner->held; i++) {
        void *own = arg != NULL ? (char *)arg + (size_t)i * arg_bytes : NULL;
        begin_job(&owner->workers[i], job, own);
    }
}

static int end_all(nccl_owner *owner) {
    const nccl_worker *worst = &owner->workers[0];
    for (int i = 0; i < owner->held; i++) {
        (void)job_done(&owner->workers[i], true);
        worst = blame(&owner->workers[i]) > blame(worst) ? &owner->workers[i] : worst;
    }
    if (worst->status == LS_OK) {
        return LS_OK;
    }
    const ls_error *error = &worst->error;
    return ls_error__set(error->file, error->line, worst->status,
                         error->rank != LS_RANK_NONE ? error->rank : worst->rank, "%s",
                         error->text);
}

int ls_nccl__on_all(nccl_owner *owner, int (*job)(nccl_worker *worker, void *arg), void *arg,
                    size_t arg_bytes) {
    (void)pthread_mutex_lock(&owner->jobs);
    begin_all(owner, job, arg, arg_bytes);
    int status = end_all(owner);
    (void)pthread_mutex_unlock(&owner->jobs);
    return status;
}

static int watched(nccl_owner *owner, int (*watch)(void *arg), void *watch_arg) {
    int status = LS_OK;
    for (int i = 0, turn = 0; i < owner->held && status == LS_OK; turn++) {
        status = watch(watch_arg);
        i += job_done(&owner->workers[i], false) ? 1 : 0;
        ls_nccl__rest(turn);
    }
    if (status == LS_OK) {
        return end_all(owner);
    }
    ls_error error = *ls_error_last();
    atomic_store(&owner->failing, true);
    (void)end_all(owner);
    return ls_error__set(error.file, error.line, error.code, error.rank, "%s", error.text);
}

int ls_nccl__on_all_watched(nccl_owner *owner, int (*job)(nccl_worker *worker, void *arg),
                            int (*watch)(void *arg), void *watch_arg) {
    (void)pthread_mutex_lock(&owner->jobs);
    begin_all(owner, job, NULL, 0);
    int status = watched(owner, watch, watch_arg);
    (void)pthread_mutex_unlock(&owner->jobs);
    return status;
}

// ---- Aborting -----------------------------------------------------------------------------------
static void abort_list(const nccl_worker *worker, nccl_comm *list) {
    for (nccl_comm *comm = list; comm != NULL; comm = comm->next) {
        ncclComm_t handle = comm->borrowed ? NULL : comm->handles[worker->index];
        if (handle != NULL) {
            (void)worker->owner->library->ncclCommAbort(handle);
            comm->handles[worker->index] = NULL;
        }
    }
}

static int abort_job(nccl_worker *worker, void *arg) {
    (void)arg;
    const nccl_owner *owner = worker->owner;
    abort_list(worker, owner->comms);
    abort_list(worker, owner->kept_comms);
    if (worker->world != NULL) {
        (void)owner->library->ncclCommAbort(worker->world);
        worker->world = NULL;
    }
    return LS_OK;
}

// Ends what is under way on every GPU. The error of this thread stays.
void ls_nccl__abort(nccl_owner *owner) {
    ls_error error = *ls_error_last();
    owner->broken = true;
    (void)ls_nccl__on_all(owner, abort_job, NULL, 0);
    (void)ls_error__set(error.file, error.line, error.code, error.rank, "%s", error.text);
}
