// Sends and receives between processes: each end sends the other a description of its call, and
// checks the received one while NCCL moves the data.
#include "backends/nccl/nccl_internal.h"

int ls_nccl__messages_open(ls_nccl_messages *out, nccl_owner *owner, const ls_call **calls,
                           int count, ls_arena *arena) {
    const ls_nccl_bootstrap *bootstrap = owner->options.bootstrap;
    *out = (ls_nccl_messages){.owner = owner, .calls = calls, .count = count, .arena = arena};
    out->agreed = ls_arena_alloc(arena, (size_t)count, sizeof *out->agreed);
    LS_TRY_MEMORY(out->agreed != NULL);
    for (int i = 0; i < count; i++) {
        ls_text text = {0};
        int what = calls[i]->kind == LS_SEND ? LS_NCCL_TAG_SEND : LS_NCCL_TAG_RECV;
        ls_nccl__pack_call(&text, calls[i]);
        int status =
            text.failed
                ? LS_FAIL(LS_ERR_MEMORY, "no memory for a message")
                : bootstrap->post(bootstrap->data, calls[i]->comm->ranks[calls[i]->root],
                                  ls_nccl__tag(calls[i]->comm, what), text.data, text.length);
        ls_text_free(&text);
        LS_TRY(status);
    }
    return LS_OK;
}

static bool same_line(const ls_call *a, const ls_call *b) {
    return a->comm == b->comm && a->root == b->root && a->kind == b->kind;
}

// Messages between two ranks arrive in order: the first of several calls takes the first.
static bool is_first(const ls_nccl_messages *messages, int index) {
    for (int i = 0; i < index; i++) {
        if (!messages->agreed[i] && same_line(messages->calls[i], messages->calls[index])) {
            return false;
        }
    }
    return true;
}

static int check_one(ls_nccl_messages *messages, int index, const ls_nccl_message *message) {
    const ls_call *call = messages->calls[index];
    ls_call other;
    ls_nccl_reader r = {message->data, (const char *)message->data + message->bytes};
    LS_TRY(ls_nccl__unpack_call(&other, &r, messages->owner, call->comm, messages->arena));
    const ls_call *pair[2] = {call->kind == LS_SEND ? call : &other,
                              call->kind == LS_SEND ? &other : call};
    LS_TRY(ls_calls_check(pair, 2));
    messages->agreed[index] = true;
    return LS_OK;
}

int ls_nccl__messages_check(void *arg) {
    ls_nccl_messages *messages = arg;
    const ls_nccl_bootstrap *bootstrap = messages->owner->options.bootstrap;
    for (int i = 0; i < messages->count; i++) {
        const ls_call *call = messages->calls[i];
        if (messages->agreed[i] || !is_first(messages, i)) {
            continue;
        }
        int what = call->kind == LS_SEND ? LS_NCCL_TAG_RECV : LS_NCCL_TAG_SEND;
        ls_nccl_message message = {0};
        bool there = false;
        LS_TRY(bootstrap->poll(bootstrap->data, call->comm->ranks[call->root],
                               ls_nccl__tag(call->comm, what), &message, &there));
        if (there) {
            int status = check_one(messages, i, &message);
            ls_free(message.data, message.bytes, 1);
            LS_TRY(status);
        }
    }
    return LS_OK;
}

// The first call whose other end is not known; -1: none.
static int first_missing(const ls_nccl_messages *messages) {
    for (int i = 0; i < messages->count; i++) {
        if (!messages->agreed[i]) {
            return i;
        }
    }
    return -1;
}

int ls_nccl__messages_close(ls_nccl_messages *messages) {
    nccl_owner *owner = messages->owner;
    for (int turn = 0;; turn++) {
        LS_TRY(ls_nccl__messages_check(messages));
        int missing = first_missing(messages);
        if (missing < 0) {
            return LS_OK;
        }
        if (ls_time_now() > owner->workers[0].deadline) {
            const ls_call *call = messages->calls[missing];
            return ls_nccl__fail_missing(call, call->comm->ranks[call->root],
                                         owner->options.deadline_seconds);
        }
        ls_nccl__rest(turn);
    }
}
