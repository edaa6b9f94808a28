// The processes that have connected: their messages, and their end.
#define _GNU_SOURCE  // futex, pidfd, struct ucred
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/hosts.h"
#include "process/descriptor.h"
#include "process/processes.h"

#define SITES_MAX     4096u
#define STRANGERS_MAX 64  // connections of processes that take no part

// ---- Messages -----------------------------------------------------------------------------------
static int map(void **out, int descriptor, uint64_t bytes) {
    struct stat about;
    *out = NULL;
    if (descriptor < 0 || bytes == 0 || bytes > PTRDIFF_MAX || fstat(descriptor, &about) != 0 ||
        (uint64_t)about.st_size < bytes) {
        return LS_FAIL(LS_ERR_FORMAT, "its memory is smaller than it declares");
    }
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (at == MAP_FAILED) {
        return LS_FAIL(LS_ERR_MEMORY, "%llu bytes cannot be mapped: %s", (unsigned long long)bytes,
                       strerror(errno));
    }
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    *out = at;
    return LS_OK;
}

// The same for a process of another host, whose agent gets what is written there.
static int map_own(void **out, uint64_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *out = at != MAP_FAILED ? at : NULL;
    return *out != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory for a process");
}

// The answer to its greeting. Its socket is empty, so that this does not wait for it; one that has
// ended has no use for it.
static int hello(ls_exec *exec, ls_exec_process *process, const ls_wire_hello *message,
                 int descriptor) {
    if (process->control != NULL || message->version != LS_WIRE_VERSION) {
        return ls_exec__malformed("a greeting of another lockstep version");
    }
    if (message->ranks > LS_WIRE_RANKS_MAX || message->rank >= LS_WIRE_RANKS_MAX) {
        return ls_exec__malformed("more ranks than lockstep supports");
    }
    void *at = NULL;
    LS_TRY(process->host != NULL ? map_own(&at, sizeof(ls_wire_control))
                                 : map(&at, descriptor, sizeof(ls_wire_control)));
    process->control = at;
    process->pid = process->host != NULL ? message->pid : process->pid;
    process->rank = message->rank;
    process->ranks = message->ranks;
    process->session = message->session != 0;
    if (exec->options->processes == 0) {  // else the launcher is outside of this job
        process->attempt = message->attempt;
        process->last_attempt = message->last_attempt;
    }
    if (exec->lost) {
        ls_exec__tell(process, 2, "this process is not observed");
    }
    (void)(process->host == NULL && ls_descriptor_send(process->socket, &(char){LS_WIRE_WELCOME}, 1,
                                                       exec->memory.file, MSG_DONTWAIT));
    return LS_OK;
}

static int site(ls_exec *exec, ls_exec_process *process, const ls_wire_site *message) {
    const uint32_t lengths[] = {message->file_bytes, message->stack_bytes, message->purpose_bytes};
    const char *texts[3] = {NULL}, *next = (const char *)(message + 1);
    uint64_t bytes = sizeof *message;
    bool good = true;
    for (int i = 0; i < 3 && good; i++) {
        bytes += lengths[i];
        texts[i] = next;
        next += lengths[i];
        good = lengths[i] > 0 && bytes <= message->head.bytes && next[-1] == 0;
    }
    if (!good || message->head.bytes != bytes || message->site != process->site_count ||
        message->site >= SITES_MAX) {
        return ls_exec__malformed("a site out of order");
    }
    ls_exec_site *more = realloc(process->sites, (process->site_count + 1) * sizeof *more);
    if (more == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory");
    }
    process->sites = more;
    ls_exec_site *made = &more[process->site_count++];
    const char *file = texts[0], *stack = texts[1], *purpose = texts[2];
    *made = (ls_exec_site){.file = "?"};
    made->purpose = purpose[0] != 0 ? ls_arena_strdup(exec->arena, purpose) : NULL;
    LS_TRY(purpose[0] == 0 || made->purpose != NULL ? LS_OK : LS_ERR_MEMORY);
    if (file[0] == 0) {
        return ls_exec__symbols(exec, made, stack);
    }
    made->file = ls_arena_strdup(exec->arena, file);
    made->line = message->line;
    made->stack = ls_arena_strdup(exec->arena, stack);
    return made->file == NULL || made->stack == NULL ? LS_ERR_MEMORY : LS_OK;
}

