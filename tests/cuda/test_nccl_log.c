// Parsing of NCCL's log: rings and trees, and the choice for a call. Needs no GPU.
#include <criterion/criterion.h>
#include <string.h>

#include "backends/nccl/nccl_internal.h"

#define INFO "host:100:101 [0] NCCL INFO "

static void expect_topology(int size, const char *log, const char *rings, const char *trees) {
    ls_nccl_topology topology = {.size = size};
    cr_assert_eq(ls_nccl__topology_parse(&topology, log), LS_OK);
    ls_nccl__topology_write(&topology);
    const char *texts[] = {topology.ring_text, topology.tree_text}, *expected[] = {rings, trees};
    for (int i = 0; i < 2; i++) {
        if (expected[i] == NULL) {
            cr_assert_null(texts[i], "%s", texts[i]);
        } else {
            cr_assert_not_null(texts[i], "%s", log);
            cr_assert_str_eq(texts[i], expected[i]);
        }
    }
    ls_nccl__topology_free(&topology);
}

// Rings and trees of all members, in any order of lines; lists that repeat are written once.
Test(nccl_log, rings_and_trees) {
    expect_topology(3,
                    INFO "Trees [0] 2/-1/-1->1->0 [1] 2/-1/-1->1->0\n" INFO
                         "Channel 00/02 :   0   1   2\n" INFO "Channel 01/02 :   0   1   2\n"
                         "host:100:102 [1] some other line\n" INFO
                         "Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1\n" INFO
                         "Trees [0] -1/-1/-1->2->1 [1] -1/-1/-1->2->1\n",
                    ",channels=2,rings=0-1-2", ",channels=2,trees=0(1(2))");
    expect_topology(4, INFO "Channel 00/02 : 0 1 2 3\n" INFO "Channel 01/02 : 0 2 1 3\n",
                    ",channels=2,rings=0-1-2-3/0-2-1-3", NULL);
}

// A process without member 0 has only trees, and may have a node with two children.
Test(nccl_log, trees_alone) {
    expect_topology(3,
                    INFO "Trees [0] 0/2/-1->1->-1\n" INFO "Trees [0] -1/-1/-1->0->1\n" INFO
                         "Trees [0] -1/-1/-1->2->1\n",
                    NULL, ",channels=1,trees=1(0+2)");
}

// Trees of many channels, whose lines NCCL truncates: a pattern in more than half of them is
// continued.
Test(nccl_log, cut_trees) {
    const char *rings =
        INFO "Channel 00/05 : 0 1\n" INFO "Channel 01/05 : 0 1\n" INFO "Channel 02/05 : 0 1\n" INFO
             "Channel 03/05 : 0 1\n" INFO "Channel 04/05 : 0 1\n";
    const char *of_0[] = {"1/-1/-1->0->-1", "-1/-1/-1->0->1"},
               *of_1[] = {"-1/-1/-1->1->0", "0/-1/-1->1->-1"};
    // The tree or ring of each reported channel, and the expected result.
    const struct {
        const char *told, *trees;
    } cases[] = {{"000", ",channels=5,trees=0(1)"},
                 {"0101", ",channels=5,trees=0(1)/1(0)"},
                 {"00", NULL},
                 {"001", NULL},
                 {"00110", ",channels=5,trees=0(1)/0(1)/1(0)/1(0)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_text log = {0};
        ls_text_printf(&log, "%s", rings);
        for (int member = 0; member < 2; member++) {
            ls_text_puts(&log, INFO "Trees");
            for (int c = 0; cases[i].told[c] != '\0'; c++) {
                int which = cases[i].told[c] - '0';
                ls_text_printf(&log, " [%d] %s", c, member == 0 ? of_0[which] : of_1[which]);
            }
            ls_text_puts(&log, " [4] 0/-1\n");
        }
        expect_topology(2, ls_text_string(&log), ",channels=5,rings=0-1", cases[i].trees);
        ls_text_free(&log);
    }
}

// A truncated log, or another file, gives no result and never a wrong one.
Test(nccl_log, cut_and_hostile) {
    expect_topology(2, "", NULL, NULL);
    expect_topology(2, "Channel 00/01 : 0 1\n", NULL, NULL);  // not NCCL's
    expect_topology(4, INFO "Channel 00/01 : 0 1 2", NULL, NULL);
    expect_topology(2, INFO "Channel 00/01 : 0 7\n", NULL, NULL);
    expect_topology(2, INFO "Channel 05/01 : 0 1\n", NULL, NULL);
    expect_topology(2, INFO "Channel 00/99999999 : 0 1\n", NULL, NULL);
    expect_topology(2, INFO "Channel -1/1 : 0 1\n", NULL, NULL);
    // One member's tree is missing; one is a cycle; some children do not exist.
    expect_topology(2, INFO "Trees [0] 1/-1/-1->0->-1\n", NULL, NULL);
    expect_topology(2, INFO "Trees [0] 1/-1/-1->0->-1\n" INFO "Trees [0] 0/-1/-1->1->0\n", NULL,
                    NULL);
    expect_topology(2, INFO "Trees [0] 9/-1/-1->0->-1\n" INFO "Trees [0] -5/-1/-1->1->0\n", NULL,
                    NULL);
}

static void expect_choice(const char *log, ls_kind kind, const char *algorithm,
                          const char *protocol, int channels) {
    ls_nccl_choice choice;
    ls_nccl__choice_parse(&choice, log, kind);
    cr_assert_str_eq(choice.algorithm, algorithm);
    cr_assert_str_eq(choice.protocol, protocol);
    cr_assert_eq(choice.channels, channels);
}

// The choice for a call is the last one of its kind.
Test(nccl_log, choices) {
    const char *log =
        INFO "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}\n" INFO
             "ReduceScatter: 64 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}\n" INFO
             "AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..7}\n";
    expect_choice(log, LS_ALL_REDUCE, "ring", "ll128", 8);
    expect_choice(log, LS_REDUCE_SCATTER, "ring", "simple", 1);
    expect_choice(log, LS_ALL_GATHER, "", "", 0);
    expect_choice(log, LS_ALL_TO_ALL, "", "", 0);
    expect_choice(INFO "AllReduce: many Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}\n",
                  LS_ALL_REDUCE, "", "", 0);
}
