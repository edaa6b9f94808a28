// Communicators as programs see them: the world, mesh axes, splits and subsets.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "ranks/internal.h"

int ls_shared_comm__make(ls_shared_comm **out, ls_spmd *run, ls_comm *comm, bool of_axis) {
    ls_shared_comm *shared = ls_arena_alloc(run->arena, 1, sizeof *shared);
    LS_TRY_MEMORY(shared != NULL);
    shared->comm = comm;
    shared->of_axis = of_axis;
    int status = ls_meet__open(shared);
    if (status != LS_OK) {
        ls_meet__close(shared);
        return status;
    }
    shared->next = run->comms;
    run->comms = shared;
    *out = shared;
    return LS_OK;
}

int ls_rank_comm__make(ls_rank_comm **out, ls_shared_comm *shared, ls_rank *rank, bool of_run) {
    ls_spmd *run = rank->run;
    ls_rank_comm *comm = ls_arena_alloc(run->arena, 1, sizeof *comm);
    LS_TRY_MEMORY(comm != NULL);
    comm->magic = LS_RANK_COMM_MAGIC;
    comm->rank = rank;
    comm->shared = shared;
    comm->member = ls_comm_member(shared->comm, rank->id);
    comm->of_run = of_run;
    comm->file = "";
    comm->next = run->handles;
    run->handles = comm;
    LS_ASSERT(comm->member >= 0);
    *out = comm;
    return LS_OK;
}

void ls_comm__close(ls_spmd *run) {
    for (ls_shared_comm *at = run->comms; at != NULL; at = at->next) {
        ls_checks__closed_comm(run, at);
        ls_meet__close(at);
        if (!at->of_axis) {
            ls_comm_free(at->comm);
        }
    }
    for (int axis = 0; axis < LS_MESH_DIMS_MAX; axis++) {
        ls_axis_free(run->axes[axis]);
    }
}

// ---- Queries of programs ------------------------------------------------------------------------
int ls_rank_id(const ls_rank *self) {
    return self->id;
}

int ls_rank_count(const ls_rank *self) {
    return ls_world_size(self->run->world);
}

ls_rank_comm *ls_rank_world(ls_rank *self) {
    return self->world;
}

int ls_comm_rank(const ls_rank_comm *comm) {
    return comm->member;
}

const char *ls_comm_name(const ls_rank_comm *comm) {
    return comm->shared->comm->name;
}

int ls_comm_set_name(ls_rank_comm *comm, const char *name) {
    LS_ASSERT(comm != NULL && name != NULL);
    ls_rank *self = comm->rank;
    if (comm->of_run || name[0] == '\0') {
        return ls_findings__refuse(self, self->file, self->line, "ls_comm_set_name: %s",
                                   comm->of_run ? "the communicator is the run's"
                                                : "the name is empty");
    }
    ls_schedule__enter(self);
    ls_comm *of = comm->shared->comm;
    char kept[sizeof of->name];
    (void)snprintf(kept, sizeof kept, "%s", name);
    if (strcmp(kept, of->name) != 0) {  // its members give it one name, and may read it at once
        memcpy(of->name, kept, sizeof kept);
    }
    ls_schedule__leave(self);
    return LS_OK;
}

const ls_comm *ls_comm_of(const ls_rank_comm *comm) {
    return comm->shared->comm;
}

double ls_rank_uniform(ls_rank *self, const char *stream, uint64_t index) {
    return ls_random_uniform(ls_world_seed(self->run->world), ls_random_stream(stream),
                             (uint32_t)self->id, index);
}

double ls_rank_uniform_shared(ls_rank *self, const char *stream, uint64_t index) {
    return ls_random_uniform(ls_world_seed(self->run->world), ls_random_stream(stream), UINT32_MAX,
                             index);
}

int ls_rank_attach(ls_rank *self) {
    LS_ASSERT(self != NULL);
    if (ls_schedule__current() != NULL) {
        return LS_FAIL_RANK(LS_ERR_INVALID, self->id, "the thread runs rank %d already",
                            ls_schedule__current()->id);
    }
    if (pthread_equal(self->thread, pthread_self()) != 0) {  // it had detached itself
        ls_schedule__set_current(self);
        return LS_OK;
    }
    ls_thread *made = ls_turns__make(self);
    if (made == NULL) {
        return LS_FAIL_RANK(LS_ERR_MEMORY, self->id, "out of memory");
    }
    self->calls_at_once = true;
    ls_turns__begin(made);
    return LS_OK;
}