// The least that a message of a type is long.
static size_t least(uint32_t type) {
    static const size_t bytes[LS_WIRE_TYPES] = {
        [LS_WIRE_HELLO] = sizeof(ls_wire_hello),
        [LS_WIRE_SITE] = sizeof(ls_wire_site),
        [LS_WIRE_COMM_INIT] = sizeof(ls_wire_comm_init),
        [LS_WIRE_COMM_SPLIT] = sizeof(ls_wire_comm_split),
        [LS_WIRE_COMM_SUBSET] = sizeof(ls_wire_comm_subset),
        [LS_WIRE_COMM_DESTROY] = sizeof(ls_wire_comm_destroy),
        [LS_WIRE_CALL] = sizeof(ls_wire_call),
        [LS_WIRE_WAIT] = sizeof(ls_wire_wait),
        [LS_WIRE_RESUME] = sizeof(ls_wire_resume),
        [LS_WIRE_BYE] = sizeof(ls_wire_bye),
        [LS_WIRE_PLACE] = sizeof(ls_wire_place),
        [LS_WIRE_STAGING] = sizeof(ls_wire_staging),
        [LS_WIRE_NOTE] = sizeof(ls_wire_note),
    };
    return type < LS_WIRE_TYPES && bytes[type] > 0 ? bytes[type] : sizeof(ls_wire_head);
}

static int destroy(ls_exec *exec, ls_exec_process *process, const ls_wire_comm_destroy *message) {
    if (ls_exec__is_past(exec, process, message->comm)) {
        return LS_OK;
    }
    ls_exec_comm *comm = ls_exec__comm(process, message->comm);
    LS_TRY(comm != NULL ? LS_OK : LS_ERR_INVALID);
    const ls_exec_site *at = ls_exec__site(process, message->site);
    ls_rank_comm *handle = comm->handle;
    comm->handle = NULL;
    // Calls may be in flight on a communicator that is aborted; they still match those of others.
    if (message->aborted != 0) {
        (void)ls_exec__advance(exec);
    }
    if (message->aborted != 0 && ls_exec__in_flight(comm->rank, handle)) {
        ls_remote_abandon(handle, at->file, at->line);
    } else {
        (void)ls_remote_destroy(handle, at->file, at->line);
    }
    return LS_OK;
}

static int wait_of(ls_exec_process *process, const ls_wire_wait *message) {
    ls_exec_caller *caller = ls_exec__caller(process, message->thread);
    LS_TRY(caller != NULL ? LS_OK : LS_ERR_MEMORY);
    caller->waits = true;
    caller->wait = *message;
    return LS_OK;
}

static int resume(ls_exec *exec, ls_exec_process *process, const ls_wire_resume *message) {
    ls_exec_caller *caller = ls_exec__caller(process, message->thread);
    LS_TRY(caller != NULL ? LS_OK : LS_ERR_MEMORY);
    caller->waits = false;
    ls_exec__resume(exec, process);
    return LS_OK;
}

static int take(ls_exec *exec, ls_exec_process *process, const ls_wire_head *head, int descriptor) {
    const void *message = head;
    switch ((ls_wire_type)head->type) {
    case LS_WIRE_HELLO:
        return hello(exec, process, message, descriptor);
    case LS_WIRE_SITE:
        return site(exec, process, message);
    case LS_WIRE_COMM_INIT:
        return ls_exec__init(exec, process, message);
    case LS_WIRE_COMM_SPLIT:
        return ls_exec__split(exec, process, message);
    case LS_WIRE_COMM_SUBSET:
        return ls_exec__subset(exec, process, message);
    case LS_WIRE_COMM_DESTROY:
        return destroy(exec, process, message);
    case LS_WIRE_CALL:
        return ls_exec__call(exec, process, message);
    case LS_WIRE_WAIT:
        return wait_of(process, message);
    case LS_WIRE_RESUME:
        return resume(exec, process, message);
    case LS_WIRE_STAGING:
        return ls_exec__staging(exec, process, message);
    case LS_WIRE_PLACE:
        return ls_exec__place(exec, process, message);
    case LS_WIRE_NOTE:
        return ls_exec__note(exec, process, message);
    case LS_WIRE_BYE:
        process->bye = true;
        process->status = ((const ls_wire_bye *)message)->status;
        return LS_OK;
    default:
        return ls_exec__malformed("a message of an unknown type");
    }
}

// An agent looks itself at what it needs to know.
static int take_and_relay(ls_exec *exec, ls_exec_process *process, const ls_wire_head *head,
                          int descriptor) {
    const uint32_t type = head->type;
    bool looks =
        exec->agent == NULL || type == LS_WIRE_HELLO || type == LS_WIRE_SITE || type == LS_WIRE_BYE;
    if (exec->lost && type != LS_WIRE_HELLO && type != LS_WIRE_BYE) {
        return LS_OK;
    }
    LS_TRY(looks ? take(exec, process, head, descriptor) : LS_OK);
    return exec->agent != NULL ? ls_exec__relay(exec, process, head) : LS_OK;
}

