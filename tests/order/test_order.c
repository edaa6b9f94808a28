// Tests of orders: texts, partitions, runs, trees over hosts, measured files.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "orders/order.h"

static ls_order *order_of(const char *text) {
    ls_order *order = NULL;
    cr_assert(ls_order_parse(&order, text) == LS_OK, "%s: %s", text, ls_error_last()->text);
    return order;
}

// An order's canonical text is stable, and parsing it gives the same order.
Test(text, canonical_text_round_trips) {
    static const char *const cases[][2] = {
        {"rank", "rank"},
        {"ring", "ring:proto=simple"},
        {"ring:proto=ll128,channels=24,nccl=2.28.9", "ring:proto=ll128"},
        {"tree:nccl=2.25.1", "tree:proto=simple"},
        {"ring:nccl=2.29.3,allowed=3,proto=ll", "ring:proto=ll,nccl=2.30.7,allowed=3"},
        {"ring:nccl=2.30.7,allowed=3,proto=ll", "ring:proto=ll,nccl=2.30.7,allowed=3"},
        {"ring:rings=0-1-2-3/0-2-1-3,chunk=65536",
         "ring:proto=simple,chunk=65536,rings=0-1-2-3/0-2-1-3"},
        {"tree:trees=0(1(2+3))/3(2(1(0))),fma=never",
         "tree:proto=simple,fma=never,trees=0(1(2+3))/3(2(1(0)))"},
        {"tree:hosts=4,pattern=split", "tree:proto=simple,hosts=4,pattern=split"},
        {"symmetric", "symmetric:kernel=ll"},
        {"symmetric:blocks=8,kernel=rsxld", "symmetric:kernel=rsxld,blocks=8"},
        {"ring:at=4..8:0(1(2))/2@10..12:2(1(0))",
         "ring:proto=simple,at=4..8:0(1(2))/2@10..12:2(1(0))"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_order *order = order_of(cases[i][0]);
        cr_expect_str_eq(ls_order_text(order), cases[i][1]);
        ls_order *again = order_of(ls_order_text(order));
        cr_expect_str_eq(ls_order_text(again), ls_order_text(order));
        ls_order_free(again);
        ls_order_free(order);
    }
    cr_expect_str_eq(ls_order_text(NULL), "rank");
}

// Invalid orders are refused with the wrong part, and nothing remains allocated.
Test(text, malformed_orders_are_refused) {
    static const char *const cases[] = {
        "",
        "ran",
        "rank:",
        "rank:proto=ll",
        "ring:",
        "ring:proto",
        "ring:proto=",
        "ring:proto=fast",
        "ring:proto=ll,",
        "ring:proto=ll,proto=ll",
        "ring:channels=0",
        "ring:channels=65",
        "ring:channels=01",
        "ring:allowed=-1",
        "ring:nccl=1.0",
        "ring:nccl=2.21.5",
        "ring:nccl=2.28",
        "ring:nccl=2..28.9",
        "ring:nccl=2.28.9.",
        "ring:nccl=2.281.9",
        "ring:nccl=.2.28",
        "ring:trees=0(1)",
        "tree:rings=0-1",
        "ring:rings=0-1-1",
        "ring:rings=0-2",
        "ring:rings=0-1/0-1-2",
        "ring:rings=",
        "ring:rings=0-",
        "tree:trees=0(1",
        "tree:trees=0(1))",
        "tree:trees=0(0)",
        "tree:trees=0(2)",
        "tree:trees=(0)",
        "tree:trees=0(1)2",
        "tree:trees=0+1",
        "tree:trees=0(1+)",
        "tree:trees=00(1)",
        "tree:trees=0()",
        "tree:trees=0(1),hosts=2",
        "ring:chunk=0",
        "ring:chunk=511",
        "ring:chunk=1919,proto=ll128",
        "ring:at=5..5:0(1)",
        "ring:at=5:0(1)",
        "ring:at=1..2:",
        "symmetric:proto=ll",
        "symmetric:kernel=tma",
        "measured:",
        "measured:/nonexistent/order.json",
        "ring:at=18446744073709551616..2:0(1)",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_order *order = (ls_order *)1;
        cr_expect(ls_order_parse(&order, cases[i]) != LS_OK, "accepted \"%s\"", cases[i]);
        cr_expect(order == NULL);
        cr_expect(strlen(ls_error_last()->text) > 0);
    }
}

// ---- Runs ---------------------------------------------------------------------------------------
typedef struct seen {
    size_t next;
    size_t runs;
    size_t channel_length[65];
    int channels;
    char first_fold[256];
    char folds[64][64];
} seen;

static int see(void *arg, const ls_order_run *run) {
    seen *s = arg;
    cr_assert(run->first == s->next && run->length > 0 && run->origin <= run->first);
    s->next += run->length;
    if (run->channel >= 0) {
        s->channel_length[run->channel] += run->length;
        s->channels = run->channel + 1 > s->channels ? run->channel + 1 : s->channels;
    }
    if (s->runs == 0) {
        ls_fold_text(s->first_fold, sizeof s->first_fold, run->fold);
    }
    if (s->runs < 64) {
        ls_fold_text(s->folds[s->runs], sizeof s->folds[0], run->fold);
    }
    s->runs++;
    return LS_OK;
}

static seen runs_of(const char *text, ls_order_range range) {
    seen s = {0};
    ls_order *order = order_of(text);
    range.length = range.count;
    cr_assert(ls_order_runs(order, &range, see, &s) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(s.next == range.count);
    ls_order_free(order);
    return s;
}

// The split over channels equals that of NCCL 2.28.9, by vectors of a separate implementation that
// reproduced every measured result.
Test(partition, channel_vectors_of_2_28_9) {
    static const struct {
        const char *order;
        ls_order_call call;
        int ranks;
        ls_dtype dtype;
        size_t count;
        int channels;
        size_t lo, mid, hi;
    } cases[] = {
        {"ring:proto=ll,allowed=9", LS_ORDER_ALL_REDUCE, 3, LS_F32, 30198, 9, 3584, 3584, 1526},
        {"ring:proto=ll128,allowed=23", LS_ORDER_ALL_REDUCE, 3, LS_F32, 30198, 15, 2048, 2048,
         1526},
        {"ring:proto=simple,allowed=1", LS_ORDER_ALL_REDUCE, 4, LS_BF16, 30198, 1, 30198, 0, 0},
        {"ring:proto=ll,allowed=4", LS_ORDER_REDUCE_SCATTER, 4, LS_F32, 4099, 4, 1280, 1280, 259},
        {"ring:proto=ll,allowed=8", LS_ORDER_REDUCE_SCATTER, 3, LS_F64, 4099, 8, 516, 516, 487},
        {"ring:proto=simple", LS_ORDER_ALL_REDUCE, 8, LS_F32, 1000000, 24, 43008, 43008, 10816},
        {"ring:proto=ll,allowed=6", LS_ORDER_ALL_REDUCE, 4, LS_BF16, 50042, 6, 9216, 9216, 3962},
        {"ring:channels=1", LS_ORDER_ALL_REDUCE, 8, LS_F32, 1000000, 1, 1000000, 0, 0},
        {"ring:proto=ll", LS_ORDER_ALL_REDUCE, 3, LS_F32, 40009, 12, 3584, 3584, 585},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_order_range range = {
            cases[i].call, cases[i].ranks, cases[i].dtype, cases[i].count, 0, 0, 0};
        seen s = runs_of(cases[i].order, range);
        cr_expect(s.channels == cases[i].channels, "case %zu: %d channels", i, s.channels);
        cr_expect(s.channel_length[0] == cases[i].lo, "case %zu", i);
        for (int c = 1; c + 1 < s.channels; c++) {
            cr_expect(s.channel_length[c] == cases[i].mid, "case %zu channel %d", i, c);
        }
        cr_expect(s.channels < 2 || s.channel_length[s.channels - 1] == cases[i].hi, "case %zu", i);
    }
}

// A ring's chunk c ends at position c; a short loop's chunks are 16-byte aligned and may be
// missing.
Test(runs, ring_chunks_and_folds) {
    ls_order_range range = {LS_ORDER_ALL_REDUCE, 3, LS_F32, 5, 0, 0, 0};
    seen s = runs_of("ring:channels=1,proto=ll", range);
    cr_expect(s.runs == 2);
    cr_expect_str_eq(s.folds[0], "0(2(1))");
    cr_expect_str_eq(s.folds[1], "1(0(2))");
    ls_order_range loops = {LS_ORDER_ALL_REDUCE, 4, LS_F32, 600000, 0, 0, 0};
    s = runs_of("ring:channels=1,proto=ll128,rings=0-2-1-3", loops);
    cr_expect(s.runs == 8);
    cr_expect_str_eq(s.folds[0], "0(3(1(2)))");
    cr_expect_str_eq(s.folds[6], "1(2(0(3)))");
}

// reduce ends at its root, reduce_scatter at the block's owner; trees are for all_reduce alone.
Test(runs, reduce_and_reduce_scatter_follow_the_ring) {
    ls_order_range range = {LS_ORDER_REDUCE_SCATTER, 4, LS_F32, 100, 2, 0, 0};
    cr_expect_str_eq(runs_of("ring", range).first_fold, "2(1(0(3)))");
    cr_expect_str_eq(runs_of("tree", range).first_fold, "2(1(0(3)))");
    cr_expect_str_eq(runs_of("symmetric:kernel=rsxld", range).first_fold, "1(0(3(2)))");
    range.call = LS_ORDER_REDUCE;
    cr_expect_str_eq(runs_of("ring:rings=0-2-1-3", range).first_fold, "2(0(3(1)))");
}

// Without trees given, the chains are those measured: of three ranks they depend on the channel.
Test(runs, default_trees_are_those_measured) {
    ls_order_range range = {LS_ORDER_ALL_REDUCE, 4, LS_F32, 1000, 0, 0, 0};
    cr_expect_str_eq(runs_of("tree:channels=1", range).first_fold, "0(1(2(3)))");
    ls_order_range three = {LS_ORDER_ALL_REDUCE, 3, LS_F32, 110592, 0, 0, 0};
    seen s = runs_of("tree:proto=ll,allowed=24", three);
    cr_assert(s.channels == 24 && s.runs == 24);
    cr_expect_str_eq(s.folds[5], "0(1(2))");
    cr_expect_str_eq(s.folds[6], "1(2(0))");
    cr_expect_str_eq(s.folds[11], "2(0(1))");
    cr_expect_str_eq(s.folds[12], "0(1(2))");
}

// Double binary trees: every rank appears once, a host's chain is added before other hosts, and the
// two halves of the channels use different trees.
Test(runs, double_binary_trees_over_hosts) {
    ls_order_range range = {LS_ORDER_ALL_REDUCE, 8, LS_F32, 100000, 0, 0, 0};
    seen s = runs_of("tree:hosts=4,proto=ll,channels=4,allowed=4", range);
    cr_assert(s.runs == 4);
    cr_expect_str_eq(s.folds[0], s.folds[1]);
    cr_expect_str_neq(s.folds[1], s.folds[2]);
    // Host 0 is the root with only host 2 below it, which has hosts 1 and 3.
    cr_expect_str_eq(s.folds[0], "0(1+4(5(2(3))+6(7)))");
    // The mirror: host 3, then 1, then 2 and 0.
    cr_expect_str_eq(s.folds[2], "6(7+2(3(4(5))+0(1)))");
    // An odd number of hosts: the second tree is the first one shifted by one.
    ls_order_range three = {LS_ORDER_ALL_REDUCE, 3, LS_F32, 100000, 0, 0, 0};
    s = runs_of("tree:hosts=3,proto=ll,channels=2,allowed=2", three);
    cr_expect_str_eq(s.folds[0], "0(2(1))");
    cr_expect_str_eq(s.folds[1], "1(0(2))");
    for (int hosts = 1; hosts <= 32; hosts++) {
        char text[64];
        (void)snprintf(text, sizeof text, "tree:hosts=%d,pattern=split", hosts);
        ls_order_range many = {LS_ORDER_ALL_REDUCE, 2 * hosts, LS_F32, 100000, 0, 0, 0};
        (void)runs_of(text, many);  // a fold asserts that it holds every rank
    }
    ls_order *order = order_of("tree:hosts=3");
    cr_expect(ls_order_runs(order, &range, see, &s) == LS_ERR_INVALID);
    ls_order_free(order);
}

// The owner of a symmetric all_reduce's elements changes every 2048 bytes, then 512, then 32
// elements.
Test(runs, symmetric_owners_take_turns) {
    ls_order_range range = {LS_ORDER_ALL_REDUCE, 2, LS_F32, 8192, 0, 0, 0};
    seen s = runs_of("symmetric:kernel=rsxld", range);
    cr_expect(s.runs == 16);
    cr_expect_str_eq(s.folds[0], "1(0)");
    cr_expect_str_eq(s.folds[1], "0(1)");
    range.count = 40;
    s = runs_of("symmetric:kernel=rsxld", range);
    cr_expect(s.runs == 2);
}

// An order for another number of ranks is an error, not a guess.
Test(runs, wrong_number_of_ranks_is_refused) {
    static const char *const cases[] = {"ring:rings=0-1-2", "tree:trees=0(1(2))",
                                        "ring:at=0..1:0(1(2))"};
    for (size_t i = 0; i < 3; i++) {
        ls_order *order = order_of(cases[i]);
        ls_order_range range = {LS_ORDER_ALL_REDUCE, 4, LS_F32, 10, 0, 0, 10};
        seen s = {0};
        cr_expect(ls_order_runs(order, &range, see, &s) == LS_ERR_INVALID);
        ls_order_free(order);
    }
    ls_order *order = order_of("ring");
    ls_order_range huge = {LS_ORDER_ALL_REDUCE, 4, LS_F64, SIZE_MAX / 2, 0, 0, 1};
    seen s = {0};
    cr_expect(ls_order_runs(order, &huge, see, &s) == LS_ERR_OVERFLOW);
    ls_order_free(order);
}

// ---- Measured files -----------------------------------------------------------------------------
static void write_file(char *path, const char *text) {
    (void)snprintf(path, 64, "/tmp/lockstep_order_XXXXXX");
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

// A measured file gives each call its classes of elements; calls it lacks are not found.
Test(measured, classes_by_call_and_range) {
    char path[64];
    char text[128];
    write_file(
        path, "{\"lockstep_order\": 1, \"ranks\": 3, \"orders\": ["
              "{\"collective\": \"all_reduce\", \"dtype\": \"f32\", \"count\": 10, \"classes\": ["
              "{\"tree\": \"0(1(2))\", \"ranges\": [[0, 4], [8, 10]]}, {\"tree\": \"1(0+2)\"}]},"
              "{\"collective\": \"reduce_scatter\", \"accumulator\": \"f32\", \"classes\": ["
              "{\"target\": 0, \"tree\": \"0(1(2))\"}, {\"target\": 1, \"tree\": \"1(2(0))\"}]}]}");
    (void)snprintf(text, sizeof text, "measured:%s", path);
    ls_order_range range = {LS_ORDER_ALL_REDUCE, 3, LS_F32, 10, 0, 0, 0};
    seen s = runs_of(text, range);
    cr_expect(s.runs == 3);
    cr_expect_str_eq(s.folds[0], "0(1(2))");
    cr_expect_str_eq(s.folds[1], "1(0+2)");
    cr_expect_str_eq(s.folds[2], "0(1(2))");
    ls_order *order = order_of(text);
    cr_expect_str_eq(ls_order_text(order), text);
    ls_order_range scatter = {LS_ORDER_REDUCE_SCATTER, 3, LS_BF16, 7, 2, 0, 7};
    cr_expect(ls_order_runs(order, &scatter, see, &s) == LS_ERR_NOT_FOUND);
    ls_order_range other = {LS_ORDER_ALL_REDUCE, 3, LS_F32, 11, 0, 0, 11};
    cr_expect(ls_order_runs(order, &other, see, &s) == LS_ERR_NOT_FOUND);
    ls_order_free(order);
    (void)unlink(path);
}

// Hostile and malformed files are refused.
Test(measured, malformed_files_are_refused) {
    static const char *const cases[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"lockstep_order\": 2, \"ranks\": 3, \"orders\": []}",
        "{\"lockstep_order\": 1, \"ranks\": 0, \"orders\": [{}]}",
        "{\"lockstep_order\": 1, \"ranks\": 99999999, \"orders\": [{}]}",
        "{\"lockstep_order\": 1, \"ranks\": 2, \"orders\": []}",
        "{\"lockstep_order\": 1, \"ranks\": 2, \"orders\": [7]}",
        "{\"lockstep_order\": 1, \"ranks\": 2, \"orders\": [{\"collective\": \"all_reduce\"}]}",
        "{\"lockstep_order\": 1, \"ranks\": 2, \"orders\": [{\"collective\": \"all_reduce\", "
        "\"classes\": [{}]}]}",
        "{\"lockstep_order\": 1, \"ranks\": 2, \"orders\": [{\"collective\": \"all_reduce\", "
        "\"classes\": [{\"tree\": \"0(1(2))\"}]}]}",
        "{\"lockstep_order\": 1, \"ranks\": 2, \"orders\": [{\"collective\": \"all_reduce\", "
        "\"classes\": [{\"tree\": \"0(1)\", \"ranges\": [[2, 2]]}]}]}",
        "{\"lockstep_order\": 1, \"ranks\": 2, \"orders\": [{\"collective\": \"all_reduce\", "
        "\"dtype\": \"f99\", \"classes\": [{\"tree\": \"0(1)\"}]}]}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        char text[128];
        write_file(path, cases[i]);
        (void)snprintf(text, sizeof text, "measured:%s", path);
        ls_order *order = NULL;
        cr_expect(ls_order_parse(&order, text) == LS_ERR_FORMAT, "case %zu", i);
        cr_expect(order == NULL);
        (void)unlink(path);
    }
}

// A chain of very many ranks neither recurses nor runs out of stack.
Test(text, deep_trees_are_fine) {
    ls_text text = {0};
    enum { RANKS = 20000 };
    ls_text_puts(&text, "tree:proto=simple,trees=");
    for (int i = 0; i < RANKS; i++) {
        ls_text_printf(&text, "%s%d", i == 0 ? "" : "(", i);
    }
    ls_text_repeat(&text, ')', RANKS - 1);
    ls_order *order = order_of(ls_text_string(&text));
    cr_expect_str_eq(ls_order_text(order), ls_text_string(&text));
    ls_order_free(order);
    ls_text_free(&text);
}