void ls_rank_detach(ls_rank *self) {
    LS_ASSERT(self != NULL && ls_schedule__current() == self);
    if (self->thread_count > 1 && ls_turns__me(self) != &self->main) {
        ls_turns__end();
    }
    ls_schedule__set_current(NULL);
}

static int open_axis(ls_spmd *run, int axis) {
    ls_axis *made = NULL;
    LS_TRY(ls_axis_create(&made, run->backend, axis));
    ls_shared_comm **shared =
        ls_arena_alloc(run->arena, (size_t)made->comm_count, sizeof(ls_shared_comm *));
    if (shared == NULL) {
        ls_axis_free(made);
        return LS_ERR_MEMORY;
    }
    run->axes[axis] = made;
    run->axis_comms[axis] = shared;
    for (int i = 0; i < made->comm_count; i++) {
        LS_TRY(ls_shared_comm__make(&shared[i], run, made->comms[i], true));
    }
    return LS_OK;
}

static int axis_of(ls_rank_comm **out, ls_rank *self, int axis) {
    ls_spmd *run = self->run;
    if (self->axes[axis] == NULL) {
        if (run->axes[axis] == NULL) {
            LS_TRY(open_axis(run, axis));
        }
        ls_shared_comm *shared = run->axis_comms[axis][run->axes[axis]->comm_of_rank[self->id]];
        LS_TRY(ls_rank_comm__make(&self->axes[axis], shared, self, true));
    }
    *out = self->axes[axis];
    return LS_OK;
}

int ls_rank_axis_named(ls_rank_comm **out, ls_rank *self, const char *name) {
    LS_ASSERT(out != NULL && self != NULL && name != NULL);
    *out = NULL;
    int axis = -1;
    if (ls_mesh_axis(&axis, ls_world_mesh(self->run->world), name) != LS_OK) {
        return ls_findings__refuse(self, self->file, self->line, "ls_rank_axis_named: %s",
                                   ls_error_last()->text);
    }
    return ls_rank_axis(out, self, axis);
}

int ls_rank_axis(ls_rank_comm **out, ls_rank *self, int axis) {
    LS_ASSERT(out != NULL && self != NULL);
    *out = NULL;
    if (axis < 0 || axis >= ls_world_mesh(self->run->world)->ndim) {
        return ls_findings__refuse(self, self->file, self->line,
                                   "ls_rank_axis: mesh axis %d is not in [0, %d)", axis,
                                   ls_world_mesh(self->run->world)->ndim);
    }
    ls_schedule__enter(self);
    int status = axis_of(out, self, axis);
    ls_schedule__leave(self);
    return status;
}

// ---- Split -------------------------------------------------------------------------------------
typedef struct place {
    int color, key, member, rank;
} place;

static int compare_places(const void *a, const void *b) {
    const place *x = a, *y = b;
    int order = ls_compare(x->color, y->color);
    order = order != 0 ? order : ls_compare(x->key, y->key);
    return order != 0 ? order : ls_compare(x->member, y->member);
}

// The result of a split for this process where it holds one rank: its own communicator, if any.
typedef struct own_part {
    const ls_comm *parent;
    int rank;   // this process's
    bool made;  // it is a member of one
} own_part;

// Makes the communicator of `ranks` [count] with the number that comes next, where this process
// has a part in it; else counts it.
static int open_comm(ls_comm **out, ls_spmd *run, own_part *own, const int *ranks, int count,
                     int color, const char *name) {
    *out = NULL;
    if (!run->direct) {
        return ls_comm_create(out, run->backend, ranks, count, name);
    }
    int id = run->backend->comm_next_id;
    for (int i = 0; i < count; i++) {
        if (ranks[i] == own->rank) {
            own->made = true;
            return ls_comm_split_off(out, own->parent, color, ranks, count, id, name);
        }
    }
    run->backend->comm_next_id = id + 1;
    return LS_OK;
}

// Those without a part in any take part in the splitting.
static int close_split(ls_spmd *run, const own_part *own) {
    ls_comm *none = NULL;
    return run->direct && !own->made ? ls_comm_split_off(&none, own->parent, -1, NULL, 0, 0, "")
                                     : LS_OK;
}

static own_part part_of(const ls_spmd *run, const ls_shared_comm *shared) {
    return (own_part){.parent = shared->comm, .rank = run->ranks[0].id};
}

