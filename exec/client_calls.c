// Communicators and calls of frontends for host memory.

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "collectives/calls.h"
#include "exec/client.h"

enum { MEMBERS_MAX = (LS_WIRE_MESSAGE_MAX - sizeof(ls_wire_call)) / (2 * sizeof(uint64_t)) };

int ls_client_join(uint32_t *out, ls_client *client, const unsigned char *id, int ranks, int rank,
                   const char *name) {
    ls_wire_comm_init message = {.head = {LS_WIRE_COMM_INIT, sizeof message},
                                 .comm = ls_client_comm_number(client),
                                 .ranks = ranks,
                                 .rank = rank,
                                 .site = ls_client_here(client, NULL),
                                 .later = ls_client_failed(client, NULL) ? 1 : 0};
    memcpy(message.id, id, sizeof message.id);
    (void)snprintf(message.name, sizeof message.name, "%s", name);
    LS_TRY(ls_client_slot_take(&message.slot, client));
    int status = ls_client_send(client, &message, -1);
    status = status == LS_OK ? ls_client_wait(client, message.slot) : status;
    ls_client_slot_give(client, message.slot);
    *out = message.comm;
    return status;
}

int ls_client_leave(ls_client *client, uint32_t comm, bool in_flight) {
    ls_wire_comm_destroy message = {.head = {LS_WIRE_COMM_DESTROY, sizeof message},
                                    .comm = comm,
                                    .site = ls_client_here(client, NULL),
                                    .aborted = in_flight ? 1 : 0};
    return ls_client_send(client, &message, -1);
}

int ls_client_issue(uint32_t *slot, ls_client *client, const ls_client_call *call) {
    *slot = LS_WIRE_NONE;
    if (call->members < 0 || call->members > MEMBERS_MAX) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "a call with counts for %d members", call->members);
    }
    struct {
        ls_wire_call call;
        uint64_t counts[2 * MEMBERS_MAX];
    } message;
    message.call = (ls_wire_call){.head = {.type = LS_WIRE_CALL},
                                  .comm = call->comm,
                                  .kind = call->kind,
                                  .dtype = call->dtype,
                                  .op = call->op,
                                  .root = call->root,
                                  .site = ls_client_here(client, call->purpose),
                                  .premul = 1,
                                  .tag = call->tag,
                                  .thread = ls_client_thread(),
                                  .count = call->count,
                                  .stream = call->stream,
                                  .send_address = call->send_address,
                                  .recv_address = call->recv_address,
                                  .send_memory = call->send.memory,
                                  .recv_memory = call->recv.memory,
                                  .send_offset = call->send.offset,
                                  .recv_offset = call->recv.offset,
                                  .shared = {call->shared[0], call->shared[1]},
                                  .flags = (call->collects ? LS_WIRE_COLLECTS : 0) |
                                           (call->shares ? LS_WIRE_OVERLAPS : 0) |
                                           (call->shares_sent ? LS_WIRE_OVERLAPS_IN : 0)};
    const uint64_t *counts[2] = {call->send_counts, call->recv_counts};
    size_t members = (size_t)call->members, sides = 0;
    for (int side = 0; side < 2; side++) {
        if (counts[side] != NULL) {
            message.call.flags |= side == 0 ? LS_WIRE_SEND_COUNTS : LS_WIRE_RECV_COUNTS;
            memcpy(message.counts + sides * members, counts[side], members * sizeof(uint64_t));
            sides += 1;
        }
    }
    message.call.head.bytes = (uint32_t)(sizeof message.call + sides * members * sizeof(uint64_t));
    uint32_t taken = 0;
    LS_TRY(ls_client_slot_take(&taken, client));
    message.call.slot = taken;
    ls_client_slot(client, taken)->arrived = call->observed ? 0 : 1;
    int status = ls_client_send(client, &message, -1);
    if (status != LS_OK) {
        ls_client_slot_give(client, taken);
        return status;
    }
    *slot = taken;
    return LS_OK;
}

void ls_client_arrived(ls_client *client, uint32_t slot) {
    __atomic_store_n(&ls_client_slot(client, slot)->arrived, 1u, __ATOMIC_RELEASE);
}

// One line for each thing that is mirrored.
#define AT(field) (int)offsetof(ls_client_call, field)
#define IN(field) (int)offsetof(ls_client_region, field)
#define OF(field) (int)offsetof(ls_client_note, field)
#define TO(field) (int)offsetof(ls_client_item, field)

const char *ls_client_layout(void) {
    static _Thread_local char text[512];
    const int fields[] = {AT(comm),         AT(kind),
                          AT(dtype),        AT(op),
                          AT(root),         AT(members),
                          AT(tag),          AT(count),
                          AT(send_counts),  AT(recv_counts),
                          AT(send),         AT(recv),
                          AT(observed),     AT(collects),
                          AT(send_address), AT(recv_address),
                          AT(stream),       AT(purpose),
                          AT(shares),       AT(shares_sent),
                          AT(shared),       (int)sizeof(ls_client_call)};
    int length = snprintf(text, sizeof text, "region %d %d %d %d %d\ncall", IN(at), IN(memory),
                          IN(offset), IN(bytes), (int)sizeof(ls_client_region));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, " %d", fields[i]);
    }
    length += snprintf(text + length, sizeof text - (size_t)length,
                       "\nitem %d %d %d %d %d %d %d\nnote %d %d %d %d %d %d %d %d", TO(name),
                       TO(shown), TO(data), TO(count), TO(dtype), TO(digested),
                       (int)sizeof(ls_client_item), OF(finding), OF(key), OF(about), OF(members),
                       OF(count), OF(flags), OF(step), (int)sizeof(ls_client_note));
    (void)snprintf(text + length, sizeof text - (size_t)length, "\nconstants %u %llu %d %d %d",
                   LS_WIRE_NONE, (unsigned long long)LS_WIRE_NO_STREAM, LS_WIRE_ID_BYTES,
                   (int)sizeof(ls_wire_piece), (int)(offsetof(ls_wire_slot, value) / 4));
    return text;
}

int ls_client_kind(const char *name) {
#define KIND_NAME(upper, lower) #lower,
    static const char *const names[] = {LS_KIND_MAP(KIND_NAME)};
#undef KIND_NAME
    for (int kind = 0; kind < LS_KIND_COUNT; kind++) {
        if (strcmp(names[kind], name) == 0) {
            return kind;
        }
    }
    return -1;
}

const char *ls_client_said(void) {
    return ls_error_last()->text;
}

const char *ls_client_dtype(uint32_t number) {
    return number < LS_DTYPE_COUNT ? ls_dtype_name_torch((ls_dtype)number) : NULL;
}
