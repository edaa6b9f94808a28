// Memory that calls are made on: a few large pieces, shared with the coordinator, of which calls
// take stretches, first fit, and give them back.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/client_internal.h"

#define PIECE_BYTES ((size_t)32 << 20)  // at least
#define ALIGN_BYTES ((size_t)256)

void ls_client_on_memory(ls_client *client, int (*made)(void *arg, void *at, size_t bytes),
                         void *arg) {
    (void)pthread_mutex_lock(&client->taking);
    client->made = made;
    client->made_arg = arg;
    (void)pthread_mutex_unlock(&client->taking);
}

static bool take_from(ls_client_region *out, ls_client *client, uint32_t number, size_t bytes) {
    ls_client_memory *memory = &client->memories[number];
    for (ls_client_gap **at = &memory->gaps; *at != NULL; at = &(*at)->next) {
        ls_client_gap *gap = *at;
        if (gap->bytes < bytes) {
            continue;
        }
        *out = (ls_client_region){memory->at + gap->offset, number, gap->offset, bytes};
        gap->offset += bytes;
        gap->bytes -= bytes;
        if (gap->bytes == 0) {
            *at = gap->next;
            free(gap);
        }
        return true;
    }
    return false;
}

static int add_memory(ls_client *client, size_t bytes) {
    if (client->memory_count == LS_CLIENT_MEMORIES_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "more than %d pieces of shared memory",
                       LS_CLIENT_MEMORIES_MAX);
    }
    void *at = NULL;
    int descriptor = -1;
    ls_client_gap *gap = calloc(1, sizeof *gap);
    int status = gap != NULL ? ls_client__shared(&at, &descriptor, bytes)
                             : LS_FAIL(LS_ERR_MEMORY, "no memory");
    if (status == LS_OK && client->made != NULL) {
        status = client->made(client->made_arg, at, bytes);
    }
    if (status == LS_OK) {
        const ls_wire_memory message = {.head = {LS_WIRE_MEMORY, sizeof message},
                                        .memory = client->memory_count,
                                        .bytes = bytes};
        status = ls_client_send(client, &message, descriptor);
    }
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
    if (status != LS_OK) {
        free(gap);
        return status;
    }
    *gap = (ls_client_gap){0, bytes, NULL};
    client->memories[client->memory_count++] = (ls_client_memory){at, bytes, gap};
    return LS_OK;
}

static int take(ls_client_region *out, ls_client *client, size_t bytes) {
    for (uint32_t i = 0; i < client->memory_count; i++) {
        if (take_from(out, client, i, bytes)) {
            return LS_OK;
        }
    }
    LS_TRY(add_memory(client, bytes > PIECE_BYTES ? bytes : PIECE_BYTES));
    bool taken = take_from(out, client, client->memory_count - 1, bytes);
    LS_ASSERT(taken);
    return LS_OK;
}

int ls_client_region_take(ls_client_region *out, ls_client *client, size_t bytes) {
    *out = (ls_client_region){.memory = LS_WIRE_NONE};
    if (bytes == 0) {
        return LS_OK;
    }
    if (bytes > SIZE_MAX - ALIGN_BYTES) {
        return LS_FAIL(LS_ERR_OVERFLOW, "a buffer of %zu bytes", bytes);
    }
    bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    (void)pthread_mutex_lock(&client->taking);
    int status = take(out, client, bytes);
    (void)pthread_mutex_unlock(&client->taking);
    return status;
}

void ls_client_region_give(ls_client *client, const ls_client_region *region) {
    if (region->memory == LS_WIRE_NONE) {
        return;
    }
    (void)pthread_mutex_lock(&client->taking);
    ls_client_memory *memory = &client->memories[region->memory];
    ls_client_gap **at = &memory->gaps, *before = NULL;
    while (*at != NULL && (*at)->offset < region->offset) {
        before = *at;
        at = &(*at)->next;
    }
    ls_client_gap *after = *at;
    uint64_t end = region->offset + region->bytes;
    bool joins_before = before != NULL && before->offset + before->bytes == region->offset;
    bool joins_after = after != NULL && end == after->offset;
    if (joins_before) {
        before->bytes += region->bytes + (joins_after ? after->bytes : 0);
        before->next = joins_after ? after->next : after;
        free(joins_after ? after : NULL);
    } else if (joins_after) {
        after->offset = region->offset;
        after->bytes += region->bytes;
    } else {
        ls_client_gap *made = calloc(1, sizeof *made);
        if (made != NULL) {  // else the stretch is lost, and nothing worse
            *made = (ls_client_gap){region->offset, region->bytes, after};
            *at = made;
        }
    }
    (void)pthread_mutex_unlock(&client->taking);
}
