// Tests of the search for an order: a result of another order is explained by its name.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "orders/explain.h"
#include "kernels/kernels.h"
#include "tests/counting.h"

enum { RANKS = 4, MANY = 8, COUNT = 40000 };

typedef struct data {
    float in[MANY][COUNT];
    const void *pointers[MANY];
    float out[COUNT];
    ls_reduction reduction;
    ls_order_observation observation;
} data;

static data *make_of(int ranks, const char *actual_order, size_t count) {
    data *d = calloc(1, sizeof *d);
    cr_assert(d != NULL);
    for (int r = 0; r < ranks; r++) {
        for (size_t i = 0; i < count; i++) {
            d->in[r][i] = (float)ls_random_normal(5, 1, (uint32_t)r, i);
        }
        d->pointers[r] = d->in[r];
    }
    d->reduction = (ls_reduction){d->pointers, ranks, LS_F32, LS_SUM, NULL, count, NULL};
    d->observation = (ls_order_observation){LS_ORDER_ALL_REDUCE, &d->reduction, 0, d->out};
    ls_order *order = NULL;
    cr_assert(ls_order_parse(&order, actual_order) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out, &d->reduction, 0, 0, count) ==
              LS_OK);
    ls_order_free(order);
    return d;
}

static data *make(const char *actual_order, size_t count) {
    return make_of(RANKS, actual_order, count);
}

static ls_order_explanation explain(data *d, const char *stated) {
    ls_order *order = NULL;
    cr_assert(ls_order_parse(&order, stated) == LS_OK);
    ls_order_explanation e;
    cr_assert(ls_order_explain(&e, order, &d->observation, NULL) == LS_OK);
    ls_order_free(order);
    if (e.found) {
        // The named order reproduces these bits.
        size_t differing = 1, first = 0;
        cr_expect(ls_order_differing(&differing, &first, e.order, &d->observation, 1) == LS_OK);
        cr_expect(differing == 0);
        ls_order *again = NULL;
        cr_expect(ls_order_parse(&again, ls_order_text(e.order)) == LS_OK);
        ls_order_free(again);
    }
    return e;
}

