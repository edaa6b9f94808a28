// Buffers that calls own until they are complete: what a call sends from may be read by others and
// not written, what it receives into may not even be read.
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

_Thread_local mpi_rank *ls_mpi__watched;

static void span_of(const char **low, const char **high, const void *buf, size_t count,
                    const mpi_type *type) {
    ptrdiff_t offset;
    size_t bytes;
    ls_mpi__span(&offset, &bytes, count, type);
    *low = (const char *)((intptr_t)buf + offset);
    *high = *low + bytes;
}

static void update_bounds(mpi_rank *me) {
    me->owned_low = me->owned_high = NULL;
    for (const mpi_owned *at = me->owned; at != NULL; at = at->next) {
        me->owned_low = me->owned_low == NULL || at->low < me->owned_low ? at->low : me->owned_low;
        me->owned_high = at->high > me->owned_high ? at->high : me->owned_high;
    }
    ls_mpi__watch(me);
}

void ls_mpi__watch(mpi_rank *me) {
    if (pthread_equal(me->rank->thread, pthread_self()) != 0) {
        ls_mpi__watched = me->owned != NULL || me->window_count > 0 ? me : NULL;
    }
}

static void tell(mpi_rank *me, mpi_owned *owned, bool writes, const char *function,
                 const char *file, int line) {
    if (owned->told) {
        return;
    }
    owned->told = true;
    ls_mpi__finding(me, LS_FINDING_BUFFER_USE_BEFORE_WAIT, file, line,
                    "%s %s a buffer at %s:%d that %s, made at %s:%d, %s and owns until it is "
                    "complete",
                    function != NULL ? function : "the program", writes ? "writes" : "reads", file,
                    line, owned->function, owned->file, owned->line,
                    owned->writes ? "writes" : "reads");
}

static bool is_over(const mpi_owned *owned) {
    return owned->until != NULL && owned->until->state == LS_REQUEST_DONE;
}

static void check(mpi_rank *me, const char *low, const char *high, size_t count, const void *buf,
                  const mpi_type *type, bool writes, const char *function, const char *file,
                  int line) {
    if (me->owned == NULL || low >= me->owned_high || high <= me->owned_low) {
        return;
    }
    for (mpi_owned *at = me->owned; at != NULL; at = at->next) {
        if (low >= at->high || high <= at->low || (!writes && !at->writes) || is_over(at)) {
            continue;
        }
        if (ls_mpi__types_meet(buf, count, type, at->base, at->count, at->type)) {
            tell(me, at, writes, function, file, line);
        }
    }
}

void ls_mpi__accessed(mpi_rank *me, const void *at, size_t bytes, bool writes, const void *code) {
    const char *low = at, *high = low + bytes;
    mpi_owned *owned = low < me->owned_high && high > me->owned_low ? me->owned : NULL;
    for (; owned != NULL; owned = owned->next) {
        if (low < owned->high && high > owned->low && (writes || owned->writes) && !owned->told &&
            !is_over(owned) &&
            (owned->type->contiguous ||
             ls_mpi__type_meets(owned->base, owned->count, owned->type, low, high))) {
            const char *file;
            int line;
            ls_mpi__line_of(me, code, &file, &line);
            tell(me, owned, writes, NULL, file, line);
        }
    }
    if (me->window_count > 0) {
        ls_mpi__win_access(me, low, high, writes, code);
    }
}

void ls_mpi__touch_typed(mpi_rank *me, const void *buf, size_t count, const mpi_type *type,
                         bool writes, const char *function) {
    const char *low, *high;
    if (count == 0 || type == NULL || type->size == 0) {
        return;
    }
    span_of(&low, &high, buf, count, type);
    if (high > (const char *)buf) {
        ls_mpi__block_check(me, buf, (size_t)(high - (const char *)buf), function);
    }
    check(me, low, high, count, buf, type, writes, function, ls_mpi__file, ls_mpi__line);
    if (me->window_count > 0) {
        ls_mpi__win_local(me, low, high, writes, function, ls_mpi__file, ls_mpi__line);
    }
}

mpi_owned *ls_mpi__own(mpi_rank *me, const void *buf, size_t count, const mpi_type *type,
                       bool writes, const char *function) {
    if (count == 0 || type == NULL || type->size == 0) {
        return NULL;
    }
    ls_mpi__touch_typed(me, buf, count, type, writes, function);
    mpi_owned *made = ls_mpi__alloc(sizeof *made);
    *made = (mpi_owned){.base = buf,
                        .count = count,
                        .type = type,
                        .writes = writes,
                        .function = function,
                        .file = ls_mpi__file,
                        .line = ls_mpi__line,
                        .next = me->owned};
    span_of(&made->low, &made->high, buf, count, type);
    me->owned_low = me->owned == NULL || made->low < me->owned_low ? made->low : me->owned_low;
    me->owned_high = me->owned == NULL || made->high > me->owned_high ? made->high : me->owned_high;
    me->owned = made;
    ls_mpi__watch(me);
    return made;
}

static void unlink_owned(mpi_owned **at) {
    mpi_owned *gone = *at;
    *at = gone->next;
    if (gone->holder != NULL) {
        *gone->holder = NULL;
    }
    free(gone);
}

void ls_mpi__disown(mpi_rank *me, mpi_owned *owned) {
    if (owned == NULL) {
        return;
    }
    mpi_owned **at = &me->owned;
    while (*at != owned) {
        LS_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    unlink_owned(at);
    update_bounds(me);
}

void ls_mpi__disown_epoch(mpi_rank *me, const mpi_win *win, int target) {
    for (mpi_owned **at = &me->owned; *at != NULL;) {
        if ((*at)->win == win && (target < 0 || (*at)->target == target)) {
            unlink_owned(at);
        } else {
            at = &(*at)->next;
        }
    }
    update_bounds(me);
}
