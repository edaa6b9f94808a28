// Reduction orders of a real run's calls. A recording contains each call's algorithm, protocol,
// links and number of channels. The tuner's limit on channels follows from the call's size, or is
// searched among the limits that use as many channels.
#include "runner/compare/call_orders.h"

#include <stdio.h>
#include <string.h>

#define ALLOWED_MAX 64

typedef struct entry {
    int comm_id;
    uint64_t seq;
    int channels;      // used; 0: unknown
    const char *text;  // in the arena
    ls_order *order;   // parsed when first asked for
} entry;

struct ls_call_orders {
    ls_arena *arena;
    entry *entries;  // [count]
    int count;
};

static int take_rank(ls_call_orders *orders, const ls_recording *recording, int rank) {
    for (int i = 0; i < ls_recording_call_count(recording, rank); i++) {
        const ls_recorded_call *call = ls_recording_call(recording, rank, i);
        if (call->order == NULL || call->comm_id < 0) {
            continue;
        }
        char *text = ls_arena_strdup(orders->arena, call->order);
        LS_TRY_MEMORY(text != NULL);
        orders->entries[orders->count++] = (entry){.comm_id = call->comm_id,
                                                   .seq = call->call.seq,
                                                   .channels = call->channels,
                                                   .text = text};
    }
    return LS_OK;
}

static int create(ls_call_orders **out, size_t room) {
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_call_orders *made = ls_arena_alloc(arena, 1, sizeof *made);
    entry *entries = ls_arena_alloc(arena, room, sizeof *entries);
    if (made == NULL || entries == NULL) {
        ls_arena_free(arena);
        return LS_ERR_MEMORY;
    }
    *made = (ls_call_orders){.arena = arena, .entries = entries};
    *out = made;
    return LS_OK;
}

int ls_call_orders_create(ls_call_orders **out, const ls_recording *recording) {
    *out = NULL;
    size_t room = 0;
    int ranks = ls_recording_about(recording)->ranks;
    for (int rank = 0; rank < ranks; rank++) {
        room += (size_t)ls_recording_call_count(recording, rank);
    }
    ls_call_orders *made = NULL;
    int status = create(&made, room);
    for (int rank = 0; rank < ranks && status == LS_OK; rank++) {
        status = take_rank(made, recording, rank);
    }
    if (status != LS_OK) {
        ls_call_orders_free(made);
        return status;
    }
    *out = made;
    return LS_OK;
}

int ls_call_orders_of_text(ls_call_orders **out, const char *order, int channels) {
    ls_call_orders *made = NULL;
    *out = NULL;
    LS_TRY(create(&made, 1));
    made->entries[made->count++] =
        (entry){.text = ls_arena_strdup(made->arena, order), .channels = channels};
    if (ls_arena_failed(made->arena)) {
        ls_call_orders_free(made);
        return LS_ERR_MEMORY;
    }
    *out = made;
    return LS_OK;
}

void ls_call_orders_free(ls_call_orders *orders) {
    if (orders == NULL) {
        return;
    }
    for (int i = 0; i < orders->count; i++) {
        ls_order_free(orders->entries[i].order);
    }
    ls_arena_free(orders->arena);
}

int ls_call_orders_count(const ls_call_orders *orders) {
    return orders->count;
}

// ---- Channels -----------------------------------------------------------------------------------
static int note_channel(void *arg, const ls_order_run *run) {
    int *channels = arg;
    *channels = run->channel + 1 > *channels ? run->channel + 1 : *channels;
    return LS_OK;
}

static int channels_under(int *out, const ls_order *order, const ls_call *call) {
    const ls_collective *collective = ls_collective_of(call->kind);
    const ls_order_range range = {.call = collective->order,
                                  .ranks = call->comm->size,
                                  .dtype = call->dtype,
                                  .count = call->count,
                                  .target = collective->recv.root_only ? call->root : 0,
                                  .first = 0,
                                  .length = call->count};
    *out = 0;
    return ls_order_runs(order, &range, note_channel, out);
}

// If the computed number of channels differs from the recorded one, the tuner had another limit:
// takes the first that uses as many as recorded.
static int fit_channels(entry *e, const ls_call *call) {
    int used = 0;
    LS_TRY(channels_under(&used, e->order, call));
    bool uneven = call->send_counts != NULL;
    for (int allowed = 1; e->channels != 0 && !uneven && used != e->channels; allowed++) {
        if (allowed > ALLOWED_MAX) {
            return LS_OK;  // keep the computed one; a difference in bits will show
        }
        ls_text text = {0};
        ls_text_printf(&text, "%s,allowed=%d", e->text, allowed);
        ls_order *order = NULL;
        int status = ls_order_parse(&order, ls_text_string(&text));
        ls_text_free(&text);
        LS_TRY(status);
        int now_used = 0;
        status = channels_under(&now_used, order, call);
        if (status == LS_OK && now_used == e->channels) {
            ls_order_free(e->order);
            e->order = order;
            return LS_OK;
        }
        ls_order_free(order);
        LS_TRY(status);
    }
    return LS_OK;
}

int ls_call_orders_of(void *arg, const ls_order **out, const ls_call *call) {
    ls_call_orders *orders = arg;
    for (int i = 0; i < orders->count; i++) {
        entry *e = &orders->entries[i];
        if (e->comm_id != call->comm->id || e->seq != call->seq) {
            continue;
        }
        if (e->order == NULL) {
            int status = ls_order_parse(&e->order, e->text);
            status = status == LS_OK ? fit_channels(e, call) : status;
            if (status != LS_OK) {
                return ls_error_wrap("the recorded order of call %llu on %s",
                                     (unsigned long long)call->seq, call->comm->name);
            }
        }
        *out = e->order;
        return LS_OK;
    }
    return LS_OK;
}