// Results of other whole orders are named: channels, algorithm, protocol, ring, tree, chunk,
// version.
Test(explain, other_orders_are_named) {
    static const char *const cases[][3] = {
        {"ring:proto=simple,allowed=4", "ring:proto=simple,allowed=2",
         "another number of channels"},
        {"tree:proto=simple", "ring:proto=simple", "another algorithm"},
        {"ring:proto=ll,channels=1", "ring:proto=ll128,channels=1", "another"},
        {"ring:proto=simple,channels=1,rings=0-2-1-3", "ring:proto=simple,channels=1",
         "another ring"},
        {"tree:proto=simple,trees=2(0(3(1)))", "tree:proto=simple", "another tree"},
        {"ring:proto=simple,channels=1,chunk=16384", "ring:proto=simple,channels=1",
         "another chunk size"},
        {"rank", "ring:proto=simple", "rank order"},
        {"symmetric:kernel=rsxld,blocks=2", "ring:proto=simple", "symmetric"},
        {"ring:proto=simple,nccl=2.30.7,allowed=20", "ring:proto=simple,allowed=20", "another"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data *d = make(cases[i][0], COUNT);
        ls_order_explanation e = explain(d, cases[i][1]);
        cr_expect(e.found, "%s for %s: %zu differ", cases[i][0], cases[i][1], e.differing);
        cr_expect(strstr(e.text, cases[i][2]) != NULL, "%s: %s", cases[i][0], e.text);
        ls_order_explanation_clear(&e);
        free(d);
    }
}

// One hop elsewhere in one chunk, one boundary elsewhere between two chunks.
Test(explain, one_hop_and_one_boundary_are_named) {
    static const char *const cases[][2] = {
        // channel 0 alone: chunks of 10000 elements, folded 0(3(2(1))), 1(0(3(2))), ...
        {"ring:proto=simple,channels=1,at=10000..20000:1(3(0(2)))",
         "one hop: channel 0, loop 0, chunk 1 "},
        {"ring:proto=simple,channels=1,at=20000..30000:2(1+0(3))",
         "one hop: channel 0, loop 0, chunk 2 "},
        {"ring:proto=simple,channels=1,at=9000..10000:1(0(3(2)))",
         "one chunk boundary: channel 0, loop 0, chunk 0 ends by element 900"},
        {"ring:proto=simple,channels=1,at=30000..30016:2(1(0(3)))",
         "one chunk boundary: channel 0, loop 0, chunk 3 begins after element 300"},
        {"tree:proto=simple,channels=1,at=0..40000:3(1(2(0)))", "another"},
        {"ring:proto=simple,channels=1,at=12000..13000:1(3(0(2)))",
         "one hop: channel 0, loop 0, chunk 1 (elements 120"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data *d = make(cases[i][0], COUNT);
        char stated[32];
        (void)snprintf(stated, sizeof stated, "%.4s:proto=simple,channels=1", cases[i][0]);
        ls_order_explanation e = explain(d, stated);
        cr_expect(e.found, "%s: %zu differ", cases[i][0], e.differing);
        cr_expect(i == 4 || strstr(e.text, cases[i][1]) != NULL, "%s: %s", cases[i][0], e.text);
        ls_order_explanation_clear(&e);
        free(d);
    }
}

// One small change is tried before other whole orders, two changes after: 24 elements of which two
// chunks differ came by another ring.
Test(explain, a_whole_order_comes_before_two_changes) {
    data *d = make("ring:proto=ll,channels=1,rings=0-2-1-3", 24);
    ls_order_explanation e = explain(d, "ring:proto=ll,channels=1");
    cr_expect(e.found && strstr(e.text, "another ring") != NULL, "%s", e.text);
    ls_order_explanation_clear(&e);
    free(d);
}

// More ranks than can be tried in every order: two exchanged ranks, whichever they are.
Test(explain, two_ranks_exchanged_among_many) {
    enum { EACH = COUNT / MANY };
    for (int pair = 0; pair < 28; pair++) {
        int at[MANY] = {1, 0, 7, 6, 5, 4, 3, 2};  // of chunk 1, the last to be added first
        int a = 0, b = pair + 1;
        for (; b >= MANY; a++, b = b - MANY + a + 1) {
        }
        int swap = at[a];
        at[a] = at[b];
        at[b] = swap;
        char fold[64], order[128];
        (void)snprintf(fold, sizeof fold, "%d(%d(%d(%d(%d(%d(%d(%d)))))))", at[0], at[1], at[2],
                       at[3], at[4], at[5], at[6], at[7]);
        (void)snprintf(order, sizeof order, "ring:proto=simple,channels=1,at=%d..%d:%s", EACH,
                       2 * EACH, fold);
        data *d = make_of(MANY, order, COUNT);
        ls_order_explanation e = explain(d, "ring:proto=simple,channels=1");
        cr_expect(e.found && (b == MANY - 1 || strstr(e.text, fold) != NULL), "%s: %s", fold,
                  e.text);
        ls_order_explanation_clear(&e);
        free(d);
    }
}

// A reduce_scatter with another order in one block is explained for that block.
Test(explain, one_block_of_a_reduce_scatter) {
    enum { EACH = 5000 };
    data *d = make("ring", COUNT);
    d->reduction.count = EACH;
    d->observation.call = LS_ORDER_REDUCE_SCATTER;
    for (int b = 0; b < RANKS; b++) {
        const void *in[RANKS];
        for (int r = 0; r < RANKS; r++) {
            in[r] = d->in[r] + b * EACH;
        }
        ls_reduction block = d->reduction;
        block.in = in;
        ls_order *order = NULL;
        cr_assert(ls_order_parse(&order, "ring:channels=1,at=2@0..5000:2(3(1(0)))") == LS_OK);
        cr_assert(ls_order_reduce(order, LS_ORDER_REDUCE_SCATTER, d->out + b * EACH, &block, b, 0,
                                  EACH) == LS_OK);
        ls_order_free(order);
    }
    ls_order_explanation e = explain(d, "ring:channels=1");
    cr_expect(e.found, "%zu differ", e.differing);
    cr_expect(strstr(e.text, "one hop: block 2") != NULL, "%s", e.text);
    ls_order_explanation_clear(&e);
    free(d);
}

// With so many ranks no chain is tried.
Test(explain, a_crowd_is_not_explained_by_chains) {
    enum { CROWD = 300 };
    data *d = make("rank", 64);
    const void *pointers[CROWD];
    for (int r = 0; r < CROWD; r++) {
        pointers[r] = d->in[r % RANKS];
    }
    d->reduction.in = pointers;
    d->reduction.in_count = CROWD;
    ls_order_explanation e = explain(d, "ring:proto=simple");
    cr_expect(!e.found, "%s", e.text);
    ls_order_explanation_clear(&e);
    free(d);
}

// A damaged element is not explained, and is the reported one.
Test(explain, a_damaged_element_is_not_explained) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        data *d = make("ring:proto=ll", 5000);
        size_t victim = seed == 0 ? 0 : seed == 1 ? 4999 : ls_random_below(5000, seed, 0, 0, 0);
        uint32_t bits = 0;
        memcpy(&bits, &d->out[victim], 4);
        bits ^= (uint32_t)1 << ls_random_below(31, seed, 0, 0, 1);
        memcpy(&d->out[victim], &bits, 4);
        ls_order_explanation e = explain(d, "ring:proto=ll");
        cr_expect(!e.found, "bit flip in element %zu: %s", victim, e.text);
        cr_expect(e.differing == 1 && e.first == victim);
        cr_expect_str_eq(ls_order_text(e.order), "ring:proto=ll");
        ls_order_explanation_clear(&e);
        free(d);
    }
}

