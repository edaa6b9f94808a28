// The connection of a process to the coordinator: one socket, one piece of memory with slots, and a
// thread that notices the coordinator's end.
#define _GNU_SOURCE  // memfd_create, futex
#include "exec/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "exec/client_internal.h"
#include "exec/site.h"
#include "process/descriptor.h"
#include "process/processes.h"

#define UNTOLD_NS 5000000

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static ls_client *opened;  // of this process

static int number_of(const char *const *names) {
    for (; *names != NULL; names++) {
        const char *text = getenv(*names);
        char *end = NULL;
        long value = text != NULL ? strtol(text, &end, 10) : -1;
        if (text != NULL && end != text && *end == 0 && value >= 0 && value <= INT_MAX) {
            return (int)value;
        }
    }
    return -1;
}

void ls_client_launched(int *rank, int *ranks) {
    static const char *const own[] = {LS_WIRE_RANK, "RANK",         "OMPI_COMM_WORLD_RANK",
                                      "PMI_RANK",   "SLURM_PROCID", NULL};
    static const char *const all[] = {LS_WIRE_RANKS, "WORLD_SIZE",   "OMPI_COMM_WORLD_SIZE",
                                      "PMI_SIZE",    "SLURM_NTASKS", NULL};
    *rank = number_of(own);
    *ranks = number_of(all);
    if (*rank < 0 || *ranks <= *rank) {
        *rank = *ranks = -1;
    }
}

// ---- Messages -----------------------------------------------------------------------------------
void ls_client_hold(ls_client *client) {
    (void)pthread_mutex_lock(&client->sending);
}

void ls_client_let_go(ls_client *client) {
    (void)pthread_mutex_unlock(&client->sending);
}

int ls_client_send(ls_client *client, const void *message, int descriptor) {
    const ls_wire_head *head = message;
    LS_ASSERT(head->bytes >= sizeof *head && head->bytes <= LS_WIRE_MESSAGE_MAX);
    if (ls_client_unobserved(client)) {
        return LS_OK;
    }
    ls_client_hold(client);
    ssize_t sent = 0;
    do {
        sent = ls_descriptor_send(client->socket, message, head->bytes, descriptor, 0);
    } while (sent < 0 && errno == EINTR);
    int error = errno;
    ls_client_let_go(client);
    return sent == (ssize_t)head->bytes
               ? LS_OK
               : LS_FAIL(LS_ERR_BACKEND, "the coordinator of lockstep exec does not answer: %s",
                         strerror(error));
}

// ---- Slots --------------------------------------------------------------------------------------
int ls_client_slot_take(uint32_t *out, ls_client *client) {
    (void)pthread_mutex_lock(&client->taking);
    bool any = client->free_count > 0;
    *out = any ? client->free[--client->free_count] : LS_WIRE_NONE;
    (void)pthread_mutex_unlock(&client->taking);
    if (!any) {
        return LS_FAIL(LS_ERR_LIMIT, "more than %u calls are under way", LS_WIRE_SLOTS);
    }
    memset(&client->control->slots[*out], 0, sizeof(ls_wire_slot));
    return LS_OK;
}

void ls_client_slot_give(ls_client *client, uint32_t slot) {
    (void)pthread_mutex_lock(&client->taking);
    client->free[client->free_count++] = slot;
    (void)pthread_mutex_unlock(&client->taking);
}

ls_wire_slot *ls_client_slot(ls_client *client, uint32_t slot) {
    LS_ASSERT(slot < LS_WIRE_SLOTS);
    return &client->control->slots[slot];
}

bool ls_client_failed(const ls_client *client, const char **why) {
    bool failed = __atomic_load_n(&client->control->failed, __ATOMIC_ACQUIRE) == 1;
    if (why != NULL) {
        *why = failed ? client->control->why : "";
    }
    return failed;
}

bool ls_client_unobserved(const ls_client *client) {
    return __atomic_load_n(&client->control->failed, __ATOMIC_ACQUIRE) == 2;
}

bool ls_client_done(ls_client *client, uint32_t slot) {
    return __atomic_load_n(&ls_client_slot(client, slot)->done, __ATOMIC_ACQUIRE) != 0;
}

