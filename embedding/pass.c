// A pass: one batch's way through a module, stage by stage, and what it leaves for readers.
#include "embedding/internal.h"

#include <stdio.h>

static int pass_create(ls_embedding_pass **out, ls_embedding *module) {
    embedding_pool pool;
    LS_TRY(ls_embedding__pool_create(&pool, module));
    ls_arena *arena = pool.arena;
    ls_embedding_pass *pass = ls_arena_alloc(arena, 1, sizeof(*pass));
    if (!pass) {
        ls_arena_free(arena);
        return ls_error_last()->code;
    }
    pass->module = module;
    pass->pool = pool;
    pass->arena = arena;
    if (ls_embedding__pool_create(&pass->filled, module)) {
        ls_arena_free(arena);
        return ls_error_last()->code;
    }
    ls_arena_will_be_full(pass->filled.arena);
    pass->held_count = ls_world_held_count(module->world);
    size_t held = (size_t)pass->held_count;
    pass->inputs = ls_arena_alloc(arena, held, sizeof(*pass->inputs));
    pass->parts = pass->inputs ? ls_arena_alloc(arena, held, sizeof(*pass->parts)) : NULL;
    bool ok = pass->parts != NULL;
    for (size_t h = 0; h < held && ok; h++) {
        pass->inputs[h] = ls_arena_alloc(arena, (size_t)module->pair_count, sizeof(**pass->inputs));
        pass->parts[h] = ls_arena_alloc(arena, (size_t)module->group_count, sizeof(**pass->parts));
        ok = pass->inputs[h] && pass->parts[h];
    }
    if (!ok) {
        ls_embedding__pool_free(&pass->filled);
        ls_arena_free(arena);
        return ls_error_last()->code;
    }
    *out = pass;
    return LS_OK;
}

void ls_embedding_pass_free(ls_embedding_pass *pass) {
    if (pass && pass->arrivals) {
        ls_error kept = *ls_error_last();
        if (ls_embedding__input_dist_wait(pass, false, NULL)) {
            ls_error_clear();
        }
        if (kept.code != LS_OK) {
            (void)ls_error__set(kept.file, kept.line, kept.code, kept.rank, "%s", kept.text);
        }
    }
    if (pass) {
        ls_embedding__pool_free(&pass->filled);
        embedding_pool pool = pass->pool;  // its arena holds the pass itself
        ls_embedding__pool_free(&pool);
    }
}

static int start(ls_embedding_pass **out, ls_embedding *module,
                 const ls_keyed_jagged *const *inputs, bool begins) {
    LS_ASSERT(out && module && inputs);
    *out = NULL;
    ls_embedding_pass *pass = NULL;
    LS_TRY(pass_create(&pass, module));
    int status = ls_embedding__input_dist_start(pass, inputs, begins);
    if (status) {
        ls_embedding_pass_free(pass);
        return status;
    }
    pass->done = STAGE_UNDER_WAY;
    *out = pass;
    return LS_OK;
}

int ls_embedding_input_dist_start(ls_embedding_pass **out, ls_embedding *module,
                                  const ls_keyed_jagged *const *inputs) {
    return start(out, module, inputs, true);
}

int ls_embedding_input_dist_wait(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    LS_ASSERT(pass && pass->done == STAGE_UNDER_WAY);
    LS_TRY(ls_embedding__input_dist_wait(pass, true, sink));
    pass->done = STAGE_INPUT_DIST;
    return LS_OK;
}

int ls_embedding_input_dist(ls_embedding_pass **out, ls_embedding *module,
                            const ls_keyed_jagged *const *inputs, const ls_stage_sink *sink) {
    LS_TRY(start(out, module, inputs, false));
    int status = ls_embedding_input_dist_wait(*out, sink);
    if (status) {
        ls_embedding_pass_free(*out);
        *out = NULL;
    }
    return status;
}

// Data that is used before it has arrived, whatever its memory contains.
static int fail_early(const ls_embedding_pass *pass, const char *what) {
    static const char *const missing[] = {
        [STAGE_NONE] = "input_dist",
        [STAGE_UNDER_WAY] = "the wait for its input_dist",
        [STAGE_INPUT_DIST] = "its lookup",
        [STAGE_LOOKUP] = "its output_dist",
    };
    LS_ASSERT(pass->done <= STAGE_LOOKUP);
    return LS_FAIL_RANK(LS_ERR_FINDING, ls_world_held(pass->module->world)[0],
                        "buffer.use_before_wait: the %s of a batch is used before %s", what,
                        missing[pass->done]);
}

int ls_embedding_lookup(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    LS_ASSERT(pass);
    if (pass->done == STAGE_UNDER_WAY) {
        return fail_early(pass, "input");
    }
    LS_ASSERT(pass->done == STAGE_INPUT_DIST);
    LS_TRY(ls_embedding__lookup(pass, sink));
    pass->done = STAGE_LOOKUP;
    return LS_OK;
}

int ls_embedding_output_dist(ls_embedding_pass *pass, const ls_stage_sink *sink) {
    LS_ASSERT(pass && pass->done == STAGE_LOOKUP);
    LS_TRY(ls_embedding__output_dist(pass, sink));
    pass->done = STAGE_OUTPUT_DIST;
    return LS_OK;
}

int ls_embedding_forward(ls_embedding_pass **out, ls_embedding *module,
                         const ls_keyed_jagged *const *inputs, const ls_stage_sink *sink) {
    LS_TRY(ls_embedding_input_dist(out, module, inputs, sink));
    int status = ls_embedding_lookup(*out, sink);
    status = status == LS_OK ? ls_embedding_output_dist(*out, sink) : status;
    if (status) {
        ls_embedding_pass_free(*out);
        *out = NULL;
    }
    return status;
}

const void *ls_embedding_output(const ls_embedding_pass *pass, int rank, int table, int feature,
                                int64_t *rows, ls_dtype *dtype) {
    LS_ASSERT(pass);
    if (pass->done < STAGE_OUTPUT_DIST) {
        (void)fail_early(pass, "output");
        return NULL;
    }
    const ls_embedding *module = pass->module;
    LS_ASSERT(table >= 0 && table < module->table_count);
    const embedding_table *entry = &module->tables[table];
    LS_ASSERT(feature >= 0 && feature < entry->config->feature_count);
    int held = ls_world_held_index(module->world, rank);
    LS_ASSERT(held >= 0);
    const embedding_input *input = &pass->inputs[held][entry->first_pair + feature];
    const embedding_group *group = &module->groups[entry->group];
    if (rows) {
        *rows = input->output_rows;
    }
    if (dtype) {
        *dtype = group->dtype;
    }
    return input->output;
}

// ---- Stage outputs ------------------------------------------------------------------------------
