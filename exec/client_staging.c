// Memory of GPUs that large calls are made on: pieces that the front makes and the coordinator
// opens.
#include <string.h>

#include "exec/client_internal.h"

#define PIECE_BYTES ((size_t)64 << 20)  // at least
#define PAGE_BYTES  ((size_t)2 << 20)   // bytes that a GPU maps at once
#define ALIGN_BYTES ((size_t)256)

static size_t rounded(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

static bool take(ls_client_region *out, ls_client *client, int device, size_t bytes) {
    for (uint32_t i = 0; i < client->staging_count && !client->no_staging; i++) {
        ls_client_staging *in = &client->stagings[i];
        uint64_t offset = 0;
        if (in->device == device && ls_exec_gap__take(&offset, &in->free, bytes)) {
            *out = (ls_client_region){in->at + offset, i + 1, offset, bytes};
            return true;
        }
    }
    return false;
}

// Gives the piece its number, without a stretch that could be taken.
static int announce(uint32_t *number, ls_client *client, uint32_t slot,
                    const ls_client_staging *made, size_t bytes, const void *handle) {
    (void)pthread_mutex_lock(&client->taking);
    *number = client->staging_count + 1;
    int status =
        *number <= LS_CLIENT_STAGINGS_MAX
            ? LS_OK
            : LS_FAIL(LS_ERR_LIMIT, "more than %d pieces of GPU memory", LS_CLIENT_STAGINGS_MAX);
    if (status == LS_OK) {
        ls_wire_staging message = {.head = {LS_WIRE_STAGING, sizeof message},
                                   .memory = *number,
                                   .slot = slot,
                                   .bytes = bytes};
        memcpy(message.handle, handle, sizeof message.handle);
        status = ls_client_send(client, &message, -1);
    }
    if (status == LS_OK) {
        client->stagings[client->staging_count++] = *made;
    }
    (void)pthread_mutex_unlock(&client->taking);
    return status;
}

// A piece that the coordinator does not reach stays unused: freeing it would wait for the streams.
static int add(ls_client *client, int device, size_t bytes, ls_client_maker maker) {
    unsigned char handle[LS_WIRE_HANDLE_BYTES] = {0};
    void *at = NULL;
    uint32_t slot = 0, number = 0;
    LS_TRY(maker(&at, handle, bytes));
    const ls_client_staging made = {.at = at, .device = device};
    LS_TRY(ls_client_slot_take(&slot, client));
    int status = announce(&number, client, slot, &made, bytes, handle);
    status = status == LS_OK ? ls_client_await(client, slot) : status;
    ls_client_slot_give(client, slot);
    (void)pthread_mutex_lock(&client->taking);
    if (status == LS_OK) {
        ls_exec_gap__put(&client->stagings[number - 1].free, 0, bytes);
    } else {
        client->no_staging = true;
    }
    (void)pthread_mutex_unlock(&client->taking);
    return status;
}

int ls_client_staging_take(ls_client_region *out, ls_client *client, int device, size_t bytes,
                           ls_client_maker maker) {
    *out = (ls_client_region){.memory = LS_WIRE_NONE};
    if (bytes == 0) {
        return LS_OK;
    }
    if (bytes > SIZE_MAX / 2) {
        return LS_FAIL(LS_ERR_OVERFLOW, "a buffer of %zu bytes", bytes);
    }
    bytes = rounded(bytes, ALIGN_BYTES);
    for (int attempt = 0; attempt < 2; attempt++) {
        (void)pthread_mutex_lock(&client->taking);
        bool off = client->no_staging, taken = take(out, client, device, bytes);
        (void)pthread_mutex_unlock(&client->taking);
        if (taken) {
            return LS_OK;
        }
        if (off) {
            return LS_FAIL(LS_ERR_UNSUPPORTED, "the coordinator cannot access GPU memory");
        }
        LS_TRY(add(client, device, rounded(bytes > PIECE_BYTES ? bytes : PIECE_BYTES, PAGE_BYTES),
                   maker));
    }
    return LS_FAIL(LS_ERR_LIMIT, "another thread took the GPU's memory");
}
