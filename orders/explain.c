// The explanation search over whole orders. Small changes are in explain_local.c.
#include "orders/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "orders/explain_internal.h"
#include "kernels/kernels.h"

#define WINDOW_MAX 16384
// One element in so many may be damaged for the others to prove the order.
#define PROOF_RATIO 32
#define CHANGES_MAX 16  // small changes that still make one order of another

size_t ls_order_elements(const ls_order_observation *observation) {
    size_t count = observation->reduction->count;
    return observation->call == LS_ORDER_REDUCE_SCATTER
               ? count * (size_t)observation->reduction->in_count
               : count;
}

// ---- Comparing ----------------------------------------------------------------------------------
static bool is_nan(ls_dtype dtype, const unsigned char *element) {
    double value = ls_element_to_f64(element, dtype);
    return value != value;
}

static bool same(ls_dtype dtype, const unsigned char *a, const unsigned char *b, size_t bytes) {
    return memcmp(a, b, bytes) == 0 ||
           (ls_dtype_is_float(dtype) && is_nan(dtype, a) && is_nan(dtype, b));
}

size_t ls_explain__compare(ls_dtype dtype, const void *a, const void *b, size_t count,
                           unsigned char *differs) {
    size_t bytes = ls_dtype_bytes(dtype);
    size_t differing = 0;
    if (memcmp(a, b, count * bytes) == 0) {
        memset(differs, 0, count);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const unsigned char *x = (const unsigned char *)a + i * bytes;
        const unsigned char *y = (const unsigned char *)b + i * bytes;
        differs[i] = same(dtype, x, y, bytes) ? 0 : 1;
        differing += differs[i];
    }
    return differing;
}

int ls_explain__reduce(const ls_order *order, void *out, const ls_order_observation *observation,
                       int target, size_t first, size_t length) {
    if (observation->call != LS_ORDER_REDUCE_SCATTER) {
        return ls_order_reduce(order, observation->call, out, observation->reduction, target, first,
                               length);
    }
    const ls_reduction *whole = observation->reduction;
    size_t ranks = (size_t)whole->in_count;
    size_t offset = (size_t)target * whole->count * ls_dtype_bytes(whole->dtype);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, ranks, sizeof(void *)));
    const void **in = memory;
    for (size_t k = 0; k < ranks; k++) {
        in[k] = (const unsigned char *)whole->in[k] + offset;
    }
    ls_reduction block = *whole;
    block.in = in;
    int status = ls_order_reduce(order, observation->call, out, &block, target, first, length);
    ls_free(memory, ranks, sizeof(void *));
    return status;
}

int ls_order_differing(size_t *differing, size_t *first, const ls_order *order,
                       const ls_order_observation *observation, size_t limit) {
    const ls_reduction *reduction = observation->reduction;
    size_t bytes = ls_dtype_bytes(reduction->dtype);
    bool scatter = observation->call == LS_ORDER_REDUCE_SCATTER;
    int blocks = scatter ? reduction->in_count : 1;
    *differing = 0;
    *first = 0;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, WINDOW_MAX, bytes + 1));
    unsigned char *differs = (unsigned char *)memory + WINDOW_MAX * bytes;
    int status = LS_OK;
    for (int b = 0; b < blocks && status == LS_OK; b++) {
        size_t window = 256;  // most wrong orders show at once
        for (size_t at = 0; at < reduction->count && *differing < limit; at += window) {
            window = at == 0 ? 256 : WINDOW_MAX;
            size_t length = reduction->count - at < window ? reduction->count - at : window;
            status = ls_explain__reduce(order, memory, observation, scatter ? b : observation->root,
                                        at, length);
            if (status != LS_OK) {
                break;
            }
            size_t start = (size_t)b * reduction->count + at;
            const unsigned char *actual = (const unsigned char *)observation->actual;
            size_t found = ls_explain__compare(reduction->dtype, memory, actual + start * bytes,
                                               length, differs);
            for (size_t i = 0; found > 0 && *differing == 0 && i < length; i++) {
                if (differs[i] != 0) {
                    *first = start + i;
                    break;
                }
            }
            *differing += found;
        }
    }
    ls_free(memory, WINDOW_MAX, bytes + 1);
    return status;
}

