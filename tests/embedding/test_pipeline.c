// Tests of batches in flight: begun, waited for, used too early, and abandoned.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

enum { BATCHES = 3 };

typedef struct flight {
    embedding_case c;
    ls_world *world;
    ls_backend *backend;
    ls_embedding *module;
    ls_keyed_jagged *inputs[BATCHES][CASE_RANKS_MAX];
} flight;

static void flight_open(flight *f, uint64_t seed) {
    cr_assert(case_random(&f->c, seed, 4) == LS_OK);
    for (int b = 0; b < BATCHES; b++) {
        memcpy(f->inputs[b], f->c.inputs, sizeof f->inputs[b]);
        memset(f->c.inputs, 0, sizeof f->c.inputs);
        f->c.seed++;  // other ids
        cr_assert(case_inputs(&f->c, (int64_t[]){b, 3, 2, 0}, 4) == LS_OK);
    }
    case_make_plan(&f->c);
    const ls_world_options world = {.mesh = LS_MESH(4), .seed = seed};
    cr_assert(ls_world_create(&f->world, &world) == LS_OK);
    cr_assert(ls_backend_sim_create(&f->backend, f->world) == LS_OK);
    const ls_embedding_options options = {.tables = f->c.tables,
                                          .table_count = f->c.table_count,
                                          .plan = &f->c.plan,
                                          .fill = case_fill,
                                          .fill_arg = &f->c};
    cr_assert(ls_embedding_create(&f->module, f->backend, &options) == LS_OK);
}

static void flight_close(flight *f) {
    ls_embedding_free(f->module);
    ls_backend_free(f->backend);
    ls_world_free(f->world);
    for (int b = 0; b < BATCHES; b++) {
        for (int r = 0; r < 4; r++) {
            ls_keyed_jagged_free(f->inputs[b][r]);
        }
    }
    case_free(&f->c);
}

static const ls_keyed_jagged *const *batch_of(flight *f, int b) {
    return (const ls_keyed_jagged *const *)f->inputs[b];
}

// Bytes of all outputs of a pass, one after another; the caller frees them.
static char *outputs_of(const flight *f, const ls_embedding_pass *pass, size_t *bytes) {
    char *all = NULL;
    *bytes = 0;
    for (int r = 0; r < 4; r++) {
        for (int t = 0; t < f->c.table_count; t++) {
            for (int k = 0; k < f->c.tables[t].feature_count; k++) {
                int64_t rows;
                ls_dtype dtype;
                const void *data = ls_embedding_output(pass, r, t, k, &rows, &dtype);
                size_t size = (size_t)(rows * f->c.tables[t].dim) * ls_dtype_bytes(dtype);
                all = realloc(all, *bytes + size + 1);
                memcpy(all + *bytes, data, size);
                *bytes += size;
            }
        }
    }
    return all;
}

// Three overlapping batches give the results of separate ones.
Test(pipeline, batches_in_flight_give_what_they_give_alone) {
    for (uint64_t seed = 1; seed <= 30; seed++) {
        flight f = {0};
        ls_embedding_pass *passes[BATCHES], *alone;
        flight_open(&f, seed);
        cr_assert(ls_embedding_input_dist_start(&passes[0], f.module, batch_of(&f, 0)) == LS_OK);
        cr_assert(ls_embedding_input_dist_start(&passes[1], f.module, batch_of(&f, 1)) == LS_OK);
        cr_assert(ls_embedding_input_dist_wait(passes[0], NULL) == LS_OK);
        cr_assert(ls_embedding_lookup(passes[0], NULL) == LS_OK);
        cr_assert(ls_embedding_input_dist_start(&passes[2], f.module, batch_of(&f, 2)) == LS_OK);
        cr_assert(ls_embedding_input_dist_wait(passes[1], NULL) == LS_OK);
        cr_assert(ls_embedding_output_dist(passes[0], NULL) == LS_OK);
        cr_assert(ls_embedding_input_dist_wait(passes[2], NULL) == LS_OK);
        for (int b = 2; b > 0; b--) {
            cr_assert(ls_embedding_lookup(passes[b], NULL) == LS_OK);
            cr_assert(ls_embedding_output_dist(passes[b], NULL) == LS_OK);
        }
        for (int b = 0; b < BATCHES; b++) {
            size_t got_bytes, bytes;
            cr_assert(ls_embedding_forward(&alone, f.module, batch_of(&f, b), NULL) == LS_OK);
            char *got = outputs_of(&f, passes[b], &got_bytes);
            char *expected = outputs_of(&f, alone, &bytes);
            cr_expect(got_bytes == bytes && memcmp(got, expected, bytes) == 0, "seed %d, batch %d",
                      (int)seed, b);
            free(got);
            free(expected);
            ls_embedding_pass_free(alone);
            ls_embedding_pass_free(passes[b]);
        }
        flight_close(&f);
    }
}

// A lookup before the wait, and an output before it exists, are findings without side effects.
Test(pipeline, use_before_the_wait_is_a_finding) {
    flight f = {0};
    ls_embedding_pass *pass;
    int64_t rows;
    ls_dtype dtype;
    flight_open(&f, 3);
    cr_assert(ls_embedding_input_dist_start(&pass, f.module, batch_of(&f, 1)) == LS_OK);
    cr_expect(ls_embedding_lookup(pass, NULL) == LS_ERR_FINDING);
    cr_expect_str_eq(ls_error_last()->text, "buffer.use_before_wait: the input of a batch is used "
                                            "before the wait for its input_dist");
    cr_assert(ls_embedding_input_dist_wait(pass, NULL) == LS_OK);
    cr_expect(ls_embedding_output(pass, 0, 0, 0, &rows, &dtype) == NULL);
    cr_expect(ls_error_last()->code == LS_ERR_FINDING);
    cr_expect(strstr(ls_error_last()->text, "before its lookup"), "%s", ls_error_last()->text);
    cr_assert(ls_embedding_lookup(pass, NULL) == LS_OK);
    cr_expect(ls_embedding_output(pass, 0, 0, 0, &rows, &dtype) == NULL);
    cr_expect(strstr(ls_error_last()->text, "before its output_dist"), "%s", ls_error_last()->text);
    cr_assert(ls_embedding_output_dist(pass, NULL) == LS_OK);
    cr_expect(ls_embedding_output(pass, 1, 0, 0, &rows, &dtype) != NULL);
    ls_embedding_pass_free(pass);
    flight_close(&f);
}

// Abandoned in flight: freed completely, and the next one works.
Test(pipeline, a_batch_can_be_given_up) {
    flight f = {0};
    ls_embedding_pass *pass;
    flight_open(&f, 4);
    cr_assert(ls_embedding_input_dist_start(&pass, f.module, batch_of(&f, 1)) == LS_OK);
    ls_embedding_pass_free(pass);
    cr_assert(ls_embedding_forward(&pass, f.module, batch_of(&f, 1), NULL) == LS_OK);
    ls_embedding_pass_free(pass);
    flight_close(&f);
}
