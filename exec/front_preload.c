// The preloaded frontend's versions of functions of CUDA's runtime and of libc: as many devices as
// there are ranks on a machine that has fewer; a wait for a stream is reported, so that a hang is
// seen at once; and so is the end of a process. The functions in use are those behind ours.
#define _GNU_SOURCE  // RTLD_NEXT, on_exit
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/front.h"

#define NOT_READY 600  // cudaErrorNotReady
#define MISSING   35   // cudaErrorInsufficientDriver
#define WAIT_US   300  // shorter waits are not reported

static void *behind(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

// Declares `real`, the function behind that of this name, which is missing where it is not loaded.
#define BEHIND(name, parameters)                                                                   \
    static int(*real) parameters;                                                                  \
    if (real == NULL) {                                                                            \
        void *symbol = behind(name);                                                               \
        memcpy(&real, &symbol, sizeof symbol);                                                     \
    }                                                                                              \
    if (real == NULL) {                                                                            \
        return MISSING;                                                                            \
    }

// ---- Devices ------------------------------------------------------------------------------------
static _Thread_local int wanted_device = -1;  // in the program's numbering; -1: not set

static bool simulated(void) {
    const char *said = getenv(LS_WIRE_SIMULATED);
    return said != NULL && said[0] == '1';
}

// Streams that wait must not stand before those that they wait for in the GPU's queues. A program
// may want another number in its environment, and look at it (Megatron does): the driver, which
// reads it when it starts, finds ours.
static void set_queues(void) {
    static bool set;
    if (!set && simulated()) {
        (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
        set = true;
    }
}

static int count_real(int *count) {
    set_queues();
    BEHIND("cudaGetDeviceCount", (int *))
    return real(count);
}

// Ranks on this machine, each of which expects its own device.
static int ranks_here(void) {
    static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS", LS_WIRE_RANKS, NULL};
    for (int i = 0; simulated() && names[i] != NULL; i++) {
        const char *text = getenv(names[i]);
        long ranks = text != NULL ? strtol(text, NULL, 10) : 0;
        if (ranks > 0 && ranks < 65536) {
            return (int)ranks;
        }
    }
    return 0;
}

// Python's libraries ask the driver, too, by ways that nothing can stand in: there the devices are
// what they are, and LOCAL_RANK goes round those there are (see `begin`).
static bool is_python(void) {
    return dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL;
}

// How many there are, and 0: the program sees them as they are.
static int shared_devices(void) {
    static int known = -1;
    int there = 0;
    if (known < 0) {
        known = !is_python() && count_real(&there) == 0 && there > 0 && ranks_here() > there ? there
                                                                                             : 0;
    }
    return known;
}

static int real_device(int device) {
    int there = shared_devices();
    return there > 0 && device >= 0 ? device % there : device;
}

LS_NCCL_EXPORT cudaError_t cudaGetDeviceCount(int *count) {
    int error = count_real(count);
    if (error == 0 && shared_devices() > 0) {
        *count = ranks_here();
    }
    return error;
}

LS_NCCL_EXPORT cudaError_t cudaSetDevice(int device) {
    set_queues();
    BEHIND("cudaSetDevice", (int))
    int error = shared_devices() > 0 && device >= ranks_here() ? 101 : real(real_device(device));
    if (error == 101 && is_python() && ranks_here() > device) {
        static const char text[] =
            "lockstep exec: there are fewer GPUs than ranks: a program takes its device by "
            "LOCAL_RANK, which goes round them, or by its rank modulo their number\n";
        (void)!write(2, text, sizeof text - 1);
    }
    wanted_device = error == 0 ? device : wanted_device;
    return error;
}

LS_NCCL_EXPORT cudaError_t cudaGetDevice(int *device) {
    BEHIND("cudaGetDevice", (int *))
    int error = real(device);
    if (error == 0 && shared_devices() > 0 && wanted_device >= 0 &&
        real_device(wanted_device) == *device) {
        *device = wanted_device;
    }
    return error;
}

LS_NCCL_EXPORT cudaError_t cudaGetDeviceProperties_v2(void *out, int device) {
    BEHIND("cudaGetDeviceProperties_v2", (void *, int))
    return real(out, real_device(device));
}

LS_NCCL_EXPORT cudaError_t cudaGetDeviceProperties(void *out, int device) {
    BEHIND("cudaGetDeviceProperties", (void *, int))
    return real(out, real_device(device));
}

LS_NCCL_EXPORT cudaError_t cudaDeviceGetAttribute(int *out, int attribute, int device) {
    BEHIND("cudaDeviceGetAttribute", (int *, int, int))
    return real(out, attribute, real_device(device));
}

LS_NCCL_EXPORT cudaError_t cudaDeviceGetPCIBusId(char *out, int bytes, int device) {
    BEHIND("cudaDeviceGetPCIBusId", (char *, int, int))
    return real(out, bytes, real_device(device));
}

LS_NCCL_EXPORT cudaError_t cudaDeviceCanAccessPeer(int *out, int device, int peer) {
    BEHIND("cudaDeviceCanAccessPeer", (int *, int, int))
    if (shared_devices() > 0 && real_device(device) == real_device(peer)) {
        *out = 0;
        return 0;
    }
    return real(out, real_device(device), real_device(peer));
}

LS_NCCL_EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                               int from_device, size_t bytes, cudaStream_t stream) {
    BEHIND("cudaMemcpyPeerAsync", (void *, int, const void *, int, size_t, void *))
    return real(to, real_device(to_device), from, real_device(from_device), bytes, stream);
}

// Begins as the runtime's cudaPointerAttributes does.
typedef struct pointer_attributes {
    int type;
    int device;
} pointer_attributes;

LS_NCCL_EXPORT cudaError_t cudaPointerGetAttributes(pointer_attributes *out, const void *at) {
    BEHIND("cudaPointerGetAttributes", (void *, const void *))
    int error = real(out, at);
    if (error == 0 && shared_devices() > 0 && wanted_device >= 0 &&
        real_device(wanted_device) == out->device) {
        out->device = wanted_device;
    }
    return error;
}

ncclResult_t ls_front__get_device(int *device) {
    ncclResult_t result = ls_cuda__device(device);
    if (result == ncclSuccess && shared_devices() > 0 && wanted_device >= 0 &&
        real_device(wanted_device) == *device) {
        *device = wanted_device;
    }
    return result;
}

ncclResult_t ls_front__set_device(int device) {
    if (behind("cudaSetDevice") != NULL) {
        return cudaSetDevice(device) == 0
                   ? ncclSuccess
                   : ls_front__fail(ncclInvalidArgument, "there is no device %d", device);
    }
    return ls_cuda__use(device);
}

// ---- Waiting ------------------------------------------------------------------------------------
// Whether this thread's wait means that the rank waits: the first thread's, or that of one that
// makes calls.
static ls_client *waiter(void) {
    ls_client *client = ls_client_peek();
    bool counts = client != NULL && (ls_front__issued() || syscall(SYS_gettid) == getpid());
    return counts ? client : NULL;
}

void ls_front__tell_wait(bool begins) {
    ls_client *client = waiter();
    const ls_wire_wait wait = {.head = {LS_WIRE_WAIT, sizeof wait},
                               .slot = LS_WIRE_NONE,
                               .device = -1,
                               .all = 1,
                               .thread = ls_client_thread()};
    const ls_wire_resume resume = {.head = {LS_WIRE_RESUME, sizeof resume},
                                   .thread = ls_client_thread()};
    if (client != NULL) {
        (void)ls_client_send(client, begins ? (const void *)&wait : (const void *)&resume, -1);
    }
}

// Waits for `at` with `wait`, after `query` has reported for a while that it is not ready.
static int wait_behind(int (*query)(void *), int (*wait)(void *), void *at) {
    ls_client *client = waiter();
    if (wait == NULL) {
        return MISSING;
    }
    if (client == NULL) {
        return wait(at);
    }
    for (double since = ls_time_now(); query != NULL && ls_time_now() - since < 1e-6 * WAIT_US;) {
        if (query(at) != NOT_READY) {
            return wait(at);
        }
    }
    ls_front__tell_wait(true);
    int error = wait(at);
    ls_front__tell_wait(false);
    return error;
}

typedef int (*handle_function)(void *);

static handle_function function_behind(const char *name) {
    void *symbol = behind(name);
    handle_function found = NULL;
    memcpy(&found, &symbol, sizeof found);
    return found;
}

LS_NCCL_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    static handle_function query, wait;
    query = query == NULL ? function_behind("cudaStreamQuery") : query;
    wait = wait == NULL ? function_behind("cudaStreamSynchronize") : wait;
    return wait_behind(query, wait, stream);
}

