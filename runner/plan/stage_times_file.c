// Measured stage times as a JSON file.
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "planner/plan_file.h"
#include "formats/yaml_read.h"
#include "runner/plan/stage_times.h"

#define MS_MAX    1e9
#define STEPS_MAX 100000

// ---- Writing ------------------------------------------------------------------------------------
static void write_time(ls_json *json, const ls_stage_time *time) {
    ls_json_object_open(json);
    ls_json_member_double(json, "median_ms", time->median_ms);
    ls_json_member_double(json, "least_ms", time->least_ms);
    ls_json_object_close(json);
}

static void write_ranks(ls_json *json, const ls_stage_times *times) {
    ls_json_member_array(json, "per_rank");
    for (int r = 0; r < times->ranks; r++) {
        ls_json_object_open(json);
        ls_json_member_int(json, "rank", r);
        for (int s = 0; s < times->stage_count; s++) {
            ls_json_key(json, ls_work_stage_name((ls_work_stage)s));
            write_time(json, &times->stages[r * LS_WORK_STAGE_COUNT + s]);
        }
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
}

static void write_steps(ls_json *json, const ls_stage_times *times) {
    ls_json_member_array(json, "collectives");
    for (int i = 0; i < times->step_count; i++) {
        const ls_work_time *step = &times->steps[i];
        ls_json_object_open(json);
        ls_json_member_string(json, "stage", ls_work_stage_name(step->stage));
        ls_json_member_string(json, "what", step->what);
        ls_json_member_string(json, "kind", step->kind);
        ls_json_member_array(json, "sent_bytes");
        for (int r = 0; r < times->ranks; r++) {
            ls_json_uint(json, step->sent_bytes[r]);
        }
        ls_json_array_close(json);
        ls_json_member_array(json, "per_rank");
        for (int r = 0; r < times->ranks; r++) {
            write_time(json, &step->ranks[r]);
        }
        ls_json_array_close(json);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
}

int ls_stage_times_write(ls_text *out, const ls_stage_times *times) {
    LS_ASSERT(out != NULL && times != NULL);
    ls_text plan = {0};
    int status = ls_plan_write(&plan, &times->plan);
    if (status == LS_OK) {
        ls_json json;
        ls_json_begin(&json, out, 1);
        ls_json_object_open(&json);
        ls_json_member_int(&json, "lockstep_stage_times", 1);
        ls_json_member_string(&json, "scenario", times->scenario);
        ls_json_member_uint(&json, "seed", times->seed);
        ls_json_member_string(&json, "backend", times->backend);
        ls_json_member_string(&json, "versions", times->versions);
        ls_json_member_int(&json, "samples", LS_STAGE_TIMES_SAMPLES);
        write_ranks(&json, times);
        write_steps(&json, times);
        ls_json_member_string(&json, "plan", ls_text_string(&plan));
        ls_json_object_close(&json);
        ls_text_puts(out, "\n");
        status = out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the times") : LS_OK;
    }
    ls_text_free(&plan);
    return status;
}

// ---- Reading ------------------------------------------------------------------------------------
static void read_time(ls_yaml_reader *source, const ls_yaml_node *node, ls_stage_time *out) {
    if (node != NULL) {
        (void)ls_yaml_real(source, ls_yaml_member(source, node, "median_ms", true), 0, MS_MAX,
                           &out->median_ms);
        (void)ls_yaml_real(source, ls_yaml_member(source, node, "least_ms", true), 0, MS_MAX,
                           &out->least_ms);
    }
}

// The list `key` of a map, with one entry per rank; NULL with an error.
static const ls_yaml_node *per_rank(ls_yaml_reader *source, const ls_yaml_node *map,
                                    const char *key, int ranks) {
    const ls_yaml_node *list = ls_yaml_member(source, map, key, true);
    if (list != NULL && (list->kind != LS_YAML_SEQUENCE || list->count != (uint32_t)ranks)) {
        ls_yaml_error(source, list, "expected a list of %d, one per rank", ranks);
        return NULL;
    }
    return list;
}

static int read_stages(ls_yaml_reader *source, const ls_yaml_node *root, ls_stage_times *out,
                       ls_arena *arena) {
    const ls_yaml_node *list = per_rank(source, root, "per_rank", out->ranks);
    if (list == NULL) {
        return LS_OK;
    }
    out->stages =
        ls_arena_alloc(arena, (size_t)out->ranks, LS_WORK_STAGE_COUNT * sizeof *out->stages);
    LS_TRY_MEMORY(out->stages != NULL);
    // A step that ends with an update has all stages, a forward pass the first ones.
    const ls_yaml_node *first = ls_yaml_first(source->tree, list);
    const char *update = ls_work_stage_name(LS_WORK_UPDATE);
    bool all = first != NULL && ls_yaml_member(source, first, update, false) != NULL;
    out->stage_count = all ? LS_WORK_STAGE_COUNT : LS_WORK_FORWARD_STAGES;
    int rank = 0;
    for (const ls_yaml_node *at = first; at != NULL; at = ls_yaml_next(source->tree, at)) {
        int64_t named = -1;
        (void)ls_yaml_int(source, ls_yaml_member(source, at, "rank", true), rank, rank, &named);
        for (int s = 0; s < out->stage_count; s++) {
            const char *name = ls_work_stage_name((ls_work_stage)s);
            read_time(source, ls_yaml_member(source, at, name, true),
                      &out->stages[rank * LS_WORK_STAGE_COUNT + s]);
        }
        rank++;
    }
    return LS_OK;
}

static int read_step(ls_yaml_reader *source, const ls_yaml_node *node, ls_work_time *out, int ranks,
                     ls_arena *arena) {
    const ls_yaml_node *stage = ls_yaml_member(source, node, "stage", true);
    const char *name = stage != NULL ? ls_yaml_word(source, stage) : NULL;
    const char *what = ls_yaml_word(source, ls_yaml_member(source, node, "what", true));
    const char *kind = ls_yaml_word(source, ls_yaml_member(source, node, "kind", true));
    ls_work_stage known = LS_WORK_INPUT_DIST;
    if (name != NULL && strcmp(name, "output_dist") == 0) {
        known = LS_WORK_OUTPUT_DIST;
    } else if (name != NULL && strcmp(name, "gradients") == 0) {
        known = LS_WORK_GRADIENTS;
    } else if (name != NULL && strcmp(name, "input_dist") != 0) {
        ls_yaml_error(source, stage, "expected input_dist, output_dist or gradients");
    }
    // Allocates for all ranks only if the file has as many entries.
    const ls_yaml_node *bytes = per_rank(source, node, "sent_bytes", ranks);
    const ls_yaml_node *times = per_rank(source, node, "per_rank", ranks);
    if (bytes == NULL || times == NULL) {
        return LS_OK;
    }
    *out =
        (ls_work_time){.stage = known,
                       .what = ls_arena_strdup(arena, what != NULL ? what : ""),
                       .kind = ls_arena_strdup(arena, kind != NULL ? kind : ""),
                       .sent_bytes = ls_arena_alloc(arena, (size_t)ranks, sizeof *out->sent_bytes),
                       .ranks = ls_arena_alloc(arena, (size_t)ranks, sizeof *out->ranks)};
    LS_TRY_MEMORY(out->what != NULL && out->kind != NULL && out->sent_bytes != NULL &&
                  out->ranks != NULL);
    int rank = 0;
    for (const ls_yaml_node *at = ls_yaml_first(source->tree, bytes); at != NULL;
         at = ls_yaml_next(source->tree, at)) {
        int64_t sent = 0;
        (void)ls_yaml_int(source, at, 0, INT64_MAX, &sent);
        out->sent_bytes[rank++] = (uint64_t)sent;
    }
    rank = 0;
    for (const ls_yaml_node *at = ls_yaml_first(source->tree, times); at != NULL;
         at = ls_yaml_next(source->tree, at)) {
        read_time(source, at, &out->ranks[rank++]);
    }
    return LS_OK;
}

static int read_steps(ls_yaml_reader *source, const ls_yaml_node *root, ls_stage_times *out,
                      ls_arena *arena) {
    const ls_yaml_node *list = ls_yaml_member(source, root, "collectives", true);
    if (list == NULL) {
        return LS_OK;
    }
    if (list->kind != LS_YAML_SEQUENCE || list->count > STEPS_MAX) {
        ls_yaml_error(source, list, "expected a list of at most %d", STEPS_MAX);
        return LS_OK;
    }
    out->steps = ls_arena_alloc(arena, (size_t)list->count, sizeof *out->steps);
    LS_TRY_MEMORY(out->steps != NULL);
    for (const ls_yaml_node *at = ls_yaml_first(source->tree, list); at != NULL;
         at = ls_yaml_next(source->tree, at)) {
        LS_TRY(read_step(source, at, &out->steps[out->step_count++], out->ranks, arena));
    }
    return LS_OK;
}

// A text from the file, copied; "" if it is missing.
static const char *kept_text(ls_yaml_reader *source, const ls_yaml_node *root, const char *key,
                             ls_arena *arena) {
    const char *text = ls_yaml_word(source, ls_yaml_member(source, root, key, true));
    return ls_arena_strdup(arena, text != NULL ? text : "");
}

static int read_plan(ls_yaml_reader *source, const ls_yaml_node *root, ls_stage_times *out,
                     ls_arena *arena) {
    const ls_yaml_node *node = ls_yaml_member(source, root, "plan", true);
    const char *text = node != NULL ? ls_yaml_word(source, node) : NULL;
    if (text == NULL) {
        return LS_OK;
    }
    ls_text errors = {0};
    int status = ls_plan_read(&out->plan, arena, &errors, "plan", text, strlen(text));
    if (status == LS_ERR_FORMAT) {
        ls_yaml_error(source, node, "the plan in it cannot be used: %s", ls_error_last()->text);
        status = LS_OK;
    }
    ls_text_free(&errors);
    return status;
}

static int read_root(ls_yaml_reader *source, const ls_yaml_node *root, ls_stage_times *out,
                     ls_arena *arena) {
    int64_t version = 0;
    const ls_yaml_node *seed = ls_yaml_member(source, root, "seed", true);
    const char *digits = seed != NULL ? ls_yaml_word(source, seed) : NULL;
    char *end = NULL;
    (void)ls_yaml_int(source, ls_yaml_member(source, root, "lockstep_stage_times", true), 1, 1,
                      &version);
    out->seed = digits != NULL ? strtoull(digits, &end, 10) : 0;
    if (digits != NULL && (*digits == '-' || *end != 0)) {
        ls_yaml_error(source, seed, "expected a whole number from 0");
    }
    out->scenario = kept_text(source, root, "scenario", arena);
    out->backend = kept_text(source, root, "backend", arena);
    out->versions = kept_text(source, root, "versions", arena);
    LS_TRY_MEMORY(out->scenario != NULL && out->backend != NULL && out->versions != NULL);
    LS_TRY(read_plan(source, root, out, arena));
    if (ls_yaml_errors(source) > 0) {
        return LS_OK;
    }
    out->ranks = out->plan.ranks;
    LS_TRY(read_stages(source, root, out, arena));
    return read_steps(source, root, out, arena);
}

int ls_stage_times_read(ls_stage_times *out, ls_arena *arena, ls_text *errors, const char *file,
                        const char *text, size_t bytes) {
    LS_ASSERT(out != NULL && arena != NULL && errors != NULL && file != NULL && text != NULL);
    *out = (ls_stage_times){0};
    ls_yaml_reader source = {.file = file, .text = text, .bytes = bytes, .errors = errors};
    LS_TRY(ls_arena_create(&source.arena));
    const ls_yaml_node *root = ls_yaml_open(&source);
    int status = root != NULL ? read_root(&source, root, out, arena) : LS_OK;
    status = ls_yaml_close(&source, status);
    ls_arena_free(source.arena);
    return status;
}
