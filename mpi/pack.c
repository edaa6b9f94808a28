// Packs and unpacks datatypes, and compares type signatures.
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

size_t ls_mpi__pack(void *out, const void *buf, size_t count, const mpi_type *type) {
    size_t bytes = count * type->size;
    if (bytes == 0) {
        return 0;
    }
    if (type->contiguous) {
        memcpy(out, buf, bytes);
        return bytes;
    }
    char *to = out;
    for (size_t i = 0; i < count; i++) {
        const char *base = (const char *)((intptr_t)buf + (intptr_t)i * type->extent);
        for (size_t s = 0; s < type->segment_count; s++) {
            const mpi_segment *at = &type->segments[s];
            size_t n = at->count * ls_mpi__basic(at->basic)->size;
            memcpy(to, (const char *)((intptr_t)base + at->offset), n);
            to += n;
        }
    }
    return bytes;
}

size_t ls_mpi__unpack(void *buf, size_t count, const mpi_type *type, const void *in, size_t bytes) {
    size_t all = count * type->size;
    bytes = bytes < all ? bytes : all;
    if (bytes == 0) {
        return 0;
    }
    if (type->contiguous) {
        memcpy(buf, in, bytes);
        return bytes;
    }
    const char *from = in;
    size_t left = bytes;
    for (size_t i = 0; i < count && left > 0; i++) {
        intptr_t base = (intptr_t)buf + (intptr_t)i * type->extent;
        for (size_t s = 0; s < type->segment_count && left > 0; s++) {
            const mpi_segment *at = &type->segments[s];
            size_t n = at->count * ls_mpi__basic(at->basic)->size;
            n = n < left ? n : left;
            memcpy((char *)(base + at->offset), from, n);
            from += n;
            left -= n;
        }
    }
    return bytes;
}

void ls_mpi__copy(void *out, size_t out_count, const mpi_type *out_type, const void *in,
                  size_t in_count, const mpi_type *in_type) {
    size_t in_bytes = in_count * in_type->size, out_bytes = out_count * out_type->size;
    size_t bytes = in_bytes < out_bytes ? in_bytes : out_bytes;
    if (bytes == 0) {
        return;
    }
    if (in_type->contiguous && out_type->contiguous) {
        memmove(out, in, bytes);
        return;
    }
    if (in_type->contiguous) {
        (void)ls_mpi__unpack(out, out_count, out_type, in, bytes);
        return;
    }
    char *packed = ls_mpi__alloc(in_bytes);
    (void)ls_mpi__pack(packed, in, in_count, in_type);
    (void)ls_mpi__unpack(out, out_count, out_type, packed, bytes);
    free(packed);
}

void ls_mpi__span(ptrdiff_t *low, size_t *bytes, size_t count, const mpi_type *type) {
    if (count == 0 || type->size == 0) {
        *low = 0;
        *bytes = 0;
        return;
    }
    ptrdiff_t last = (ptrdiff_t)(count - 1) * type->extent;
    *low = type->true_lb + (last < 0 ? last : 0);
    *bytes = (size_t)(type->true_extent + (last < 0 ? -last : last));
}

// The number of bytes of a type's elements between two addresses.
typedef struct stretch {
    intptr_t from, to;
} stretch;

static stretch *room_for(stretch *of, size_t count) {
    stretch *more = realloc(of, count * sizeof *more);
    if (more == NULL) {
        abort();
    }
    return more;
}

static int by_place(const void *a, const void *b) {
    intptr_t x = ((const stretch *)a)->from, y = ((const stretch *)b)->from;
    if (x < y) {
        return -1;
    }
    return x > y ? 1 : 0;
}

// The part of count elements between low and high, in address order.
static stretch *stretches(size_t *out, const void *base, size_t count, const mpi_type *type,
                          intptr_t low, intptr_t high) {
    stretch *made = NULL;
    size_t n = 0;
    if (type->contiguous) {
        made = ls_mpi__alloc(sizeof *made);
        *made = (stretch){(intptr_t)base, (intptr_t)base + (intptr_t)(count * type->size)};
        *out = 1;
        return made;
    }
    for (size_t i = 0; i < count * type->segment_count; i++) {
        const mpi_segment *at = &type->segments[i % type->segment_count];
        intptr_t from =
            (intptr_t)base + at->offset + (intptr_t)(i / type->segment_count) * type->extent;
        intptr_t to = from + (intptr_t)(at->count * ls_mpi__basic(at->basic)->size);
        if (from >= high || to <= low) {
            continue;
        }
        if ((n & (n - 1)) == 0) {
            made = room_for(made, n == 0 ? 1 : 2 * n);
        }
        made[n++] = (stretch){from, to};
    }
    if (n > 0) {
        qsort(made, n, sizeof *made, by_place);
    }
    *out = n;
    return made;
}

