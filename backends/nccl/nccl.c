// The NCCL backend: calls are matched and checked as in the simulator, then each rank's thread
// hands its own to NCCL. Collectives run one after another, in one order on all ranks, so that what
// NCCL logs belongs to one call and calls are never packed together (which would change their
// bits).
#include "backends/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>

#include "backends/nccl/nccl_internal.h"

#define DEADLINE_SECONDS 60.0

static bool is_p2p(const ls_call *call) {
    return ls_kind_is_message(call->kind);
}

// ---- One step: an event, or all sends and receives on one communicator --------------------------
static int issue_job(nccl_worker *worker, void *arg) {
    (void)arg;
    return ls_nccl__issue(worker);
}

static int unstage_job(nccl_worker *worker, void *arg) {
    (void)arg;
    return ls_nccl__unstage(worker);
}

// Hands the workers' calls to NCCL. Sends and receives of other processes are checked meanwhile.
static int issue(nccl_owner *owner, ls_nccl_messages *messages) {
    if (messages == NULL) {
        return ls_nccl__on_all(owner, issue_job, NULL, 0);
    }
    int status = ls_nccl__on_all_watched(owner, issue_job, ls_nccl__messages_check, messages);
    if (status == LS_OK || status == LS_ERR_TIMEOUT) {
        // A missing call is a better explanation than an NCCL call that did not end.
        ls_error error = *ls_error_last();
        int missing = ls_nccl__messages_close(messages);
        if (missing == LS_OK && status != LS_OK) {
            return ls_error__set(error.file, error.line, error.code, error.rank, "%s", error.text);
        }
        return missing;
    }
    return status;
}

// Runs the calls that the workers hold. Nothing is handed to NCCL before all buffers have room.
static int run_step(nccl_owner *owner, ls_arena *arena) {
    ls_nccl_messages messages, *checked = NULL;
    const nccl_worker *own = &owner->workers[0];
    LS_TRY(ls_nccl__on_all(owner, ls_nccl__stage_job, NULL, 0));
    bool check = owner->options.bootstrap != NULL && !owner->options.unchecked;
    if (check && own->call_count > 0 && is_p2p(own->calls[0])) {
        checked = &messages;
        LS_TRY(ls_nccl__messages_open(checked, owner, own->calls, own->call_count, arena));
    }
    ls_nccl__set_deadline(owner);
    int status = issue(owner, checked);
    if (status != LS_OK) {
        ls_nccl__abort(owner);
        return status;
    }
    return ls_nccl__on_all(owner, unstage_job, NULL, 0);
}

static void note_used(nccl_owner *owner, const ls_call *call) {
    ls_text text = {0};
    bool first = ls_comm_member(call->comm, call->rank) == 0;
    bool room = owner->used_count < owner->used_room;
    if (ls_nccl__log_new(&text) == LS_OK && first && room) {
        nccl_used *used = &owner->used[owner->used_count];
        *used = (nccl_used){.comm_id = call->comm->id, .seq = call->seq};
        ls_nccl__choice_parse(&used->choice, ls_text_string(&text), call->kind);
        const nccl_comm *comm = ls_nccl__comm(owner, call->comm);
        const ls_nccl_topology *topology =
            comm->borrowed ? &owner->world_topology : &comm->topology;
        bool ring = strcmp(used->choice.algorithm, "ring") == 0;
        bool tree = strcmp(used->choice.algorithm, "tree") == 0;
        const char *links = tree ? topology->tree_text : NULL;
        if (ring) {
            links = topology->ring_text;
        }
        if (links != NULL && ls_collective_of(call->kind)->reduces) {
            ls_text order = {0};
            ls_text_printf(&order, "%s:proto=%s,nccl=%s%s", used->choice.algorithm,
                           used->choice.protocol, owner->library->text, links);
            used->order = order.failed ? NULL : strdup(ls_text_string(&order));
            ls_text_free(&order);
        }
        owner->used_count++;
    }
    ls_text_free(&text);
}

static void forget_used(nccl_owner *owner) {
    for (int i = 0; i < owner->used_count; i++) {
        free(owner->used[i].order);
    }
    ls_free(owner->used, (size_t)owner->used_room, sizeof *owner->used);
    owner->used = NULL;
    owner->used_count = owner->used_room = 0;
}

