// The text of an order: parsing it, and writing its canonical form.
#include <stdio.h>
#include <string.h>

#include "orders/internal.h"

typedef struct span {
    const char *text;
    size_t length;
} span;

static bool span_is(span s, const char *word) {
    return strlen(word) == s.length && memcmp(s.text, word, s.length) == 0;
}

static int shown(span s) {
    return s.length < 60 ? (int)s.length : 60;
}

// The part of *rest up to `separator`, which is skipped; all of it where there is none.
static span cut(span *rest, char separator) {
    const char *end = memchr(rest->text, separator, rest->length);
    span head = {rest->text, end == NULL ? rest->length : (size_t)(end - rest->text)};
    size_t skip = head.length + (end == NULL ? 0 : 1);
    rest->text += skip;
    rest->length -= skip;
    return head;
}

static bool read_number(size_t *out, span s, size_t max) {
    size_t value = 0;
    for (size_t i = 0; i < s.length; i++) {
        size_t digit = (size_t)(s.text[i] - '0');
        if (s.text[i] < '0' || s.text[i] > '9' || digit > max || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return s.length > 0 && (s.length == 1 || s.text[0] != '0');
}

static int bad_value(span key, span value, const char *expected) {
    return LS_FAIL(LS_ERR_INVALID, "order: %.*s=%.*s: expected %s", shown(key), key.text,
                   shown(value), value.text, expected);
}

// ---- Values -------------------------------------------------------------------------------------
static int choose(int *out, span key, span value, const char *const *words, int count) {
    char expected[128] = "";
    for (int i = 0; i < count; i++) {
        if (span_is(value, words[i])) {
            *out = i;
            return LS_OK;
        }
        size_t used = strlen(expected);
        (void)snprintf(expected + used, sizeof expected - used, "%s%s", i == 0 ? "" : ", ",
                       words[i]);
    }
    return bad_value(key, value, expected);
}

static const char *const proto_names[] = {"ll", "ll128", "simple"};
static const char *const fma_names[] = {"never", "always", "ll128"};
static const char *const pattern_names[] = {"balanced", "split", "single"};
static const char *const kernel_names[] = {"ll", "rsxld"};

static int number_value(int *out, span key, span value, size_t least, size_t most) {
    size_t number = 0;
    if (!read_number(&number, value, most) || number < least) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "a number from %zu to %zu", least, most);
        return bad_value(key, value, expected);
    }
    *out = (int)number;
    return LS_OK;
}

static int version_value(ls_order *order, span key, span value) {
    order->nccl = ls_nccl__version(value.text, value.length);
    if (order->nccl != NULL) {
        return LS_OK;
    }
    char expected[128] = "a version as in 2.28.9 from one of";
    for (int i = 0; ls_nccl__version_at(i) != NULL; i++) {
        const ls_nccl_version *row = ls_nccl__version_at(i);
        size_t used = strlen(expected);
        (void)snprintf(expected + used, sizeof expected - used, " %d.%d.%d..%s", row->from / 10000,
                       row->from / 100 % 100, row->from % 100, row->name);
    }
    return bad_value(key, value, expected);
}

static int ring_fold(ls_fold **out, span key, span ring) {
    int count = 1;
    for (size_t i = 0; i < ring.length; i++) {
        count += ring.text[i] == '-' ? 1 : 0;
    }
    const char *expected = "rings as in 0-1-2/0-2-1: every rank once, rank by rank";
    if (count > LS_ORDER_RANKS_MAX) {
        return bad_value(key, ring, expected);
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof(int) + 1));
    int *ranks = memory;
    unsigned char *seen = (unsigned char *)(ranks + count);
    int status = LS_OK;
    span rest = ring;
    for (int i = 0; i < count && status == LS_OK; i++) {
        size_t rank = 0;
        if (!read_number(&rank, cut(&rest, '-'), (size_t)count - 1) || seen[rank] != 0) {
            status = bad_value(key, ring, expected);
            break;
        }
        seen[rank] = 1;
        ranks[i] = (int)rank;
    }
    status = status == LS_OK ? ls_fold__linear(out, ranks, count) : status;
    ls_free(memory, (size_t)count, sizeof(int) + 1);
    return status;
}

static int parts_in(span value) {
    int parts = 1;
    for (size_t i = 0; i < value.length; i++) {
        parts += value.text[i] == '/' ? 1 : 0;
    }
    return parts;
}