// Elements with equal bits under every order prove no order; others do.
Test(explain, only_elements_that_tell_orders_apart_prove_one) {
    for (int whole = 0; whole < 2; whole++) {
        data *d = make("rank", 5000);
        ls_order *order = NULL;
        cr_assert(ls_order_parse(&order, "rank") == LS_OK);
        for (size_t i = 0; whole == 1 && i < 5000 * RANKS; i++) {
            d->in[i % RANKS][i / RANKS] = (float)(i % 7);
        }
        cr_assert(ls_order_reduce(order, LS_ORDER_ALL_REDUCE, d->out, &d->reduction, 0, 0, 5000) ==
                  LS_OK);
        d->out[77] += 1;
        bool proven = whole == 1;
        cr_assert(ls_order_proven(&proven, order, &d->observation) == LS_OK);
        cr_expect(proven == (whole == 0));
        ls_order_free(order);
        free(d);
    }
}

// A search stops at its budget: a budget for two orders finds the stated one, not the tenth.
Test(explain, a_budget_ends_the_search) {
    const uint64_t two = 2 * 5000 * RANKS;
    data *d = make("tree:proto=simple", 5000);
    ls_order *near = NULL, *far = NULL;
    ls_order_explanation e;
    uint64_t budget = two;
    cr_assert(ls_order_parse(&near, "tree:proto=simple") == LS_OK);
    cr_assert(ls_order_parse(&far, "ring:proto=simple") == LS_OK);
    cr_assert(ls_order_explain(&e, near, &d->observation, &budget) == LS_OK);
    cr_expect(e.found && budget == two / 2);
    ls_order_explanation_clear(&e);
    budget = two;
    cr_assert(ls_order_explain(&e, far, &d->observation, &budget) == LS_OK);
    cr_expect(!e.found && budget < 5000 * RANKS);
    ls_order_explanation_clear(&e);
    cr_assert(ls_order_explain(&e, far, &d->observation, NULL) == LS_OK);
    cr_expect(e.found);
    ls_order_explanation_clear(&e);
    ls_order_free(near);
    ls_order_free(far);
    free(d);
}

// Out of memory, the search says so: it does not return less than it would have found.
Test(explain, lack_of_memory_is_told) {
    data *d = make("tree:proto=simple,trees=2(0(3(1)))", 24);
    ls_order *stated = NULL;
    cr_assert(ls_order_parse(&stated, "ring:proto=simple,channels=1") == LS_OK);
    memory_counts counts = {0};
    ls_order_explanation whole = explain(d, "ring:proto=simple,channels=1");
    bool failed = true;
    for (uint64_t at = 1; failed; at++) {
        ls_order_explanation e;
        counts.fail_at = at;
        counting_begin(&counts);
        int status = ls_order_explain(&e, stated, &d->observation, NULL);
        failed = counts.allocations >= at;
        counting_end();
        bool same = status == LS_OK && e.found && strcmp(e.text, whole.text) == 0;
        cr_expect(same || (failed && status == LS_ERR_MEMORY), "allocation %d: %d, %s", (int)at,
                  status, e.text);
        ls_order_explanation_clear(&e);
    }
    ls_order_explanation_clear(&whole);
    ls_order_free(stated);
    free(d);
}
