// Notes of values that other ranks must have, too (ls_client_note_values).
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "collectives/finding.h"
#include "exec/client.h"

#define DIGEST_BYTES 8u

typedef struct note_message {
    ls_wire_note note;
    char bytes[LS_WIRE_MESSAGE_MAX - sizeof(ls_wire_note)];
} note_message;

static bool append(note_message *message, const void *data, size_t bytes) {
    size_t used = message->note.head.bytes - sizeof message->note;
    if (bytes > sizeof message->bytes - used) {
        return false;
    }
    memcpy(message->bytes + used, data, bytes);
    message->note.head.bytes += (uint32_t)bytes;
    return true;
}

static ls_wire_item item_of(const ls_client_item *from) {
    ls_wire_item item = {.dtype = LS_WIRE_NONE,
                         .name_bytes = (uint32_t)strlen(from->name) + 1,
                         .shown_bytes = (uint32_t)strlen(from->shown) + 1};
    item.hash = ls_hash(LS_HASH_START, from->shown, item.shown_bytes);
    if (from->data == NULL) {
        return item;
    }
    item.dtype = from->dtype;
    item.count = from->count;
    const size_t size = ls_dtype_bytes((ls_dtype)from->dtype);
    const bool digested = from->digested != 0;
    item.hash =
        ls_hash(item.hash, from->data, digested ? DIGEST_BYTES : (size_t)from->count * size);
    for (uint64_t i = 0; i < LS_WIRE_SAMPLES && from->count > 0; i++) {
        uint64_t at = from->count > LS_WIRE_SAMPLES ? i * (from->count - 1) / (LS_WIRE_SAMPLES - 1)
                                                    : i % from->count;
        const char *sample = (const char *)from->data;
        sample += digested ? DIGEST_BYTES + i * size : at * size;
        memcpy(item.samples[i], sample, size);
    }
    return item;
}

static int begin(note_message *message, const ls_client_note *note, uint32_t site, uint32_t part) {
    message->note = (ls_wire_note){.head = {LS_WIRE_NOTE, sizeof message->note},
                                   .site = site,
                                   .flags = note->flags,
                                   .members = (uint32_t)note->count,
                                   .part = part,
                                   .key_bytes = (uint32_t)strlen(note->key) + 1,
                                   .about_bytes = (uint32_t)strlen(note->about) + 1,
                                   .step = note->step};
    ls_finding_id id;
    LS_TRY(ls_finding_parse(&id, note->finding));
    message->note.finding = (uint32_t)id;
    bool fits = note->count <= 0 || append(message, note->members, (size_t)note->count * 4);
    fits = fits && append(message, note->key, message->note.key_bytes) &&
           append(message, note->about, message->note.about_bytes);
    return fits ? LS_OK : LS_FAIL(LS_ERR_LIMIT, "a note is too long");
}

int ls_client_note_values(ls_client *client, const ls_client_note *note,
                          const ls_client_item *items, int count) {
    static _Thread_local note_message message;
    const uint32_t site = ls_client_here(client, NULL);
    uint32_t part = 0;
    LS_TRY(begin(&message, note, site, part));
    for (int i = 0; i < count; i++) {
        const ls_wire_item item = item_of(&items[i]);
        uint32_t before = message.note.head.bytes;
        if (append(&message, &item, sizeof item) &&
            append(&message, items[i].name, item.name_bytes) &&
            append(&message, items[i].shown, item.shown_bytes)) {
            message.note.items += 1;
            continue;
        }
        if (message.note.items == 0) {
            return LS_FAIL(LS_ERR_LIMIT, "a note's item is too long");
        }
        message.note.head.bytes = before;
        LS_TRY(ls_client_send(client, &message, -1));
        LS_TRY(begin(&message, note, site, ++part));
        i -= 1;
    }
    return ls_client_send(client, &message, -1);
}
