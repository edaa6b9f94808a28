// A stand-in for CUDA's driver and runtime in one library, for programs that compute on the host.
// Streams are threads, so queued work waits and continues as on a GPU. The host cannot access the
// memory of the "GPU".
#define _GNU_SOURCE  // memfd_create
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/cuda/fake_device.h"

#define EXPORT        __attribute__((visibility("default")))
#define NOT_READY     600
#define NO_DEVICE     101
#define LAUNCH_FAILED 719
#define KIND_COPY     0
#define KIND_WRITE    1
#define KIND_WAIT     2
#define KIND_SLEEP    3

// ---- Memory -------------------------------------------------------------------------------------
// Mapped twice: at the program's address without access, and at the stand-in's address.
typedef struct block {
    struct block *next;
    char *device, *real;
    size_t bytes;
    int file;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;

EXPORT int cudaMalloc(void **out, size_t bytes) {
    block *made = calloc(1, sizeof *made);
    int file = memfd_create("device", 0);
    made->bytes = (bytes + 4095) / 4096 * 4096 + 4096;
    if (file < 0 || ftruncate(file, (off_t)made->bytes) != 0) {
        free(made);
        return 2;
    }
    made->device = mmap(NULL, made->bytes, PROT_NONE, MAP_SHARED, file, 0);
    made->real = mmap(NULL, made->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    made->file = file;  // other processes open it
    (void)pthread_mutex_lock(&lock);
    made->next = blocks;
    blocks = made;
    (void)pthread_mutex_unlock(&lock);
    *out = made->device;
    return 0;
}

static void *real(const void *pointer) {
    char *at = (char *)(uintptr_t)pointer;
    (void)pthread_mutex_lock(&lock);
    for (const block *b = blocks; b != NULL; b = b->next) {
        if (at >= b->device && at < b->device + b->bytes) {
            at = b->real + (at - b->device);
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return at;
}

EXPORT int cudaFree(void *pointer) {
    (void)pointer;  // small programs end soon
    return 0;
}

EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
    void *made = NULL;
    int error = cudaMalloc(&made, bytes);
    *out = (uint64_t)(uintptr_t)made;
    return error;
}

EXPORT int cuMemFree_v2(uint64_t at) {
    (void)at;
    return 0;
}

// Like a fault on a GPU: queued work never completes.
static int broken;

EXPORT void stand_in_break(void) {
    __atomic_store_n(&broken, 1, __ATOMIC_RELEASE);
}

EXPORT int cuMemGetInfo_v2(size_t *left, size_t *all) {
    const char *text = getenv("STAND_IN_GPU_BYTES");
    const char *full = getenv("STAND_IN_FULL_RANK"), *own = getenv("RANK");
    *left = *all = text != NULL ? (size_t)strtoll(text, NULL, 10) : (size_t)16 << 30;
    if (__atomic_load_n(&broken, __ATOMIC_ACQUIRE) != 0) {
        return LAUNCH_FAILED;
    }
    *left = full != NULL && own != NULL && strcmp(full, own) == 0 ? 0 : *left;
    return 0;
}

// What tests/cuda/fake_device.c opens.
EXPORT int cuIpcGetMemHandle(void *out, uint64_t at) {
    fake_handle made = {.pid = (int32_t)getpid(), .file = -1};
    (void)pthread_mutex_lock(&lock);
    for (const block *b = blocks; b != NULL; b = b->next) {
        if ((char *)(uintptr_t)at == b->device) {
            made.file = b->file;
            made.bytes = b->bytes;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    memcpy(out, &made, sizeof made);
    return made.file >= 0 ? 0 : 1;
}

EXPORT int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    (void)at;
    return bytes > 0 && flags == 3 ? 0 : 1;
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *out, void *at, unsigned flags) {
    *out = (uint64_t)(uintptr_t)at;
    return flags == 0 ? 0 : 1;
}

// ---- Devices ------------------------------------------------------------------------------------
static _Thread_local int device = -1;

static int devices(void) {
    const char *text = getenv("STAND_IN_GPUS");
    return text != NULL ? (int)strtol(text, NULL, 10) : 1;
}

EXPORT int cudaGetDeviceCount(int *count) {
    *count = devices();
    return 0;
}

// The device's identity is its number.
static int tell_device(int *out, int which) {
    *out = which;
    return which >= 0 && which < devices() ? 0 : NO_DEVICE;
}

EXPORT int cudaGetDeviceProperties(void *out, int which) {
    return tell_device(out, which);
}

EXPORT int cudaGetDeviceProperties_v2(void *out, int which) {
    return tell_device(out, which);
}

EXPORT int cudaDeviceGetAttribute(int *out, int attribute, int which) {
    return attribute == 1 ? tell_device(out, which) : NO_DEVICE;
}

EXPORT int cudaDeviceGetPCIBusId(char *out, int bytes, int which) {
    (void)snprintf(out, (size_t)bytes, "%d", which);
    return tell_device(&which, which);
}

EXPORT int cudaDeviceCanAccessPeer(int *out, int which, int peer) {
    *out = which != peer;
    return which < devices() && peer < devices() ? 0 : NO_DEVICE;
}

EXPORT int cudaSetDevice(int wanted) {
    if (wanted < 0 || wanted >= devices()) {
        return NO_DEVICE;
    }
    device = wanted;
    return 0;
}

EXPORT int cudaGetDevice(int *out) {
    *out = device < 0 ? 0 : device;
    return 0;
}

EXPORT int cuInit(unsigned flags) {
    return (int)flags;
}

EXPORT int cuCtxGetCurrent(void **out) {
    *out = device < 0 ? NULL : (void *)(uintptr_t)(device + 1);
    return 0;
}

EXPORT int cuCtxSetCurrent(void *context) {
    device = (int)(uintptr_t)context - 1;
    return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **out, int wanted) {
    *out = (void *)(uintptr_t)(wanted + 1);
    return wanted >= 0 && wanted < devices() ? 0 : NO_DEVICE;
}

EXPORT int cuCtxGetDevice(int *out) {
    *out = device;
    return device < 0 ? 201 : 0;
}

// ---- Streams ------------------------------------------------------------------------------------
typedef struct work {
    struct work *next;
    int kind;
    void *to;
    const void *from;
    size_t bytes;
    uint32_t value;
} work;

typedef struct stream {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    work *first, *last;
    int left;  // including the current one
    int capturing;
} stream;

static stream *of_default(void);

static void nap(long microseconds) {
    (void)nanosleep(&(struct timespec){.tv_sec = microseconds / 1000000,
                                       .tv_nsec = microseconds % 1000000 * 1000},
                    NULL);
}

static void do_work(const work *w) {
    uint32_t *word = w->to;
    long pause = 20;
    switch (w->kind) {
    case KIND_COPY:
        memmove(real(w->to), real(w->from), w->bytes);
        break;
    case KIND_WRITE:
        __atomic_store_n(word, w->value, __ATOMIC_RELEASE);
        break;
    case KIND_WAIT:
        while ((int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - w->value) < 0) {
            nap(pause);
            pause += pause < 20000 ? pause / 8 : 0;  // a GPU takes no time of the processor
        }
        break;
    default:
        nap((long)w->value);
        break;
    }
}

static void *run(void *arg) {
    stream *s = arg;
    (void)pthread_mutex_lock(&s->mutex);
    while (1) {
        while (s->first == NULL || __atomic_load_n(&broken, __ATOMIC_ACQUIRE) != 0) {
            (void)pthread_cond_wait(&s->changed, &s->mutex);
        }
        work *w = s->first;
        s->first = w->next;
        s->last = s->first == NULL ? NULL : s->last;
        (void)pthread_mutex_unlock(&s->mutex);
        do_work(w);
        free(w);
        (void)pthread_mutex_lock(&s->mutex);
        s->left -= 1;
        (void)pthread_cond_broadcast(&s->changed);
    }
    return NULL;
}

EXPORT int cudaStreamCreate(void **out) {
    stream *s = calloc(1, sizeof *s);
    pthread_t thread;
    (void)pthread_mutex_init(&s->mutex, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    *out = s;
    int failed = pthread_create(&thread, NULL, run, s);
    return failed == 0 ? pthread_detach(thread) : failed;
}

static stream *of_default(void) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static void *made;
    (void)pthread_mutex_lock(&once);
    if (made == NULL) {
        (void)cudaStreamCreate(&made);
    }
    (void)pthread_mutex_unlock(&once);
    return made;
}

static int push(void *at, work what) {
    stream *s = at != NULL ? at : of_default();
    work *w = malloc(sizeof *w);
    *w = what;
    (void)pthread_mutex_lock(&s->mutex);
    if (s->last != NULL) {
        s->last->next = w;
    } else {
        s->first = w;
    }
    s->last = w;
    s->left += 1;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->mutex);
    return 0;
}

EXPORT int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *at) {
    return push(at, (work){.kind = KIND_COPY,
                           .to = (void *)(uintptr_t)to,
                           .from = (const void *)(uintptr_t)from,
                           .bytes = bytes});
}

EXPORT int cuMemcpy(uint64_t to, uint64_t from, size_t bytes) {
    memmove(real((void *)(uintptr_t)to), real((void *)(uintptr_t)from), bytes);
    return 0;
}

EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    (void)kind;
    return cuMemcpy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes);
}

EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *at) {
    (void)kind;
    return cuMemcpyAsync((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, at);
}

EXPORT int cuStreamWriteValue32_v2(void *at, uint64_t word, uint32_t value, unsigned flags) {
    (void)flags;
    return push(at, (work){.kind = KIND_WRITE, .to = (void *)(uintptr_t)word, .value = value});
}

EXPORT int cuStreamWaitValue32_v2(void *at, uint64_t word, uint32_t value, unsigned flags) {
    (void)flags;
    return push(at, (work){.kind = KIND_WAIT, .to = (void *)(uintptr_t)word, .value = value});
}

// A kernel that runs for a given time.
EXPORT int stand_in_kernel(uint32_t microseconds, void *at) {
    return push(at, (work){.kind = KIND_SLEEP, .value = microseconds});
}

EXPORT int stand_in_capture(int capturing, void *at) {
    stream *s = at;
    s->capturing = capturing;
    return 0;
}

EXPORT int cuStreamIsCapturing(void *at, int *out) {
    *out = at != NULL ? ((stream *)at)->capturing : 0;
    return 0;
}

EXPORT int cudaStreamQuery(void *at) {
    stream *s = at != NULL ? at : of_default();
    (void)pthread_mutex_lock(&s->mutex);
    int left = s->left;
    (void)pthread_mutex_unlock(&s->mutex);
    return left > 0 ? NOT_READY : 0;
}

EXPORT int cudaStreamSynchronize(void *at) {
    stream *s = at != NULL ? at : of_default();
    (void)pthread_mutex_lock(&s->mutex);
    while (s->left > 0) {
        (void)pthread_cond_wait(&s->changed, &s->mutex);
    }
    (void)pthread_mutex_unlock(&s->mutex);
    return 0;
}
