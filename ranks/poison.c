// The patterns of memory that holds nothing yet: what ls_rank_alloc gives before it is written, and
// what an asynchronous call receives before its wait. Each pattern carries the number of its
// origin, and survives copies, messages and, where it is a floating-point number, arithmetic: a
// signalling NaN becomes a quiet one with the same payload. So any rank that comes across it can
// name the memory or the call that it came from, and whether it was computed with.
#include <string.h>

#include "kernels/kernels.h"
#include "ranks/internal.h"

#define TAG_MASK    UINT32_C(0x000fffff)
#define WORD_OF(n)  (UINT32_C(0x7fa00000) | (uint32_t)(n))  // a signalling NaN in f32
#define IS_WORD(w)  (((w)&UINT32_C(0x7ff00000)) == UINT32_C(0x7fa00000))
#define IS_QUIET(w) (((w)&UINT32_C(0x7ff00000)) == UINT32_C(0x7fe00000))
#define F64_OF(n)   (UINT64_C(0x7ff4000000000000) | (uint64_t)(n))
#define F16_WORD    UINT16_C(0x7d5a)
#define BF16_WORD   UINT16_C(0x7fa5)
#define ORIGINS_MAX 0xf0000  // sites of all ranks; those beyond have no number

// ---- Origins -----------------------------------------------------------------------------------
static bool same_place(const ls_origin *origin, int rank, const char *file, int line,
                       bool in_flight) {
    return origin->rank == rank && origin->line == line && origin->in_flight == in_flight &&
           strcmp(origin->file, file) == 0;
}

// The number of a place, from 1; 0: there was no room for it.
static uint32_t number_of(ls_rank *rank, const char *file, int line, bool in_flight) {
    ls_spmd *run = rank->run;
    for (uint32_t n = rank->origins; n != 0; n = run->origins[n].next) {
        if (same_place(&run->origins[n], rank->id, file, line, in_flight)) {
            return n;
        }
    }
    if (run->origin_count + 1 >= run->origin_room) {
        uint32_t room = run->origin_room == 0 ? 64 : 2 * run->origin_room;
        ls_origin *more = NULL;
        if (room > ORIGINS_MAX || (more = ls_arena_alloc(run->arena, room, sizeof *more)) == NULL) {
            return 0;
        }
        if (run->origin_room > 0) {
            memcpy(more, run->origins, run->origin_room * sizeof *more);
        }
        run->origins = more;
        run->origin_room = room;
    }
    uint32_t n = ++run->origin_count;
    run->origins[n] = (ls_origin){.rank = rank->id,
                                  .file = file,
                                  .line = line,
                                  .in_flight = in_flight,
                                  .next = rank->origins};
    rank->origins = n;
    return n;
}

uint32_t ls_poison__memory(ls_rank *rank, const char *file, int line) {
    return number_of(rank, file, line, false);
}

uint32_t ls_poison__call(ls_rank *rank, const ls_call *call) {
    return number_of(rank, call->file != NULL ? call->file : "", call->line, true);
}

// ---- Patterns ----------------------------------------------------------------------------------
typedef struct pattern {
    unsigned char bytes[8];
    size_t size;
} pattern;

static pattern pattern_of(ls_dtype dtype, uint32_t origin) {
    pattern p = {.size = 4};
    const uint32_t word = WORD_OF(origin & TAG_MASK);
    const uint64_t wide = F64_OF(origin & TAG_MASK);
    const uint16_t half = dtype == LS_BF16 ? BF16_WORD : F16_WORD;
    size_t bytes = ls_dtype_bytes(dtype);
    if (dtype == LS_F64) {
        memcpy(p.bytes, &wide, p.size = 8);
    } else if (bytes == 2 && ls_dtype_is_float(dtype)) {
        memcpy(p.bytes, &half, p.size = 2);
    } else if (bytes == 1 && ls_dtype_is_float(dtype)) {
        p.bytes[0] = 0x7f;
        p.size = 1;
    } else {
        memcpy(p.bytes, &word, p.size);
    }
    return p;
}

