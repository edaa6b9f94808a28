// NVSHMEM's face of the network: symmetric addresses name windows, and each rank is a process.
#include <string.h>

#include "device/internal.h"

static struct {
    void *comm;
    ls_cuda_devcomm dev;
} own[RANKS_MAX];

static int rank_of_thread(void) {
    const device_thread *self = ls_device__state.running;
    return self->block != NULL ? self->block->kernel->rank : self->rank;
}

void ls_device__nvshmem_close(void) {
    memset(own, 0, sizeof own);
}

int ls_nvshmem_rank(void) {
    return rank_of_thread();
}

int ls_nvshmem_size(void) {
    return ls_device__state.rank_count;
}

int ls_nvshmem_init(ls_cuda_site at) {
    const ls_cuda_unique_id id = {"nvshmem"};
    const ls_cuda_requirements wanted = {.world_barriers = 1, .connected = true};
    int rank = rank_of_thread();
    if (own[rank].comm == NULL) {
        (void)ls_nccl_init(&own[rank].comm, ls_nvshmem_size(), &id, rank, at);
        (void)ls_nccl_dev_comm(own[rank].comm, &wanted, &own[rank].dev, at);
    }
    return 0;
}

void *ls_nvshmem_allocate(size_t bytes, ls_cuda_site at) {
    int rank = rank_of_thread();
    void *window, *made = ls_device__allocate(rank, bytes, "symmetric memory", at);
    if (made == NULL || own[rank].comm == NULL) {
        ls_device__invalid(rank, at, "nvshmem_malloc %s",
                           made == NULL ? "runs out of memory" : "before nvshmem_init");
        return NULL;
    }
    (void)ls_nccl_window(own[rank].comm, made, bytes, &window, 0, at);
    return made;
}

void ls_nvshmem_host_barrier(const char *call, ls_cuda_site at) {
    device_state *s = &ls_device__state;
    int rank = rank_of_thread();
    for (int i = 0; i < s->flying_count; i++) {
        if (s->flying[i]->rank == rank) {
            ls_device__wait(&s->flying[i]->waiting, ls_device__describe_host, call, 0, at);
            i = -1;
        }
    }
    ls_device__meet(own[rank].comm, call, at);
    for (int r = 0; r < s->rank_count; r++) {
        ls_device__clock_join(&s->running->unit->known,
                              ls_device__channel(own[rank].dev.resources, r, rank, 0));
    }
}

void ls_nvshmem_free(void *memory, ls_cuda_site at) {
    ls_nvshmem_host_barrier("nvshmem_free", at);
    (void)ls_cuda_free(memory, at);
}

// The window that holds the address; NULL: none.
static device_window *window_at(const void *memory) {
    const char *at = memory;
    device_window *w = ls_device__state.windows;
    for (; w != NULL; w = w->next) {
        if (w->rank == rank_of_thread() && at >= (char *)w->base &&
            at < (char *)w->base + w->bytes) {
            break;
        }
    }
    return w;
}

void *ls_nvshmem_pointer(const void *memory, int peer) {
    device_window *at = window_at(memory);
    return at == NULL ? NULL
                      : ls_cuda_window_pointer(
                            at, (size_t)((const char *)memory - (char *)at->base), peer);
}

void ls_nvshmem_put(ls_cuda_put put, void *to, const void *from) {
    device_window *there = window_at(to), *here = from != NULL ? window_at(from) : NULL;
    put.comm = &own[rank_of_thread()].dev;
    put.counter = -1;
    put.wide = true;
    if (put.bytes > 0 && there == NULL) {
        ls_device__invalid(rank_of_thread(), put.at, "%s to memory that is not symmetric",
                           put.call);
        return;
    }
    if (there != NULL) {
        put.to = there;
        put.to_offset = (size_t)((char *)to - (char *)there->base);
    }
    put.from = here;
    put.from_offset = here != NULL ? (size_t)((const char *)from - (char *)here->base) : 0;
    put.plain = from != NULL && here == NULL ? (void *)(uintptr_t)from : NULL;
    ls_cuda_put_data(&put);
}

void ls_nvshmem_signal(ls_cuda_put *put, void *signal, uint64_t value, bool sets) {
    device_window *at = window_at(signal);
    put->signal = at != NULL ? LS_CUDA_PUT_WEAK : LS_CUDA_PUT_NONE;
    put->signal_window = at;
    put->signal_at = at != NULL ? (uint64_t)((char *)signal - (char *)at->base) : 0;
    put->add = value;
    put->sets = sets;
    if (at == NULL) {
        ls_device__invalid(rank_of_thread(), put->at, "%s: the signal is not symmetric memory",
                           put->call);
    }
}

void ls_nvshmem_quiet(ls_cuda_site at) {
    ls_cuda_flush(NULL, -1, true, at);
}

void ls_nvshmem_fence(void) {
    ls_device__state.running->fence = ls_device__state.puts_issued;
}

void ls_nvshmem_barrier(bool quiet, const char *call, ls_cuda_site at) {
    int rank = rank_of_thread(), size = ls_nvshmem_size();
    ls_cuda_meet meet = {.comm = &own[rank].dev,
                         .kind = LS_CUDA_BARRIER_WORLD,
                         .team = {size, rank, 1},
                         .order = __ATOMIC_ACQ_REL,
                         .puts = quiet,
                         .call = call,
                         .at = at};
    if (quiet) {
        ls_nvshmem_quiet(at);
    }
    ls_cuda_arrive(&meet);
    ls_cuda_await(&meet);
}

// ---- Waiting for a word -------------------------------------------------------------------------
static bool holds(int comparison, int64_t word, int64_t value) {
    const bool all[] = {word == value, word != value, word > value,
                        word <= value, word < value,  word >= value};
    return comparison >= 0 && comparison < 6 && all[comparison];
}

static void describe_word(ls_text *text, const device_thread *thread) {
    int64_t word = 0;
    memcpy(&word, thread->on, 4);
    ls_text_printf(text, "waits for a word that is %lld to compare with %lld", (long long)word,
                   (long long)thread->least);
}

uint64_t ls_nvshmem_wait(const void *word, size_t bytes, int comparison, int64_t value,
                         ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    int64_t now = 0;
    ls_device__yield();
    for (;;) {
        int half = 0;
        memcpy(bytes == 4 ? (void *)&half : (void *)&now, word, bytes);
        now = bytes == 4 ? half : now;
        if (holds(comparison, now, value)) {
            break;
        }
        ls_device__state.changed = false;
        ls_device__wait(&ls_device__state.spinning, describe_word, word, (uint64_t)value, at);
    }
    ls_device__acquire_at(word);
    device_window *window = window_at(word);
    if (window != NULL) {
        uint64_t offset = (uint64_t)((const char *)word - (char *)window->base);
        device_cell *cell = ls_device__window_cell(window, offset);
        ls_device__clock_join(&self->unit->known, &cell->known);
    }
    ls_device__unit_step(self->unit);
    return (uint64_t)now;
}
