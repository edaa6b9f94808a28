// Results with every field of a report, including hostile names.
#pragma once

#include <math.h>

#include "report/report.h"

// A name with markup, quotes, a control character, an escape sequence, a byte that is not UTF-8, a
// surrogate, and letters beyond ASCII.
#define HOSTILE_NAME "<b a=\"1\">&'\x01\x1b[31m\xff\xed\xa0\x80 \xc3\xa9]]>\n\tend"

static inline int example_results(ls_results **out) {
    LS_TRY(ls_results_create(out, "compare"));
    ls_stage_result exact = {
        .name = "input_dist", .class_ = LS_CLASS_BIT_EXACT, .elements = 1234567};
    ls_stage_result wrong = {.name = "output_dist",
                             .class_ = LS_CLASS_WRONG,
                             .elements = 128,
                             .differing = 16,
                             .max_ulps = UINT64_MAX,
                             .bound_ratio = INFINITY,
                             .order = "ring, 2 channels",
                             .divergence = "table product, feature product, sample 3, id 7\n"
                                           "  rank 1 owns the row; got 0x1p-3, expected 0x1.8p-3"};
    static const int ranks[] = {0, 2, 3, 4, 9};
    ls_finding finding = {.id = LS_FINDING_OP_MISMATCH,
                          .ranks = ranks,
                          .rank_count = 5,
                          .where = "train.c:12",
                          .text = "max on ranks 0, 2-4, 9\nsum on the others"};
    ls_stage_result stages[] = {exact, wrong};
    ls_case_result cases[] = {
        {.name = "good",
         .file = "a.yaml",
         .backend = "sim",
         .pass = true,
         .stages = &exact,
         .stage_count = 1,
         .seconds = 0.25},
        {.name = HOSTILE_NAME,
         .file = "dir/<x>&.yaml",
         .backend = "sim",
         .real = "mpi",
         .stages = stages,
         .stage_count = 2,
         .findings = &finding,
         .finding_count = 1,
         .reproduce = "lockstep compare 'dir/<x>&.yaml' --real mpi --seed 7"},
        {.name = "broken",
         .file = "c.yaml",
         .backend = "sim",
         .class_ = LS_CLASS_ERROR,
         .error = "rank 3: <no> memory"},
        {.name = "known bug",
         .file = "d.yaml",
         .backend = "sim",
         .pass = true,
         .findings = &finding,
         .finding_count = 1},
        {.name = "later",
         .file = "e.yaml",
         .backend = "sim",
         .skipped = true,
         .skip_reason = "needs \"nccl\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        LS_TRY(ls_results_add(*out, &cases[i]));
    }
    // The cases above borrow from this frame: copies their data.
    for (int c = 0; c < (*out)->case_count; c++) {
        ls_case_result *result = &(*out)->cases[c];
        result->stages = result->stage_count == 0
                             ? NULL
                             : ls_arena_copy((*out)->arena, result->stages,
                                             (size_t)result->stage_count * sizeof exact);
        result->findings = result->finding_count == 0
                               ? NULL
                               : ls_arena_copy((*out)->arena, result->findings, sizeof finding);
    }
    return LS_OK;
}
