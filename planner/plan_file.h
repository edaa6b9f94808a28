// Plans as files: our YAML, which scenarios name and people may edit; TorchRec's form as JSON; and
// what differs between two plans.
#ifndef LS_PLANNER_PLAN_FILE_H
#define LS_PLANNER_PLAN_FILE_H

#include "base/base.h"
#include "planner/plan.h"
#include "planner/planner.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_PLAN_FILE_VERSION   1
#define LS_PLAN_FILE_BYTES_MAX (64 << 20)

// Appends the plan as YAML (`lockstep_plan: 1` first). Reading it back gives the same plan.
LS_API int ls_plan_write(ls_text *out, const ls_plan *plan);
// Reads a plan from YAML or JSON text and checks it with ls_plan_check. Everything is allocated in
// `arena`. LS_ERR_FORMAT: every error is appended to `errors` as FILE:LINE:COL: error: ..., the
// line and a caret; the first is also the text of ls_error_last. `file` appears only in messages.
LS_API int ls_plan_read(ls_plan *out, ls_arena *arena, ls_text *errors, const char *file,
                        const char *text, size_t bytes);

// TorchRec's ShardingPlan as JSON: {MODULE: {TABLE: {"sharding_type", "compute_kernel", "ranks",
// "sharding_spec": {"shards": [{"shard_offsets", "shard_sizes", "placement": "rank:R/cuda:D"}]}}}},
// sharding_spec null for data parallel.
int ls_plan_write_torchrec(ls_text *out, const ls_plan *plan);
// Whether a text is JSON in that form, not in ours.
bool ls_plan_is_torchrec(const char *text, size_t bytes);
// The same read back; all modules' tables in one plan. TorchRec's form knows neither the world nor
// a data-parallel table's size: ranks and ranks_per_host are the world's, and `known` [known_count]
// (may be NULL) gives sizes by name. LS_ERR_FORMAT names module and table.
int ls_plan_read_torchrec(ls_plan *out, ls_arena *arena, const char *text, size_t bytes, int ranks,
                          int ranks_per_host, const ls_planner_table *known, int known_count);

// Appends one line per difference and what a change from a to b would move. Returns the number of
// tables that differ (0: the plans are the same), or a negative status.
int ls_plan_diff(ls_text *out, const ls_plan *a, const ls_plan *b);

#ifdef __cplusplus
}
#endif
#endif
