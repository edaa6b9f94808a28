// Imports TorchRec's results: trained EmbeddingBagCollections, with outputs, shards and optimizer
// states after every step. The same tables, plan, batches and gradients form a scenario with as
// many steps. import_torchrec_entry.c reads the manifest's entry and the file's names.
#include <stdio.h>
#include <string.h>

#include "runner/replay/import_torchrec.h"

static bool recognise(const json_t *root) {
    return json_is_integer(json_object_get(root, "steps")) &&
           json_is_array(json_object_get(root, "cases"));
}

static void tell_rest(ls_import *import, const ls_torchrec *c) {
    for (size_t i = 0; i < ls_safetensors_count(c->file); i++) {
        if (!c->used[i]) {
            ls_text_printf(&import->unknown, "%s%.100s", import->unknown.length > 0 ? ", " : "",
                           ls_safetensors_at(c->file, i)->name);
        }
    }
}

// "row_wise, table_wise on 3 ranks": the name of a sharding's stages; for the recorded one: the
// steps.
static const char *name_way(const ls_torchrec_run *run, int way) {
    ls_text name = {0};
    for (int t = 0; t < run->of->table_count; t++) {
        ls_text_printf(&name, "%s%s", t > 0 ? ", " : "", ls_sharding_name(run->tables[t].sharding));
    }
    const char *made = ls_arena_printf(run->of->arena, "%s on %d rank%s", ls_text_string(&name),
                                       run->world, run->world == 1 ? "" : "s");
    ls_text_free(&name);
    return way == 0 ? NULL : made;
}

static int run_way(ls_import *import, const ls_torchrec *c, int way) {
    ls_torchrec_run run;
    bool made = false;
    LS_TRY(ls_torchrec__plan(&run, &made, c, way));
    if (!made) {
        return LS_OK;
    }
    ls_text text = {0};
    int status = ls_torchrec__scenario(&text, &run);
    if (status != LS_OK) {
        ls_text_free(&text);
        return status;
    }
    return ls_import_run_compared(import,
                                  &(ls_import_run){.stage = name_way(&run, way),
                                                   .scenario = &text,
                                                   .gave = {&run, ls_torchrec__gave, NULL, 0}});
}

static int replay(ls_import *import, ls_torchrec *c, const json_t *entry) {
    LS_TRY(ls_torchrec__read(c, entry, &import->skip));
    if (import->skip != NULL) {
        return LS_OK;
    }
    for (int way = 0; way < (import->options->resharded ? LS_TORCHREC_WAYS : 1); way++) {
        LS_TRY(run_way(import, c, way));
    }
    tell_rest(import, c);
    return LS_OK;
}

static int import(ls_import *import, const json_t *entry) {
    const char *path = NULL;
    ls_safetensors *file = NULL;
    ls_torchrec c = {0};
    LS_TRY(ls_import_file(&path, import, json_object_get(entry, "file")));
    c.name = import->name;
    LS_TRY(ls_safetensors_open(&file, path));
    c.file = file;
    int status = ls_arena_create(&c.arena);
    if (status == LS_OK) {
        c.used = ls_arena_alloc(c.arena, ls_safetensors_count(file) + 1, sizeof *c.used);
        status = c.used != NULL ? replay(import, &c, entry) : LS_ERR_MEMORY;
    }
    ls_arena_free(c.arena);
    ls_safetensors_free(file);
    return status == LS_OK ? LS_OK : ls_error_wrap("'%s'", path);
}

static const char *const list_keys[] = {"versions", "steps", "cases", NULL};
static const char *const keys[] = {"name",     "world",          "optimizer", "lr",     "eps",
                                   "weighted", "batch",          "keys",      "tables", "file",
                                   "seed",     "length_per_key", NULL};

const ls_importer ls_importer_torchrec = {.of = "TorchRec's results",
                                          .list = "manifest.json",
                                          .results = "cases",
                                          .list_keys = list_keys,
                                          .keys = keys,
                                          .recognise = recognise,
                                          .import = import};
