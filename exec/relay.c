// Messages of an agent to the coordinator about its processes.
#include <string.h>

#include "exec/hosts.h"

static void send_of(const ls_exec *exec, const ls_exec_process *process,
                    const ls_wire_head *message) {
    const ls_wire_parcel parcel = {
        .head = {LS_WIRE_PARCEL, (uint32_t)sizeof parcel + message->bytes},
        .process = process->number};
    if (!exec->lost) {
        (void)ls_link_send(exec->agent->link, &parcel.head, message);
    }
}

// The last site with lines in place of addresses.
static int relay_site(const ls_exec *exec, const ls_exec_process *process) {
    static union {
        ls_wire_site site;
        char bytes[LS_WIRE_MESSAGE_MAX];
    } message;
    const ls_exec_site *of = &process->sites[process->site_count - 1];
    const char *texts[] = {of->file, of->stack, of->purpose};
    uint32_t lengths[3];
    size_t used = sizeof message.site;
    for (int i = 0; i < 3; i++) {
        const char *text = texts[i] != NULL ? texts[i] : "";
        lengths[i] = (uint32_t)strlen(text) + 1;
        LS_TRY(used + lengths[i] <= sizeof message ? LS_OK : LS_ERR_LIMIT);
        memcpy(message.bytes + used, text, lengths[i]);
        used += lengths[i];
    }
    message.site = (ls_wire_site){.head = {LS_WIRE_SITE, (uint32_t)used},
                                  .site = process->site_count - 1,
                                  .line = of->line,
                                  .file_bytes = lengths[0],
                                  .stack_bytes = lengths[1],
                                  .purpose_bytes = lengths[2]};
    send_of(exec, process, &message.site.head);
    return LS_OK;
}

void ls_exec__relay_threads(const ls_exec *exec, ls_exec_process *process) {
    for (int i = 1; i < process->caller_count; i++) {
        const bool known = process->callers[i].ended;
        if (!known && ls_exec__has_ended(process, i)) {
            const ls_wire_gone message = {.head = {LS_WIRE_GONE, sizeof message},
                                          .thread = process->callers[i].thread};
            process->callers[i].ended = true;
            send_of(exec, process, &message.head);
        }
    }
}

static int note_thread(const ls_exec *exec, ls_exec_process *process, uint32_t thread) {
    for (int i = 0; i < process->caller_count; i++) {
        if (process->callers[i].thread == thread && !process->callers[i].ended) {
            return LS_OK;
        }
    }
    ls_exec__relay_threads(exec, process);
    return ls_exec__caller(process, thread) != NULL ? LS_OK : LS_ERR_MEMORY;
}

int ls_exec__relay(ls_exec *exec, ls_exec_process *process, const ls_wire_head *message) {
    const void *of = message;
    switch ((ls_wire_type)message->type) {
    case LS_WIRE_HELLO:
        process->number = exec->numbers++;
        break;
    case LS_WIRE_SITE:
        return relay_site(exec, process);
    case LS_WIRE_CALL:
        LS_TRY(note_thread(exec, process, ((const ls_wire_call *)of)->thread));
        break;
    case LS_WIRE_WAIT:
        LS_TRY(note_thread(exec, process, ((const ls_wire_wait *)of)->thread));
        break;
    default:
        break;
    }
    send_of(exec, process, message);
    return LS_OK;
}

void ls_exec__relay_end(ls_exec *exec, ls_exec_process *process, bool known, int status) {
    const ls_wire_ended message = {
        .head = {LS_WIRE_ENDED, sizeof message}, .known = known ? 1 : 0, .status = status};
    if (process->control != NULL) {  // it has a number
        send_of(exec, process, &message.head);
    }
}
