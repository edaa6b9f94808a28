// What the files that replay others' results share.
#ifndef LS_RUNNER_REPLAY_REPLAY_INTERNAL_H
#define LS_RUNNER_REPLAY_REPLAY_INTERNAL_H

#include "formats/json_read.h"
#include "runner/result.h"

#define LS_REPLAY_PATH_MAX       4096
#define LS_REPLAY_JSON_BYTES_MAX ((size_t)64 << 20)

// "DIR/NAME"; LS_ERR_LIMIT when it is too long.
int ls_replay__path(char out[LS_REPLAY_PATH_MAX], const char *dir, const char *name);
// Whether a manifest may name this file: one of its own folder, nothing that leads elsewhere.
bool ls_replay__is_plain_name(const char *name);
// Whether a manifest is a list of torch's results; whether a file is a list of DTensor shards.
bool ls_replay__is_torch(const json_t *manifest);
bool ls_replay__is_dtensor(const char *name);

// Appends to `out`, with commas between, the keys of an object that are not among `known` (ended
// by NULL): what nothing here reads.
void ls_replay__unknown_keys(ls_text *out, const json_t *object, const char *const *known);
// Adds a skipped case NAME/PART that says what of a result was not replayed; nothing where `what`
// is empty.
int ls_replay__not_replayed(ls_results *results, const char *name, const char *part,
                            const char *file, const char *what);
// Adds a skipped case DIR/unnamed that lists the results in `dir` that the manifest does not name;
// nothing where there are none. named NULL: there is no manifest.
typedef bool ls_replay_named(const void *manifest, const char *file);
int ls_replay__unnamed(ls_results *results, const char *dir, ls_replay_named *named,
                       const void *manifest);
// Turns the last error into the case's: class error, the sentence kept.
void ls_replay__case_error(ls_results *results, ls_case_result *result);

#endif