// rings or trees of the channels, separated by '/'.
static int folds_value(ls_order *order, span key, span value) {
    int count = parts_in(value);
    if (order->folds != NULL || count > LS_ORDER_CHANNELS_MAX) {
        return bad_value(key, value, "one list, at most one entry a channel");
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof(ls_fold *)));
    order->folds = memory;
    order->fold_count = count;
    span rest = value;
    for (int i = 0; i < count; i++) {
        span part = cut(&rest, '/');
        if (order->kind == LS_ORDER_RING) {
            LS_TRY(ring_fold(&order->folds[i], key, part));
        } else {
            LS_TRY(ls_fold__parse(&order->folds[i], part.text, part.length, -1));
        }
        if (order->folds[i]->ranks != order->folds[0]->ranks) {
            return bad_value(key, value, "the same number of ranks in every channel");
        }
    }
    return LS_OK;
}

// [TARGET@]FIRST..END:TREE, separated by '/': elements [FIRST, END), only of one root or block with
// a target, are folded by TREE instead.
static int overrides_value(ls_order *order, span key, span value) {
    int count = parts_in(value);
    const char *expected = "overrides as in 1024..2048:0(1(2))";
    if (order->overrides != NULL) {
        return bad_value(key, value, expected);
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof(ls_order_override)));
    order->overrides = memory;
    order->override_count = count;
    span rest = value;
    for (int i = 0; i < count; i++) {
        ls_order_override *override = &order->overrides[i];
        span tree = cut(&rest, '/');
        span range = cut(&tree, ':');
        override->target = -1;
        if (memchr(range.text, '@', range.length) != NULL) {
            span to = cut(&range, '@');
            LS_TRY(number_value(&override->target, key, to, 0, LS_ORDER_RANKS_MAX - 1));
        }
        span first = cut(&range, '.');
        if (range.length < 1 || range.text[0] != '.') {
            return bad_value(key, value, expected);
        }
        span end = {range.text + 1, range.length - 1};
        if (!read_number(&override->first, first, SIZE_MAX) ||
            !read_number(&override->end, end, SIZE_MAX) || override->first >= override->end) {
            return bad_value(key, value, expected);
        }
        LS_TRY(ls_fold__parse(&override->fold, tree.text, tree.length, -1));
    }
    return LS_OK;
}

static int chunk_value(ls_order *order, span key, span value) {
    int bytes = 0;
    LS_TRY(number_value(&bytes, key, value, 1, (size_t)1 << 30));
    order->chunk_bytes = (size_t)bytes;
    return LS_OK;
}

// ---- Keys ---------------------------------------------------------------------------------------
static int nccl_key(ls_order *order, span key, span value) {
    int choice = 0;
    if (span_is(key, "proto")) {
        LS_TRY(choose(&choice, key, value, proto_names, 3));
        order->proto = (ls_proto)choice;
        return LS_OK;
    }
    if (span_is(key, "nccl")) {
        return version_value(order, key, value);
    }
    if (span_is(key, "channels")) {
        return number_value(&order->channels, key, value, 1, LS_ORDER_CHANNELS_MAX);
    }
    if (span_is(key, "allowed")) {
        return number_value(&order->allowed, key, value, 1, LS_ORDER_CHANNELS_MAX);
    }
    if (span_is(key, "fma")) {
        LS_TRY(choose(&choice, key, value, fma_names, 3));
        order->fma = (ls_fma)choice;
        order->fma_given = true;
        return LS_OK;
    }
    if (span_is(key, "at")) {
        return overrides_value(order, key, value);
    }
    bool ring = order->kind == LS_ORDER_RING;
    if (span_is(key, ring ? "rings" : "trees")) {
        return folds_value(order, key, value);
    }
    if (ring && span_is(key, "chunk")) {
        return chunk_value(order, key, value);
    }
    if (!ring && span_is(key, "hosts")) {
        return number_value(&order->hosts, key, value, 1, LS_ORDER_RANKS_MAX);
    }
    if (!ring && span_is(key, "pattern")) {
        LS_TRY(choose(&choice, key, value, pattern_names, 3));
        order->pattern = (ls_tree_pattern)choice;
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_INVALID,
                   "order: %.*s: not a key of a %s; the keys are proto, nccl, channels, allowed, "
                   "fma, at, %s",
                   shown(key), key.text, ring ? "ring" : "tree",
                   ring ? "rings, chunk" : "trees, hosts, pattern");
}

