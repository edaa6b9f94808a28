// A job on many hosts, the coordinator's side: agents that join, what they relay, and their loss.
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/hosts.h"

#define JOIN_SECONDS  60.0  // for all agents to join
#define GREET_SECONDS 30.0  // for a connection to show that it has the key
#define END_SECONDS   10.0  // for agents to end what is left of the program
#define STRANGERS_MAX 64    // connections that have not shown it
#define PROCESSES_MAX 65536u

// ---- Losses -------------------------------------------------------------------------------------
static void lose_host(ls_exec *exec, ls_exec_host *host, const char *why) {
    char text[sizeof exec->loss];
    ls_exec__host_hang_up(host);
    host->ended = true;
    (void)snprintf(text, sizeof text, "the agent on %.100s is lost: %.100s", host->name, why);
    ls_exec__lose(exec, text);
}

// ---- From a host --------------------------------------------------------------------------------
static int add_process(ls_exec *exec, ls_exec_host *host) {
    LS_TRY(host->process_count < PROCESSES_MAX ? LS_OK : LS_ERR_LIMIT);
    ls_exec_process **more =
        realloc((void *)host->processes, (host->process_count + 1) * sizeof(ls_exec_process *));
    LS_TRY(more != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory for a process"));
    host->processes = more;
    ls_exec_process *made = ls_exec__add_process(exec, -1);
    LS_TRY(made != NULL ? LS_OK : LS_ERR_MEMORY);
    made->own = true;
    made->host = host;
    made->number = host->process_count;
    more[host->process_count++] = made;
    return LS_OK;
}

static int end_process(ls_exec *exec, ls_exec_process *process, const ls_wire_ended *message) {
    process->end_known = message->known != 0;
    process->end_status = message->status;
    return ls_exec__ended(exec, process);
}

static void end_thread(ls_exec_process *process, uint32_t thread) {
    for (int i = 0; i < process->caller_count; i++) {
        process->callers[i].ended =
            process->callers[i].ended || process->callers[i].thread == thread;
    }
}

// A message of the host's process of that number.
static int take_parcel(ls_exec *exec, ls_exec_host *host, const ls_wire_parcel *parcel,
                       const ls_wire_head *message) {
    if (parcel->process == host->process_count) {
        LS_TRY(add_process(exec, host));
    }
    if (parcel->process >= host->process_count) {
        return ls_exec__malformed("a process out of order");
    }
    ls_exec_process *process = host->processes[parcel->process];
    if (process->gone) {
        return LS_OK;
    }
    if (message->type == LS_WIRE_ENDED && message->bytes == sizeof(ls_wire_ended)) {
        return end_process(exec, process, (const void *)message);
    }
    if (message->type == LS_WIRE_GONE && message->bytes == sizeof(ls_wire_gone)) {
        end_thread(process, ((const ls_wire_gone *)(const void *)message)->thread);
        return LS_OK;
    }
    return ls_exec__heard(exec, process, message, message->bytes, -1);
}

// The greeting of an agent, which is answered.
static int greet(ls_exec *exec, ls_exec_host *host, const ls_wire_host *message) {
    ls_exec_hosts *hosts = exec->hosts;
    ls_wire_host answer = {.head = {LS_WIRE_HOST, sizeof answer}, .version = LS_WIRE_VERSION};
    if (message->head.type != LS_WIRE_HOST || message->head.bytes != sizeof *message ||
        message->version != LS_WIRE_VERSION) {
        return ls_exec__malformed("a greeting of another lockstep version");
    }
    if (hosts->joined == exec->options->agents) {
        return LS_FAIL(LS_ERR_LIMIT, "all --agents %d have joined already", hosts->joined);
    }
    (void)snprintf(host->name, sizeof host->name, "%.*s", (int)sizeof message->name - 1,
                   message->name);
    host->joined = true;
    hosts->joined += 1;
    exec->progress = true;
    (void)ls_link_send(host->link, NULL, &answer.head);
    return LS_OK;
}

static void end_host(ls_exec *exec, ls_exec_host *host, int status) {
    host->ended = true;
    exec->progress = true;
    bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (well || exec->over || exec->lost || exec->loss[0] != 0) {
        return;
    }
    (void)snprintf(exec->loss, sizeof exec->loss, "the program ended with %s %d on %s",
                   WIFEXITED(status) ? "exit code" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), host->name);
}