bool ls_mpi__types_meet(const void *a, size_t a_count, const mpi_type *a_type, const void *b,
                        size_t b_count, const mpi_type *b_type) {
    ptrdiff_t first;
    size_t bytes, n, m;
    ls_mpi__span(&first, &bytes, a_count, a_type);
    intptr_t low = (intptr_t)a + first, high = low + (intptr_t)bytes;
    ls_mpi__span(&first, &bytes, b_count, b_type);
    intptr_t other_low = (intptr_t)b + first, other_high = other_low + (intptr_t)bytes;
    low = low > other_low ? low : other_low;
    high = high < other_high ? high : other_high;
    if (low >= high) {
        return false;
    }
    stretch *own = stretches(&n, a, a_count, a_type, low, high);
    stretch *other = stretches(&m, b, b_count, b_type, low, high);
    bool meet = false;
    for (size_t i = 0, k = 0; i < n && k < m && !meet;) {
        meet = own[i].from < other[k].to && other[k].from < own[i].to;
        if (own[i].to <= other[k].to) {
            i++;
        } else {
            k++;
        }
    }
    free(own);
    free(other);
    return meet;
}

// ---- Overlaps -----------------------------------------------------------------------------------
// Stretches in the order of their places.
static bool neighbors_meet(const stretch *all, size_t n) {
    intptr_t end = n > 0 ? all[0].to : 0;
    for (size_t i = 1; i < n; i++) {
        if (all[i].from < end) {
            return true;
        }
        end = all[i].to;
    }
    return false;
}

// The segments of all places. whole: one range around each place.
static stretch *stretches_of(size_t *out, const mpi_place *places, size_t n, bool whole) {
    stretch *all = NULL;
    size_t count = 0;
    for (size_t p = 0; p < n; p++) {
        ptrdiff_t first;
        size_t bytes, more = 1;
        ls_mpi__span(&first, &bytes, places[p].count, places[p].type);
        if (bytes == 0) {
            continue;
        }
        stretch around = {(intptr_t)places[p].base + first, 0}, *own = NULL;
        around.to = around.from + (intptr_t)bytes;
        if (!whole) {
            own = stretches(&more, places[p].base, places[p].count, places[p].type, around.from,
                            around.to);
        }
        all = room_for(all, count + more);
        memcpy(all + count, whole ? &around : own, more * sizeof *all);
        count += more;
        free(own);
    }
    if (count > 1) {
        qsort(all, count, sizeof *all, by_place);
    }
    *out = count;
    return all;
}

bool ls_mpi__segments_overlap(const mpi_type *type) {
    size_t n;
    stretch *own = stretches(&n, NULL, 1, type, INTPTR_MIN, INTPTR_MAX);
    bool meet = neighbors_meet(own, n);
    free(own);
    return meet;
}

bool ls_mpi__places_overlap(const mpi_place *places, size_t n) {
    bool mixed = false;  // elements of one place may interleave
    for (size_t p = 0; p < n; p++) {
        const mpi_type *type = places[p].type;
        if (places[p].count == 0 || type->size == 0) {
            continue;
        }
        if (type->overlaps) {
            return true;
        }
        ptrdiff_t extent = type->extent < 0 ? -type->extent : type->extent;
        mixed = mixed || (places[p].count > 1 && extent < type->true_extent);
    }
    for (int whole = 1; whole >= 0; whole--) {
        size_t count;
        stretch *all = stretches_of(&count, places, n, whole == 1);
        bool meet = neighbors_meet(all, count);
        free(all);
        if (!meet && !(whole == 1 && mixed)) {
            return false;
        }
    }
    return true;
}

