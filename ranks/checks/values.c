// Values that calls should not carry: memory that was never written, results that were used before
// their wait (both known by their patterns, see poison.c), and the first NaN and infinity.
// Reductions are looked at while they are made: the fold tells of each range whose result has a NaN
// or an infinity, with its inputs, before in-place results take their place. Moved data is checked
// once, when it is first sent, and for what the program computed with: garbage that nobody reads is
// no defect.
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "ranks/internal.h"

enum { SPECIAL_NONE, SPECIAL_INF = 1, SPECIAL_NAN = 2 };

// ---- Never written -----------------------------------------------------------------------------
// Reports element `index` of the data that `request` sends, which comes from `origin`.
static void report_origin(const ls_request *request, ls_origin *origin, bool computed, bool copied,
                          size_t index) {
    ls_spmd *run = request->rank->run;
    ls_finding_id id =
        origin->in_flight ? LS_FINDING_BUFFER_USE_BEFORE_WAIT : LS_FINDING_BUFFER_UNINITIALISED;
    if (origin->told || !run->checks[id]) {
        return;
    }
    origin->told = true;
    const char *verb = computed ? "computed from" : "a copy of";
    ls_allocation *own = ls_memory__find(request->rank, request->call.send);
    if (!origin->in_flight && origin->rank == request->rank->id) {
        bool direct = own != NULL && own->line == origin->line && !computed && !copied &&
                      strcmp(own->file, origin->file) == 0;
        (void)ls_findings__add_call(run, id, request,
                                    "element %zu of its send buffer %s%s%s never written; it was "
                                    "allocated at %s:%d",
                                    index, direct ? "" : "is ", direct ? "" : verb,
                                    direct ? "was" : " memory that was", origin->file,
                                    origin->line);
        return;
    }
    char what[256], where[LS_CALL_WHERE_MAX];
    ls_call_describe(what, sizeof what, &request->call);
    ls_text text = {0};
    if (origin->in_flight) {
        ls_text_printf(&text,
                       "rank %d used the result of its call at %s:%d before it waited for it\n",
                       origin->rank, origin->file, origin->line);
    } else {
        ls_text_printf(&text, "rank %d never wrote memory that it allocated at %s:%d\n",
                       origin->rank, origin->file, origin->line);
    }
    ls_text_printf(&text, "element %zu of what rank %d sends is %s it: %s at %s\n", index,
                   request->rank->id, verb, what, ls_call__where(where, &request->call));
    ls_findings__history(&text, &run->ranks[run->direct ? 0 : origin->rank], 4);
    (void)ls_findings__add(run, id, &origin->rank, 1, origin->file, origin->line,
                           ls_findings__string(run, &text));
    ls_text_free(&text);
}

typedef struct garbage {
    size_t words, first;  // of memory never written
    ls_origin *origin;    // of the first
    size_t computed;      // index of the first element that was computed from some
    ls_origin *computed_from;
} garbage;

static garbage look(const ls_request *request, const ls_allocation *allocation) {
    const ls_spmd *run = request->rank->run;
    const char *data = request->call.send;
    size_t start = (size_t)(data - allocation->start);
    garbage found = {0};
    bool f32 = request->call.dtype == LS_F32;
    for (size_t i = (start + 3) / 4 * 4 - start; i + 4 <= request->send_bytes; i += 4) {
        uint32_t word = 0;
        memcpy(&word, data + i, sizeof word);
        if ((word & UINT32_C(0x7fb00000)) != UINT32_C(0x7fa00000)) {
            continue;
        }
        bool computed = false;
        ls_origin *origin = ls_poison__word(run, data + i, allocation->origin);
        if (origin != NULL) {
            // Another memory's garbage was copied there: a better explanation than a gap.
            bool better =
                found.origin == &run->origins[allocation->origin] && origin != found.origin;
            found.first = found.words++ == 0 || better ? i : found.first;
            found.origin = found.origin == NULL || better ? origin : found.origin;
        } else if (f32 && found.computed_from == NULL) {
            origin = ls_poison__origin(&computed, run, data + i, LS_F32);
            found.computed = i;
            found.computed_from = computed ? origin : NULL;
        }
    }
    return found;
}

