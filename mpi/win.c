// Windows: memory that other ranks access, and the epochs that allow it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/coll.h"
#include "mpi/rma.h"

// ---- Arguments ----------------------------------------------------------------------------------
int ls_mpi__win_arg(mpi_win **out, mpi_where at, MPI_Win handle) {
    const char *why;
    *out = ls_mpi__handle_get(at.me, MPI_KIND_WIN, handle, &why);
    return *out != NULL
               ? MPI_SUCCESS
               : ls_mpi__win_error(at.me, NULL, MPI_ERR_WIN, at.function, "the window is %s", why);
}

int ls_mpi__sync_error(mpi_where at, const mpi_win *win, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return ls_mpi__win_error(at.me, win, MPI_ERR_RMA_SYNC, at.function, "%s", message);
}

// ---- Making and freeing -------------------------------------------------------------------------
int ls_mpi__make_win(ls_spmd *run, ls_request *const *requests, int size) {
    mpi_window *shared = ls_mpi__alloc(sizeof *shared);
    (void)run;
    shared->size = size;
    shared->members = ls_mpi__alloc((size_t)size * sizeof(mpi_win *));
    shared->locks = ls_mpi__alloc((size_t)size * sizeof *shared->locks);
    for (int m = 0; m < size; m++) {
        mpi_record *record = requests[m]->record;
        shared->members[m] = record->win;
        record->win->shared = shared;
        record->win->member = m;
        shared->locks[m].exclusive = -1;
        // Under MPI_ERRORS_RETURN no member may wait for one that had no memory.
        bool lacks = record->win->flavor == MPI_WIN_FLAVOR_ALLOCATE && record->win->memory == NULL;
        shared->no_memory = shared->no_memory || lacks;
    }
    // The parts of a shared window are adjacent.
    if (shared->members[0]->flavor == MPI_WIN_FLAVOR_SHARED) {
        size_t bytes = 0;
        for (int m = 0; m < size; m++) {
            bytes += (size_t)shared->members[m]->size;
        }
        shared->memory = calloc(1, bytes > 0 ? bytes : 1);
        shared->no_memory = shared->memory == NULL;
        char *at = shared->memory;
        for (int m = 0; m < size && at != NULL; m++) {
            shared->members[m]->base = at;
            at += shared->members[m]->size;
        }
    }
    ls_mpi__state.window_count += 1;
    return LS_OK;
}

static const mpi_collective making = {.name = "a window", .make = ls_mpi__make_win};

static int make(mpi_where at, mpi_win *proto, MPI_Comm comm, MPI_Win *out, const void *caller) {
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    if (of->inter) {
        return ls_mpi__error(at.me, of, MPI_ERR_COMM, at.function,
                             "the communicator is an intercommunicator");
    }
    if (proto->size < 0 || proto->size > LS_MPI_MEMORY) {
        return ls_mpi__error(at.me, of, MPI_ERR_SIZE, at.function, "the size is %ld",
                             (long)proto->size);
    }
    if (proto->disp_unit <= 0) {
        return ls_mpi__error(at.me, of, MPI_ERR_DISP, at.function, "the displacement unit is %d",
                             proto->disp_unit);
    }
    if (proto->flavor == MPI_WIN_FLAVOR_CREATE && proto->base == NULL && proto->size > 0) {
        return ls_mpi__error(at.me, of, MPI_ERR_BUFFER, at.function,
                             "the base is NULL, and the size is %ld", (long)proto->size);
    }
    if (out == NULL) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, at.function, "the window argument is NULL");
    }
    if (proto->flavor == MPI_WIN_FLAVOR_CREATE) {
        ls_mpi__bytes_check(at.me, proto->base, (size_t)proto->size, at.function);
    }
    if (proto->flavor == MPI_WIN_FLAVOR_ALLOCATE) {
        size_t bytes = proto->size > 0 ? (size_t)proto->size : 1;
        proto->base = proto->memory = ls_mpi__memory_give(bytes, caller, LS_MPI_FREE_WIN);
    }
    mpi_win *win = ls_mpi__alloc(sizeof *win);
    *win = *proto;
    win->comm = of;
    win->owner = at.me;
    win->errhandler = MPI_ERRORS_ARE_FATAL;
    win->locks_held = ls_mpi__alloc((size_t)of->size * sizeof *win->locks_held);
    const mpi_record record = {
        .collective = &making, .comm = of, .function = at.function, .win = win};
    MPI_TRY(ls_mpi__collective(at.me, &record, NULL));
    if (win->shared->no_memory) {
        ls_mpi__memory_take(win->memory, caller, LS_MPI_FREE_WIN);
        return ls_mpi__error(
            at.me, of, MPI_ERR_NO_MEM, at.function,
            "there is no memory for %ld bytes of this rank and those of the others",
            (long)win->size);
    }
    MPI_TRY(ls_mpi__comm_channel(&win->channel, of, "a window"));
    *out = win->handle = ls_mpi__handle_add(at.me, MPI_KIND_WIN, win);
    ls_mpi__handle_slot(at.me, *out)->function = at.function;
    win->made_at = at.me->entered;
    win->next = at.me->windows;
    at.me->windows = win;
    at.me->window_count += 1;
    ls_mpi__watch(at.me);
    return MPI_SUCCESS;
}