// Closes the connection. Of one that takes no part nothing else is waited for.
static void hang_up(ls_exec_process *process) {
    if (process->socket >= 0) {
        (void)close(process->socket);
    }
    process->socket = -1;
    if (process->host != NULL) {
        process->gone = true;
    } else if (!process->own && !ls_exec__takes_part(process)) {
        (void)close(process->watch);
        process->watch = -1;
        process->gone = true;
    }
}

// The process's message is invalid. A rank's ends the run; the connection of an uninvolved process
// is closed, and the run continues.
static int refuse(ls_exec_process *process) {
    char text[LS_ERROR_TEXT_MAX], who[64];
    (void)snprintf(text, sizeof text, "%s", ls_error_last()->text);
    (void)snprintf(who, sizeof who, "process %ld", (long)process->pid);
    if (process->rank >= 0) {
        (void)snprintf(who, sizeof who, "rank %d (process %ld)", process->rank, (long)process->pid);
    }
    if (ls_exec__takes_part(process)) {
        return LS_FAIL(ls_error_last()->code, "%s: %s", who, text);
    }
    char line[LS_ERROR_TEXT_MAX + 128];
    (void)snprintf(line, sizeof line, "the connection of %s is closed, and the run continues: %s",
                   who, text);
    ls_exec__warn(line);
    hang_up(process);
    return LS_OK;
}

int ls_exec__heard(ls_exec *exec, ls_exec_process *process, const ls_wire_head *head, size_t bytes,
                   int descriptor) {
    exec->progress =
        exec->progress || (head->type != LS_WIRE_PLACE && ls_exec__takes_part(process));
    int status = LS_OK;
    if (bytes < sizeof *head || head->bytes != bytes || head->bytes < least(head->type) ||
        (process->control == NULL && head->type != LS_WIRE_HELLO)) {
        status = ls_exec__malformed("a truncated message");
    } else {
        status = take_and_relay(exec, process, head, descriptor);
    }
    return status == LS_OK ? LS_OK : refuse(process);
}

int ls_exec__read(ls_exec *exec, ls_exec_process *process) {
    for (int i = 0; i < 256 && process->socket >= 0; i++) {  // others have something to say, too
        int descriptor = -1;
        ssize_t got = ls_descriptor_receive(process->socket, exec->buffer, sizeof exec->buffer,
                                            &descriptor, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return LS_OK;
        }
        if (got < 0 && errno == ECONNRESET) {
            continue;  // it ended before it read the last question; its messages are still there
        }
        if (got <= 0) {
            hang_up(process);
            return LS_OK;
        }
        int status =
            ls_exec__heard(exec, process, (const void *)exec->buffer, (size_t)got, descriptor);
        if (descriptor >= 0) {
            (void)close(descriptor);
        }
        LS_TRY(status);
    }
    return LS_OK;
}

// ---- Beginning and end --------------------------------------------------------------------------
static bool is_joining(const ls_exec *exec, const ls_exec_process *process) {
    const ls_exec_joining *at = exec->joining;
    while (at != NULL && at->process != process) {
        at = at->next;
    }
    return at != NULL;
}

// How many are connected that take no part. Those that were are forgotten.
static int strangers(ls_exec *exec) {
    int count = 0;
    for (ls_exec_process **at = &exec->processes; *at != NULL;) {
        ls_exec_process *here = *at;
        bool stranger = !here->own && !ls_exec__takes_part(here) && !is_joining(exec, here);
        count += stranger && !here->gone ? 1 : 0;
        if (!stranger || !here->gone) {
            at = &here->next;
            continue;
        }
        *at = here->next;
        exec->process_count -= 1;
        ls_exec__free_process(exec, here);
    }
    return count;
}

static bool is_child(const ls_exec *exec, pid_t pid) {
    int i = 0;
    while (i < exec->child_count && exec->children[i].pid != pid) {
        i += 1;
    }
    return i < exec->child_count;
}

ls_exec_process *ls_exec__add_process(ls_exec *exec, pid_t pid) {
    ls_exec_process *made = calloc(1, sizeof *made), **at = &exec->processes;
    if (made == NULL) {
        (void)LS_FAIL(LS_ERR_MEMORY, "no memory for a process");
        return NULL;
    }
    made->pid = pid;
    made->socket = made->watch = -1;
    made->rank = made->ranks = made->run = -1;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = made;
    exec->process_count += 1;
    return made;
}

