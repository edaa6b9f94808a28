// Memory of devices: one range of addresses, whose pages name their allocation, and beside it what
// was last done to each word: the last write and some reads, as epochs that clocks can be asked
// for. Two accesses that no clock orders, one of which writes, are a race. A second range behind it
// has the addresses of multimem memory; nothing is stored there.
#define _GNU_SOURCE  // MAP_NORESERVE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/internal.h"

#define HEAP_BYTES ((size_t)1 << 34)
#define PAGE       ((size_t)4096)
#define WORD       ((size_t)4)
#define READS      3
#define RACES_MAX  4096

// An epoch: bit 63 a put, else a unit; 36 bits of its number, or of unit and tick; 20 bits of its
// site; 2 bits of the kind of access; 4 of the bytes of the word; bit 0: there is one.
#define EPOCH_PUT  (UINT64_C(1) << 63)
#define WHO_SHIFT  27
#define WHO_MASK   ((UINT64_C(1) << 36) - 1)
#define TICK_BITS  22
#define SITE_SHIFT 7
#define SITE_MASK  ((1u << 20) - 1)
#define KIND_SHIFT 5
#define MASK_SHIFT 1

typedef struct word {
    uint64_t write, reads[READS];
} word;

typedef struct touched {
    device_unit *unit;
    uint32_t put;  // 0: none
    bool writes;
    int kind;
    uint32_t site;
    uint64_t epoch;  // without its bytes
} touched;

static struct {
    char *heap;
    word *words;
    uint32_t *pages;  // allocations, from 1
    size_t used;
    device_allocation *all;
    uint32_t count, room;
    uint64_t races[RACES_MAX];  // pairs of sites that were reported
    int turn;                   // of the read that makes room
} m;