// ---- Proof --------------------------------------------------------------------------------------
// Elements [first, first + length) of a target that differ from `order`, and those that some other
// order sums to other bits: chains up and down, and rank order.
static int weigh(size_t *differing, size_t *telling, const ls_order *const *orders, int order_count,
                 const ls_order_observation *observation, int target, size_t first, size_t length) {
    const ls_reduction *reduction = observation->reduction;
    size_t bytes = ls_dtype_bytes(reduction->dtype);
    size_t block = observation->call == LS_ORDER_REDUCE_SCATTER ? (size_t)target : 0;
    const unsigned char *actual =
        (const unsigned char *)observation->actual + (block * reduction->count + first) * bytes;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, length, 2 * bytes + 2));
    unsigned char *own = memory, *other = own + length * bytes;
    unsigned char *tells = other + length * bytes, *differs = tells + length;
    memset(tells, 0, length);
    int status = ls_explain__reduce(orders[0], own, observation, target, first, length);
    for (int k = 1; k < order_count && status == LS_OK; k++) {
        status = ls_explain__reduce(orders[k], other, observation, target, first, length);
        if (status == LS_OK) {
            (void)ls_explain__compare(reduction->dtype, own, other, length, differs);
        }
        for (size_t i = 0; i < length && status == LS_OK; i++) {
            tells[i] |= differs[i];
        }
    }
    if (status == LS_OK) {
        *differing += ls_explain__compare(reduction->dtype, own, actual, length, differs);
    }
    for (size_t i = 0; i < length && status == LS_OK; i++) {
        *telling += tells[i];
    }
    ls_free(memory, length, 2 * bytes + 2);
    return status;
}

// A chain of all ranks, from 0 or to 0.
static int parse_chain(ls_order **out, int ranks, bool down) {
    ls_text text = {0};
    ls_text_puts(&text, "ring:proto=simple,channels=1,rings=");
    for (int i = 0; i < ranks; i++) {
        ls_text_printf(&text, "%s%d", i == 0 ? "" : "-", down ? ranks - 1 - i : i);
    }
    int status = text.failed ? LS_ERR_MEMORY : ls_order_parse(out, ls_text_string(&text));
    ls_text_free(&text);
    return status;
}

int ls_order_proven(bool *out, const ls_order *order, const ls_order_observation *observation) {
    const ls_reduction *reduction = observation->reduction;
    const ls_order *orders[4] = {order, NULL, NULL, NULL};  // the second: rank order
    ls_order *chains[2] = {NULL, NULL};
    size_t differing = 0, telling = 0;
    *out = false;
    if (!ls_fold__order_matters(reduction)) {
        return LS_OK;
    }
    int status = LS_OK, count = 2;
    for (int i = 0; i < 2 && status == LS_OK; i++) {
        status = parse_chain(&chains[i], reduction->in_count, i == 1);
        orders[count++] = chains[i];
    }
    bool scatter = observation->call == LS_ORDER_REDUCE_SCATTER;
    for (int b = 0; b < (scatter ? reduction->in_count : 1); b++) {
        for (size_t at = 0; at < reduction->count && status == LS_OK; at += WINDOW_MAX) {
            size_t length = reduction->count - at < WINDOW_MAX ? reduction->count - at : WINDOW_MAX;
            status = weigh(&differing, &telling, orders, count, observation,
                           scatter ? b : observation->root, at, length);
        }
    }
    ls_order_free(chains[0]);
    ls_order_free(chains[1]);
    if (status != LS_OK && status != LS_ERR_MEMORY) {  // more ranks than a chain has
        ls_error_clear();
        return LS_OK;
    }
    *out = status == LS_OK && differing * PROOF_RATIO <= telling;
    return status;
}

// ---- Candidates ---------------------------------------------------------------------------------
typedef struct search {
    const ls_order_observation *observation;
    ls_order_explanation *best;
    const char *stated;
    ls_order_kind kind;  // of the stated order
    uint64_t *budget;
} search;

bool ls_explain__spend(uint64_t *budget, const ls_order_observation *observation, size_t length) {
    uint64_t cost = (uint64_t)length * (uint64_t)observation->reduction->in_count;
    if (budget == NULL || *budget < cost) {
        return budget == NULL;
    }
    *budget -= cost;
    return true;
}

