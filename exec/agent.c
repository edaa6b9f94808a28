// The agent of a host: for its processes it is the coordinator, to which it relays their messages,
// and whose answers it gives them. It also reports facts that only their host can see: lines of
// code, threads and processes that have ended, and whether any thread has work.
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/hosts.h"
#include "process/processes.h"

#define JOIN_SECONDS 60.0                // to reach the coordinator
#define LAST_SECONDS 60.0                // in which none of the last messages arrives
#define QUEUE_BYTES  ((size_t)64 << 20)  // of messages, before its processes have to wait

// ---- From the coordinator -----------------------------------------------------------------------
static ls_exec_process *process_of(const ls_exec *exec, uint32_t number) {
    ls_exec_process *at = exec->processes;
    while (at != NULL && (at->control == NULL || at->number != number)) {
        at = at->next;
    }
    return at;
}

static void give(ls_exec_process *process, const ls_wire_head *message) {
    const void *of = message;
    if (process == NULL || process->gone || process->control == NULL) {
        return;
    }
    if (message->type == LS_WIRE_ANSWER && message->bytes == sizeof(ls_wire_answer)) {
        const ls_wire_answer *answer = of;
        if (answer->slot < LS_WIRE_SLOTS) {
            ls_wire_slot *slot = &process->control->slots[answer->slot];
            memcpy(slot->value, answer->answer.value, sizeof slot->value);
            ls_exec__answer(process, answer->slot, answer->answer.done, answer->answer.status);
        }
    } else if (message->type == LS_WIRE_STATE && message->bytes == sizeof(ls_wire_state)) {
        const ls_wire_state *state = of;
        char why[LS_WIRE_WHY_BYTES];
        (void)snprintf(why, sizeof why, "%.*s", LS_WIRE_WHY_BYTES - 1, state->why);
        ls_exec__tell(process, state->failed, why);
    } else if (message->type == LS_WIRE_PLACE && process->socket >= 0) {
        (void)send(process->socket, &(char){LS_WIRE_ASK}, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

// All that its processes have said comes before.
static void look(ls_exec *exec, uint32_t number) {
    ls_wire_look answer = {.head = {LS_WIRE_LOOK, sizeof answer}, .number = number};
    bool works = false;
    for (ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
        if (!at->gone) {
            works = works || ls_process_has_work(at->pid);
            (void)(at->socket >= 0 && ls_exec__read(exec, at));
            ls_exec__relay_threads(exec, at);
        }
    }
    for (int i = 0; i < exec->child_count; i++) {
        works =
            works || (exec->children[i].watch >= 0 && ls_process_has_work(exec->children[i].pid));
    }
    answer.works = works ? 1 : 0;
    (void)ls_link_send(exec->agent->link, NULL, &answer.head);
}

static bool take(ls_exec *exec, const ls_wire_head *message) {
    const void *of = message;
    if (message->type == LS_WIRE_PARCEL &&
        message->bytes >= sizeof(ls_wire_parcel) + sizeof *message) {
        const ls_wire_parcel *parcel = of;
        const ls_wire_head *inner = (const void *)(parcel + 1);
        if (inner->bytes == message->bytes - sizeof *parcel) {
            give(process_of(exec, parcel->process), inner);
        }
        return true;
    }
    if (message->type == LS_WIRE_LOOK && message->bytes == sizeof(ls_wire_look)) {
        look(exec, ((const ls_wire_look *)of)->number);
        return true;
    }
    if (message->type == LS_WIRE_END) {
        exec->quit = true;
        return true;
    }
    exec->agent->joined = message->type == LS_WIRE_HOST;
    return exec->agent->joined;
}

void ls_exec__agent_work(ls_exec *exec) {
    if (exec->agent == NULL || exec->lost) {
        return;
    }
    bool live = ls_link_work(exec->agent->link), well = true;
    char why[LS_ERROR_TEXT_MAX];
    (void)snprintf(why, sizeof why, "%s", live ? "" : ls_error_last()->text);
    const ls_wire_head *message = NULL;
    while (well && ls_link_next(&message, exec->agent->link) && message != NULL) {
        well = take(exec, message);
    }
    if (!exec->quit && (!live || !well)) {
        char text[sizeof exec->loss];
        (void)snprintf(text, sizeof text, "the coordinator at %.100s is lost: %.100s",
                       exec->options->join, live ? "it breaks the protocol" : why);
        ls_exec__lose(exec, text);
    }
}

// ---- Beginning and end --------------------------------------------------------------------------
// Greets, and waits for the answer.
static int join(ls_exec *exec) {
    ls_wire_host message = {.head = {LS_WIRE_HOST, sizeof message}, .version = LS_WIRE_VERSION};
    (void)gethostname(message.name, sizeof message.name - 1);
    ls_link *link = exec->agent->link;
    const double until = ls_time_now() + JOIN_SECONDS;
    (void)ls_link_send(link, NULL, &message.head);
    while (!exec->lost && !exec->agent->joined && ls_time_now() < until) {
        (void)ls_link_flush(link);
        struct pollfd at = {.fd = ls_link_descriptor(link), .events = ls_link_events(link)};
        (void)poll(&at, 1, 100);
        ls_exec__agent_work(exec);
    }
    return exec->agent->joined ? LS_OK : LS_ERR_BACKEND;
}

int ls_exec__agent_open(ls_exec *exec) {
    const ls_exec_options *options = exec->options;
    ls_link_key key;
    exec->agent = calloc(1, sizeof *exec->agent);
    LS_TRY(exec->agent != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
    LS_TRY(ls_link_read_key(&key, options->key));
    int status = ls_link_connect(&exec->agent->link, options->join, &key, JOIN_SECONDS);
    if (status == LS_ERR_INVALID || status == LS_ERR_UNSUPPORTED) {
        return status;
    }
    if (status != LS_OK) {
        char text[sizeof exec->loss];
        (void)snprintf(text, sizeof text, "no coordinator: %.200s", ls_error_last()->text);
        ls_exec__lose(exec, text);
    } else if (join(exec) != LS_OK && !exec->lost) {
        ls_exec__lose(exec, "the coordinator does not answer");
    }
    return LS_OK;
}

void ls_exec__agent_poll(const ls_exec *exec, struct pollfd *fd) {
    *fd = (struct pollfd){.fd = -1};
    if (exec->agent != NULL && !exec->lost) {
        (void)ls_link_flush(exec->agent->link);
        *fd = (struct pollfd){.fd = ls_link_descriptor(exec->agent->link),
                              .events = ls_link_events(exec->agent->link)};
    }
}

bool ls_exec__agent_reads(const ls_exec *exec) {
    return exec->agent == NULL || exec->lost || ls_link_queued(exec->agent->link) < QUEUE_BYTES;
}

void ls_exec__agent_close(ls_exec *exec) {
    if (exec->agent == NULL) {
        return;
    }
    const ls_wire_end message = {.head = {LS_WIRE_END, sizeof message},
                                 .status = exec->child_count > 0 ? exec->children[0].status : 0};
    ls_link *link = exec->agent->link;
    if (!exec->lost) {
        (void)ls_link_send(link, NULL, &message.head);
    }
    if (!exec->lost && !ls_link_finish(link, LAST_SECONDS)) {
        ls_exec__warn(
            "the coordinator is lost, and did not receive the exit code of the program here");
    }
    ls_link_close(link);
    free(exec->agent);
    exec->agent = NULL;
}