int ls_exec__accept(ls_exec *exec) {
    int made = accept4(exec->listening, NULL, NULL, SOCK_CLOEXEC);
    if (made < 0) {
        return LS_OK;
    }
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof who;
    (void)getsockopt(made, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
    bool own = who.uid == geteuid();  // no other process has it
    bool of_job = own && (is_child(exec, who.pid) || ls_processes_has(exec->dir, who.pid));
    bool many =
        exec->agent != NULL || strangers(exec) >= STRANGERS_MAX;  // an agent relays for none
    if (!own || (!of_job && many)) {
        (void)close(made);
        return LS_OK;
    }
    ls_exec_process *process = ls_exec__add_process(exec, who.pid);
    if (process == NULL) {
        (void)close(made);
        return LS_ERR_MEMORY;
    }
    process->own = of_job;
    process->socket = made;
    process->watch = (int)syscall(SYS_pidfd_open, who.pid, 0);
    return LS_OK;
}

// How it ended, behind "rank R".
static void describe(char *out, size_t bytes, const ls_exec_process *process, bool known,
                     int status) {
    if (known && WIFSIGNALED(status)) {
        (void)snprintf(out, bytes, "was killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    } else if (known && WIFEXITED(status)) {
        (void)snprintf(out, bytes, "ended at once with exit code %d", WEXITSTATUS(status));
    } else {
        (void)snprintf(out, bytes, "ended without a message: its process %ld was killed",
                       (long)process->pid);
    }
}

// Why the process failed, as far as is known: its exception, or its last line on stderr.
static void tell_failure(ls_exec *exec, const ls_exec_process *process, ls_rank *rank) {
    char why[512] = "";
    for (int i = 0; i < exec->child_count && process->raised == NULL; i++) {
        ls_exec_child *child = &exec->children[i];
        if (child->pid == process->pid && process->host == NULL) {
            ls_exec__hear(exec, child, false);
            (void)snprintf(why, sizeof why, "%s%s",
                           child->last[0] != 0 ? "its last line on stderr: " : "", child->last);
        }
    }
    const bool raised = process->raised != NULL;
    ls_remote_failed(rank, raised ? process->place_file : NULL, process->place_line,
                     raised ? process->raised : why);
}

int ls_exec__ended(ls_exec *exec, ls_exec_process *process) {
    int heard = LS_OK;
    while (process->socket >= 0) {  // its earlier messages
        int socket = process->socket;
        char byte;
        heard = ls_exec__read(exec, process);
        if (heard != LS_OK ||
            (process->socket == socket && recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)) {
            (void)close(process->socket);
            process->socket = -1;
        }
    }
    (void)ls_exec__advance(exec);
    process->gone = true;
    exec->progress = true;
    if (process->watch >= 0) {
        (void)close(process->watch);
        process->watch = -1;
    }
    int status = process->end_status;
    bool known = process->end_known;
    if (process->host == NULL) {
        known = ls_exec__child_status(exec, process->pid, &status);
    }
    if (exec->agent != NULL) {
        ls_exec__relay_end(exec, process, known, status);
    }
    if (exec->lost) {
        return heard;
    }
    bool greeted = process->control != NULL;
    bool died = greeted && !process->bye && !(known && WIFEXITED(status));
    if (!process->bye && known && WIFEXITED(status)) {
        process->status = WEXITSTATUS(status);
    }
    exec->died = exec->died || (died && !process->killed && !exec->over);
    char how[160];
    describe(how, sizeof how, process, known, status);
    const bool past =
        process->attempt < exec->attempt || (process->run >= 0 && process->run != exec->number);
    for (int r = 0; r < exec->rank_count; r++) {
        ls_exec_rank *rank = &exec->ranks[r];
        if (rank->process == NULL && r == process->rank && process->own && !past) {
            rank->process = process;  // it joined no communicator
        }
        if (rank->process != process || rank->ended) {
            continue;
        }
        rank->ended = true;
        (void)ls_exec__advance(exec);
        if (!exec->over) {
            char returned[32];
            (void)snprintf(returned, sizeof returned, "returned %d", process->status);
            ls_exec__flight_ended(exec, r, died ? how : returned);
        }
        if (died) {
            ls_remote_died(rank->rank, how);
        } else {
            if (process->status != 0) {
                tell_failure(exec, process, rank->rank);
            }
            ls_remote_return(rank->rank, process->status);
        }
    }
    return heard;
}

void ls_exec__free_process(const ls_exec *exec, ls_exec_process *process) {
    if (process->socket >= 0) {
        (void)close(process->socket);
    }
    if (process->watch >= 0) {
        (void)close(process->watch);
    }
    if (process->control != NULL) {
        (void)munmap(process->control, sizeof *process->control);
    }
    ls_exec__free_stagings(exec, process);
    free(process->sites);
    free(process->comms);
    free(process->callers);
    free(process);
}