// Until it is done, or the time is over.
static void sleep_on(ls_client *client, uint32_t slot, struct timespec most) {
    if (!ls_client_done(client, slot)) {
        (void)syscall(SYS_futex, &ls_client_slot(client, slot)->done, FUTEX_WAIT, 0, &most, NULL,
                      0);
    }
}

void ls_client_rest(ls_client *client, uint32_t slot) {
    sleep_on(client, slot, (struct timespec){.tv_sec = 1});
}

void ls_client_wake(ls_client *client, uint32_t slot) {
    (void)syscall(SYS_futex, &ls_client_slot(client, slot)->done, FUTEX_WAKE, INT_MAX, NULL, NULL,
                  0);
}

int ls_client_await(ls_client *client, uint32_t slot) {
    ls_wire_slot *at = ls_client_slot(client, slot);
    while (!ls_client_done(client, slot) && !ls_client_unobserved(client)) {
        ls_client_rest(client, slot);
    }
    if (__atomic_load_n(&at->done, __ATOMIC_ACQUIRE) == 1) {
        return LS_OK;
    }
    return LS_FAIL(at->status != LS_OK ? at->status : LS_ERR_BACKEND, "%s", client->control->why);
}

void ls_client_waits(ls_client *client, uint32_t slot) {
    const ls_wire_wait wait = {.head = {LS_WIRE_WAIT, sizeof wait},
                               .slot = slot,
                               .device = -1,
                               .thread = ls_client_thread()};
    (void)ls_client_send(client, &wait, -1);
}

void ls_client_resumes(ls_client *client) {
    const ls_wire_resume resume = {.head = {LS_WIRE_RESUME, sizeof resume},
                                   .thread = ls_client_thread()};
    (void)ls_client_send(client, &resume, -1);
}

int ls_client_wait(ls_client *client, uint32_t slot) {
    // A wait that is over at once is not worth the coordinator's time.
    sleep_on(client, slot, (struct timespec){.tv_nsec = UNTOLD_NS});
    bool waits = !ls_client_done(client, slot);
    if (waits) {
        ls_client_waits(client, slot);
    }
    int status = ls_client_await(client, slot);
    if (waits) {
        ls_client_resumes(client);
    }
    return status;
}

// ---- The coordinator's end ----------------------------------------------------------------------
// The one that waits for an answer has it.
static void fail_all(ls_client *client, uint32_t failed, const char *why) {
    ls_wire_control *control = client->control;
    if (__atomic_load_n(&control->failed, __ATOMIC_ACQUIRE) == 0) {
        size_t length = strlen(why);
        memcpy(control->why, why, length < LS_WIRE_WHY_BYTES ? length : LS_WIRE_WHY_BYTES - 1);
        __atomic_store_n(&control->failed, failed, __ATOMIC_RELEASE);
    }
    for (uint32_t i = 0; i < LS_WIRE_SLOTS; i++) {
        if (__atomic_load_n(&control->slots[i].done, __ATOMIC_ACQUIRE) == 0) {
            __atomic_store_n(&control->slots[i].done, 2u, __ATOMIC_RELEASE);
            ls_client_wake(client, i);
        }
    }
}

// The system call that the first thread sleeps in, and its first four arguments; -1: none is known.
static long first_call(unsigned long long arguments[4]) {
    char path[64], text[160] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", (long)getpid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) {
        (void)close(file);
    }
    long number = -1;
    int read = got > 0 ? sscanf(text, "%ld 0x%llx 0x%llx 0x%llx 0x%llx", &number, &arguments[0],
                                &arguments[1], &arguments[2], &arguments[3])
                       : 0;
    return read == 5 ? number : -1;
}

// Whether it sleeps on a lock without a time-out.
static bool waits_for_a_thread(long call, const unsigned long long arguments[4]) {
    return call == SYS_futex && arguments[3] == 0;
}

// Whether it continues automatically soon: it connects to a store that accepts or opens late. A
// thread that waits in a file store also sleeps between two reads.
static bool continues(long call, const unsigned long long arguments[4], bool connects) {
    const bool sleeps = call == SYS_nanosleep || call == SYS_clock_nanosleep;
    return call == SYS_connect || (call == SYS_poll && (int)arguments[2] >= 0) ||
           (connects && sleeps);
}

