// Results of other systems, replayed: an importer tells of each result of a folder which scenario
// reproduces it and what the other system gave; the scenario is run and compared with that as with
// any recording.
#ifndef LS_RUNNER_REPLAY_IMPORT_H
#define LS_RUNNER_REPLAY_IMPORT_H

#include "formats/json_read.h"
#include "runner/compare/run.h"

// Replays what lies in `dir` itself, and adds its cases to `results`: one a result, in the order of
// the files that name them; one that is skipped, with the reason, for what of a result nothing
// replays (NAME/unknown, ...), and for results that no file names (DIR/unnamed). *recording:
// there is one of ours as well, which is not replayed here. summary (may be NULL) gets one line per
// group of results, then what is not bit exact in full. options: of how to run; reproduce_of is
// dir. Everything in the folder may be hostile. LS_ERR_FORMAT where it looks like results that
// cannot be used: a manifest that nobody knows, files of ranks without one; LS_ERR_IO,
// LS_ERR_MEMORY.
int ls_import_dir(ls_results *results, ls_text *summary, bool *recording, const char *dir,
                  const ls_run_options *options);

// ---- For importers ------------------------------------------------------------------------------
// One result on its way to becoming a case.
typedef struct ls_import {
    const char *dir;   // that it lies in
    ls_arena *arena;   // of the results: lives as long as the case
    const char *list;  // file name of what names it
    size_t index;      // there
    const ls_run_options *options;
    // Set by the importer:
    const char *name;   // of the case
    const char *file;   // of the folder, that holds it; NULL: the list itself
    const char *group;  // it is counted with others of this name in the summary; NULL: in none
    const char *skip;   // why it is not replayed; NULL: it is
    ls_text unknown;    // has the keys of the result that are not known; may get more
    struct ls_importing *state;
} ls_import;

// How it is read: a row of the table in import.c.
typedef struct ls_importer {
    const char *of;       // "NCCL's results", for messages
    const char *list;     // the file that names results, as a pattern: "manifest.json", "x_*.json"
    const char *results;  // the member of the file that lists them; NULL: the file does
    const char *const *list_keys;  // members of the file that are known; NULL: it is the list
    const char *const *keys;       // members of a result that are known; others are reported
    // Whether a file of such a name, the root of which is this, is its own.
    bool (*recognise)(const json_t *root);
    // Reads one result: names it, and replays it or says why not. An error becomes the case's.
    int (*import)(ls_import *import, const json_t *entry);
} ls_importer;

// One way to reproduce a result.
typedef struct ls_import_run {
    const char *stage;  // the name of its stage in the report; NULL: those of the scenario
    ls_text *scenario;  // its text; freed
    ls_imported gave;   // what the other system gave
} ls_import_run;

// Runs it, compares, and adds its stages to the case. What the oracle says of our own run is
// reported where that fails.
int ls_import_run_compared(ls_import *import, const ls_import_run *run);
// Adds a stage that the importer judged by itself, where there is no scenario to run.
int ls_import_stage(ls_import *import, const ls_stage_result *stage);
// Says what of the result is not replayed: `what` is a list of names, `part` of the case's name.
int ls_import_untold(ls_import *import, const char *part, const char *what);
// Appends to `out`, with commas between, the keys of an object that are not among `known` (ended
// by NULL).
void ls_import_unknown_keys(ls_text *out, const json_t *object, const char *const *known);
// A member of an object, and the types that it may be of.
enum {
    LS_IMPORT_INTEGER = 1,
    LS_IMPORT_NUMBER = 2,  // integers too
    LS_IMPORT_BOOLEAN = 4,
    LS_IMPORT_TEXT = 8,
    LS_IMPORT_NULL = 16,
    LS_IMPORT_TWO_NUMBERS = 32,
};
typedef struct ls_import_key {
    const char *name;
    unsigned types;
} ls_import_key;
// The first of the keys (ended by one without a name) whose member is there, of another type. NULL:
// none. The one that reads a member without this takes a wrong one for none.
const char *ls_import_mistyped(const json_t *object, const ls_import_key *keys);
// Skips the result for it, where nothing else does.
int ls_import_skip_mistyped(ls_import *import, const json_t *object, const ls_import_key *keys);
// Takes a file of the folder by the name that a list gives it, and names the case after it; *path
// lives as long as the case. LS_ERR_FORMAT where it is none, or leads elsewhere.
int ls_import_file(const char **path, ls_import *import, const json_t *name);
// Appends `text` in quotes that YAML reads.
void ls_import_quote(ls_text *out, const char *text);

extern const ls_importer ls_importer_nccl, ls_importer_torch, ls_importer_dtensor;
extern const ls_importer ls_importer_torchrec, ls_importer_exec;

#endif