int MPI_Win_create(void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                   MPI_Win *win) {
    MPI_ENTER_AT(at);
    (void)info;
    mpi_win proto = {
        .base = base, .size = size, .disp_unit = disp_unit, .flavor = MPI_WIN_FLAVOR_CREATE};
    return make(at, &proto, comm, win, NULL);
}

int MPI_Win_allocate(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *base_out,
                     MPI_Win *win) {
    MPI_ENTER_AT(at);
    (void)info;
    mpi_win proto = {.size = size, .disp_unit = disp_unit, .flavor = MPI_WIN_FLAVOR_ALLOCATE};
    MPI_TRY(make(at, &proto, comm, win, __builtin_return_address(0)));
    memcpy(base_out, &proto.memory, sizeof proto.memory);
    return MPI_SUCCESS;
}

int MPI_Win_allocate_shared(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                            void *base_out, MPI_Win *win) {
    MPI_ENTER_AT(at);
    (void)info;
    mpi_win proto = {.size = size, .disp_unit = disp_unit, .flavor = MPI_WIN_FLAVOR_SHARED};
    MPI_TRY(make(at, &proto, comm, win, NULL));
    mpi_win *made = ls_mpi__handle_get(at.me, MPI_KIND_WIN, *win, NULL);
    memcpy(base_out, &made->base, sizeof made->base);
    return MPI_SUCCESS;
}

int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win) {
    MPI_ENTER_AT(at);
    (void)info;
    mpi_win proto = {.disp_unit = 1, .flavor = MPI_WIN_FLAVOR_DYNAMIC};
    return make(at, &proto, comm, win, NULL);
}

int MPI_Win_attach(MPI_Win handle, void *base, MPI_Aint size) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (win->flavor != MPI_WIN_FLAVOR_DYNAMIC) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_RMA_FLAVOR, __func__,
                                 "the window is not dynamic");
    }
    if (size < 0 || size > LS_MPI_MEMORY) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_SIZE, __func__, "the size is %ld", (long)size);
    }
    ls_mpi__bytes_check(at.me, base, size > 0 ? (size_t)size : 0, __func__);
    const char *low = base;
    if (size > 0 && ls_mpi__interval_search(&win->attached, low, low + size, NULL) != NULL) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_RMA_ATTACH, __func__,
                                 "the window has a part of this memory already");
    }
    mpi_attached *made = ls_mpi__alloc(sizeof *made);
    made->at = (mpi_interval){.low = base, .high = (char *)base + size};
    if (size > 0) {
        ls_mpi__interval_add(&win->attached, &made->at);
    } else {
        made->next = win->attached_empty;
        win->attached_empty = made;
    }
    return MPI_SUCCESS;
}

int MPI_Win_detach(MPI_Win handle, const void *base) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    const char *low = base;
    mpi_interval *part = ls_mpi__interval_search(&win->attached, low, low + 1, NULL);
    if (part != NULL && part->low == low) {
        ls_mpi__race_forget(win, part->low, part->high);
        ls_mpi__interval_remove(&win->attached, part);
        free(part);
        return MPI_SUCCESS;
    }
    for (mpi_attached **empty = &win->attached_empty; *empty != NULL; empty = &(*empty)->next) {
        if ((*empty)->at.low == low) {
            mpi_attached *gone = *empty;
            *empty = gone->next;
            free(gone);
            return MPI_SUCCESS;
        }
    }
    return ls_mpi__win_error(at.me, win, MPI_ERR_RMA_ATTACH, __func__,
                             "the memory is not attached");
}

