// Shared by the report writers.
#pragma once

#include "report/report.h"

// "1,234,567"
void ls_report__number(ls_text *out, uint64_t value);
// How many elements of a stage nothing judges, and why.
void ls_report__unjudged(ls_text *out, const ls_stage_result *stage);
// The largest distance of a stage's elements, for a table: "1,234", "3 (int)", "sign change".
void ls_report__distance(ls_text *out, const ls_stage_result *stage);
// The stage that a table shows after `stage`: those that fail come first. -1 before the first one
// and after the last.
int ls_report__next_stage(const ls_case_result *result, int stage);
// "0, 2, 5-9"
void ls_report__ranks(ls_text *out, const int *ranks, int count);
// A failed case in plain words, one indented block: its error, the stages that fail with their
// first divergence, its findings, other stages that differ, and the command that reproduces it.
void ls_report__explain(ls_text *out, const ls_case_result *result, const char *indent);
// Whether stage `stage` differs by design and no earlier one does for the same reason, which would
// otherwise be reported stage by stage and step by step.
bool ls_report__tells_design(const ls_case_result *result, int stage);
// "step 2: norm of the gradients 0.25, of the weights after it 7.5"
// One line: how many tensors were not compared, and why; nothing where there are none.
void ls_report__omitted(ls_text *out, const ls_case_result *result, const char *indent);
void ls_report__norms(ls_text *out, const ls_case_result *result, int step);
// "pass", "fail" or "skip"
const char *ls_report__verdict(const ls_case_result *result);