void ls_poison__fill(void *at, size_t bytes, ls_dtype dtype, uint32_t origin) {
    const pattern p = pattern_of(dtype, origin);
    if (bytes == 0) {
        return;
    }
    size_t done = bytes < p.size ? bytes : p.size;
    memcpy(at, p.bytes, done);
    while (done < bytes) {  // doubles the filled part
        size_t more = done < bytes - done ? done : bytes - done;
        more = more < 4096 ? more : 4096;
        memcpy((char *)at + done, at, more);
        done += more;
    }
}

ptrdiff_t ls_poison__changed(const void *at, size_t bytes, ls_dtype dtype, uint32_t origin) {
    const pattern p = pattern_of(dtype, origin);
    const char *data = at;
    size_t first = bytes < p.size ? bytes : p.size;
    if (bytes == 0 ||
        (memcmp(data, p.bytes, first) == 0 && memcmp(data + first, data, bytes - first) == 0)) {
        return -1;
    }
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)data[i] != p.bytes[i % p.size]) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

// ---- Coming across one -------------------------------------------------------------------------
static ls_origin *origin_at(const ls_spmd *run, uint32_t number) {
    return number > 0 && number <= run->origin_count ? &run->origins[number] : NULL;
}

ls_origin *ls_poison__origin(bool *computed, const ls_spmd *run, const void *element,
                             ls_dtype dtype) {
    uint32_t word = 0;
    uint64_t wide = 0;
    *computed = false;
    if (dtype == LS_F64) {
        memcpy(&wide, element, sizeof wide);
        wide &= INT64_MAX;
        if ((wide & ~(UINT64_C(0x8000000000000) | TAG_MASK)) == F64_OF(0)) {
            *computed = (wide & UINT64_C(0x8000000000000)) != 0;
            return origin_at(run, (uint32_t)(wide & TAG_MASK));
        }
        // Converted from f32: its payload is the upper part.
        if (wide >> 52 == 0x7ff && (wide & UINT64_C(0x1fffffff)) == 0) {
            word = UINT32_C(0x7f800000) | (uint32_t)(wide >> 29 & UINT64_C(0x7fffff));
        } else {
            memcpy(&word, element, sizeof word);  // as ls_rank_alloc gave it
        }
    } else if (ls_dtype_bytes(dtype) >= sizeof word) {
        memcpy(&word, element, sizeof word);
    }
    uint32_t sign = ls_dtype_is_float(dtype) ? UINT32_C(0x7fffffff) : UINT32_MAX;
    word &= sign;
    *computed = IS_QUIET(word) && ls_dtype_is_float(dtype);
    return IS_WORD(word) || *computed ? origin_at(run, word & TAG_MASK) : NULL;
}

ls_origin *ls_poison__word(const ls_spmd *run, const void *word, uint32_t own) {
    uint32_t here = 0;
    memcpy(&here, word, sizeof here);
    if (own != 0 && here == WORD_OF(own)) {
        return origin_at(run, own);
    }
    return IS_WORD(here) ? origin_at(run, here & TAG_MASK) : NULL;
}

bool ls_poison__any(const ls_spmd *run, const void *at, size_t bytes) {
    const char *data = at;
    size_t words = bytes / sizeof(uint32_t);
    if (!ls_kernel_any_special(at, words, LS_F32)) {
        return false;
    }
    for (size_t i = 0; i < words; i++) {
        if (ls_poison__word(run, data + i * sizeof(uint32_t), 0) != NULL) {
            return true;
        }
    }
    return false;
}

bool ls_poison__same(const void *a, const void *b, size_t bytes) {
    const char *x = a, *y = b;
    if (memcmp(x, y, bytes) == 0) {
        return true;
    }
    size_t whole = bytes / sizeof(uint32_t) * sizeof(uint32_t);
    for (size_t i = 0; i < whole; i += sizeof(uint32_t)) {
        uint32_t p = 0, q = 0;
        memcpy(&p, x + i, sizeof p);
        memcpy(&q, y + i, sizeof q);
        if (p != q && !(IS_WORD(p) && IS_WORD(q))) {
            return false;
        }
    }
    return memcmp(x + whole, y + whole, bytes - whole) == 0;
}