// Tries one order; keeps it where it differs less than the best so far.
static int try_order(search *s, const char *text, const char *sentence) {
    ls_order *order = NULL;
    if (s->best->found ||
        !ls_explain__spend(s->budget, s->observation, ls_order_elements(s->observation))) {
        return LS_OK;
    }
    size_t differing = 0;
    size_t first = 0;
    int status = ls_order_parse(&order, text);
    if (status == LS_OK) {
        status = ls_order_differing(&differing, &first, order, s->observation, s->best->differing);
    }
    if (status == LS_ERR_MEMORY) {
        ls_order_free(order);
        return status;
    }
    // An order of another communicator, or one that does not fit the call, explains nothing.
    if (status != LS_OK || differing >= s->best->differing) {
        ls_order_free(order);
        ls_error_clear();
        return LS_OK;
    }
    ls_order_free(s->best->order);
    s->best->order = order;
    s->best->differing = differing;
    s->best->first = first;
    s->best->found = differing == 0;
    (void)snprintf(s->best->text, sizeof s->best->text, "%s: %.200s instead of %.200s", sentence,
                   ls_order_text(order), s->stated);
    return LS_OK;
}

// The stated order's text with one key set or replaced, as far as it is a ring or tree.
static void with_key(char *out, size_t out_bytes, const char *text, const char *key,
                     const char *value) {
    const char *keys = strchr(text, ':');
    size_t kind = keys == NULL ? strlen(text) : (size_t)(keys - text);
    size_t used = (size_t)snprintf(out, out_bytes, "%.*s:%s=%s", (int)kind, text, key, value);
    size_t key_length = strlen(key);
    for (const char *at = keys == NULL ? "" : keys + 1; *at != 0;) {
        size_t length = strcspn(at, ",");
        bool replaced =
            length > key_length && strncmp(at, key, key_length) == 0 && at[key_length] == '=';
        if (!replaced && used < out_bytes) {
            used += (size_t)snprintf(out + used, out_bytes - used, ",%.*s", (int)length, at);
        }
        at += length + (at[length] == ',' ? 1 : 0);
    }
}

static int try_channels(search *s, const char *base, const char *sentence) {
    char text[1024];
    char number[16];
    for (int allowed = 1; allowed <= 32 && !s->best->found; allowed++) {
        (void)snprintf(number, sizeof number, "%d", allowed);
        char counted[1024];
        with_key(text, sizeof text, base, "allowed", number);
        with_key(counted, sizeof counted, text, "channels", allowed > 24 ? number : "24");
        LS_TRY(try_order(s, counted, sentence));
    }
    with_key(text, sizeof text, base, "channels", "1");
    return try_order(s, text, sentence);
}

const char *ls_order_common(int index) {
    static const char *const texts[] = {"ring:proto=simple",
                                        "ring:proto=ll",
                                        "ring:proto=ll128",
                                        "tree:proto=simple",
                                        "tree:proto=ll",
                                        "tree:proto=ll128",
                                        "rank"};
    return index < (int)(sizeof texts / sizeof *texts) ? texts[index] : NULL;
}

static int try_algorithms(search *s) {
    char text[128];
    for (int i = 0; ls_order_common(i) != NULL; i++) {
        const char *order = ls_order_common(i);
        bool nccl = strchr(order, ':') != NULL;
        LS_TRY(try_order(s, order, nccl ? "another algorithm or protocol" : "rank order"));
        LS_TRY(nccl ? try_channels(s, order, "another algorithm, protocol or number of channels")
                    : LS_OK);
    }
    LS_TRY(try_order(s, "symmetric:kernel=ll", "a symmetric-memory kernel"));
    for (int blocks = 1; blocks <= 32; blocks++) {
        (void)snprintf(text, sizeof text, "symmetric:kernel=rsxld,blocks=%d", blocks);
        LS_TRY(try_order(s, text, "a symmetric-memory kernel"));
    }
    return LS_OK;
}

static int try_versions(search *s) {
    char text[1024];
    for (int i = 0; ls_nccl__version_at(i) != NULL; i++) {
        with_key(text, sizeof text, s->stated, "nccl", ls_nccl__version_at(i)->name);
        LS_TRY(try_order(s, text, "another NCCL version's partition"));
        LS_TRY(try_channels(s, text, "another NCCL version's partition"));
    }
    return LS_OK;
}

static int try_chunks(search *s) {
    char text[1024];
    char number[24];
    for (size_t bytes = 1024; bytes <= (size_t)16 << 20; bytes *= 2) {
        (void)snprintf(number, sizeof number, "%zu", bytes);
        with_key(text, sizeof text, s->stated, "chunk", number);
        LS_TRY(try_order(s, text, "another chunk size"));
    }
    return LS_OK;
}

static int try_fused(search *s) {
    static const char *const forms[] = {"never", "always", "ll128"};
    char text[1024];
    for (int i = 0; i < 3; i++) {
        with_key(text, sizeof text, s->stated, "fma", forms[i]);
        LS_TRY(try_order(s, text, "multiply-adds fused elsewhere"));
    }
    return LS_OK;
}