static bool nccl_used_for(ls_backend *backend, const ls_call *call, ls_call_used *out) {
    const nccl_owner *owner = backend->impl;
    for (int i = 0; i < owner->used_count; i++) {
        const nccl_used *used = &owner->used[i];
        if (ls_comm_member(call->comm, call->rank) == 0 && used->comm_id == call->comm->id &&
            used->seq == call->seq && used->choice.algorithm[0] != '\0') {
            *out = (ls_call_used){.algorithm = used->choice.algorithm,
                                  .protocol = used->choice.protocol,
                                  .channels = used->choice.channels,
                                  .order = used->order};
            return true;
        }
    }
    return false;
}

// ---- A group of calls ---------------------------------------------------------------------------
// Own calls in the order in which all ranks run them: by communicator, collectives by number, then
// sends and receives.
typedef struct ordered {
    const ls_call *call;
    int round;  // among the rank's collectives on the communicator
    int index;
} ordered;

static int compare_ordered(const void *a, const void *b) {
    const ordered *x = a, *y = b;
    if (x->call->comm->id != y->call->comm->id) {
        return x->call->comm->id < y->call->comm->id ? -1 : 1;
    }
    if (is_p2p(x->call) != is_p2p(y->call)) {
        return is_p2p(x->call) ? 1 : -1;
    }
    if (x->round != y->round) {
        return x->round < y->round ? -1 : 1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

static bool same_step(const ordered *a, const ordered *b) {
    return a->call->comm == b->call->comm && is_p2p(a->call) == is_p2p(b->call) &&
           (is_p2p(a->call) || a->round == b->round);
}

static int take_calls(nccl_owner *owner, const ordered *from, int count) {
    for (int i = 0; i < owner->held; i++) {
        owner->workers[i].call_count = 0;
        LS_TRY(ls_nccl__room_for(&owner->workers[i], count));
    }
    for (int k = 0; k < count; k++) {
        nccl_worker *worker =
            &owner->workers[ls_world_held_index(owner->backend.world, from[k].call->rank)];
        worker->calls[worker->call_count++] = from[k].call;
    }
    return LS_OK;
}

static int run_ordered(nccl_owner *owner, const ordered *list, int count, ls_arena *arena) {
    for (int first = 0; first < count;) {
        int end = first + 1;
        // Unchecked, each rank executes its calls separately, as programs do.
        while (end < count && (owner->options.unchecked || same_step(&list[first], &list[end]))) {
            end++;
        }
        LS_TRY(take_calls(owner, &list[first], end - first));
        if (run_step(owner, arena) != LS_OK) {
            char text[256];
            ls_call_format(text, sizeof text, list[first].call);
            bool said = strstr(ls_error_last()->text, text) != NULL;
            return said ? ls_error_last()->code : ls_error_wrap("%s", text);
        }
        int said = first;  // by member 0, whose process has it in its log
        while (said < end && ls_comm_member(list[said].call->comm, list[said].call->rank) != 0) {
            said++;
        }
        note_used(owner, list[said < end ? said : first].call);
        first = end;
    }
    return LS_OK;
}

static int order_calls(ordered *out, const ls_call *calls, int call_count) {
    for (int i = 0; i < call_count; i++) {
        out[i] = (ordered){.call = &calls[i], .index = i};
        for (int k = i - 1; k >= 0 && !is_p2p(&calls[i]); k--) {
            if (calls[k].comm == calls[i].comm && calls[k].rank == calls[i].rank &&
                !is_p2p(&calls[k])) {
                out[i].round = out[k].round + 1;
                break;
            }
        }
    }
    qsort(out, (size_t)call_count, sizeof *out, compare_ordered);
    return LS_OK;
}

static int match_calls(nccl_owner *owner, const ls_call *calls, int call_count, ls_arena *arena) {
    ls_match match;
    ls_call *all = NULL;
    int all_count = 0;
    if (owner->options.bootstrap == NULL) {
        LS_TRY(ls_match__calls(&match, calls, call_count));
    } else {
        LS_TRY(ls_nccl__gather_calls(&all, &all_count, owner, calls, call_count, arena));
        LS_TRY(ls_match__calls(&match, all, all_count));
    }
    ls_match__free(&match);
    return LS_OK;
}

// Why a group did not end in time: calls that do not match say more than that it did not.
static int explain_timeout(nccl_owner *owner, const ls_call *calls, int call_count,
                           ls_arena *arena) {
    ls_error error = *ls_error_last();
    if (owner->options.bootstrap == NULL && owner->options.unchecked &&
        match_calls(owner, calls, call_count, arena) != LS_OK) {
        return ls_error_wrap("no result within %.3g s; the calls do not match",
                             owner->options.deadline_seconds);
    }
    return ls_error__set(error.file, error.line, error.code, error.rank,
                         "%s (no result within %.3g s)", error.text,
                         owner->options.deadline_seconds);
}

static int run_group(nccl_owner *owner, const ls_call *calls, int call_count, ls_arena *arena) {
    for (int i = 0; i < call_count; i++) {
        LS_TRY(ls_call_check(NULL, &calls[i]));
        LS_TRY(ls_nccl__supports(&calls[i]));
    }
    if (!owner->options.unchecked) {
        LS_TRY(match_calls(owner, calls, call_count, arena));
    }
    LS_TRY(ls_backend__check_overlap(calls, call_count));
    ordered *list = ls_arena_alloc(arena, (size_t)call_count, sizeof *list);
    LS_TRY_MEMORY(list != NULL);
    LS_TRY(order_calls(list, calls, call_count));
    int status = run_ordered(owner, list, call_count, arena);
    return status == LS_ERR_TIMEOUT ? explain_timeout(owner, calls, call_count, arena) : status;
}

static int nccl_run(ls_backend *backend, ls_call *calls, int call_count) {
    nccl_owner *owner = backend->impl;
    if (owner->broken) {
        return LS_FAIL(LS_ERR_BACKEND, "NCCL was aborted before; nothing can run any more");
    }
    forget_used(owner);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)call_count, sizeof *owner->used));
    owner->used = memory;
    owner->used_room = call_count;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    int status = run_group(owner, calls, call_count, arena);
    ls_arena_free(arena);
    return status;
}