// One new communicator of places [count], whose handles go to requests by member.
static int make_comm(ls_spmd *run, own_part *own, ls_request *const *requests, const place *places,
                     int count, const char *name) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof(int)));
    int *ranks = memory;
    for (int i = 0; i < count; i++) {
        ranks[i] = places[i].rank;
    }
    ls_comm *comm = NULL;
    int status = open_comm(&comm, run, own, ranks, count, places[0].color, name);
    ls_free(memory, (size_t)count, sizeof(int));
    if (status != LS_OK || comm == NULL) {
        return status;
    }
    const ls_call *call = &requests[places[0].member]->call;
    comm->family = ls_comm_family(own->parent->family, call->file, call->line);
    ls_shared_comm *shared = NULL;
    status = ls_shared_comm__make(&shared, run, comm, false);
    if (status != LS_OK) {
        ls_comm_free(comm);
        return status;
    }
    for (int i = 0; i < count; i++) {
        ls_request *request = requests[places[i].member];
        ls_rank_comm *made = NULL;
        if (request->made_out == NULL) {
            continue;  // another process's
        }
        LS_TRY(ls_rank_comm__make(&made, shared, request->rank, false));
        made->file = request->call.file;
        made->line = request->call.line;
        *request->made_out = made;
    }
    return LS_OK;
}

int ls_comm__split(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    int size = shared->comm->size, count = 0;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(place)));
    place *places = memory;
    for (int m = 0; m < size; m++) {
        if (requests[m]->color >= 0) {
            places[count++] =
                (place){requests[m]->color, requests[m]->key, m, requests[m]->call.rank};
        }
    }
    qsort(places, (size_t)count, sizeof *places, compare_places);
    int status = LS_OK;
    own_part own = part_of(run, shared);
    for (int first = 0, end; first < count && status == LS_OK; first = end) {
        end = first + 1;
        while (end < count && places[end].color == places[first].color) {
            end += 1;
        }
        char name[48];
        (void)snprintf(name, sizeof name, "%.24s/%d #%d", shared->comm->name, places[first].color,
                       run->backend->comm_next_id);
        status = make_comm(run, &own, requests, places + first, end - first, name);
    }
    status = status == LS_OK ? close_split(run, &own) : status;
    ls_free(memory, (size_t)size, sizeof(place));
    return status;
}

// ---- Subset ------------------------------------------------------------------------------------
static bool same_list(const ls_request *a, const ls_request *b) {
    return a->member_count == b->member_count &&
           (a->member_count == 0 ||
            memcmp(a->members, b->members, (size_t)a->member_count * sizeof(int)) == 0);
}

static int fail_subset(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests,
                       int right) {
    int size = shared->comm->size;
    int wrong = -1;
    for (int m = 0; m < size; m++) {
        if (same_list(requests[m], requests[right])) {
            continue;
        }
        if (wrong < 0) {
            wrong = m;
            ls_check__note(LS_FINDING_GROUP_MISMATCH, &requests[m]->call);
        } else {
            ls_check__note_rank(&requests[m]->call);
        }
    }
    char a[128], b[128];
    ls_ranks_format(a, sizeof a, requests[wrong]->members, requests[wrong]->member_count);
    ls_ranks_format(b, sizeof b, requests[right]->members, requests[right]->member_count);
    (void)LS_FAIL_RANK(
        LS_ERR_MISMATCH, requests[wrong]->call.rank,
        "comm_subset on %s, call %llu: members differ: rank %d says {%s}, rank %d says {%s}",
        shared->comm->name, (unsigned long long)requests[wrong]->call.seq,
        requests[wrong]->call.rank, a, requests[right]->call.rank, b);
    int status = ls_findings__add_check(run, requests, size);
    ls_spmd__fail(run, status, ls_finding_name(LS_FINDING_GROUP_MISMATCH));
    return run->status;
}

int ls_comm__subset(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    int size = shared->comm->size, right = 0, votes = 0;
    for (int m = 0; m < size; m++) {
        right = votes == 0 ? m : right;
        votes += same_list(requests[m], requests[right]) ? 1 : -1;
    }
    int same = 0;
    for (int m = 0; m < size; m++) {
        same += same_list(requests[m], requests[right]) ? 1 : 0;
    }
    right = 2 * same > size ? right : 0;
    if (same != size) {
        return fail_subset(run, shared, requests, right);
    }
    int count = requests[0]->member_count;
    if (count == 0) {
        return LS_OK;
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof(place)));
    place *places = memory;
    for (int i = 0; i < count; i++) {
        int member = requests[0]->members[i];
        places[i] = (place){0, i, member, shared->comm->ranks[member]};
    }
    char name[LS_COMM_NAME_BYTES];
    ls_comm_subset_name(name, shared->comm);
    own_part own = part_of(run, shared);
    int status = make_comm(run, &own, requests, places, count, name);
    status = status == LS_OK ? close_split(run, &own) : status;
    ls_free(memory, (size_t)count, sizeof(place));
    return status;
}
