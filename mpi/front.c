// The frontend of MPI programs for ranks/.
#define _GNU_SOURCE  // dl_iterate_phdr, dlinfo, unshare

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/image/image.h"
#include "mpi/coll.h"
#include "mpi/rma.h"
#include "mpi/signals.h"
#include "ranks/seen.h"

// ---- Queries of signal handlers -----------------------------------------------------------------
static bool side_holds(const mpi_side *side, uintptr_t address) {
    ptrdiff_t low = 0;
    size_t bytes = 0;
    if (side->buf == NULL || side->type == NULL || side->counts != NULL || side->types != NULL) {
        return (uintptr_t)side->buf / 4096 == address / 4096 && side->buf != NULL;
    }
    ls_mpi__span(&low, &bytes, (size_t)side->count, side->type);
    return address - ((uintptr_t)side->buf + (uintptr_t)low) < bytes;
}

static bool request_holds(const ls_request *request, uintptr_t address) {
    const mpi_record *record = request->record;
    return request->front == &ls_mpi__front && request->state != LS_REQUEST_FREED &&
           (side_holds(&record->send, address) || side_holds(&record->recv, address));
}

static bool holds(const ls_rank *rank, uintptr_t address) {
    const mpi_rank *me = &ls_mpi__state.ranks[rank->id];
    for (const ls_thread *by = &rank->main; by != NULL; by = by->next) {
        if (by->current != NULL && request_holds(by->current, address)) {
            return true;
        }
    }
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        if (request_holds(at, address)) {
            return true;
        }
    }
    for (const mpi_win *win = me->windows; win != NULL; win = win->next) {
        if (address - (uintptr_t)win->base < (uintptr_t)win->size) {
            return true;
        }
    }
    return false;
}

// ---- The run ------------------------------------------------------------------------------------
const ls_front ls_mpi__front = {.met = ls_mpi__met,
                                .message = ls_mpi__message,
                                .found = ls_mpi__found,
                                .choose = ls_mpi__explore_choose,
                                .holds = holds,
                                .signalled = ls_mpi__signalled};