static int symmetric_key(ls_order *order, span key, span value) {
    int choice = 0;
    if (span_is(key, "kernel")) {
        LS_TRY(choose(&choice, key, value, kernel_names, 2));
        order->kernel = (ls_symmetric_kernel)choice;
        return LS_OK;
    }
    if (span_is(key, "blocks")) {
        return number_value(&order->blocks, key, value, 1, LS_ORDER_CHANNELS_MAX);
    }
    return LS_FAIL(LS_ERR_INVALID,
                   "order: %.*s: not a key of symmetric; the keys are kernel and "
                   "blocks",
                   shown(key), key.text);
}

static int parse_keys(ls_order *order, span rest) {
    span seen[16];
    int seen_count = 0;
    while (rest.length > 0) {
        bool more = memchr(rest.text, ',', rest.length) != NULL;
        span value = cut(&rest, ',');
        span whole = value;
        span key = cut(&value, '=');
        if (key.length == whole.length || value.length == 0 || (more && rest.length == 0)) {
            return LS_FAIL(LS_ERR_INVALID, "order: \"%.*s\": expected key=value", shown(whole),
                           whole.text);
        }
        for (int i = 0; i < seen_count; i++) {
            if (seen[i].length == key.length && memcmp(seen[i].text, key.text, key.length) == 0) {
                return LS_FAIL(LS_ERR_INVALID, "order: %.*s is given twice", shown(key), key.text);
            }
        }
        LS_TRY(order->kind == LS_ORDER_SYMMETRIC ? symmetric_key(order, key, value)
                                                 : nccl_key(order, key, value));
        LS_ASSERT(seen_count < 16);
        seen[seen_count++] = key;
    }
    if (order->chunk_bytes != 0 && order->chunk_bytes < order->nccl->grain_bytes[order->proto]) {
        return LS_FAIL(LS_ERR_INVALID, "order: chunk=%zu: at least one grain of %s, %zu bytes",
                       order->chunk_bytes, proto_names[order->proto],
                       order->nccl->grain_bytes[order->proto]);
    }
    if (order->hosts > 1 && order->fold_count > 0) {
        return LS_FAIL(LS_ERR_INVALID, "order: trees and hosts exclude each other");
    }
    return LS_OK;
}

// ---- Canonical text -----------------------------------------------------------------------------
static void write_folds(ls_text *out, const ls_order *order) {
    bool ring = order->kind == LS_ORDER_RING;
    ls_text_puts(out, ring ? ",rings=" : ",trees=");
    for (int i = 0; i < order->fold_count; i++) {
        const ls_fold *fold = order->folds[i];
        ls_text_puts(out, i == 0 ? "" : "/");
        if (!ring) {
            ls_fold__write(out, fold);
            continue;
        }
        for (int k = 0; k < fold->ranks; k++) {
            ls_text_printf(out, "%s%d", k == 0 ? "" : "-", fold->steps[k].rank);
        }
    }
}

static void write_nccl(ls_text *out, const ls_order *order) {
    ls_text_printf(out, "%s:proto=%s", order->kind == LS_ORDER_RING ? "ring" : "tree",
                   proto_names[order->proto]);
    if (order->nccl != ls_nccl__version_at(0)) {
        ls_text_printf(out, ",nccl=%s", order->nccl->name);
    }
    if (order->channels != LS_ORDER_CHANNELS_DEFAULT) {
        ls_text_printf(out, ",channels=%d", order->channels);
    }
    if (order->allowed != 0) {
        ls_text_printf(out, ",allowed=%d", order->allowed);
    }
    if (order->hosts != 1) {
        ls_text_printf(out, ",hosts=%d", order->hosts);
    }
    if (order->pattern != LS_TREE_BALANCED) {
        ls_text_printf(out, ",pattern=%s", pattern_names[order->pattern]);
    }
    if (order->chunk_bytes != 0) {
        ls_text_printf(out, ",chunk=%zu", order->chunk_bytes);
    }
    if (order->fma_given) {
        ls_text_printf(out, ",fma=%s", fma_names[order->fma]);
    }
    if (order->fold_count > 0) {
        write_folds(out, order);
    }
    for (int i = 0; i < order->override_count; i++) {
        const ls_order_override *override = &order->overrides[i];
        ls_text_puts(out, i == 0 ? ",at=" : "/");
        if (override->target >= 0) {
            ls_text_printf(out, "%d@", override->target);
        }
        ls_text_printf(out, "%zu..%zu:", override->first, override->end);
        ls_fold__write(out, override->fold);
    }
}