// ---- The backend --------------------------------------------------------------------------------
static void destroy(nccl_owner *owner) {
    ls_nccl__log_unlink();
    if (owner->workers != NULL) {
        ls_nccl__world_close(owner);
        ls_nccl__workers_close(owner);
    }
    forget_used(owner);
    ls_nccl__topology_free(&owner->world_topology);
    ls_arena_free(owner->names);
    ls_free(owner->workers, (size_t)owner->held, sizeof(nccl_worker));
    (void)pthread_mutex_destroy(&owner->jobs);
    ls_free(owner, 1, sizeof *owner);
}

static void nccl_destroy(ls_backend *backend) {
    nccl_owner *owner = backend->impl;
    ls_nccl_kept *kept = owner->options.kept;
    if (kept == NULL || owner->broken) {
        destroy(owner);
        return;
    }
    forget_used(owner);
    owner->next_kept = kept->first;
    kept->first = owner;
}

void ls_nccl_kept_free(ls_nccl_kept *kept) {
    while (kept->first != NULL) {
        nccl_owner *owner = kept->first;
        kept->first = owner->next_kept;
        destroy(owner);
    }
}

static const ls_backend_ops nccl_ops = {
    .name = "nccl",
    .is_device = ls_nccl__is_device,
    .read_device = ls_nccl__read_device,
    .enter_rank = ls_nccl__enter_rank,
    .comm_open = ls_nccl__comm_open,
    .comm_close = ls_nccl__comm_close,
    .comm_split = ls_nccl__comm_split,
    .run = nccl_run,
    .used = nccl_used_for,
    .destroy = nccl_destroy,
};

// Every process must have the same NCCL: another version may split the work in another way. They
// exchange versions before any of them uses a GPU.
static int check_versions(nccl_owner *owner) {
    const ls_nccl_bootstrap *bootstrap = owner->options.bootstrap;
    if (bootstrap == NULL) {
        return LS_OK;
    }
    int first = owner->library->version;
    LS_TRY(bootstrap->broadcast(bootstrap->data, &first, sizeof first, 0));
    for (int rank = 1; rank < owner->size; rank++) {
        int version = owner->library->version;
        LS_TRY(bootstrap->broadcast(bootstrap->data, &version, sizeof version, rank));
        if (version != first) {
            return LS_FAIL_RANK(LS_ERR_BACKEND, rank,
                                "rank %d has NCCL %d.%d.%d, rank 0 has %d.%d.%d: all need the same "
                                "version",
                                rank, version / 10000, version / 100 % 100, version % 100,
                                first / 10000, first / 100 % 100, first % 100);
        }
    }
    return LS_OK;
}

// NCCL lets ranks share a GPU from 2.30 on, where its user asks for that.
static bool shares_devices(void) {
    const ls_nccl_library *library = NULL;
    const char *asked = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return asked != NULL && strcmp(asked, "1") == 0 && ls_nccl__load(&library) == LS_OK &&
           library->version >= NCCL_VERSION(2, 30, 0);
}