LS_NCCL_EXPORT cudaError_t cudaEventSynchronize(void *event) {
    static handle_function query, wait;
    query = query == NULL ? function_behind("cudaEventQuery") : query;
    wait = wait == NULL ? function_behind("cudaEventSynchronize") : wait;
    return wait_behind(query, wait, event);
}

static int synchronize_device(void *nothing) {
    (void)nothing;
    BEHIND("cudaDeviceSynchronize", (void))
    return real();
}

LS_NCCL_EXPORT cudaError_t cudaDeviceSynchronize(void) {
    static handle_function query;
    query = query == NULL ? function_behind("cudaStreamQuery") : query;
    return wait_behind(query, synchronize_device, NULL);
}

// ---- The end of the process ---------------------------------------------------------------------
static pid_t debugged;  // this process, if gdb has it

// gdb detaches from a rank that ends here: gdb 13 fails where several of its processes exit at
// once.
__attribute__((noinline, used)) static void ls_gdb_hook_leaves(int status) {
    __asm__ volatile("" ::"r"(status) : "memory");
}

static void bye(int status) {
    ls_client *client = ls_client_peek();
    if (client != NULL) {
        ls_client_on_end(client, NULL, NULL);
        ls_client_bye(client, status);
    }
    if (debugged == getpid()) {
        debugged = 0;
        ls_gdb_hook_leaves(status);
    }
}