// A chain of all ranks, as a ring or as a tree from its leaf.
static int try_chain(search *s, const int *ranks, int count) {
    ls_text ring = {0};
    ls_text tree = {0};
    for (int i = 0; i < count; i++) {
        ls_text_printf(&ring, "%s%d", i == 0 ? "" : "-", ranks[i]);
        ls_text_printf(&tree, "%s%d", i == 0 ? "" : "(", ranks[count - 1 - i]);
    }
    ls_text_repeat(&tree, ')', (size_t)count - 1);
    char text[1024];
    const char *rings = s->kind == LS_ORDER_RING ? s->stated : "ring:proto=simple";
    const char *trees = s->kind == LS_ORDER_TREE ? s->stated : "tree:proto=simple";
    with_key(text, sizeof text, rings, "rings", ls_text_string(&ring));
    int status = ring.failed || tree.failed ? LS_ERR_MEMORY : try_order(s, text, "another ring");
    if (status == LS_OK) {
        with_key(text, sizeof text, trees, "trees", ls_text_string(&tree));
        status = try_order(s, text, "another tree");
    }
    ls_text_free(&ring);
    ls_text_free(&tree);
    return status;
}

bool ls_explain__next_permutation(int *ranks, int count) {
    int i = count - 2;
    while (i >= 0 && ranks[i] > ranks[i + 1]) {
        i--;
    }
    if (i < 0) {
        return false;
    }
    int j = count - 1;
    while (ranks[j] < ranks[i]) {
        j--;
    }
    int swap = ranks[i];
    ranks[i] = ranks[j];
    ranks[j] = swap;
    for (int a = i + 1, b = count - 1; a < b; a++, b--) {
        swap = ranks[a];
        ranks[a] = ranks[b];
        ranks[b] = swap;
    }
    return true;
}

// Every chain of few ranks; rotations of 0 1 2 ... and of its reverse where there are more.
static int try_chains(search *s) {
    int count = s->observation->reduction->in_count;
    if (count > 128) {
        return LS_OK;
    }
    int ranks[128];
    for (int i = 0; i < count; i++) {
        ranks[i] = i;
    }
    if (count <= 5) {
        do {
            LS_TRY(try_chain(s, ranks, count));
        } while (!s->best->found && ls_explain__next_permutation(ranks, count));
        return LS_OK;
    }
    for (int shift = 0; shift < 2 * count && !s->best->found; shift++) {
        for (int i = 0; i < count; i++) {
            int at = (i + shift) % count;
            ranks[i] = shift < count ? at : count - 1 - at;
        }
        LS_TRY(try_chain(s, ranks, count));
    }
    return LS_OK;
}

int ls_order_explain(ls_order_explanation *out, const ls_order *stated,
                     const ls_order_observation *observation, uint64_t *budget) {
    *out = (ls_order_explanation){0};
    size_t elements = ls_order_elements(observation);
    search s = {observation, out, ls_order_text(stated),
                stated != NULL ? stated->kind : LS_ORDER_RANK, budget};
    bool nccl = s.kind == LS_ORDER_RING || s.kind == LS_ORDER_TREE;
    out->differing = elements + 1;
    LS_TRY(try_order(&s, s.stated, "the stated order"));
    int status = nccl ? try_channels(&s, s.stated, "another number of channels") : LS_OK;
    // The stated algorithm and protocol with one small change come before other algorithms.
    if (status == LS_OK && nccl && !out->found) {
        status = ls_explain__local(out, observation, 1, budget);
    }
    if (status == LS_OK && nccl && !out->found) {
        status = try_chunks(&s);
    }
    if (status == LS_OK && nccl && !out->found) {
        status = try_fused(&s);
    }
    if (status == LS_OK && !out->found) {
        status = try_algorithms(&s);
    }
    if (status == LS_OK && nccl && !out->found) {
        status = try_versions(&s);
    }
    if (status == LS_OK && !out->found) {
        status = try_chains(&s);
    }
    if (status == LS_OK && !out->found && out->order != NULL) {
        status = ls_explain__local(out, observation, CHANGES_MAX, budget);
    }
    if (status == LS_OK && !out->found && out->order != NULL) {
        status = ls_order_proven(&out->proven, out->order, observation);
    }
    if (status != LS_OK) {
        ls_order_explanation_clear(out);
    }
    return status;
}

void ls_order_explanation_clear(ls_order_explanation *explanation) {
    ls_order_free(explanation->order);
    explanation->order = NULL;
}
