// CUDA's driver behind the front: copies to and from shared memory, and words in it that a stream
// writes or waits for. Found by its name at run time, so that neither it nor CUDA's headers are
// needed to build.
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "exec/front.h"

typedef uint64_t address;  // CUdeviceptr

static struct {
    int (*init)(unsigned);
    int (*context)(void **);
    int (*set_context)(void *);
    int (*retain)(void **, int);
    int (*device)(int *);
    int (*host_register)(void *, size_t, unsigned);
    int (*device_pointer)(address *, void *, unsigned);
    int (*copy_async)(address, address, size_t, void *);
    int (*copy)(address, address, size_t);
    int (*write)(void *, address, uint32_t, unsigned);
    int (*wait)(void *, address, uint32_t, unsigned);
    int (*capturing)(void *, int *);
    int (*alloc)(address *, size_t);
    int (*free)(address);
    int (*left)(size_t *, size_t *);
    int (*handle)(void *, address);
} driver;

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static bool opened;

#define REGISTER_PORTABLE_MAPPED 3u  // CU_MEMHOSTREGISTER_PORTABLE | _DEVICEMAP
#define WAIT_AT_LEAST            0u  // CU_STREAM_WAIT_VALUE_GEQ

static bool find(void *out, void *library, const char *name, const char *older) {
    void *symbol = dlsym(library, name);
    symbol = symbol == NULL && older != NULL ? dlsym(library, older) : symbol;
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

static ncclResult_t load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        return ls_front__fail(ncclUnhandledCudaError, "CUDA's driver cannot be loaded: %s",
                              dlerror());
    }
    bool all = find(&driver.init, library, "cuInit", NULL) &&
               find(&driver.context, library, "cuCtxGetCurrent", NULL) &&
               find(&driver.set_context, library, "cuCtxSetCurrent", NULL) &&
               find(&driver.retain, library, "cuDevicePrimaryCtxRetain", NULL) &&
               find(&driver.device, library, "cuCtxGetDevice", NULL) &&
               find(&driver.host_register, library, "cuMemHostRegister_v2", NULL) &&
               find(&driver.device_pointer, library, "cuMemHostGetDevicePointer_v2", NULL) &&
               find(&driver.copy_async, library, "cuMemcpyAsync", NULL) &&
               find(&driver.copy, library, "cuMemcpy", NULL) &&
               find(&driver.write, library, "cuStreamWriteValue32_v2", "cuStreamWriteValue32") &&
               find(&driver.wait, library, "cuStreamWaitValue32_v2", "cuStreamWaitValue32") &&
               find(&driver.capturing, library, "cuStreamIsCapturing", NULL) &&
               find(&driver.alloc, library, "cuMemAlloc_v2", NULL) &&
               find(&driver.free, library, "cuMemFree_v2", NULL) &&
               find(&driver.left, library, "cuMemGetInfo_v2", NULL) &&
               find(&driver.handle, library, "cuIpcGetMemHandle", NULL);
    if (!all || driver.init(0) != 0) {
        return ls_front__fail(ncclUnhandledCudaError, all ? "CUDA's driver does not start"
                                                          : "CUDA's driver is older than 11.7");
    }
    return ncclSuccess;
}

ncclResult_t ls_cuda__open(void) {
    (void)pthread_mutex_lock(&opening);
    ncclResult_t result = opened ? ncclSuccess : load();
    opened = result == ncclSuccess;
    (void)pthread_mutex_unlock(&opening);
    return result;
}

static ncclResult_t said(int error, const char *what) {
    return error == 0 ? ncclSuccess
                      : ls_front__fail(ncclUnhandledCudaError, "CUDA's driver: %s gives error %d",
                                       what, error);
}

ncclResult_t ls_cuda__device(int *device) {
    void *context = NULL;
    ncclResult_t result = ls_cuda__open();
    if (result == ncclSuccess) {
        result = said(driver.context(&context), "cuCtxGetCurrent");
    }
    if (result == ncclSuccess && context == NULL) {
        result = said(driver.retain(&context, 0), "cuDevicePrimaryCtxRetain");
        result =
            result == ncclSuccess ? said(driver.set_context(context), "cuCtxSetCurrent") : result;
    }
    return result == ncclSuccess ? said(driver.device(device), "cuCtxGetDevice") : result;
}

