// Memory that calls are made on, in that of the job; and what a process copies from it for itself.
#include <string.h>

#include "exec/client_internal.h"

void ls_client_on_memory(ls_client *client, int (*made)(void *arg, void *at, size_t bytes),
                         void *arg) {
    (void)pthread_mutex_lock(&client->taking);
    client->memory.made = made;
    client->memory.made_arg = arg;
    (void)pthread_mutex_unlock(&client->taking);
}

int ls_client_region_take(ls_client_region *out, ls_client *client, size_t bytes) {
    *out = (ls_client_region){.memory = LS_WIRE_NONE};
    if (bytes == 0) {
        return LS_OK;
    }
    uint64_t offset = 0;
    (void)pthread_mutex_lock(&client->taking);
    int status = ls_exec_memory__take(&offset, &client->memory, bytes);
    (void)pthread_mutex_unlock(&client->taking);
    LS_TRY(status);
    *out = (ls_client_region){client->memory.base + offset, LS_WIRE_SHARED, offset, bytes};
    return LS_OK;
}

void ls_client_region_give(ls_client *client, const ls_client_region *region) {
    if (region->memory == LS_WIRE_NONE) {
        return;
    }
    (void)pthread_mutex_lock(&client->taking);
    if (region->memory == LS_WIRE_SHARED) {
        ls_exec_memory__give(&client->memory, region->offset, region->bytes);
    } else {
        ls_exec_gap__put(&client->stagings[region->memory - 1].free, region->offset, region->bytes);
    }
    (void)pthread_mutex_unlock(&client->taking);
}

void ls_client_collect(ls_client *client, uint32_t slot, const ls_client_region *pieces,
                       void *const *blocks, const uint64_t *bytes, int count) {
    const ls_wire_piece *piece = pieces->at;
    const ls_wire_piece *end = piece + ls_client_slot(client, slot)->value[1];
    uint64_t used = 0, filled = 0;  // of the piece, of the block
    for (int b = 0; piece < end;) {
        if (b < count && filled == bytes[b]) {
            filled = 0;
            b += 1;
            continue;
        }
        uint64_t left = piece->bytes - used, room = b < count ? bytes[b] - filled : left;
        uint64_t part = left < room ? left : room;
        if (b < count && part > 0) {
            memcpy((char *)blocks[b] + filled, client->memory.base + piece->offset + used, part);
        }
        used += part;
        filled += part;
        if (used == piece->bytes) {
            (void)__atomic_fetch_sub(ls_exec_memory__readers(client->memory.base, piece->stretch),
                                     1, __ATOMIC_ACQ_REL);
            used = 0;
            piece += 1;
        }
    }
}