static void tell_place(ls_client *client) {
    ls_wire_place message = {.head = {LS_WIRE_PLACE, sizeof message}};
    ls_python_place place = {.connects = false};
    // First: the look below stops threads that want the interpreter.
    bool works = ls_process_has_work(getpid());
    unsigned long long arguments[4];
    const long call = first_call(arguments);
    message.waits =
        waits_for_a_thread(call, arguments) ? LS_WIRE_WAITS_A_THREAD : LS_WIRE_WAITS_NOT;
    if (ls_python_first(&place)) {
        message.waits = place.in_torch ? LS_WIRE_WAITS_RANKS : message.waits;
        message.line = place.line;
        size_t length = strnlen(place.file, sizeof message.file - 1);
        memcpy(message.file, place.file, length);
    }
    if (works || continues(call, arguments, place.connects)) {
        message.waits = place.connects ? LS_WIRE_WAITS_STORE : LS_WIRE_WAITS_NOT;
    }
    (void)ls_client_send(client, &message, -1);
}

void ls_client_interpreter_ends(const char *raised, const char *file, int line) {
    ls_client *client = raised != NULL ? ls_client_peek() : NULL;
    ls_python_close();
    if (client != NULL) {
        ls_wire_place message = {.head = {LS_WIRE_PLACE, sizeof message}};
        message.line = line;
        (void)snprintf(message.raised, sizeof message.raised, "%s", raised);
        (void)snprintf(message.file, sizeof message.file, "%s", file);
        (void)ls_client_send(client, &message, -1);
    }
}

static void *watch(void *arg) {
    ls_client *client = arg;
    while (true) {
        struct pollfd at = {.fd = client->socket, .events = POLLIN};
        char byte;
        ssize_t got = poll(&at, 1, -1) > 0 ? recv(client->socket, &byte, 1, MSG_DONTWAIT) : -1;
        if (got == 0) {
            break;
        }
        if (got == 1 && byte == LS_WIRE_ASK) {
            tell_place(client);
        }
    }
    const char *stays = getenv(LS_WIRE_STAYS);
    fail_all(client, stays != NULL && stays[0] == '1' ? 2 : 1,
             "the coordinator of lockstep exec has gone away");
    (void)pthread_mutex_lock(&client->taking);
    void (*ended)(void *) = client->ended;
    void *with = client->ended_arg;
    client->ended = NULL;
    (void)pthread_mutex_unlock(&client->taking);
    if (ended != NULL) {
        ended(with);
    }
    return NULL;
}

void ls_client_on_end(ls_client *client, void (*ended)(void *arg), void *arg) {
    (void)pthread_mutex_lock(&client->taking);
    client->ended = ended;
    client->ended_arg = arg;
    (void)pthread_mutex_unlock(&client->taking);
}

// ---- Opening ------------------------------------------------------------------------------------
static int connect_to(int *out, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length + 1 > sizeof address.sun_path) {
        return LS_FAIL(LS_ERR_INVALID, LS_WIRE_SOCKET " is not the name of a socket");
    }
    memcpy(address.sun_path + 1, name, length);  // an abstract name begins with a 0
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (made < 0 || connect(made, (const struct sockaddr *)&address, bytes) != 0) {
        int error = errno;
        if (made >= 0) {
            (void)close(made);
        }
        return LS_FAIL(LS_ERR_BACKEND, "the coordinator of lockstep exec cannot be reached: %s",
                       strerror(error));
    }
    *out = made;
    return LS_OK;
}

static int share(void **out, int *descriptor, size_t bytes) {
    int made = memfd_create("lockstep", MFD_CLOEXEC);
    void *at = MAP_FAILED;
    if (made >= 0 && posix_fallocate(made, 0, (off_t)bytes) == 0) {
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    }
    if (at == MAP_FAILED) {
        if (made >= 0) {
            (void)close(made);
        }
        return LS_FAIL(LS_ERR_MEMORY, "cannot allocate %zu bytes of shared memory", bytes);
    }
    (void)madvise(at, bytes, MADV_HUGEPAGE);  // where the system has them for shared memory
    *out = at;
    *descriptor = made;
    return LS_OK;
}