static int made(ls_request *request) {
    ls_spmd *run = request->rank->run;
    const ls_call *call = &request->call;
    if (!run->checks[LS_FINDING_BUFFER_UNINITIALISED] || request->send_bytes == 0) {
        return LS_OK;
    }
    ls_allocation *allocation = ls_memory__find(request->rank, call->send);
    bool used = !ls_kind_is_ask(call->kind) && ls_collective_of(call->kind)->reduces;
    bool blocks = !ls_kind_is_ask(call->kind) && !used &&
                  ls_collective_of(call->kind)->send.form == LS_SIDE_BLOCKS;
    const size_t bytes = request->send_bytes;
    bool clean = allocation != NULL && ls_memory__looked_at(allocation, call->send, bytes);
    if (allocation == NULL || allocation->origin == 0 || (clean && (used || blocks))) {
        return LS_OK;
    }
    if (!ls_kernel_any_special(call->send, bytes / sizeof(float), LS_F32)) {
        ls_memory__look(allocation, call->send, bytes);
        return LS_OK;
    }
    size_t element = ls_dtype_bytes(call->dtype);
    garbage found = look(request, allocation);
    if (found.words == 0 && found.computed_from == NULL) {
        ls_memory__look(allocation, call->send, bytes);
    }
    // A rank that has nothing for the others leaves what it sends them as it is.
    bool whole = found.words > 0 && found.words == bytes / sizeof(uint32_t) && !blocks;
    // Garbage where there was none, or of another memory: the program has copied it.
    bool copied = found.origin != NULL && !blocks && found.origin->rank == request->rank->id &&
                  (clean || found.origin != &run->origins[allocation->origin]);
    if (found.computed_from != NULL) {
        request->poisoned = true;
        report_origin(request, found.computed_from, true, false, found.computed / element);
    } else if (found.words > 0 &&
               (used || whole || copied || run->moved_garbage || ls_kind_is_ask(call->kind))) {
        request->poisoned = true;
        report_origin(request, found.origin, false, copied, found.first / element);
    }
    return LS_OK;
}

// ---- NaN and Inf -------------------------------------------------------------------------------
// What elements [count] hold; *at: the first NaN.
static unsigned scan(size_t *at, const void *data, size_t count, ls_dtype dtype) {
    size_t bytes = ls_dtype_bytes(dtype);
    unsigned found = SPECIAL_NONE;
    if (!ls_kernel_any_special(data, count, dtype)) {
        return found;
    }
    for (size_t i = 0; i < count; i++) {
        double value = ls_element_to_f64((const char *)data + i * bytes, dtype);
        if (isnan(value)) {
            *at = i;
            return found | SPECIAL_NAN;
        }
        found |= isinf(value) ? SPECIAL_INF : SPECIAL_NONE;
    }
    return found;
}

bool ls_values__on(const ls_spmd *run, const ls_call *call) {
    if (ls_kind_is_ask(call->kind) || !ls_collective_has_data(ls_collective_of(call->kind))) {
        return false;
    }
    return (run->checks[LS_FINDING_VALUE_NAN_FIRST] || run->checks[LS_FINDING_VALUE_INF_FIRST] ||
            run->checks[LS_FINDING_BUFFER_UNINITIALISED] ||
            run->checks[LS_FINDING_BUFFER_USE_BEFORE_WAIT]) &&
           ls_dtype_is_float(call->dtype) &&
           (run->moved_values || ls_collective_of(call->kind)->reduces);
}

// Ranges of a reduction whose result has a NaN or an infinity.
static void on_special(void *arg, const void *out, const void *const *in, const int *members,
                       int in_count, size_t first, size_t length) {
    ls_value_watch *watch = arg;
    size_t at = 0, bytes = ls_dtype_bytes(watch->dtype);
    unsigned wanted = SPECIAL_NAN | (watch->infinities ? SPECIAL_INF : 0u);
    if ((watch->results & wanted) == wanted || (watch->results & SPECIAL_NAN) != 0) {
        return;
    }
    unsigned here = scan(&at, out, length, watch->dtype);
    if ((here & wanted & ~watch->results) == 0) {
        return;
    }
    watch->results |= here & wanted;
    for (int i = 0; i < in_count; i++) {
        int member = members != NULL ? members[i] : i;
        if (member < 0 || member >= watch->size) {
            continue;
        }
        unsigned found = in[i] == out ? SPECIAL_NONE : scan(&at, in[i], length, watch->dtype);
        watch->inputs[member] |= found;
        if ((found & SPECIAL_NAN) != 0) {
            memcpy(&watch->samples[member], (const char *)in[i] + at * bytes, bytes);
            watch->element = first + at;
        }
        watch->gone = in[i] == out ? member : watch->gone;
    }
}

// -inf masks a max, and an overflow flag consists of infinities: only in a sum does it mean that a
// value grew too large.
static bool grows(const ls_call *call) {
    return call->op != LS_MAX && call->op != LS_MIN;
}

