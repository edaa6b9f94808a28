// Results of other systems. For each result of a folder an importer gives the scenario that
// reproduces it and the other system's outputs. The scenario is run and compared with these as with
// any recording.
#pragma once

#include "formats/json_read.h"
#include "runner/compare/run.h"

// Replays the results in `dir` (not below it) and adds their cases to `results`, in the order of
// the files that list them. Skipped cases give a reason: parts of a result that nothing replays
// (NAME/unknown, ...), and results that no file lists (DIR/unnamed). *recording: the folder also
// has a lockstep recording, which is not replayed here. summary (may be NULL) gets one line for
// each group of results, then the ones that are not bit exact in full. options: how to run;
// reproduce_of is dir. Everything in the folder may be hostile. LS_ERR_FORMAT: unusable results, an
// unknown manifest, or ranks' files without one; LS_ERR_IO, LS_ERR_MEMORY.
int ls_import_dir(ls_results *results, ls_text *summary, bool *recording, const char *dir,
                  const ls_run_options *options);

// ---- For importers ------------------------------------------------------------------------------
// One result that becomes a case.
typedef struct ls_import {
    const char *dir;   // that it lies in
    ls_arena *arena;   // of the results: lives as long as the case
    const char *list;  // name of the file that lists it
    size_t index;      // its place there
    const ls_run_options *options;
    // Set by the importer:
    const char *name;   // of the case
    const char *file;   // of the file in the folder that contains it; NULL: the list itself
    const char *group;  // its group in the summary; NULL: none
    const char *skip;   // reason to skip it; NULL: it is replayed
    ls_text unknown;    // contains the unknown keys of the result; may get more
    struct ls_importing *state;
} ls_import;

// An importer: a row of the table in import.c.
typedef struct ls_importer {
    const char *of;       // "NCCL's results", for messages
    const char *list;     // pattern of the files that list results: "manifest.json", "x_*.json"
    const char *results;  // the member of the file with the list; NULL: the file is the list
    const char *const *list_keys;  // known members of the file; NULL: it is the list
    const char *const *keys;       // known members of a result; others are reported
    // Whether a file with this name and root belongs to this importer.
    bool (*recognise)(const json_t *root);
    // Reads one result: names it, and replays it or gives the reason to skip it. An error becomes
    // the case's error.
    int (*import)(ls_import *import, const json_t *entry);
} ls_importer;

// One reproduction of a result.
typedef struct ls_import_run {
    const char *stage;  // the name of its stage in the report; NULL: the scenario's stages
    ls_text *scenario;  // its text; freed
    ls_imported gave;   // the other system's outputs
} ls_import_run;

// Runs it, compares, and adds its stages to the case. A failure of our own run against its oracle
// is reported, too.
int ls_import_run_compared(ls_import *import, const ls_import_run *run);
// Adds a stage that the importer judged itself, if there is no scenario to run.
int ls_import_stage(ls_import *import, const ls_stage_result *stage);
// Reports the parts of the result that are not replayed: `what` is a list of names, `part` of the
// case's name.
int ls_import_untold(ls_import *import, const char *part, const char *what);
// Appends to `out`, separated by commas, the keys of an object that are not in `known`
// (NULL-terminated).
void ls_import_unknown_keys(ls_text *out, const json_t *object, const char *const *known);
// A member of an object, with its possible types.
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
// The first of the keys (terminated by one without a name) with a member of a wrong type; NULL:
// none. Without this check a reader takes a wrong member for a missing one.
const char *ls_import_mistyped(const json_t *object, const ls_import_key *keys);
// Skips the result for it, unless it is skipped already.
int ls_import_skip_mistyped(ls_import *import, const json_t *object, const ls_import_key *keys);
// Uses the file of the folder that a list names, and names the case after it; *path lives as long
// as the case. LS_ERR_FORMAT: there is none, or it is outside of the folder.
int ls_import_file(const char **path, ls_import *import, const json_t *name);
// Appends `text` as a quoted YAML string.
void ls_import_quote(ls_text *out, const char *text);
// Appends the factors of a premul_sum, which an entry names; false: they are not one number for
// each of `ranks`.
bool ls_import_factors(ls_text *out, const json_t *entry, int ranks);

extern const ls_importer ls_importer_nccl, ls_importer_torch, ls_importer_dtensor;
extern const ls_importer ls_importer_torchrec, ls_importer_exec;