static int take(ls_exec *exec, ls_exec_host *host, const ls_wire_head *message) {
    if (!host->joined) {
        return greet(exec, host, (const void *)message);
    }
    if (message->type == LS_WIRE_PARCEL &&
        message->bytes >= sizeof(ls_wire_parcel) + sizeof *message) {
        const ls_wire_parcel *parcel = (const void *)message;
        const ls_wire_head *inner = (const void *)(parcel + 1);
        return inner->bytes == message->bytes - sizeof *parcel
                   ? take_parcel(exec, host, parcel, inner)
                   : ls_exec__malformed("a truncated parcel");
    }
    if (message->type == LS_WIRE_LOOK && message->bytes == sizeof(ls_wire_look)) {
        const ls_wire_look *look = (const void *)message;
        host->looked = look->number;
        host->works = look->works != 0;
        return LS_OK;
    }
    if (message->type == LS_WIRE_END && message->bytes == sizeof(ls_wire_end)) {
        end_host(exec, host, ((const ls_wire_end *)(const void *)message)->status);
        return LS_OK;
    }
    return ls_exec__malformed("a message of an unknown type");
}

static void read_host(ls_exec *exec, ls_exec_host *host) {
    bool live = ls_link_work(host->link);
    char why[LS_ERROR_TEXT_MAX];
    (void)snprintf(why, sizeof why, "%s", live ? "" : ls_error_last()->text);
    int status = LS_OK;
    const ls_wire_head *message = NULL;
    while (status == LS_OK && host->link != NULL) {
        status = ls_link_next(&message, host->link) ? LS_OK : LS_ERR_FORMAT;
        if (status != LS_OK || message == NULL) {
            break;
        }
        status = take(exec, host, message);
    }
    if (host->link == NULL) {
        return;  // all are, since one was lost
    }
    if (status != LS_OK) {
        (void)snprintf(why, sizeof why, "%s", ls_error_last()->text);
    }
    if (status == LS_OK && live) {
        return;
    }
    if (host->joined && !host->ended) {
        lose_host(exec, host, why);
    } else {
        ls_exec__host_hang_up(host);
    }
}

