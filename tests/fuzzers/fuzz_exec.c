// Messages of processes to the coordinator of `lockstep exec`. The bytes are a sequence of events.
// The head of each has 4 bytes: the process (bits 0-1); the event (2-3): it sends, sends a
// descriptor, its stream progresses, or it ends; the type of the message or the slot; and the
// length of the rest.
#define _GNU_SOURCE  // memfd_create
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/internal.h"
#include "fuzzers.h"

#define PROCESSES    3
#define MEMORY_BYTES ((size_t)1 << 18)  // of the job, that calls may name

enum { SENDS, SENDS_MEMORY, ARRIVES, ENDS };

static int ends[PROCESSES];  // of the sockets, the processes' own

// A descriptor of a file of this size, all zero.
static int memory_of(size_t bytes) {
    int made = memfd_create("fuzzed", MFD_CLOEXEC);
    if (made < 0 || ftruncate(made, (off_t)bytes) != 0) {
        abort();
    }
    return made;
}

static ls_exec_process *add_process(ls_exec *exec, int number) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        abort();
    }
    ls_exec_process *made = calloc(1, sizeof *made);
    LS_ASSERT(made != NULL);
    *made = (ls_exec_process){.next = exec->processes,
                              .socket = pair[0],
                              .watch = -1,
                              .pid = INT_MAX - number,
                              .own = true,
                              .rank = -1,
                              .ranks = -1};
    ends[number] = pair[1];
    exec->processes = made;
    exec->process_count += 1;
    return made;
}

// The fuzzer chooses the fields after the head and their length.
static void send_message(int to, uint32_t type, const uint8_t *data, size_t bytes, bool memory) {
    static _Alignas(16) char message[sizeof(ls_wire_head) + UINT16_MAX];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    ls_wire_head head = {.type = type, .bytes = (uint32_t)(sizeof head + bytes)};
    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, data, bytes);
    struct iovec part = {.iov_base = message, .iov_len = sizeof head + bytes};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    int descriptor = -1;
    if (memory) {
        descriptor = memory_of(sizeof(ls_wire_control));
        packet.msg_control = control.bytes;
        packet.msg_controllen = sizeof control.bytes;
        struct cmsghdr *with = CMSG_FIRSTHDR(&packet);
        *with = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                 .cmsg_type = SCM_RIGHTS,
                                 .cmsg_len = CMSG_LEN(sizeof descriptor)};
        memcpy(CMSG_DATA(with), &descriptor, sizeof descriptor);
    }
    (void)sendmsg(to, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
}

// One turn of the coordinator's loop; false: the run is over.
static bool turn(ls_exec *exec, ls_exec_process *said) {
    if (said->socket >= 0 && ls_exec__read(exec, said) != LS_OK) {
        return false;
    }
    (void)ls_exec__advance(exec);
    for (ls_exec_process *p = exec->processes; p != NULL && exec->run != NULL; p = p->next) {
        if (ls_exec__waits(p) && !p->gone) {
            ls_exec__wait(exec, p);
        }
    }
    ls_exec__judge(exec, 0);
    return !exec->no_memory && (exec->run == NULL || ls_remote_status(exec->run, NULL) == LS_OK);
}

static void play(ls_exec *exec, ls_exec_process *const *processes, const uint8_t *data,
                 size_t bytes) {
    while (bytes >= 4) {
        int number = data[0] & 3, what = data[0] >> 2 & 3;
        size_t length = what <= SENDS_MEMORY ? data[2] + 256u * data[3] : 0;
        uint8_t which = data[1];
        data += 4;
        bytes -= 4;
        length = length < bytes ? length : bytes;
        ls_exec_process *process = processes[number % PROCESSES];
        if (what <= SENDS_MEMORY && process->socket >= 0) {
            send_message(ends[number % PROCESSES], which, data, length, what == SENDS_MEMORY);
        } else if (what == ARRIVES && process->control != NULL) {
            __atomic_store_n(&process->control->slots[which].arrived, 1u, __ATOMIC_RELEASE);
        } else if (what == ENDS && !process->gone) {
            (void)ls_exec__ended(exec, process);
        }
        data += length;
        bytes -= length;
        if (!turn(exec, process)) {
            return;
        }
    }
    // No more messages arrive.
    ls_exec__judge(exec, 1e6);
    ls_exec__judge(exec, 1e6);
    LS_ASSERT(exec->joining == NULL || exec->run != NULL);  // no process joins without a run
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const argv[] = {"fuzzed", NULL};
    if (bytes < 1) {
        return 0;
    }
    ls_exec_options options = {.argv = argv, .observe = (data[0] & 1) != 0, .deadline_seconds = 1};
    options.processes = (data[0] & 2) != 0 ? PROCESSES : 0;
    options.spmd.seed = data[0];
    ls_exec *exec = calloc(1, sizeof *exec);
    LS_ASSERT(exec != NULL && ls_arena_create(&exec->arena) == LS_OK);
    exec->options = &options;
    exec->listening = -1;
    exec->failed_rank = -1;
    uint64_t offset = 0;
    LS_ASSERT(ls_exec_memory__create(&exec->memory) == LS_OK &&
              ls_exec_memory__take(&offset, &exec->memory, MEMORY_BYTES) == LS_OK);
    ls_exec_process *processes[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        processes[i] = add_process(exec, i);
    }
    play(exec, processes, data + 1, bytes - 1);
    ls_exec_result result = {.failed_rank = -1};
    ls_exec__close(exec, &result, LS_OK);
    ls_exec_result_free(&result);
    for (int i = 0; i < PROCESSES; i++) {
        (void)close(ends[i]);
    }
    free(exec);
    return 0;
}
