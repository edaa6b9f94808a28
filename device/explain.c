// Makes the finding of a deadlocked run: it lists what each thread waits for, and the cycle.
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"

#define LINES_MAX 12  // of a text about waiting threads

// ---- Nobody can continue ------------------------------------------------------------------------
// Threads that wait at one place for one thing.
typedef struct waiting {
    const device_thread *first;
    int rank, threads;
    int low, high;  // of their blocks
} waiting;

typedef struct picture {
    waiting *all;
    int count, room;
} picture;

static int rank_of(const device_thread *thread) {
    return thread->block != NULL ? thread->block->kernel->rank : thread->rank;
}

static bool same(const waiting *at, const device_thread *thread, const char *what) {
    if (at->rank != rank_of(thread) || at->first->at.line != thread->at.line ||
        at->first->why != thread->why || (at->low < 0) != (thread->block == NULL)) {
        return false;
    }
    ls_text text = {0};
    at->first->why(&text, at->first);
    bool is = strcmp(ls_text_string(&text), what) == 0;
    ls_text_free(&text);
    return is;
}

static void add(picture *p, const device_thread *thread) {
    if (!thread->waits || thread->ended || thread->why == NULL) {
        return;
    }
    ls_text what = {0};
    thread->why(&what, thread);
    int block = thread->block != NULL ? thread->block->index : -1;
    for (int i = 0; i < p->count; i++) {
        waiting *at = &p->all[i];
        if (same(at, thread, ls_text_string(&what))) {
            at->threads += 1;
            at->low = block < at->low ? block : at->low;
            at->high = block > at->high ? block : at->high;
            ls_text_free(&what);
            return;
        }
    }
    ls_text_free(&what);
    if (p->count == p->room) {
        p->room = p->room * 2 + 16;
        p->all = realloc(p->all, (size_t)p->room * sizeof *p->all);
        LS_ASSERT(p->all != NULL);
    }
    p->all[p->count++] = (waiting){thread, rank_of(thread), 1, block, block};
}

static ls_cuda_site site_of(const device_thread *thread) {
    return thread->at.file != NULL || thread->at.line == 0
               ? thread->at
               : ls_device__site_at((uint32_t)thread->at.line);
}

static void say(ls_text *text, const waiting *at) {
    ls_cuda_site site = site_of(at->first);
    ls_text_printf(text, "\nrank %d", at->rank);
    if (at->low < 0) {
        ls_text_puts(text, ", host");
    } else if (at->low == at->high) {
        ls_text_printf(text, ", block %d", at->low);
    } else {
        ls_text_printf(text, ", blocks %d-%d", at->low, at->high);
    }
    ls_text_printf(text, " (%d thread%s) ", at->threads, at->threads == 1 ? "" : "s");
    at->first->why(text, at->first);
    if (site.file != NULL && site.file[0] != 0) {
        ls_text_printf(text, " at %s:%d", site.file, site.line);
    }
}

static void look(picture *p) {
    for (const device_kernel *k = ls_device__state.kernels; k != NULL; k = k->next) {
        for (int i = 0; k->left > 0 && i < k->block_count; i++) {
            ls_cuda_dim b = k->launch.block;
            for (unsigned t = 0; k->blocks[i].threads != NULL && t < b.x * b.y * b.z; t++) {
                add(p, &k->blocks[i].threads[t]);
            }
        }
    }
    for (const device_thread *at = ls_device__state.threads; at != NULL; at = at->all) {
        add(p, at);
    }
}

// The ranks that others wait for, as far as known: those that a barrier lacks, and the one that has
// raised a signal before, or any other.
static void edges(bool (*to)[RANKS_MAX], const picture *p) {
    for (int i = 0; i < p->count; i++) {
        const device_thread *thread = p->all[i].first;
        bool *of = to[p->all[i].rank];
        if (thread->why == ls_device__describe_cell) {
            const device_cell *cell = thread->on;
            int by = ls_device__raiser(cell);
            for (int r = 0; r < ls_device__state.rank_count; r++) {
                of[r] |= r == by || (by < 0 && r != p->all[i].rank);
            }
        } else {
            (void)ls_device__waits_for_ranks(thread, of);
        }
    }
}