// ---- The loop -----------------------------------------------------------------------------------
int ls_exec__hosts_open(ls_exec *exec) {
    const ls_exec_options *options = exec->options;
    int port = 0;
    ls_exec_hosts *made = calloc(1, sizeof *made);
    LS_TRY(made != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
    made->listening = -1;
    made->began = ls_time_now();
    exec->hosts = made;
    LS_TRY(ls_link_read_key(&made->key, options->key));
    LS_TRY(ls_link_listen(&made->listening, &port, options->listen));
    char line[128];
    (void)snprintf(line, sizeof line, "waits at port %d for %d agent%s", port, options->agents,
                   options->agents == 1 ? "" : "s");
    ls_exec__warn(line);
    return LS_OK;
}

size_t ls_exec__hosts_count(const ls_exec *exec) {
    size_t count = exec->hosts != NULL ? 1 : 0;
    for (const ls_exec_host *at = count > 0 ? exec->hosts->first : NULL; at != NULL;
         at = at->next) {
        count += 1;
    }
    return count;
}

void ls_exec__hosts_poll(const ls_exec *exec, struct pollfd *fds) {
    if (exec->hosts == NULL) {
        return;
    }
    *fds++ = (struct pollfd){.fd = exec->hosts->listening, .events = POLLIN};
    for (ls_exec_host *at = exec->hosts->first; at != NULL; at = at->next) {
        if (at->link != NULL) {
            (void)ls_link_flush(at->link);  // its end is seen when it is read
        }
        *fds++ = at->link != NULL ? (struct pollfd){.fd = ls_link_descriptor(at->link),
                                                    .events = ls_link_events(at->link)}
                                  : (struct pollfd){.fd = -1};
    }
}

// Those who have closed their connection or had long enough to join are dropped.
static int forget(ls_exec_hosts *hosts, double now) {
    int strangers = 0;
    for (ls_exec_host **at = &hosts->first; *at != NULL;) {
        ls_exec_host *here = *at;
        bool stranger = !here->joined;
        if (stranger && (here->link == NULL || now - here->since > GREET_SECONDS)) {
            *at = here->next;
            ls_exec__host_hang_up(here);
            free(here);
            continue;
        }
        strangers += stranger ? 1 : 0;
        at = &here->next;
    }
    return strangers;
}

static void accept_one(ls_exec_hosts *hosts, double now) {
    ls_link *link = NULL;
    if (ls_link_accept(&link, hosts->listening, &hosts->key) != LS_OK) {
        return;
    }
    ls_exec_host *made = forget(hosts, now) < STRANGERS_MAX ? calloc(1, sizeof *made) : NULL;
    if (made == NULL) {
        ls_link_close(link);
        return;
    }
    *made = (ls_exec_host){.next = hosts->first, .link = link, .since = now};
    hosts->first = made;
}

void ls_exec__hosts_work(ls_exec *exec) {
    ls_exec_hosts *hosts = exec->hosts;
    if (hosts == NULL) {
        return;
    }
    double now = ls_time_now(), most = JOIN_SECONDS;
    struct pollfd at_door = {.fd = hosts->listening, .events = POLLIN};
    if (poll(&at_door, 1, 0) > 0) {
        accept_one(hosts, now);
    }
    (void)forget(hosts, now);
    for (ls_exec_host *at = hosts->first; at != NULL; at = at->next) {
        if (at->link != NULL) {
            read_host(exec, at);
        }
    }
    if (exec->options->deadline_given && exec->options->deadline_seconds > 0 &&
        exec->options->deadline_seconds < most) {
        most = exec->options->deadline_seconds;
    }
    if (!ls_exec__hosts_ready(exec) && now - hosts->began > most) {
        char why[128];
        (void)snprintf(why, sizeof why, "%d of %d agents joined in %g s", hosts->joined,
                       exec->options->agents, most);
        ls_exec__lose(exec, why);
    }
}

bool ls_exec__hosts_live(const ls_exec *exec) {
    bool any = false;
    for (const ls_exec_host *at = exec->hosts != NULL ? exec->hosts->first : NULL; at != NULL;
         at = at->next) {
        any = any || (at->joined && !at->ended);
    }
    return any;
}

bool ls_exec__hosts_ready(const ls_exec *exec) {
    return exec->hosts == NULL || exec->hosts->joined == exec->options->agents;
}

// ---- The end ------------------------------------------------------------------------------------
void ls_exec__hosts_close(ls_exec *exec, int status) {
    ls_exec_hosts *hosts = exec->hosts;
    if (hosts == NULL) {
        return;
    }
    const ls_wire_end message = {.head = {LS_WIRE_END, sizeof message}, .status = status};
    for (ls_exec_host *at = hosts->first; at != NULL; at = at->next) {
        if (at->joined && !at->ended && at->link != NULL) {
            (void)ls_link_send(at->link, NULL, &message.head);
        }
    }
    const double until = ls_time_now() + END_SECONDS;
    while (ls_exec__hosts_live(exec) && ls_time_now() < until) {
        size_t count = ls_exec__hosts_count(exec);
        struct pollfd *fds = calloc(count, sizeof *fds);
        if (fds == NULL) {
            break;
        }
        ls_exec__hosts_poll(exec, fds);
        (void)poll(fds, count, 100);
        free(fds);
        ls_exec__hosts_work(exec);
    }
    while (hosts->first != NULL) {
        ls_exec_host *next = hosts->first->next;
        ls_exec__host_hang_up(hosts->first);
        free((void *)hosts->first->processes);
        free(hosts->first);
        hosts->first = next;
    }
    if (hosts->listening >= 0) {
        (void)close(hosts->listening);
    }
    free(hosts);
    exec->hosts = NULL;
}
