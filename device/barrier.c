// Barriers of teams of ranks: sessions of NCCL, and NVSHMEM's. An arrival publishes its thread's
// clock if it releases, else the clock of its last release; a wait takes it over if it acquires,
// else a later fence does.
#include "device/internal.h"

static device_meeting *meeting_of(const ls_cuda_meet *meet) {
    const ls_cuda_devcomm *comm = meet->comm;
    device_resources *all = comm->resources;
    static const char *const names[BARRIER_KINDS] = {"lsaBarrierCount",      "railGinBarrierCount",
                                                     "worldGinBarrierCount", "barrierCount",
                                                     "barrierCount",         "barrierCount"};
    if (meet->index >= (unsigned)all->barriers[meet->kind]) {
        ls_device__invalid(comm->rank, meet->at,
                           "%s: barrier %u; ncclDevCommCreate was asked for %d (%s)", meet->call,
                           meet->index, all->barriers[meet->kind], names[meet->kind]);
        return NULL;
    }
    int lsa = comm->lsa_size, rails = comm->nranks / lsa;
    const int sizes[BARRIER_KINDS] = {lsa, rails, comm->nranks, comm->nranks, lsa, rails};
    if (meet->team.size > sizes[meet->kind]) {
        ls_device__invalid(comm->rank, meet->at,
                           "%s of %d ranks: %s makes barriers of %d ranks, so others' arrivals are "
                           "counted elsewhere or not at all",
                           meet->call, meet->team.size, names[meet->kind], sizes[meet->kind]);
        return NULL;
    }
    return &all->meetings[meet->kind][meet->index];
}

static int member(const ls_cuda_meet *meet, int index) {
    const ls_cuda_devcomm *comm = meet->comm;
    return comm->rank + (index - meet->team.rank) * meet->team.stride;
}

void ls_cuda_arrive(const ls_cuda_meet *meet) {
    device_unit *unit = ls_device__state.running->unit;
    device_meeting *at = meeting_of(meet);
    int rank = ((const ls_cuda_devcomm *)meet->comm)->rank;
    if (at == NULL) {
        return;
    }
    ls_device__yield();
    ls_device__state.calls += 1;
    ls_device__clock_join(&at->known[rank],
                          ls_device__releases(meet->order) ? &unit->known : &unit->released[1]);
    ls_device__clock_join(&at->order[rank], &unit->order);
    ls_device__clock_join(&at->order[rank], &unit->known);
    at->puts[rank] = meet->puts ? ls_device__state.puts_issued : 0;
    at->arrived[rank] += 1;
    ls_device__unit_step(unit);
    ls_device__wake(&at->waiting);
}

static void describe(ls_text *text, const device_thread *thread) {
    const ls_cuda_meet *meet = thread->on;
    const device_meeting *at = meeting_of(meet);
    ls_text_printf(text, "waits in %s, barrier %u, for", meet->call, meet->index);
    for (int i = 0; i < meet->team.size; i++) {
        int rank = member(meet, i);
        if (at->arrived[rank] < thread->least) {
            ls_text_printf(text, " rank %d", rank);
        }
    }
}

bool ls_device__waits_for_ranks(const device_thread *thread, bool *ranks) {
    if (thread->why != describe) {
        return false;
    }
    const ls_cuda_meet *meet = thread->on;
    const device_meeting *at = meeting_of(meet);
    for (int i = 0; i < meet->team.size; i++) {
        ranks[member(meet, i)] |= at->arrived[member(meet, i)] < thread->least;
    }
    return true;
}

static void describe_puts(ls_text *text, const device_thread *thread) {
    (void)thread;
    ls_text_puts(text, "waits in a barrier for puts to arrive");
}

// Waits until the member's puts to this rank, issued before it arrived, have arrived.
static void await_puts(const ls_cuda_meet *meet, uint64_t until, int from) {
    const ls_cuda_devcomm *comm = meet->comm;
    device_unit *unit = ls_device__state.running->unit;
    for (device_put *put = ls_device__state.puts; put != NULL; put = put->all) {
        if (put->order_of_issue > until || put->rank != from || put->what.peer != comm->rank ||
            put->comm != comm->resources || put->what.context != meet->context) {
            continue;
        }
        while (!put->landed) {
            ls_device__wait(&put->waiting, describe_puts, put, 0, meet->at);
        }
        ls_device__clock_put(&unit->known, put->number, true);
    }
}

void ls_cuda_await(const ls_cuda_meet *meet) {
    device_meeting *at = meeting_of(meet);
    if (at == NULL) {
        return;
    }
    device_unit *unit = ls_device__state.running->unit;
    uint64_t mine = at->arrived[((const ls_cuda_devcomm *)meet->comm)->rank];
    for (int i = 0; i < meet->team.size; i++) {
        int rank = member(meet, i);
        while (at->arrived[rank] < mine) {
            ls_device__wait(&at->waiting, describe, meet, mine, meet->at);
        }
        ls_device__clock_join(ls_device__acquires(meet->order) ? &unit->known : &unit->pending,
                              &at->known[rank]);
        ls_device__clock_join(&unit->order, &at->order[rank]);
        if (at->puts[rank] > 0) {
            await_puts(meet, at->puts[rank], rank);
        }
    }
    ls_device__unit_step(unit);
}