ncclResult_t ls_cuda__use(int device) {
    void *context = NULL;
    ncclResult_t result = ls_cuda__open();
    if (result == ncclSuccess) {
        result = said(driver.retain(&context, device), "cuDevicePrimaryCtxRetain");
    }
    return result == ncclSuccess ? said(driver.set_context(context), "cuCtxSetCurrent") : result;
}

int ls_cuda__register(void *arg, void *at, size_t bytes) {
    (void)arg;
    return driver.host_register(at, bytes, REGISTER_PORTABLE_MAPPED) == 0
               ? LS_OK
               : LS_FAIL(LS_ERR_RESOURCE, "cannot register %zu bytes of shared memory with the GPU",
                         bytes);
}

ncclResult_t ls_cuda__copy(void *to, const void *from, size_t bytes, cudaStream_t stream) {
    return bytes == 0 ? ncclSuccess
                      : said(driver.copy_async((address)(uintptr_t)to, (address)(uintptr_t)from,
                                               bytes, stream),
                             "cuMemcpyAsync");
}

ncclResult_t ls_cuda__read(void *to, const void *from, size_t bytes) {
    return said(driver.copy((address)(uintptr_t)to, (address)(uintptr_t)from, bytes), "cuMemcpy");
}

ncclResult_t ls_cuda__write(uint32_t *at, uint32_t value, cudaStream_t stream) {
    address word = 0;
    ncclResult_t result = said(driver.device_pointer(&word, at, 0), "cuMemHostGetDevicePointer");
    return result == ncclSuccess
               ? said(driver.write(stream, word, value, 0), "cuStreamWriteValue32")
               : result;
}

ncclResult_t ls_cuda__wait(uint32_t *at, uint32_t value, cudaStream_t stream) {
    address word = 0;
    ncclResult_t result = said(driver.device_pointer(&word, at, 0), "cuMemHostGetDevicePointer");
    return result == ncclSuccess
               ? said(driver.wait(stream, word, value, WAIT_AT_LEAST), "cuStreamWaitValue32")
               : result;
}

ncclResult_t ls_cuda__capturing(bool *out, cudaStream_t stream) {
    int state = 0;
    ncclResult_t result = said(driver.capturing(stream, &state), "cuStreamIsCapturing");
    *out = state != 0;
    return result;
}

ncclResult_t ls_cuda__alloc(void **out, size_t bytes) {
    address made = 0;
    int device = 0;
    ncclResult_t result = ls_cuda__device(&device);
    result = result == ncclSuccess ? said(driver.alloc(&made, bytes), "cuMemAlloc") : result;
    *out = (void *)(uintptr_t)made;
    return result;
}

ncclResult_t ls_cuda__free(void *at) {
    return at != NULL ? said(driver.free((address)(uintptr_t)at), "cuMemFree") : ncclSuccess;
}

ncclResult_t ls_cuda__lives(void) {
    size_t left = 0, all = 0;
    return said(driver.left(&left, &all), "cuMemGetInfo");
}

// Staging takes at most a sixteenth of a GPU's memory, and of what is free a quarter: the GPU is
// the program's, and other ranks may be on it.
int ls_cuda__stage(void **out, void *handle, size_t bytes) {
    static size_t staged;  // of the process
    size_t left = 0, all = 0;
    address made = 0;
    *out = NULL;
    size_t before = __atomic_fetch_add(&staged, bytes, __ATOMIC_RELAXED);
    bool fits = driver.left(&left, &all) == 0 && bytes <= left / 4 && before + bytes <= all / 16;
    if (fits && driver.alloc(&made, bytes) == 0 && driver.handle(handle, made) == 0) {
        *out = (void *)(uintptr_t)made;
        return LS_OK;
    }
    (void)__atomic_fetch_sub(&staged, bytes, __ATOMIC_RELAXED);
    return LS_FAIL(LS_ERR_MEMORY,
                   "cannot allocate %zu bytes of GPU memory for staging; %zu are free", bytes,
                   left);
}
