// The end of communicators, of those that are done with and of those that are aborted.
#include <stdlib.h>

#include "base/time.h"
#include "exec/front.h"

#define DRAIN_PAUSE_NS 100000  // between checks of incomplete calls,
#define DRAIN_TOLD     10      // after so many of which the coordinator hears of it,
#define DRAIN_ASKED    1000    // and so many the driver is asked whether the GPU works

static bool is_over(ls_client *client, const ls_front_flight *flight) {
    const ls_wire_slot *slot = ls_client_slot(client, flight->slot);
    return __atomic_load_n(&slot->released, __ATOMIC_ACQUIRE) != 0 ||
           __atomic_load_n(&slot->done, __ATOMIC_ACQUIRE) == 2 ||  // of a run before
           ls_client_failed(client, NULL);
}

// Waits until its calls are complete, like a wait for a stream. Pending work of a failed GPU never
// completes.
static ncclResult_t drain(ncclComm_t comm) {
    ls_client *client = ls_client_get();
    ncclResult_t result = ncclSuccess;
    int pauses = 0;
    for (const ls_front_flight *at = comm->flights; at != NULL && result == ncclSuccess;) {
        if (is_over(client, at)) {
            at = at->next;
            continue;
        }
        pauses += 1;
        if (pauses == DRAIN_TOLD) {
            ls_front__tell_wait(true);
        }
        result = pauses % DRAIN_ASKED == 0 ? ls_cuda__lives() : ncclSuccess;
        ls_time_sleep(1e-9 * DRAIN_PAUSE_NS);
    }
    if (pauses >= DRAIN_TOLD) {
        ls_front__tell_wait(false);
    }
    return result;
}

void ls_front__reclaim(ncclComm_t comm) {
    ls_client *client = ls_client_get();
    ls_front_flight **at = &comm->flights;
    ls_front_flight *last = NULL;
    while (*at != NULL) {
        ls_front_flight *flight = *at;
        const ls_wire_slot *slot = ls_client_slot(client, flight->slot);
        if (__atomic_load_n(&slot->released, __ATOMIC_ACQUIRE) == 0) {
            last = flight;
            at = &flight->next;
            continue;
        }
        *at = flight->next;
        ls_client_region_give(client, &flight->send);
        ls_client_region_give(client, &flight->recv);
        ls_client_slot_give(client, flight->slot);
        free(flight);
    }
    comm->flights_last = last;
}

LS_NCCL_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    ncclResult_t result = ls_front__check_handle(comm, "ncclCommFinalize");
    if (result == ncclSuccess && comm->state == LS_FRONT_READY) {
        result = drain(comm);
        ls_front__reclaim(comm);
    }
    return result;
}

static void forget(ncclComm_t comm, bool aborted) {
    const ls_wire_comm_destroy message = {.head = {LS_WIRE_COMM_DESTROY, sizeof message},
                                          .comm = comm->number,
                                          .site = LS_WIRE_NONE,
                                          .aborted = aborted ? 1 : 0};
    if (comm->state == LS_FRONT_READY) {
        (void)ls_client_send(ls_client_get(), &message, -1);
    }
    comm->magic = 0;  // its memory stays, so that a use after its end is known as one
}

LS_NCCL_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (comm == NULL) {
        return ncclSuccess;
    }
    ncclResult_t result = ncclCommFinalize(comm);
    if (result == ncclSuccess) {
        forget(comm, false);
    }
    return result;
}

// Its waiting streams are released.
LS_NCCL_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (comm == NULL) {
        return ncclSuccess;
    }
    ncclResult_t result = ls_front__check_handle(comm, "ncclCommAbort");
    if (result != ncclSuccess) {
        return result;
    }
    ls_client *client = ls_client_get();
    for (const ls_front_flight *at = comm->flights; at != NULL; at = at->next) {
        uint32_t nothing = 0;
        (void)__atomic_compare_exchange_n(&ls_client_slot(client, at->slot)->done, &nothing, 2u,
                                          false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
    forget(comm, true);
    return ncclSuccess;
}

LS_NCCL_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
    (void)flags;
    ncclResult_t result = ls_front__check_handle(comm, "ncclCommRevoke");
    if (result == ncclSuccess) {
        comm->revoked = true;
    }
    return result;
}
