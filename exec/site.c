// Where in the program a call comes from: of Python the nearest frame outside of torch with the
// frames around it; else addresses of code, which the coordinator makes symbols and lines of.
#define _GNU_SOURCE  // dladdr
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>

#include "exec/client_internal.h"
#include "exec/site.h"

#define FRAMES_MAX  16
#define STACK_MAX   4096
#define PURPOSE_MAX 1024

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_own(const void *address) {
    return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

// The number of the site with that hash; LS_WIRE_NONE, and *number is a new one: it is to be
// reported.
static uint32_t known(uint32_t *number, ls_client *client, uint64_t hash) {
    uint32_t at = (uint32_t)hash & (LS_CLIENT_SITES - 1), found = LS_WIRE_NONE;
    *number = LS_WIRE_NONE;
    (void)pthread_mutex_lock(&client->taking);
    for (uint32_t i = 0; i < LS_CLIENT_SITES; i++, at = (at + 1) & (LS_CLIENT_SITES - 1)) {
        if (client->site_hash[at] == hash) {
            found = client->site_number[at];
            break;
        }
        if (client->site_hash[at] == 0 && client->sites < LS_CLIENT_SITES / 2) {
            client->site_hash[at] = hash;
            client->site_number[at] = client->sites;
            *number = client->sites++;
            break;
        }
    }
    (void)pthread_mutex_unlock(&client->taking);
    return found;
}

// Numbers are reported in their order: who takes one tells it before another can be taken.
// The text behind the others of the message; as much of it as `room` holds. Its bytes.
static uint32_t put(char *text, uint32_t *used, size_t room, const char *what) {
    int length = snprintf(text + *used, room, "%s", what) + 1;
    uint32_t bytes = (size_t)length > room ? (uint32_t)room : (uint32_t)length;
    *used += bytes;
    return bytes;
}

static uint32_t tell(ls_client *client, uint64_t hash, const char *file, int line,
                     const char *stack, const char *purpose) {
    uint32_t number = LS_WIRE_NONE;
    ls_client_hold(client);
    uint32_t found = known(&number, client, hash == 0 ? 1 : hash);
    if (found == LS_WIRE_NONE && number != LS_WIRE_NONE) {
        struct {
            ls_wire_site site;
            char text[2 * STACK_MAX + PURPOSE_MAX];
        } message = {.site = {.head = {.type = LS_WIRE_SITE}, .site = number, .line = line}};
        uint32_t used = 0;
        message.site.file_bytes = put(message.text, &used, STACK_MAX, file);
        message.site.stack_bytes = put(message.text, &used, STACK_MAX, stack);
        message.site.purpose_bytes = put(message.text, &used, PURPOSE_MAX, purpose);
        message.site.head.bytes = (uint32_t)sizeof message.site + used;
        found = ls_client_send(client, &message, -1) == LS_OK ? number : LS_WIRE_NONE;
    }
    ls_client_let_go(client);
    return found;
}

static uint32_t python_site(ls_client *client, const ls_python_place *at, const char *purpose) {
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), at->file, strlen(at->file));
    hash = mix(hash, &at->line, sizeof at->line);
    hash = mix(hash, at->stack, strlen(at->stack));
    hash = mix(hash, purpose, strlen(purpose));
    return tell(client, hash, at->file, at->line, at->stack, purpose);
}

uint32_t ls_client_here(ls_client *client, const char *purpose) {
    purpose = purpose != NULL ? purpose : "";
    ls_python_place place;
    if (ls_python_here(&place)) {
        return python_site(client, &place, purpose);
    }
    void *addresses[FRAMES_MAX + 8], *outside[FRAMES_MAX];
    int count = backtrace(addresses, FRAMES_MAX + 8), kept = 0;
    for (int i = 0; i < count && kept < FRAMES_MAX; i++) {
        if (!is_own(addresses[i])) {
            outside[kept++] = addresses[i];
        }
    }
    if (kept == 0) {
        return LS_WIRE_NONE;
    }
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), outside, (size_t)kept * sizeof outside[0]);
    hash = mix(hash, purpose, strlen(purpose));
    uint32_t number = LS_WIRE_NONE;
    (void)pthread_mutex_lock(&client->taking);
    for (uint32_t i = 0, at = (uint32_t)hash & (LS_CLIENT_SITES - 1);
         i < LS_CLIENT_SITES && client->site_hash[at] != 0 && number == LS_WIRE_NONE;
         i++, at = (at + 1) & (LS_CLIENT_SITES - 1)) {
        number = client->site_hash[at] == hash ? client->site_number[at] : LS_WIRE_NONE;
    }
    (void)pthread_mutex_unlock(&client->taking);
    if (number != LS_WIRE_NONE) {
        return number;
    }
    char stack[STACK_MAX];
    size_t length = 0;
    stack[0] = 0;
    for (int i = 0; i < kept; i++) {
        Dl_info module;
        if (dladdr(outside[i], &module) == 0 || module.dli_fname == NULL) {
            continue;
        }
        // The return address of a call is kept: the call is before it.
        int wrote =
            snprintf(stack + length, sizeof stack - length, "%zx %s\n",
                     (size_t)((char *)outside[i] - (char *)module.dli_fbase) - 1, module.dli_fname);
        if (wrote < 0 || (size_t)wrote >= sizeof stack - length) {
            stack[length] = 0;
            break;
        }
        length += (size_t)wrote;
    }
    return tell(client, hash, "", 0, stack, purpose);
}