int MPI_Win_shared_query(MPI_Win handle, int rank, MPI_Aint *size, int *disp_unit, void *base_out) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (win->flavor != MPI_WIN_FLAVOR_SHARED || rank >= win->comm->size ||
        (rank < 0 && rank != MPI_PROC_NULL)) {
        return ls_mpi__win_error(
            at.me, win, win->flavor != MPI_WIN_FLAVOR_SHARED ? MPI_ERR_RMA_FLAVOR : MPI_ERR_RANK,
            __func__, "rank %d, or a window that is not shared", rank);
    }
    int member = rank == MPI_PROC_NULL ? 0 : rank;
    while (rank == MPI_PROC_NULL && member + 1 < win->comm->size &&
           win->shared->members[member]->size == 0) {
        member += 1;  // the first that has any memory
    }
    const mpi_win *of = win->shared->members[member];
    *size = of->size;
    *disp_unit = of->disp_unit;
    const char *base = of->size > 0 ? of->base : NULL;
    memcpy(base_out, &base, sizeof base);
    return MPI_SUCCESS;
}

int MPI_Win_free(MPI_Win *handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle != NULL ? *handle : MPI_WIN_NULL));
    if (win->lock_count > 0 || win->all_locked || win->started != NULL || win->posted != NULL) {
        return ls_mpi__sync_error(at, win,
                                  "the window is freed in an epoch that %s at %s:%d opened",
                                  win->epoch_function, win->epoch_file, win->epoch_line);
    }
    if (win->fence_open && win->ops_in_fence) {
        return ls_mpi__sync_error(
            at, win,
            "the window is freed while calls of the fence epoch from %s:%d are not "
            "complete: MPI_Win_fence ends it",
            win->epoch_file, win->epoch_line);
    }
    MPI_TRY(ls_mpi__attributes_free(at, *handle, &win->attributes));
    const mpi_record record = {.collective = &ls_mpi__barrier,
                               .comm = win->comm,
                               .channel = win->channel,
                               .function = __func__};
    MPI_TRY(ls_mpi__collective(at.me, &record, NULL));
    ls_mpi__race_close(win);
    mpi_win **list = &at.me->windows;
    while (*list != win) {
        list = &(*list)->next;
    }
    *list = win->next;
    at.me->window_count -= 1;
    ls_mpi__handle_free(at.me, *handle);
    ls_mpi__watch(at.me);
    ls_mpi__memory_take(win->memory, __builtin_return_address(0), LS_MPI_FREE_WIN);
    free((void *)win->owned);
    free((void *)win->open[0]);
    free((void *)win->open[1]);
    win->owned = NULL;
    win->open[0] = win->open[1] = NULL;
    win->memory = NULL;
    *handle = MPI_WIN_NULL;
    return MPI_SUCCESS;
}

// ---- Fences -------------------------------------------------------------------------------------
void ls_mpi__open_epoch(mpi_win *win, const char *function) {
    win->epoch_function = function;
    win->epoch_file = ls_mpi__file;
    win->epoch_line = ls_mpi__line;
}

int MPI_Win_fence(int assertion, MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (win->lock_count > 0 || win->all_locked || win->started != NULL || win->posted != NULL) {
        return ls_mpi__sync_error(at, win, "a fence in an epoch that %s at %s:%d opened",
                                  win->epoch_function, win->epoch_file, win->epoch_line);
    }
    if ((assertion & MPI_MODE_NOPRECEDE) != 0 && win->ops_in_fence) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_ASSERT, __func__,
                                 "MPI_MODE_NOPRECEDE, and calls of the epoch from %s:%d precede it",
                                 win->epoch_file, win->epoch_line);
    }
    // RMA calls between two fences belong to the fence epoch, unless an assertion excludes it. The
    // synchronization may change where the ranks have met since (MPI 3.1, 11.7).
    if ((assertion & MPI_MODE_NOPRECEDE) == 0 && win->ops_in_lock != 0 &&
        win->ops_in_lock == ls_mpi__clock_others(at.me)) {
        return ls_mpi__sync_error(at, win,
                                  "this ends the epoch of a fence, in which %s at %s:%d opened "
                                  "another, and nothing orders the two on all ranks",
                                  win->epoch_function, win->epoch_file, win->epoch_line);
    }
    ls_mpi__race_complete(win, -1, true);
    const mpi_record record = {.collective = &ls_mpi__barrier,
                               .comm = win->comm,
                               .channel = win->channel,
                               .function = __func__};
    MPI_TRY(ls_mpi__collective(at.me, &record, NULL));
    win->fence_before_lock = false;
    win->ops_in_lock = 0;
    win->fence_open = (assertion & MPI_MODE_NOSUCCEED) == 0;
    win->ops_in_fence = false;
    ls_mpi__open_epoch(win, __func__);
    return MPI_SUCCESS;
}