static void moving(ls_spmd *run, ls_move *move) {
    const ls_call *call = &move->requests[0]->call;
    ls_value_watch *watch = &move->watch;
    int size = move->size;
    void *memory = NULL;
    *watch = (ls_value_watch){.dtype = call->dtype, .size = size, .gone = -1};
    // If the data moves elsewhere, also on a device, it is not checked on the way.
    if (run->borrowed || move->device != NULL || !ls_values__on(run, call) ||
        !ls_collective_of(call->kind)->reduces) {
        return;
    }
    size_t bytes = sizeof *watch->inputs + sizeof *watch->samples;
    if (ls_alloc(&memory, (size_t)size, bytes) != LS_OK) {
        return;
    }
    watch->samples = memory;
    watch->inputs = (unsigned *)(watch->samples + size);
    watch->infinities =
        run->checks[LS_FINDING_VALUE_INF_FIRST] && (grows(call) || run->brought_inf);
    ls_call_fold__watch(on_special, watch);
}

void ls_values__begin(ls_value_watch *watch) {
    ls_call_fold__watch(on_special, watch);
}

bool ls_values__fork(ls_value_watch *out, const ls_value_watch *of) {
    void *memory = NULL;
    *out = (ls_value_watch){
        .dtype = of->dtype, .size = of->size, .gone = -1, .infinities = of->infinities};
    if (ls_alloc(&memory, (size_t)of->size, sizeof *out->inputs + sizeof *out->samples) != LS_OK) {
        return false;
    }
    out->samples = memory;
    out->inputs = (unsigned *)(out->samples + of->size);
    return true;
}

// As if the range had been checked after the earlier ones, which had found a NaN or not.
void ls_values__join(ls_value_watch *into, ls_value_watch *from) {
    bool over = (into->results & SPECIAL_NAN) != 0;
    for (int i = 0; i < into->size && !over; i++) {
        into->inputs[i] |= from->inputs[i];
        into->samples[i] = from->samples[i] != 0 ? from->samples[i] : into->samples[i];
    }
    if (!over) {
        into->results |= from->results;
        into->gone = from->gone >= 0 ? from->gone : into->gone;
        into->element = from->results != 0 ? from->element : into->element;
    }
    ls_free(from->samples, (size_t)from->size, sizeof *from->inputs + sizeof *from->samples);
    from->samples = NULL;
}

static void over(ls_move *move) {
    ls_value_watch *watch = &move->watch;
    ls_call_fold__watch(NULL, NULL);
    ls_free(watch->samples, (size_t)watch->size, sizeof *watch->inputs + sizeof *watch->samples);
    watch->samples = NULL;
}

static unsigned scan_buffer(const ls_request *request, const void *buffer, size_t bytes) {
    ls_dtype dtype = request->call.dtype;
    ls_view view = ls_memory__view(request->rank->run, buffer, bytes);
    size_t count = view.data != NULL ? bytes / ls_dtype_bytes(dtype) : 0, at = 0;
    unsigned found = scan(&at, view.data, count, dtype);
    // Garbage that is only moved is no computed NaN.
    if ((found & SPECIAL_NAN) != 0 && ls_poison__any(request->rank->run, view.data, bytes)) {
        found &= ~(unsigned)SPECIAL_NAN;
    }
    ls_memory__unview(&view);
    return found;
}

// The first of its kind: the member that contributed it, if any. inputs [size].
static void report_special(ls_spmd *run, ls_request *const *requests, int size, unsigned kind,
                           const unsigned *inputs, int gone) {
    ls_finding_id id =
        kind == SPECIAL_NAN ? LS_FINDING_VALUE_NAN_FIRST : LS_FINDING_VALUE_INF_FIRST;
    const char *name = kind == SPECIAL_NAN ? "NaN" : "Inf";
    void *memory = NULL;
    if (!run->checks[id] || ls_alloc(&memory, (size_t)size, sizeof(int)) != LS_OK) {
        return;
    }
    int *ranks = memory, count = 0;
    const ls_request *first = NULL;
    for (int m = 0; m < size; m++) {
        if (inputs[m] != SPECIAL_NONE) {
            first = first == NULL ? requests[m] : first;
            ranks[count++] = requests[m]->call.rank;
        }
    }
    if (first == NULL && gone >= 0) {  // its input was overwritten; no other member contributed it
        first = requests[gone];
        ranks[count++] = first->call.rank;
    }
    ls_text text = {0};
    char what[256], list[128];
    ls_call_describe(what, sizeof what, &requests[0]->call);
    if (first != NULL) {
        ls_ranks_format(list, sizeof list, ranks, count);
        ls_text_printf(&text,
                       "%s is the first call that carries %s: it is in what rank%s %s sent\n", what,
                       name, count > 1 ? "s" : "", list);
    } else {
        first = requests[0];
        for (int m = 0; m < size; m++) {
            ranks[count++] = requests[m]->call.rank;
        }
        ls_text_printf(&text,
                       "%s is the first call whose result holds %s; its inputs hold none, so the "
                       "reduction produced it\n",
                       what, name);
    }
    ls_findings__history(&text, first->rank, 4);
    (void)ls_findings__add(run, id, ranks, count, first->call.file, first->call.line,
                           ls_findings__string(run, &text));
    run->checks[id] = false;  // only the first one matters
    ls_text_free(&text);
    ls_free(memory, (size_t)size, sizeof(int));
}