int ls_nccl_devices_needed(const ls_world *world, const ls_nccl_options *options) {
    if (shares_devices()) {
        return 1;
    }
    const ls_nccl_bootstrap *bootstrap = options != NULL ? options->bootstrap : NULL;
    return bootstrap != NULL ? bootstrap->local_rank + 1 : ls_world_held_count(world);
}

static int check_devices(const nccl_owner *owner) {
    int have = ls_nccl_device_count();
    if (have == 0) {
        return LS_ERR_BACKEND;
    }
    int need = ls_nccl_devices_needed(owner->backend.world, &owner->options);
    if (need > have) {
        return LS_FAIL(LS_ERR_BACKEND,
                       "%d ranks need %d GPUs, this machine has %d; NCCL 2.30 or later lets them "
                       "share one under NCCL_MULTI_RANK_GPU_ENABLE=1",
                       need, need, have);
    }
    return LS_OK;
}

static int open_world(nccl_owner *owner) {
    if (owner->options.bootstrap == NULL) {
        LS_TRY(check_devices(owner));
    }
    // NVLS sums in the switch, in no order that can be reported: off, unless the user wants it.
    (void)setenv("NCCL_NVLS_ENABLE", "0", 0);
    if (!owner->options.quiet_log) {
        LS_TRY(ls_nccl__log_open());
    }
    LS_TRY(ls_nccl__load(&owner->library));
    LS_TRY(check_versions(owner));
    LS_TRY(check_devices(owner));
    LS_TRY(ls_nccl__workers_open(owner));
    return ls_nccl__world_open(owner);
}

// Binds the available resources to a world.
static void bind(nccl_owner *owner, ls_world *world, const ls_nccl_options *options) {
    owner->backend = (ls_backend){.ops = &nccl_ops, .world = world, .impl = owner};
    owner->options = options != NULL ? *options : (ls_nccl_options){0};
    if (owner->options.deadline_seconds <= 0) {
        owner->options.deadline_seconds = DEADLINE_SECONDS;
    }
}

// A kept one for a world of the same ranks. NULL: there is none.
static nccl_owner *take_kept(const ls_world *world, const ls_nccl_options *options) {
    nccl_owner **at = options != NULL && options->kept != NULL ? &options->kept->first : NULL;
    while (at != NULL && *at != NULL) {
        nccl_owner *owner = *at;
        if (owner->size == ls_world_size(world) && owner->held == ls_world_held_count(world) &&
            owner->workers[0].rank == ls_world_held(world)[0] &&
            owner->options.blocking == options->blocking) {
            *at = owner->next_kept;
            return owner;
        }
        at = &owner->next_kept;
    }
    return NULL;
}

int ls_backend_nccl_create(ls_backend **out, ls_world *world, const ls_nccl_options *given) {
    LS_ASSERT(out != NULL && world != NULL);
    *out = NULL;
    ls_nccl_options own;
    const ls_nccl_options *options = given != NULL ? &own : NULL;
    LS_TRY(given != NULL ? ls_options_take(&own, sizeof own, given) : LS_OK);
    nccl_owner *made = take_kept(world, options);
    if (made != NULL) {
        bind(made, world, options);
        *out = &made->backend;
        return LS_OK;
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(nccl_owner)));
    made = memory;
    bind(made, world, options);
    made->size = ls_world_size(world);
    made->held = ls_world_held_count(world);
    LS_ASSERT(made->held >= 1);
    (void)pthread_mutex_init(&made->jobs, NULL);
    bool all = made->held == made->size;
    int status = LS_OK;
    if (!all && (made->options.bootstrap == NULL || made->held != 1)) {
        status = LS_FAIL(LS_ERR_INVALID, "NCCL runs all ranks in one process, or one in each");
    }
    if (status == LS_OK) {
        status = ls_alloc(&memory, (size_t)made->held, sizeof(nccl_worker));
        made->workers = status == LS_OK ? memory : NULL;
    }
    status = status == LS_OK ? ls_arena_create(&made->names) : status;
    status = status == LS_OK ? open_world(made) : status;
    if (status != LS_OK) {
        ls_error error = *ls_error_last();
        destroy(made);
        return ls_error__set(error.file, error.line, error.code, error.rank, "%s", error.text);
    }
    *out = &made->backend;
    return LS_OK;
}