static int write_text(ls_order *order, span measured_path) {
    ls_text text = {0};
    switch (order->kind) {
    case LS_ORDER_RANK:
        ls_text_puts(&text, "rank");
        break;
    case LS_ORDER_RING:
    case LS_ORDER_TREE:
        write_nccl(&text, order);
        break;
    case LS_ORDER_SYMMETRIC:
        ls_text_printf(&text, "symmetric:kernel=%s", kernel_names[order->kernel]);
        if (order->blocks != 1) {
            ls_text_printf(&text, ",blocks=%d", order->blocks);
        }
        break;
    case LS_ORDER_MEASURED:
        ls_text_puts(&text, "measured:");
        ls_text_append(&text, measured_path.text, measured_path.length);
        break;
    }
    if (text.failed) {
        ls_text_free(&text);
        return LS_FAIL(LS_ERR_MEMORY, "order: its text");
    }
    order->text = text.data;
    return LS_OK;
}

const char *ls_order_file(const char *text) {
    static const char *const head = "measured:";
    size_t length = strlen(head);
    return strncmp(text, head, length) == 0 && text[length] != 0 ? text + length : NULL;
}

// ---- Public -------------------------------------------------------------------------------------
static int parse_into(ls_order *order, span text) {
    span rest = text;
    bool has_keys = memchr(text.text, ':', text.length) != NULL;
    span kind = cut(&rest, ':');
    if (ls_order_file(text.text) != NULL) {
        order->kind = LS_ORDER_MEASURED;
        LS_TRY(write_text(order, rest));
        return ls_order__measured_read(order, rest.text);
    }
    if (span_is(kind, "rank") && !has_keys) {
        order->kind = LS_ORDER_RANK;
    } else if (span_is(kind, "ring")) {
        order->kind = LS_ORDER_RING;
    } else if (span_is(kind, "tree")) {
        order->kind = LS_ORDER_TREE;
    } else if (span_is(kind, "symmetric")) {
        order->kind = LS_ORDER_SYMMETRIC;
    } else {
        return LS_FAIL(LS_ERR_INVALID,
                       "order \"%.*s\": expected rank, ring[:KEYS], tree[:KEYS], "
                       "symmetric[:KEYS] or measured:FILE",
                       shown(text), text.text);
    }
    if (has_keys && rest.length == 0) {
        return LS_FAIL(LS_ERR_INVALID, "order \"%.*s\": nothing follows the colon", shown(text),
                       text.text);
    }
    LS_TRY(parse_keys(order, rest));
    return write_text(order, rest);
}

int ls_order_parse(ls_order **out, const char *text) {
    LS_ASSERT(out != NULL && text != NULL);
    *out = NULL;
    size_t length = strlen(text);
    if (length > LS_ORDER_TEXT_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "order: its text is longer than 1 MiB");
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_order)));
    ls_order *order = memory;
    order->nccl = ls_nccl__version_at(0);
    order->proto = LS_PROTO_SIMPLE;
    order->channels = LS_ORDER_CHANNELS_DEFAULT;
    order->hosts = 1;
    order->blocks = 1;
    int status = parse_into(order, (span){text, length});
    if (status != LS_OK) {
        ls_order_free(order);
        return status;
    }
    *out = order;
    return LS_OK;
}

void ls_order_free(ls_order *order) {
    if (order == NULL) {
        return;
    }
    for (int i = 0; i < order->fold_count; i++) {
        ls_fold__free(order->folds[i]);
    }
    for (int i = 0; i < order->override_count; i++) {
        ls_fold__free(order->overrides[i].fold);
    }
    ls_free(order->folds, (size_t)order->fold_count, sizeof(ls_fold *));
    ls_free(order->overrides, (size_t)order->override_count, sizeof(ls_order_override));
    ls_order__measured_free(order);
    ls_text text = {.data = order->text};
    ls_text_free(&text);
    ls_free(order, 1, sizeof(ls_order));
}

const char *ls_order_text(const ls_order *order) {
    return order == NULL ? "rank" : order->text;
}
