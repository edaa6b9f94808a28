// Reads and writes of the program, from the compiler's instrumentation (the calls of
// -fsanitize=thread, without its library), and its atomic operations.
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"
#include "ranks/accesses.h"

#define HERE   __builtin_return_address(0)
#define EXPORT __attribute__((visibility("default")))

static inline void plain(const volatile void *at, size_t bytes, bool writes, const void *code) {
    if (__builtin_expect(ls_device__is_device((const void *)(uintptr_t)at), 0)) {
        ls_device__access(at, bytes, writes, ACCESS_PLAIN, code, NULL);
    }
}

static void spin(const volatile void *at, uint64_t value, int line, ls_cuda_site site) {
    device_thread *self = ls_device__state.running;
    if (self == NULL || self->block == NULL) {
        return;
    }
    if (self->spin_at == at && self->spin_value == value && self->spin_line == line) {
        ls_device__spin(site);
    }
    self->spin_at = at;
    self->spin_value = value;
    self->spin_line = line;
}

// Volatile reads are how older programs wait for a flag: each lets others run, and acquires.
static void volatile_read(const volatile void *at, size_t bytes, const void *code) {
    if (!ls_device__is_device((const void *)(uintptr_t)at)) {
        return;
    }
    ls_device__yield();
    uint64_t value = 0;
    memcpy(&value, (const void *)(uintptr_t)at, bytes < 8 ? bytes : 8);
    uint32_t site = ls_device__site(code, NULL);
    spin(at, value, (int)site, (ls_cuda_site){NULL, (int)site});
    ls_device__access(at, bytes, false, ACCESS_SYSTEM, code, NULL);
    ls_cuda_atomic_done(at, 0, false, __ATOMIC_ACQUIRE, (ls_cuda_site){0});
}

static void volatile_write(const volatile void *at, size_t bytes, const void *code) {
    if (ls_device__is_device((const void *)(uintptr_t)at)) {
        ls_device__access(at, bytes, true, ACCESS_SYSTEM, code, NULL);
        ls_cuda_atomic(at, 0, LS_CUDA_STORE, __ATOMIC_RELAXED, LS_CUDA_SCOPE_SYSTEM,
                       (ls_cuda_site){0});
    }
}

static void lasting(const volatile void *at, size_t bytes, bool writes, const void *code) {
    (writes ? volatile_write : volatile_read)(at, bytes, code);
}

LS_ACCESS_HOOKS(plain, lasting)
EXPORT void __tsan_read_range(void *at, unsigned long bytes) {
    plain(at, bytes, false, HERE);
}
EXPORT void __tsan_write_range(void *at, unsigned long bytes) {
    plain(at, bytes, true, HERE);
}
EXPORT void __tsan_func_entry(void *caller) {
    (void)caller;
}
EXPORT void __tsan_func_exit(void) {
}

// ---- Functions of the C library for kernels ----------------------------------------------------
EXPORT void *ls_device_memcpy(void *to, const void *from, size_t bytes) {
    plain(from, bytes, false, HERE);
    plain(to, bytes, true, HERE);
    return memmove(to, from, bytes);
}

EXPORT void *ls_device_memset(void *to, int value, size_t bytes) {
    plain(to, bytes, true, HERE);
    return memset(to, value, bytes);
}

// ---- Synchronisation through memory ------------------------------------------------------------
// What was released at an address, for threads of the device and for those of others.
#define SYNCS 1024
typedef struct sync {
    const volatile void *at;
    int rank;
    device_clock device, system;
    struct sync *next;
} sync;
static sync *syncs[SYNCS];

static sync *sync_at(const volatile void *at, bool make) {
    sync **first = &syncs[((uintptr_t)at >> 2) % SYNCS];
    for (sync *s = *first; s != NULL; s = s->next) {
        if (s->at == at) {
            return s;
        }
    }
    if (!make) {
        return NULL;
    }
    sync *made = ls_device__alloc(sizeof *made);
    made->at = at;
    made->next = *first;
    *first = made;
    return made;
}

void ls_device__syncs_close(void) {
    for (size_t i = 0; i < SYNCS; i++) {
        for (sync *s = syncs[i], *next; s != NULL; s = next) {
            next = s->next;
            ls_device__clock_free(&s->device);
            ls_device__clock_free(&s->system);
            free(s);
        }
        syncs[i] = NULL;
    }
}

void ls_device__release_at(const void *at, int rank, const device_clock *known) {
    sync *s = sync_at(at, true);
    s->rank = rank;
    ls_device__clock_join(&s->device, known);
    ls_device__clock_join(&s->system, known);
}

void ls_device__acquire_at(const void *at) {
    const sync *s = sync_at(at, false);
    if (s != NULL) {
        ls_device__clock_join(&ls_device__state.running->unit->known, &s->system);
    }
}

void ls_cuda_fence(int scope) {
    device_thread *self = ls_device__state.running;
    if (self == NULL || self->block == NULL || scope == LS_CUDA_SCOPE_THREAD) {
        return;
    }
    ls_device__acquire(self->unit);
    if (scope >= LS_CUDA_SCOPE_DEVICE) {
        ls_device__clock_copy(&self->unit->released[0], &self->unit->known);
    }
    if (scope == LS_CUDA_SCOPE_SYSTEM) {
        ls_device__clock_copy(&self->unit->released[1], &self->unit->known);
    }
    self->unit->fenced = true;
    ls_device__unit_step(self->unit);
}

void ls_cuda_atomic(const volatile void *at, size_t bytes, int kind, int order, int scope,
                    ls_cuda_site site) {
    device_thread *self = ls_device__state.running;
    if (self == NULL || self->block == NULL || !ls_device__is_device((const void *)(uintptr_t)at)) {
        return;
    }
    if (bytes > 0) {
        int kinds[] = {ACCESS_BLOCK, ACCESS_DEVICE, ACCESS_SYSTEM, ACCESS_PLAIN};
        ls_device__yield();
        ls_device__access(at, bytes, kind != LS_CUDA_LOAD, kinds[scope], NULL, &site);
    }
    if (kind != LS_CUDA_LOAD) {
        if (ls_device__releases(order)) {
            ls_cuda_fence(scope == LS_CUDA_SCOPE_BLOCK ? LS_CUDA_SCOPE_DEVICE : scope);
        }
        sync *s = sync_at(at, true);
        if (kind == LS_CUDA_STORE) {  // an update continues what was released before it
            ls_device__clock_copy(&s->device, &self->unit->released[0]);
            ls_device__clock_copy(&s->system, &self->unit->released[1]);
        } else {
            ls_device__clock_join(&s->device, &self->unit->released[0]);
            ls_device__clock_join(&s->system, &self->unit->released[1]);
        }
        s->rank = self->unit->rank;
        ls_device__changed();
    }
}

void ls_cuda_atomic_done(const volatile void *at, uint64_t value, bool changed, int order,
                         ls_cuda_site site) {
    device_thread *self = ls_device__state.running;
    const sync *s = self != NULL && self->block != NULL ? sync_at(at, false) : NULL;
    if (s != NULL) {
        const device_clock *seen = s->rank == self->unit->rank ? &s->device : &s->system;
        ls_device__clock_join(
            ls_device__acquires(order) ? &self->unit->known : &self->unit->pending, seen);
    }
    if (site.file != NULL && !changed) {
        spin(at, value, site.line, site);
    } else if (changed) {
        ls_device__changed();
    }
}