void ls_mpi__ranges(mpi_ranges *out, const mpi_place *place) {
    const mpi_type *type = place->type;
    *out = (mpi_ranges){.all = &out->one};
    if (type->contiguous) {
        out->one = (mpi_range){place->base, place->base + place->count * type->size};
        out->count = place->count > 0 ? 1 : 0;
        return;
    }
    size_t n, kept = 0;
    stretch *all = stretches(&n, place->base, place->count, type, INTPTR_MIN, INTPTR_MAX);
    out->all = ls_mpi__alloc(n * sizeof *out->all);
    for (size_t i = 0; i < n; i++) {
        const char *low = (const char *)all[i].from, *high = (const char *)all[i].to;
        mpi_range *last = &out->all[kept > 0 ? kept - 1 : 0];
        if (kept > 0 && low <= last->high) {
            last->high = high > last->high ? high : last->high;
        } else if (low < high) {
            out->all[kept++] = (mpi_range){low, high};
        }
    }
    out->count = kept;
    free(all);
}

void ls_mpi__ranges_free(mpi_ranges *ranges) {
    if (ranges->all != &ranges->one) {
        free(ranges->all);
    }
}

// ---- Signatures ---------------------------------------------------------------------------------
// What a basic type is to others: MPI has several names for one machine type.
static int class_of(int number) {
    enum { SIGNED = 100, UNSIGNED = 200 };
    int size = (int)ls_mpi__basic(number)->size;
    switch (0x18000000 + number) {
    case MPI_SHORT:
    case MPI_INT:
    case MPI_LONG:
    case MPI_LONG_LONG_INT:
    case MPI_INT16_T:
    case MPI_INT32_T:
    case MPI_INT64_T:
    case MPI_AINT:
    case MPI_OFFSET:
    case MPI_COUNT:
        return SIGNED + size;
    case MPI_SIGNED_CHAR:
    case MPI_INT8_T:
        return SIGNED + 1;
    case MPI_UNSIGNED_SHORT:
    case MPI_UNSIGNED:
    case MPI_UNSIGNED_LONG:
    case MPI_UNSIGNED_LONG_LONG:
    case MPI_UINT16_T:
    case MPI_UINT32_T:
    case MPI_UINT64_T:
        return UNSIGNED + size;
    case MPI_UNSIGNED_CHAR:
    case MPI_UINT8_T:
        return UNSIGNED + 1;
    default:
        return number;
    }
}

// The elements of count types, run by run.
typedef struct walk {
    const mpi_type *type;
    size_t count, element, segment, used;
} walk;

static bool run_at(const walk *w, int *number, size_t *left) {
    if (w->element >= w->count || w->type->segment_count == 0) {
        return false;
    }
    const mpi_segment *at = &w->type->segments[w->segment];
    *number = at->basic;
    bool single = w->type->segment_count == 1;
    *left = (single ? at->count * (w->count - w->element) : at->count) - w->used;
    return true;
}

static void advance(walk *w, size_t n) {
    const mpi_segment *at = &w->type->segments[w->segment];
    w->used += n;
    if (w->type->segment_count == 1) {
        w->element = w->used == at->count * w->count ? w->count : 0;
        return;
    }
    if (w->used == at->count) {
        w->used = 0;
        w->segment += 1;
        if (w->segment == w->type->segment_count) {
            w->segment = 0;
            w->element += 1;
        }
    }
}

static bool is_packed(const mpi_type *type) {
    return type->segment_count == 1 && type->segments[0].basic == (MPI_PACKED & 0xff);
}

bool ls_mpi__signature_fits(size_t send_count, const mpi_type *send, size_t recv_count,
                            const mpi_type *recv, const char **send_basic,
                            const char **recv_basic) {
    if (is_packed(send) || is_packed(recv)) {
        return true;
    }
    if (send->contiguous && recv->contiguous &&
        class_of(send->segments[0].basic) == class_of(recv->segments[0].basic)) {
        return true;
    }
    walk a = {send, send_count, 0, 0, 0}, b = {recv, recv_count, 0, 0, 0};
    int x, y;
    size_t m, n;
    while (run_at(&a, &x, &m) && run_at(&b, &y, &n)) {
        if (class_of(x) != class_of(y)) {
            *send_basic = ls_mpi__basic(x)->constant;
            *recv_basic = ls_mpi__basic(y)->constant;
            return false;
        }
        size_t step = m < n ? m : n;
        advance(&a, step);
        advance(&b, step);
    }
    return true;
}
