// A backend is a row and a table of functions: the runner has no other interface to it. Two test
// backends, one that moves nothing and one that passes everything to the simulator.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/compare/run.h"

static int null_comm_open(ls_backend *backend, ls_comm *comm) {
    (void)backend, (void)comm;
    return LS_OK;
}

static void null_comm_close(ls_backend *backend, ls_comm *comm) {
    (void)backend, (void)comm;
}

static int null_run(ls_backend *backend, ls_call *calls, int call_count) {
    (void)backend, (void)calls, (void)call_count;
    return LS_OK;
}

static void null_destroy(ls_backend *backend) {
    free(backend);
}

static const ls_backend_ops null_ops = {.name = "null",
                                        .comm_open = null_comm_open,
                                        .comm_close = null_comm_close,
                                        .run = null_run,
                                        .destroy = null_destroy};

static int null_open(ls_backend **out, ls_world *world, struct ls_device *device) {
    (void)device;
    *out = calloc(1, sizeof **out);
    cr_assert(*out != NULL);
    **out = (ls_backend){.ops = &null_ops, .world = world};
    return LS_OK;
}

static const ls_backend_kind null_kind = {.name = "null", .open = null_open};

static int echo_open(ls_backend **out, ls_world *world, struct ls_device *device) {
    return ls_backend_kind_sim.open(out, world, device);
}

static const ls_backend_kind echo_kind = {.name = "echo", .open = echo_open};

static ls_scenario *load(char *path) {
    static const char text[] = "lockstep: 1\nname: sums\nmesh: {shape: [3]}\nprogram:\n  steps:\n"
                               "    - all_reduce: {count: 8, op: sum, values: {constant: 2}}\n";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    cr_assert(close(fd) == 0);
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    cr_assert(ls_diagnostics_create(&diagnostics, path) == LS_OK);
    cr_assert(ls_scenario_load(&scenario, diagnostics, path, NULL) == LS_OK);
    ls_diagnostics_free(diagnostics);
    return scenario;
}

static void check(const ls_backend_kind *kind, bool compared, bool pass) {
    char path[] = "/tmp/lockstep-test-XXXXXX";
    ls_scenario *scenario = load(path);
    const ls_run_options options = {.deadline_seconds = 10, .reproduce = "lockstep run"};
    const ls_real_source source = {.backend = kind};
    ls_results *results = NULL;
    cr_assert(ls_results_create(&results, "run") == LS_OK);
    cr_assert((compared ? ls_run_compared(results, scenario, &source, &options)
                        : ls_run_real(results, scenario, kind, &options)) == LS_OK);
    const ls_case_result *result = &results->cases[0];
    cr_expect(result->pass == pass, "%s: %s", kind->name, result->error ? result->error : "");
    cr_expect(result->class_ == (pass ? LS_CLASS_BIT_EXACT : LS_CLASS_WRONG), "%s", kind->name);
    cr_expect_str_eq(compared ? result->real : result->backend, kind->name);
    ls_results_free(results);
    ls_scenario_free(scenario);
    (void)unlink(path);
}

// Its values are judged and compared like those of any other.
Test(backends, of_the_tests_own) {
    for (int compared = 0; compared < 2; compared++) {
        check(&null_kind, compared, false);
        check(&echo_kind, compared, true);
    }
}

// The options' lists contain the rows, all and in order; those that can be measured are in the
// program or in one that it can become.
Test(backends, lists_name_the_rows) {
    int timed = 0;
    for (int i = 0; ls_backend_kinds[i] != NULL; i++) {
        const ls_backend_kind *kind = ls_backend_kinds[i];
        cr_assert_str_eq(ls_backend_names[i], kind->name);
        cr_expect(ls_backend_names[i + 1] != NULL || ls_backend_kinds[i + 1] == NULL);
        cr_expect(ls_backend_kind_named(kind->name) == kind);
        cr_expect((kind->open == NULL) == (kind->program != NULL));
        if (kind->timed) {
            cr_assert_str_eq(ls_backend_names_timed[timed++], kind->name);
            cr_expect(kind->open != NULL || kind->threads_program != NULL);
        }
    }
    cr_expect(ls_backend_names_timed[timed] == NULL && ls_backend_kind_named("null") == NULL);
}