static bool circle_from(bool (*to)[RANKS_MAX], int *path, int length) {
    for (int next = 0; next < ls_device__state.rank_count; next++) {
        if (!to[path[length - 1]][next]) {
            continue;
        }
        if (next == path[0]) {
            path[length] = -1;
            return true;
        }
        bool seen = false;
        for (int i = 0; i < length; i++) {
            seen = seen || path[i] == next;
        }
        path[length] = next;
        if (!seen && circle_from(to, path, length + 1)) {
            return true;
        }
    }
    return false;
}

static void say_circle(ls_text *text, const picture *p) {
    static bool to[RANKS_MAX][RANKS_MAX];
    int path[RANKS_MAX + 1];
    memset(to, 0, sizeof to);
    edges(to, p);
    for (path[0] = 0; path[0] < ls_device__state.rank_count; path[0]++) {
        if (circle_from(to, path, 1)) {
            ls_text_printf(text, "\ncircle: rank %d", path[0]);
            for (int i = 1; path[i] >= 0; i++) {
                ls_text_printf(text, " waits for rank %d, which", path[i]);
            }
            ls_text_printf(text, " waits for rank %d", path[0]);
            return;
        }
    }
}

static int depth(const device_thread *thread) {
    if (thread->block == NULL) {
        return thread->why == ls_device__describe_host ? 3 : 0;
    }
    return ls_device__waits_in_block(thread) ? 2 : 1;
}

// Communication comes before what merely waits for it: barriers of blocks, and the host.
static int order(const void *a, const void *b) {
    const waiting *x = a, *y = b;
    int kinds = depth(x->first) - depth(y->first);
    int ranks = x->rank - y->rank;
    int at = kinds != 0 ? kinds : ranks;
    return at != 0 ? at : x->low - y->low;
}

static bool kernels_run(void) {
    const device_kernel *k = ls_device__state.kernels;
    while (k != NULL && k->left == 0) {
        k = k->next;
    }
    return k != NULL;
}

void ls_device__explain(void) {
    picture p = {0};
    if (!kernels_run() && ls_device__calls_explain()) {
        return;
    }
    look(&p);
    if (p.count > 1) {
        qsort(p.all, (size_t)p.count, sizeof *p.all, order);
    }
    int ranks[RANKS_MAX], count = 0;
    bool listed[RANKS_MAX] = {false};
    ls_text text = {0};
    int least = p.count > 0 ? depth(p.all[0].first) : 0;
    bool host = p.count > 0 && p.all[0].first->block == NULL;
    ls_text_puts(&text,
                 host ? "deadlock: a call waits for ranks that do not make it"
                      : "deadlock: kernels wait for events that no thread can cause any more");
    for (int i = 0; i < p.count; i++) {
        if (!listed[p.all[i].rank] && depth(p.all[i].first) == least) {
            listed[p.all[i].rank] = true;
            ranks[count++] = p.all[i].rank;
        }
        bool follows = depth(p.all[i].first) > 1 && depth(p.all[i].first) > least;
        if (!follows && i < LINES_MAX) {
            say(&text, &p.all[i]);
        } else if (!follows && i == LINES_MAX) {
            ls_text_printf(&text, "\nand %d more", p.count - i);
        }
    }
    ls_cuda_site at = p.count > 0 ? site_of(p.all[0].first) : (ls_cuda_site){"", 0};
    bool missing = host && ls_device__waits_in_call(p.all[0].first);
    say_circle(&text, &p);
    ls_finding_id id = missing ? LS_FINDING_MISSING_RANK : LS_FINDING_DEADLOCK_CYCLE;
    ls_device__find(id, ranks, count, at, &text);
    free(p.all);
    ls_device__fail(LS_ERR_DEADLOCK, ls_finding_name(id));
}
