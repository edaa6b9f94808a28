// Intervals of memory in a treap, against a linear list.
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "mpi/intervals.h"

#define COUNT 400
#define SPACE 600

static char memory[SPACE];
static mpi_interval nodes[COUNT];
static bool is_in[COUNT];
static unsigned drawn = 7;

static int draw(int below) {
    drawn = drawn * 1103515245 + 12345;
    return (int)(drawn >> 16) % below;
}

// The first after `after` in the order of starts and, of equal starts, of the nodes.
static mpi_interval *next_of_list(const char *low, const char *high, const mpi_interval *after) {
    mpi_interval *found = NULL;
    for (int i = 0; i < COUNT; i++) {
        mpi_interval *at = &nodes[i];
        bool meets = is_in[i] && at->low < high && at->high > low;
        bool behind =
            after == NULL || at->low > after->low || (at->low == after->low && at > after);
        bool earlier =
            found == NULL || at->low < found->low || (at->low == found->low && at < found);
        found = meets && behind && earlier ? at : found;
    }
    return found;
}

static int compare(const mpi_intervals *set) {
    const char *low = memory + draw(SPACE), *high = low + draw(40);
    mpi_interval *at = NULL;
    int count = 0;
    do {
        mpi_interval *expected = low < high ? next_of_list(low, high, at) : NULL;
        at = ls_mpi__interval_search(set, low, high, at);
        LS_ASSERT(at == expected);
        count += at != NULL;
    } while (at != NULL);
    return count;
}

static int count_all(const mpi_intervals *set) {
    int count = 0;
    const mpi_interval *at = ls_mpi__interval_first(set);
    for (; at != NULL; at = ls_mpi__interval_after(set, at)) {
        count++;
    }
    return count;
}

int main(void) {
    mpi_intervals set = {0};
    int met = 0, in = 0;
    for (int step = 0; step < 20000; step++) {
        int i = draw(COUNT);
        if (is_in[i]) {
            ls_mpi__interval_remove(&set, &nodes[i]);
        } else {
            int low = draw(SPACE - 1), length = draw(20) == 0 ? draw(SPACE - low - 1) : draw(8);
            length = length < SPACE - low ? length : 0;
            nodes[i] = (mpi_interval){.low = memory + low, .high = memory + low + 1 + length};
            ls_mpi__interval_add(&set, &nodes[i]);
        }
        is_in[i] = !is_in[i];
        in += is_in[i] ? 1 : -1;
        met += compare(&set);
        LS_ASSERT(step % 100 != 0 || count_all(&set) == in);
    }
    LS_ASSERT(met > 20000);
    printf("%d overlaps as in the list\n", met);
    return 0;
}
