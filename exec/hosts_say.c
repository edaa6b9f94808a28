// Messages of the coordinator to other hosts. Those of a host come in order, so a state of its
// ranks was true at some moment, and a deadlock at that moment stays one. A state that may change a
// moment later, such as a thread that sleeps, is asked for: an agent answers behind all that its
// processes have said.
#include <stdio.h>

#include "exec/hosts.h"

// ---- To a host ----------------------------------------------------------------------------------
static void send_to(const ls_exec_process *process, const ls_wire_head *message) {
    const ls_wire_parcel parcel = {
        .head = {LS_WIRE_PARCEL, (uint32_t)sizeof parcel + message->bytes},
        .process = process->number};
    if (process->host->link != NULL) {
        (void)ls_link_send(process->host->link, &parcel.head, message);
    }
}

void ls_exec__host_answer(const ls_exec_process *process, uint32_t slot) {
    const ls_wire_answer message = {.head = {LS_WIRE_ANSWER, sizeof message},
                                    .slot = slot,
                                    .answer = process->control->slots[slot]};
    send_to(process, &message.head);
}

void ls_exec__host_state(const ls_exec_process *process, uint32_t failed, const char *why) {
    ls_wire_state message = {.head = {LS_WIRE_STATE, sizeof message}, .failed = failed};
    (void)snprintf(message.why, sizeof message.why, "%s", why);
    send_to(process, &message.head);
}

void ls_exec__host_ask(const ls_exec_process *process) {
    const ls_wire_head message = {LS_WIRE_PLACE, sizeof message};
    send_to(process, &message);
}

// ---- Looks --------------------------------------------------------------------------------------
void ls_exec__hosts_forget_looks(const ls_exec *exec) {
    if (exec->hosts != NULL) {
        exec->hosts->asked = exec->hosts->seen = false;
    }
}

bool ls_exec__hosts_looked(const ls_exec *exec) {
    ls_exec_hosts *hosts = exec->hosts;
    bool all = true;
    if (hosts != NULL && !hosts->asked) {
        ls_exec__hosts_look(exec);
        return false;
    }
    for (const ls_exec_host *at = hosts != NULL ? hosts->first : NULL; at != NULL; at = at->next) {
        all = all && (!at->joined || at->ended || at->looked == hosts->look);
    }
    if (hosts != NULL) {
        hosts->seen = hosts->seen || all;
    }
    return all;
}

bool ls_exec__hosts_seen(const ls_exec *exec) {
    return ls_exec__hosts_looked(exec) || exec->hosts->seen;
}

bool ls_exec__hosts_have_work(const ls_exec *exec) {
    bool any = false;
    for (const ls_exec_host *at = exec->hosts != NULL ? exec->hosts->first : NULL; at != NULL;
         at = at->next) {
        any = any || (at->joined && !at->ended && at->works);
    }
    return any;
}

void ls_exec__hosts_look(const ls_exec *exec) {
    ls_exec_hosts *hosts = exec->hosts;
    if (hosts == NULL) {
        return;
    }
    hosts->asked = true;
    hosts->look += 1;
    const ls_wire_look message = {.head = {LS_WIRE_LOOK, sizeof message}, .number = hosts->look};
    for (ls_exec_host *at = hosts->first; at != NULL; at = at->next) {
        if (at->joined && !at->ended && at->link != NULL) {
            (void)ls_link_send(at->link, NULL, &message.head);
        }
    }
}

// ---- Ends ---------------------------------------------------------------------------------------
void ls_exec__host_hang_up(ls_exec_host *host) {
    ls_link_close(host->link);
    host->link = NULL;
}

void ls_exec__hosts_drop(const ls_exec *exec) {
    for (ls_exec_host *at = exec->hosts != NULL ? exec->hosts->first : NULL; at != NULL;
         at = at->next) {
        ls_exec__host_hang_up(at);
        at->ended = true;
        for (uint32_t i = 0; i < at->process_count; i++) {
            at->processes[i]->gone = true;
        }
    }
}