static void on_end(int status, void *arg) {
    (void)arg;
    bye(status);
}

// Without a call of CUDA's, which would be the first of the process.
static int count_device_files(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;
    for (const char *at = visible; at != NULL && *at != 0; at += strcspn(at, ",")) {
        at += *at == ',' ? 1 : 0;
        count += 1;
    }
    for (int i = 0; visible == NULL && i < 64; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "/dev/nvidia%d", i);
        count += access(path, F_OK) == 0 ? 1 : 0;
    }
    return count;
}

static void share_devices(void) {
    const char *local = getenv("LOCAL_RANK");
    int there = count_device_files();
    long rank = local != NULL ? strtol(local, NULL, 10) : 0;
    if (simulated() && there > 0 && rank >= there && is_python()) {
        char text[16];
        (void)snprintf(text, sizeof text, "%ld", rank % there);
        (void)setenv("LOCAL_RANK", text, 1);
    }
}

// In gdb all ranks start before one runs its program.
static void wait_at_gate(void) {
    const char *gate = getenv(LS_WIRE_GATE);
    const int at = gate != NULL ? (int)strtol(gate, NULL, 10) : -1;
    char byte = 0;
    if (at < 0) {
        return;
    }
    (void)setenv(LS_WIRE_GATE, "-1", 1);
    if (send(at, &byte, 1, MSG_NOSIGNAL) == 1) {
        while (recv(at, &byte, 1, 0) < 0 && errno == EINTR) {
        }
        debugged = getpid();
    }
    (void)close(at);
}

__attribute__((constructor)) static void begin(void) {
    wait_at_gate();
    share_devices();
    (void)on_exit(on_end, NULL);
}

// Python's os._exit and multiprocessing's children come here.
LS_NCCL_EXPORT __attribute__((noreturn)) void _exit(int status) {
    bye(status);
    while (true) {
        (void)syscall(SYS_exit_group, status);
    }
}

LS_NCCL_EXPORT __attribute__((noreturn)) void _Exit(int status) {
    _exit(status);
}

static void end_here(int status, void *arg) {
    (void)arg;
    (void)fflush(NULL);
    _exit(status);
}

// For a rank that shares the memory of its imports with others, and has its own environment now.
// The destructors of libraries that were loaded before would write to, and so copy, that memory:
// handlers run in the opposite order of their registration, so the process ends before those.
LS_NCCL_EXPORT void ls_client_forked(void);
LS_NCCL_EXPORT void ls_client_forked(void) {
    share_devices();
    (void)on_exit(end_here, NULL);
}