static void *reserve(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void ls_device__memory_open(void) {
    if (m.heap == NULL) {
        m.heap = reserve(2 * HEAP_BYTES);
        m.words = reserve(HEAP_BYTES / WORD * sizeof(word));
        m.pages = reserve(HEAP_BYTES / PAGE * sizeof *m.pages);
        LS_ASSERT(m.heap != NULL && m.words != NULL && m.pages != NULL);
        (void)madvise(m.words, HEAP_BYTES / WORD * sizeof(word), MADV_NOHUGEPAGE);
    }
    m.used = PAGE;
    m.count = 0;
    m.turn = 0;
    memset(m.races, 0, sizeof m.races);
}

void ls_device__memory_close(void) {
    (void)madvise(m.heap, m.used, MADV_DONTNEED);
    (void)madvise(m.heap + HEAP_BYTES, m.used, MADV_DONTNEED);
    (void)madvise(m.words, m.used / WORD * sizeof(word), MADV_DONTNEED);
    (void)madvise(m.pages, m.used / PAGE * sizeof *m.pages, MADV_DONTNEED);
    free(m.all);
    m.all = NULL;
    m.room = m.count = 0;
}

void *ls_device__allocate(int rank, size_t bytes, const char *name, ls_cuda_site at) {
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    whole = whole > 0 ? whole : PAGE;
    if (bytes > HEAP_BYTES || whole + PAGE > HEAP_BYTES - m.used) {
        return NULL;
    }
    if (m.count == m.room) {
        m.room = m.room * 2 + 64;
        m.all = realloc(m.all, m.room * sizeof *m.all);
        LS_ASSERT(m.all != NULL);
    }
    char *start = m.heap + m.used;
    m.all[m.count++] = (device_allocation){start, bytes, rank, false, name, at};
    for (size_t i = 0; i < whole / PAGE; i++) {
        m.pages[m.used / PAGE + i] = m.count;
    }
    m.used += whole + PAGE;  // the page behind it is unused
    return start;
}

bool ls_device__is_device(const void *at) {
    return m.heap != NULL && (uintptr_t)at - (uintptr_t)m.heap < 2 * HEAP_BYTES;
}

void *ls_device__multimem_of(void *at) {
    return (char *)at + HEAP_BYTES;
}

char *ls_device__single_of(const void *at) {
    size_t offset = (uintptr_t)at - (uintptr_t)m.heap;
    return offset >= HEAP_BYTES && offset < 2 * HEAP_BYTES ? m.heap + offset - HEAP_BYTES : NULL;
}

// The allocation of a page, or the one before it.
device_allocation *ls_device__allocation(const void *at) {
    if (!ls_device__is_device(at) || ls_device__single_of(at) != NULL) {
        return NULL;
    }
    size_t page = ((uintptr_t)at - (uintptr_t)m.heap) / PAGE;
    while (page > 0 && m.pages[page] == 0) {
        page -= 1;
    }
    return m.pages[page] > 0 ? &m.all[m.pages[page] - 1] : NULL;
}

bool ls_device__release(void *at) {
    device_allocation *found = ls_device__allocation(at);
    bool is = found != NULL && found->start == at && !found->freed;
    if (is) {
        found->freed = true;
    }
    return is;
}

// ---- Findings -----------------------------------------------------------------------------------
static void say_place(ls_text *text, const device_allocation *in, const char *at) {
    ls_text_printf(text, "%s of rank %d at offset %td", in->name, in->rank, at - in->start);
}

static void find_outside(const touched *by, const char *at, size_t bytes) {
    const device_allocation *in = ls_device__allocation(at);
    ls_text text = {0};
    ls_cuda_site site = ls_device__site_at(by->site);
    ls_device__who(&text, by->unit, UINT32_MAX);
    ls_text_printf(&text, " %s %zu bytes", by->writes ? "writes" : "reads", bytes);
    if (in == NULL) {
        ls_text_puts(&text, " of unallocated device memory");
    } else if (in->freed) {
        ls_text_puts(&text, " of freed memory: ");
        say_place(&text, in, at);
    } else {
        ls_text_printf(&text, " at offset %td of %s of rank %d, which has %zu bytes (%s:%d)",
                       at - in->start, in->name, in->rank, in->bytes, in->at.file, in->at.line);
    }
    bool freed = in != NULL && in->freed;
    ls_device__find(freed ? LS_FINDING_HANDLE_USE_AFTER_FREE : LS_FINDING_BUFFER_TOO_SMALL,
                    &by->unit->rank, 1, site, &text);
}

static const char *verb(bool put, bool writes) {
    if (put) {
        return writes ? "puts there" : "puts from there";
    }
    return writes ? "writes it" : "reads it";
}

static bool before(ls_cuda_site a, ls_cuda_site b) {
    int names = strcmp(a.file, b.file);
    return names < 0 || (names == 0 && a.line < b.line);
}

static bool first_of_pair(uint32_t a, uint32_t b) {
    uint64_t low = a < b ? a : b, high = a < b ? b : a, pair = (low << 32 | high) + 1;
    for (size_t i = pair * UINT64_C(0x9e3779b97f4a7c15) % RACES_MAX, n = 0; n < RACES_MAX; n++) {
        uint64_t *at = &m.races[(i + n) % RACES_MAX];
        if (*at == pair) {
            return false;
        }
        if (*at == 0) {
            *at = pair;
            return true;
        }
    }
    return false;
}

static void find_race(const touched *by, const char *at, uint64_t earlier, bool wrote) {
    uint32_t other = (uint32_t)(earlier >> SITE_SHIFT) & SITE_MASK;
    if (!first_of_pair(by->site, other)) {
        return;
    }
    bool put = (earlier & EPOCH_PUT) != 0;
    uint64_t who = (earlier >> WHO_SHIFT) & WHO_MASK;
    const device_put *sent = put ? ls_device__state.puts_by_number[who] : NULL;
    const device_unit *unit = put ? sent->unit : ls_device__state.units[(size_t)(who >> TICK_BITS)];
    ls_cuda_site sites[2] = {ls_device__site_at(other), ls_device__site_at(by->site)};
    const device_unit *units[2] = {unit, by->unit};
    uint32_t ticks[2] = {put ? sent->tick : (uint32_t)(who & ((1u << TICK_BITS) - 1)), UINT32_MAX};
    const char *verbs[2] = {verb(put, wrote), verb(by->put > 0, by->writes)};
    int first = before(sites[1], sites[0]) ? 1 : 0;
    ls_text text = {0};
    say_place(&text, ls_device__allocation(at), at);
    for (int i = 0; i < 2; i++) {
        int n = i == 0 ? first : 1 - first;
        ls_text_puts(&text, i == 0 ? ": " : ", ");
        ls_device__who(&text, units[n], ticks[n]);
        ls_text_printf(&text, " %s (%s:%d)", verbs[n], sites[n].file, sites[n].line);
    }
    bool reuse = (put && !wrote) || (by->put > 0 && !by->writes);
    ls_text_puts(&text, reuse ? "; no flush, counter or signal orders them, so the put may send "
                                "either value"
                              : "; no signal, barrier or fence orders them");
    int ranks[2] = {unit->rank, by->unit->rank};
    ls_device__race(ranks, sites[first], &text);
}

// ---- Accesses -----------------------------------------------------------------------------------
static bool within(const device_clock *clock, uint64_t earlier, bool wrote) {
    uint64_t who = (earlier >> WHO_SHIFT) & WHO_MASK;
    if ((earlier & EPOCH_PUT) != 0) {
        return ls_device__clock_has(clock, (uint32_t)who, wrote);
    }
    uint32_t tick = (uint32_t)(who & ((1u << TICK_BITS) - 1));
    return tick <= ls_device__clock_at(clock, (int)(who >> TICK_BITS));
}

// A write need not see an earlier read, only come after it: a relaxed barrier is enough.
static bool ordered(uint64_t earlier, const touched *by, bool wrote) {
    uint64_t who = (earlier >> WHO_SHIFT) & WHO_MASK;
    bool put = (earlier & EPOCH_PUT) != 0;
    bool own = put ? who == by->put : (int)(who >> TICK_BITS) == by->unit->id && by->put == 0;
    return own || within(&by->unit->known, earlier, wrote) ||
           (by->writes && !wrote && within(&by->unit->order, earlier, false));
}

// Atomic operations of one scope do not race with each other.
static bool both_atomic(uint64_t earlier, const touched *by) {
    int kind = (int)(earlier >> KIND_SHIFT) & 3;
    if (kind == ACCESS_PLAIN || by->kind == ACCESS_PLAIN || (earlier & EPOCH_PUT) != 0) {
        return false;
    }
    const device_unit *unit =
        ls_device__state.units[((earlier >> WHO_SHIFT) & WHO_MASK) >> TICK_BITS];
    if (unit->rank != by->unit->rank) {
        return kind == ACCESS_SYSTEM && by->kind == ACCESS_SYSTEM;
    }
    return unit->block == by->unit->block || (kind != ACCESS_BLOCK && by->kind != ACCESS_BLOCK);
}

static bool races(uint64_t earlier, unsigned mask, const touched *by, bool wrote) {
    return (earlier & 1) != 0 && ((earlier >> MASK_SHIFT) & mask) != 0 &&
           !ordered(earlier, by, wrote) && !both_atomic(earlier, by);
}

static void keep_read(word *at, uint64_t epoch, unsigned mask, const touched *by) {
    int place = -1;
    for (int i = 0; i < READS; i++) {
        uint64_t earlier = at->reads[i];
        bool inside = (((earlier >> MASK_SHIFT) & 15) & ~mask) == 0;
        if ((earlier & 1) == 0 || (inside && ordered(earlier, by, false))) {
            place = i;
            break;
        }
    }
    if (place < 0) {
        place = m.turn;
        m.turn = (m.turn + 1) % READS;
    }
    at->reads[place] = epoch;
}

static void touch_word(word *at, unsigned mask, const touched *by, const char *address) {
    uint64_t epoch = by->epoch | (uint64_t)mask << MASK_SHIFT;
    if (!by->writes && (at->reads[0] == epoch || at->reads[1] == epoch || at->reads[2] == epoch)) {
        return;
    }
    if (races(at->write, mask, by, true)) {
        find_race(by, address, at->write, true);
    }
    if (!by->writes) {
        keep_read(at, epoch, mask, by);
        return;
    }
    for (int i = 0; i < READS; i++) {
        if (races(at->reads[i], mask, by, false)) {
            find_race(by, address, at->reads[i], false);
        }
        at->reads[i] = ((at->reads[i] >> MASK_SHIFT) & 15 & ~mask) == 0 ? 0 : at->reads[i];
    }
    at->write = epoch;
}

static void touch(const touched *by, const char *at, size_t bytes) {
    size_t offset = (size_t)(at - m.heap);
    if (offset >= HEAP_BYTES) {
        ls_device__invalid(by->unit->rank, ls_device__site_at(by->site),
                           "a multimem pointer is %s; only multimem instructions may use it",
                           by->writes ? "written through" : "read through");
        return;
    }
    uint32_t in = m.pages[offset / PAGE];
    const device_allocation *found = in > 0 ? &m.all[in - 1] : NULL;
    if (found == NULL || found->freed || (size_t)(at - found->start) + bytes > found->bytes) {
        find_outside(by, at, bytes);
        return;
    }
    while (bytes > 0) {
        size_t within = offset % WORD, count = WORD - within;
        count = count < bytes ? count : bytes;
        unsigned mask = ((1u << count) - 1) << within;
        touch_word(&m.words[offset / WORD], mask, by, m.heap + offset);
        offset += count;
        bytes -= count;
    }
}

static uint64_t epoch_of(const touched *by) {
    uint64_t who = by->put > 0 ? by->put
                               : (uint64_t)by->unit->id << TICK_BITS |
                                     ls_device__clock_at(&by->unit->known, by->unit->id);
    return (by->put > 0 ? EPOCH_PUT : 0) | who << WHO_SHIFT |
           (uint64_t)(by->site & SITE_MASK) << SITE_SHIFT | (uint64_t)by->kind << KIND_SHIFT | 1;
}

void ls_device__access(const volatile void *at, size_t bytes, bool writes, int kind,
                       const void *code, const ls_cuda_site *site) {
    const char *address = (const char *)(uintptr_t)at;
    device_thread *self = ls_device__state.running;
    if (self == NULL || bytes == 0) {
        return;
    }
    touched by = {
        .unit = self->unit, .writes = writes, .kind = kind, .site = ls_device__site(code, site)};
    if (self->block == NULL) {
        ls_cuda_site where = ls_device__site_at(by.site);
        ls_device__invalid(self->rank, where, "host code %s device memory; copy it with cudaMemcpy",
                           writes ? "writes" : "reads");
        return;
    }
    by.epoch = epoch_of(&by);
    touch(&by, address, bytes);
    if (writes && ls_device__state.spinning.first != NULL) {
        ls_device__changed();
    }
}

void ls_device__access_by(device_unit *unit, uint32_t put, const void *at, size_t bytes,
                          bool writes, const ls_cuda_site *site) {
    if (!ls_device__is_device(at) || bytes == 0) {
        return;
    }
    touched by = {.unit = unit, .put = put, .writes = writes, .site = ls_device__site(NULL, site)};
    by.epoch = epoch_of(&by);
    touch(&by, at, bytes);
}