// ---- Post, start, complete, wait ----------------------------------------------------------------
// A message without data that the two ranks of an epoch send each other: counts on both sides.
static int *counter(mpi_win *win, int from, bool post) {
    mpi_window *shared = win->shared;
    if (shared->signals == NULL) {
        shared->signals =
            ls_mpi__alloc(2 * (size_t)shared->size * (size_t)shared->size * sizeof(int));
    }
    return &shared->signals[((size_t)(post ? 1 : 0) * (size_t)shared->size + (size_t)win->member) *
                                (size_t)shared->size +
                            (size_t)from];
}

static void signal_to(mpi_win *win, int to, bool post) {
    mpi_win *other = win->shared->members[to];
    *counter(other, win->member, post) += 1;
    ls_mpi__clock_signal(win, to, post);
}

static void wait_for_signal(mpi_where at, mpi_win *win, int from, bool post) {
    while (*counter(win, from, post) == 0) {
        ls_mpi__poll(at.me, at.function);
    }
    *counter(win, from, post) -= 1;
    ls_mpi__clock_signalled(win, from, post);
}

// Members of the window's communicator.
static int members_of(mpi_where at, const mpi_win *win, MPI_Group handle, mpi_group **out) {
    mpi_group *group;
    MPI_TRY(ls_mpi__group_arg(&group, at, handle));
    mpi_group *members = ls_mpi__group_make(group->size), *all = ls_mpi__group_of(win->comm, false);
    for (int i = 0; i < group->size; i++) {
        members->ranks[i] = ls_mpi__group_rank(all, group->ranks[i]);
        if (members->ranks[i] < 0) {
            return ls_mpi__win_error(at.me, win, MPI_ERR_GROUP, at.function,
                                     "rank %d of MPI_COMM_WORLD is not in the window's group",
                                     group->ranks[i]);
        }
    }
    free(all);
    *out = members;
    return MPI_SUCCESS;
}

// The window and the members of a new epoch, if none of its kind and no lock epoch is open.
static int begin_epoch(mpi_win **out, mpi_group **members, mpi_where at, MPI_Group group,
                       MPI_Win handle, bool posts) {
    MPI_TRY(ls_mpi__win_arg(out, at, handle));
    mpi_win *win = *out;
    MPI_TRY(members_of(at, win, group, members));
    if ((posts ? win->posted : win->started) != NULL || win->lock_count > 0 || win->all_locked) {
        return ls_mpi__sync_error(at, win, "the window is in an epoch that %s at %s:%d opened",
                                  win->epoch_function, win->epoch_file, win->epoch_line);
    }
    win->fence_open = false;
    return MPI_SUCCESS;
}

int MPI_Win_post(MPI_Group group, int assertion, MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    mpi_group *members;
    (void)assertion;
    MPI_TRY(begin_epoch(&win, &members, at, group, handle, true));
    win->posted = members;
    ls_mpi__open_epoch(win, __func__);
    for (int i = 0; i < members->size; i++) {
        signal_to(win, members->ranks[i], true);
    }
    ls_mpi__clock_tick(at.me);
    return MPI_SUCCESS;
}

int MPI_Win_start(MPI_Group group, int assertion, MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    mpi_group *members;
    (void)assertion;
    MPI_TRY(begin_epoch(&win, &members, at, group, handle, false));
    for (int i = 0; i < members->size; i++) {
        wait_for_signal(at, win, members->ranks[i], true);
    }
    win->started = members;
    ls_mpi__open_epoch(win, __func__);
    return MPI_SUCCESS;
}

int MPI_Win_complete(MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (win->started == NULL) {
        return ls_mpi__sync_error(at, win, "no epoch of MPI_Win_start is open");
    }
    ls_mpi__race_complete(win, -1, true);
    for (int i = 0; i < win->started->size; i++) {
        signal_to(win, win->started->ranks[i], false);
    }
    ls_mpi__clock_tick(at.me);
    free(win->started);
    win->started = NULL;
    return MPI_SUCCESS;
}

int MPI_Win_wait(MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (win->posted == NULL) {
        return ls_mpi__sync_error(at, win, "no epoch of MPI_Win_post is open");
    }
    for (int i = 0; i < win->posted->size; i++) {
        wait_for_signal(at, win, win->posted->ranks[i], false);
    }
    free(win->posted);
    win->posted = NULL;
    return MPI_SUCCESS;
}

int MPI_Win_test(MPI_Win handle, int *flag) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (win->posted == NULL) {
        return ls_mpi__sync_error(at, win, "no epoch of MPI_Win_post is open");
    }
    ls_mpi__observe();
    ls_mpi__poll(at.me, __func__);
    *flag = 1;
    for (int i = 0; i < win->posted->size; i++) {
        *flag = *counter(win, win->posted->ranks[i], false) > 0 ? *flag : 0;
    }
    return *flag != 0 ? MPI_Win_wait(handle) : MPI_SUCCESS;
}