// The answer to the greeting, with the job's memory.
static int take_welcome(ls_client *client) {
    char said = 0;
    int file = -1;
    ssize_t got = 0;
    do {
        got = ls_descriptor_receive(client->socket, &said, 1, &file, 0);
    } while (got < 0 && errno == EINTR);
    if (got != 1 || said != LS_WIRE_WELCOME || file < 0) {
        return LS_FAIL(LS_ERR_BACKEND, "the coordinator of lockstep exec does not answer");
    }
    return ls_exec_memory__open(&client->memory, file);
}

static int say_hello(ls_client *client) {
    void *memory = NULL;
    int descriptor = -1;
    LS_TRY(share(&memory, &descriptor, sizeof(ls_wire_control)));
    client->control = memory;
    client->control->version = LS_WIRE_VERSION;
    for (uint32_t i = 0; i < LS_WIRE_SLOTS; i++) {
        client->free[i] = LS_WIRE_SLOTS - 1 - i;
    }
    client->free_count = LS_WIRE_SLOTS;
    ls_wire_hello hello = {.head = {LS_WIRE_HELLO, sizeof hello},
                           .version = LS_WIRE_VERSION,
                           .pid = (int32_t)getpid()};
    int rank = -1, ranks = -1;
    ls_client_launched(&rank, &ranks);
    // set by pytest, the second name since its version 8.2.
    hello.session = getenv("PYTEST_CURRENT_TEST") != NULL || getenv("PYTEST_VERSION") != NULL;
    hello.rank = rank;
    hello.ranks = ranks;
    static const char *const count[] = {"TORCHELASTIC_RESTART_COUNT", NULL};
    static const char *const most[] = {"TORCHELASTIC_MAX_RESTARTS", NULL};
    int attempt = number_of(count), last = number_of(most);
    hello.attempt = attempt > 0 ? attempt : 0;
    hello.last_attempt = last > 0 ? last : 0;
    int status = ls_client_send(client, &hello, descriptor);
    (void)close(descriptor);
    return status == LS_OK ? take_welcome(client) : status;
}

// The thread leaves all signals to the program's own.
static int start_watching(ls_client *client) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, watch, client);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "no thread: %s", strerror(failed));
    }
    (void)pthread_detach(thread);
    return LS_OK;
}

static int open_client(ls_client **out) {
    const char *name = getenv(LS_WIRE_SOCKET);
    if (name == NULL) {
        return LS_FAIL(LS_ERR_BACKEND,
                       "the process was not started by lockstep exec: " LS_WIRE_SOCKET
                       " is not in its environment");
    }
    ls_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for a connection");
    }
    client->pid = getpid();
    pthread_mutexattr_t nested;
    (void)pthread_mutexattr_init(&nested);
    (void)pthread_mutexattr_settype(&nested, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&client->sending, &nested);
    (void)pthread_mutex_init(&client->taking, NULL);
    (void)pthread_mutexattr_destroy(&nested);
    int status = connect_to(&client->socket, name);
    status = status == LS_OK ? say_hello(client) : status;
    status = status == LS_OK ? start_watching(client) : status;
    if (status != LS_OK) {
        free(client);  // its other memory ends with the process, which cannot continue
        return status;
    }
    *out = client;
    return LS_OK;
}

ls_client *ls_client_get(void) {
    (void)pthread_mutex_lock(&opening);
    if (opened == NULL || opened->pid != getpid()) {
        ls_client *made = NULL;
        opened = open_client(&made) == LS_OK ? made : NULL;
    }
    ls_client *client = opened;
    (void)pthread_mutex_unlock(&opening);
    return client;
}

ls_client *ls_client_peek(void) {
    return opened != NULL && opened->pid == getpid() ? opened : NULL;
}

uint32_t ls_client_comm_number(ls_client *client) {
    return __atomic_fetch_add(&client->comms, 1u, __ATOMIC_RELAXED);
}

uint32_t ls_client_thread(void) {
    static _Thread_local uint32_t known;
    char name[16] = "";
    if (known == 0) {
        (void)prctl(PR_GET_NAME, name);
        bool autograd = strncmp(name, "pt_autograd", strlen("pt_autograd")) == 0;
        known = (uint32_t)(autograd ? getpid() : syscall(SYS_gettid));
    }
    return known;
}

void ls_client_bye(ls_client *client, int status) {
    const ls_wire_bye bye = {.head = {LS_WIRE_BYE, sizeof bye}, .status = status};
    (void)ls_client_send(client, &bye, -1);
}