// Whether the NaN come from memory or calls that hold nothing yet; that is reported.
static bool explained(ls_spmd *run, ls_request *const *requests, const ls_value_watch *watch) {
    bool found = false;
    for (int m = 0; m < watch->size; m++) {
        bool computed = false;
        ls_origin *origin =
            watch->samples == NULL || (watch->inputs[m] & SPECIAL_NAN) == 0
                ? NULL
                : ls_poison__origin(&computed, run, &watch->samples[m], watch->dtype);
        if (origin != NULL) {
            report_origin(requests[m], origin, computed, false, watch->element);
            found = true;
        }
        found = found || requests[m]->poisoned;  // has been reported
    }
    return found;
}

static bool any(const unsigned *inputs, int size) {
    for (int m = 0; m < size; m++) {
        if (inputs[m] != SPECIAL_NONE) {
            return true;
        }
    }
    return false;
}

static void reduced(ls_spmd *run, ls_request *const *requests, const ls_value_watch *watch) {
    const ls_call *call = &requests[0]->call;
    if (watch->results == SPECIAL_NONE || explained(run, requests, watch)) {
        return;
    }
    if ((watch->results & SPECIAL_NAN) != 0) {
        report_special(run, requests, watch->size, SPECIAL_NAN, watch->inputs, watch->gone);
    } else if (run->brought_inf ||
               (grows(call) && watch->gone < 0 && !any(watch->inputs, watch->size))) {
        report_special(run, requests, watch->size, SPECIAL_INF, watch->inputs, watch->gone);
    }
}

// Data that was only moved, or reduced elsewhere, where in-place results have taken the place of
// the inputs.
static void looked_at_afterwards(ls_spmd *run, ls_request *const *requests, int size,
                                 unsigned *found) {
    bool reduces = ls_collective_of(requests[0]->call.kind)->reduces;
    unsigned worst = SPECIAL_NONE;
    int gone = -1;
    for (int m = 0; m < size; m++) {
        const ls_request *r = requests[m];
        bool lost =
            reduces && ls_memory__meets(r->call.send, r->send_bytes, r->call.recv, r->recv_bytes);
        if (r->poisoned) {
            return;
        }
        found[m] = lost ? SPECIAL_NONE : scan_buffer(r, ls_flight__send(r), r->send_bytes);
        gone = lost && gone < 0 ? m : gone;
        // Elements without any member's data are the operation's neutral element.
        bool result =
            reduces && ls_collective_term_count(ls_collective_of(r->call.kind), m, size) > 0;
        worst |= found[m] | (result ? scan_buffer(r, ls_flight__recv(r), r->recv_bytes) : 0);
    }
    unsigned kind = (worst & SPECIAL_NAN) != 0 ? SPECIAL_NAN : worst & SPECIAL_INF;
    for (int m = 0; m < size; m++) {
        found[m] &= kind;
    }
    if (kind == SPECIAL_NAN ||
        (kind == SPECIAL_INF && (run->brought_inf || (reduces && !any(found, size))))) {
        report_special(run, requests, size, kind, found, -1);
    }
}

static void moved(ls_spmd *run, ls_move *move) {
    const ls_value_watch *watch = &move->watch;
    if (move->device != NULL || !ls_values__on(run, &move->requests[0]->call)) {
        return;
    }
    if (watch->inputs != NULL) {
        reduced(run, move->requests, watch);
        return;
    }
    void *memory = NULL;
    if (ls_alloc(&memory, (size_t)watch->size, sizeof(unsigned)) == LS_OK) {
        looked_at_afterwards(run, move->requests, watch->size, memory);
        ls_free(memory, (size_t)watch->size, sizeof(unsigned));
    }
}

const ls_rank_check ls_rank_check__values = {
    .made = made, .moving = moving, .moved = moved, .over = over};
