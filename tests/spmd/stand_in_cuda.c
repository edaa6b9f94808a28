// A stand-in for CUDA's runtime: with the one for NCCL (stand_in_nccl.c) it tests the NCCL backend,
// except the GPUs, on machines without any. A few "GPUs", whose memory the host cannot access, and
// streams that advance when they are queried. Compiled into a program together with the backend.
#define _GNU_SOURCE  // memfd_create
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sched.h>
#include <unistd.h>

#include "stand_in.h"

// ---- Memory -------------------------------------------------------------------------------------
// Each allocation is mapped twice: at the program's address without access, and at the stand-in's
// address for reads and writes.
typedef struct block {
    struct block *next;
    char *device, *real;
    size_t bytes;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;

cudaError_t cudaMalloc(void **out, size_t bytes) {
    block *made = calloc(1, sizeof *made);
    int file = memfd_create("device", 0);
    made->bytes = (bytes + 4095) / 4096 * 4096 + 4096;
    if (file < 0 || ftruncate(file, (off_t)made->bytes) != 0) {
        free(made);
        return cudaErrorMemoryAllocation;
    }
    made->device = mmap(NULL, made->bytes, PROT_NONE, MAP_SHARED, file, 0);
    made->real = mmap(NULL, made->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    (void)pthread_mutex_lock(&lock);
    made->next = blocks;
    blocks = made;
    (void)pthread_mutex_unlock(&lock);
    *out = made->device;
    return cudaSuccess;
}

static block *find_block(const void *pointer) {
    block *at = blocks;
    while (at != NULL && ((const char *)pointer < at->device ||
                          (const char *)pointer >= at->device + at->bytes)) {
        at = at->next;
    }
    return at;
}

void *stand_in_real(const void *pointer) {
    (void)pthread_mutex_lock(&lock);
    const block *found = find_block(pointer);
    char *at = (char *)(uintptr_t)pointer;
    at = found != NULL ? found->real + (at - found->device) : at;
    (void)pthread_mutex_unlock(&lock);
    return at;
}

cudaError_t cudaFree(void *pointer) {
    (void)pthread_mutex_lock(&lock);
    for (block **at = &blocks; *at != NULL; at = &(*at)->next) {
        if ((*at)->device == pointer) {
            block *gone = *at;
            *at = gone->next;
            (void)munmap(gone->device, gone->bytes);
            (void)munmap(gone->real, gone->bytes);
            free(gone);
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer) {
    (void)pthread_mutex_lock(&lock);
    out->type = find_block(pointer) != NULL ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    (void)pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    memmove(stand_in_real(to), stand_in_real(from), bytes);
    return cudaSuccess;
}

// ---- Device state -------------------------------------------------------------------------------
cudaError_t cudaGetDeviceCount(int *count) {
    const char *given = getenv("STAND_IN_GPUS");
    *count = given != NULL ? (int)strtol(given, NULL, 10) : STAND_IN_GPUS;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

static _Thread_local int own_device;

cudaError_t cudaSetDevice(int device) {
    int count = 0;
    own_device = device;
    (void)cudaGetDeviceCount(&count);
    return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDevice(int *device) {
    *device = own_device;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess ? "no error" : "an error of the stand-in";
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

// cudaGetDeviceProperties has another name in the library.
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
    (void)device;
    memset(out, 0, sizeof *out);
    memcpy(out->name, "stand-in", sizeof "stand-in");
    return cudaSuccess;
}

// Nothing here takes time.
cudaError_t cudaEventCreate(cudaEvent_t *out) {
    *out = NULL;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    (void)event, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    (void)start, (void)end;
    *milliseconds = 1;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    (void)event;
    return cudaSuccess;
}

// ---- Streams ------------------------------------------------------------------------------------
typedef struct item {
    struct item *next;
    operation *operations;
} item;

struct CUstream_st {
    item *first, *last;
};

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    (void)flags;
    *out = calloc(1, sizeof **out);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    while (stream->first != NULL) {
        item *now_on = stream->first;
        bool done = true;
        for (operation *o = now_on->operations; o != NULL; o = o->next) {
            o->done = o->done || o->advance(o);
            done = done && o->done;
        }
        if (!done) {
            return cudaErrorNotReady;
        }
        stream->first = now_on->next;
        stream->last = stream->first == NULL ? NULL : stream->last;
        while (now_on->operations != NULL) {
            operation *next = now_on->operations->next;
            free(now_on->operations);
            now_on->operations = next;
        }
        free(now_on);
    }
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        (void)sched_yield();
    }
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    free(stream);
    return cudaSuccess;
}

void stand_in_push(cudaStream_t stream, operation *operations) {
    item *made = calloc(1, sizeof *made);
    made->operations = operations;
    if (stream->last != NULL) {
        stream->last->next = made;
    } else {
        stream->first = made;
    }
    stream->last = made;
}

static bool copy(operation *o) {
    memmove(stand_in_real(o->recv), stand_in_real(o->send), o->bytes);
    return true;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)kind;
    operation *made = calloc(1, sizeof *made);
    *made = (operation){.advance = copy, .send = from, .recv = to, .bytes = bytes};
    stand_in_push(stream, made);
    return cudaSuccess;
}
