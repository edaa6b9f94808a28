// Vector clocks: ticks of units, and the puts whose data has arrived or whose source was read.
// Puts are counted one by one, since a weak signal makes one of them visible and no earlier one.
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"

static void more_units(device_clock *clock, uint32_t units) {
    if (units <= clock->units) {
        return;
    }
    uint32_t room = (units + 63) / 64 * 64;
    clock->ticks = realloc(clock->ticks, room * sizeof *clock->ticks);
    LS_ASSERT(clock->ticks != NULL);
    memset(clock->ticks + clock->units, 0, (room - clock->units) * sizeof *clock->ticks);
    clock->units = room;
}

static void more_words(device_clock *clock, uint32_t words) {
    if (words <= clock->words) {
        return;
    }
    uint32_t room = (words + 7) / 8 * 8;
    size_t grown = (room - clock->words) * sizeof(uint64_t);
    clock->landed = realloc(clock->landed, room * sizeof(uint64_t));
    clock->taken = realloc(clock->taken, room * sizeof(uint64_t));
    LS_ASSERT(clock->landed != NULL && clock->taken != NULL);
    memset(clock->landed + clock->words, 0, grown);
    memset(clock->taken + clock->words, 0, grown);
    clock->words = room;
}

void ls_device__clock_free(device_clock *clock) {
    free(clock->ticks);
    free(clock->landed);
    free(clock->taken);
    *clock = (device_clock){0};
}

void ls_device__clock_keep_ticks(device_clock *clock) {
    free(clock->landed);
    free(clock->taken);
    clock->landed = clock->taken = NULL;
    clock->words = 0;
}

void ls_device__clock_join(device_clock *into, const device_clock *from) {
    more_units(into, from->units);
    more_words(into, from->words);
    for (uint32_t i = 0; i < from->units; i++) {
        uint32_t own = into->ticks[i], other = from->ticks[i];
        into->ticks[i] = own > other ? own : other;
    }
    for (uint32_t i = 0; i < from->words; i++) {
        into->landed[i] |= from->landed[i];
        into->taken[i] |= from->taken[i];
    }
}

void ls_device__clock_copy(device_clock *into, const device_clock *from) {
    if (into->units > 0) {
        memset(into->ticks, 0, into->units * sizeof *into->ticks);
    }
    if (into->words > 0) {
        memset(into->landed, 0, into->words * sizeof(uint64_t));
        memset(into->taken, 0, into->words * sizeof(uint64_t));
    }
    ls_device__clock_join(into, from);
}

void ls_device__clock_tick(device_clock *clock, int unit, uint32_t tick) {
    more_units(clock, (uint32_t)unit + 1);
    clock->ticks[unit] = tick;
}

uint32_t ls_device__clock_at(const device_clock *clock, int unit) {
    return (uint32_t)unit < clock->units ? clock->ticks[unit] : 0;
}

void ls_device__clock_put(device_clock *clock, uint32_t put, bool landed) {
    if (put > 0) {
        more_words(clock, put / 64 + 1);
        (landed ? clock->landed : clock->taken)[put / 64] |= UINT64_C(1) << (put % 64);
    }
}

bool ls_device__clock_has(const device_clock *clock, uint32_t put, bool landed) {
    const uint64_t *set = landed ? clock->landed : clock->taken;
    return put == 0 || (put / 64 < clock->words && ((set[put / 64] >> (put % 64)) & 1) != 0);
}
