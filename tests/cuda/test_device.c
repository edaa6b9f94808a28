// Scenarios on a device against the same on the host: every array of every stage, bit for bit,
// under several orders; and what happens when the device's memory does not suffice at any point.
//   test_device FILE...        the device is the fake of fake_device.h
//   test_device_cuda FILE...   the device is the GPU; exit 77 where there is none
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/diagnostic.h"
#include "runner/program/execute.h"
#include "runner/program/program.h"
#include "runner/compare/stages.h"
#ifdef LOCKSTEP_TEST_CUDA
#include <cuda_runtime_api.h>

#include "kernels/cuda/device.h"
#else
#include "tests/cuda/fake_device.h"
#endif

// The fake device is slow: every access to its memory unprotects and protects it.
static const char *const orders[] = {
    "rank",
    "ring:proto=ll128,channels=2",
    "tree:proto=ll128",
#ifdef LOCKSTEP_TEST_CUDA
    "ring:proto=ll",
    "tree:proto=ll",
    "tree:proto=simple",
#endif
};

static int failures;
static size_t arrays, elements;

// The end of one run.
typedef struct outcome {
    int status;
    char error[LS_ERROR_TEXT_MAX];
    ls_stages *stages;
    ls_stages *expected;  // of programs: the plain references
} outcome;

static int execute_on(ls_device *device, const ls_scenario *scenario, const char *order_text,
                      const outcome *out, ls_arena *arena) {
    const ls_world_options options = {.mesh = scenario->mesh, .seed = scenario->seed};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_order *order = NULL;
    ls_finding finding = {0};
    bool found = false;
    ls_stage_sink sink = ls_stages_sink(out->stages), expected = ls_stages_sink(out->expected);
    int status = ls_order_parse(&order, order_text);
    if (status == LS_OK) {
        status = ls_world_create_on(&world, &options, device);
    }
    if (status == LS_OK) {
        status = device != NULL ? ls_backend_sim_create_on(&backend, world, device)
                                : ls_backend_sim_create(&backend, world);
    }
    if (status == LS_OK) {
        backend->order = order;
        const ls_execution execution = {
            .scenario = scenario, .backend = backend, .sink = &sink, .expected = &expected};
        status = ls_execute(&execution, arena, &finding, &found);
    }
    ls_backend_free(backend);
    ls_world_free(world);
    ls_order_free(order);
    return status;
}

static outcome run_on(ls_device *device, const ls_scenario *scenario, const char *order) {
    outcome out = {0};
    ls_arena *arena = NULL;
    if (ls_arena_create(&arena) != LS_OK ||
        ls_stages_create(&out.stages, scenario->ranks) != LS_OK ||
        ls_stages_create(&out.expected, scenario->ranks) != LS_OK) {
        exit(3);
    }
    out.status = execute_on(device, scenario, order, &out, arena);
    if (out.status != LS_OK) {
        (void)snprintf(out.error, sizeof out.error, "%s", ls_error_last()->text);
    }
    ls_arena_free(arena);
    return out;
}

static void outcome_free(outcome *out) {
    ls_stages_free(out->stages);
    ls_stages_free(out->expected);
}

static bool same_element(const char *a, const char *b, ls_dtype dtype) {
    if (memcmp(a, b, ls_dtype_bytes(dtype)) == 0) {
        return true;
    }
    return ls_dtype_is_float(dtype) && isnan(ls_element_to_f64(a, dtype)) &&
           isnan(ls_element_to_f64(b, dtype));  // a NaN's payload is not specified
}

static bool fail(const ls_scenario *scenario, const char *order, const char *what,
                 const char *detail) {
    printf("FAIL %s under %s: %s %s\n", scenario->file, order, what, detail);
    failures++;
    return false;
}

static bool same_arrays(const ls_scenario *scenario, const char *order, const ls_stage_entry *a,
                        const ls_stage_entry *b, int ranks) {
    size_t bytes = ls_dtype_bytes(a->dtype);
    for (int rank = 0; rank < ranks; rank++) {
        const ls_stage_array *x = &a->ranks[rank], *y = &b->ranks[rank];
        if (x->present != y->present || x->count != y->count || a->dtype != b->dtype) {
            return fail(scenario, order, "another shape:", a->key);
        }
        for (size_t i = 0; i < x->count; i++) {
            if (!same_element((char *)x->data + i * bytes, (char *)y->data + i * bytes, a->dtype)) {
                char where[400];
                (void)snprintf(where, sizeof where,
                               "%s rank %d element %zu: host %.17g, device %.17g", a->key, rank, i,
                               ls_element_to_f64((char *)x->data + i * bytes, a->dtype),
                               ls_element_to_f64((char *)y->data + i * bytes, a->dtype));
                return fail(scenario, order, "other bits:", where);
            }
        }
        arrays += x->present;
        elements += x->count;
    }
    return true;
}

static bool same_stages(const ls_scenario *scenario, const char *order, const ls_stages *host,
                        const ls_stages *device) {
    if (ls_stages_count(host) != ls_stages_count(device)) {
        return fail(scenario, order, "other stages", "");
    }
    for (int i = 0; i < ls_stages_count(host); i++) {
        const ls_stage_entry *entry = ls_stages_at(host, i);
        const ls_stage_entry *other = ls_stages_find(device, entry->key);
        if (other == NULL) {
            return fail(scenario, order, "a stage is missing:", entry->key);
        }
        if (!same_arrays(scenario, order, entry, other, scenario->ranks)) {
            return false;
        }
    }
    return true;
}

static bool same_outcome(const ls_scenario *scenario, const char *order, const outcome *host,
                         const outcome *device) {
    if (host->status != device->status || strcmp(host->error, device->error) != 0) {
        printf("host: %d %s\ndevice: %d %s\n", host->status, host->error, device->status,
               device->error);
        return fail(scenario, order, "another end", "");
    }
    return same_stages(scenario, order, host->stages, device->stages) &&
           same_stages(scenario, order, host->expected, device->expected);
}

static void compare(ls_device *device, const ls_scenario *scenario, const char *order) {
    outcome host = run_on(NULL, scenario, order), other = run_on(device, scenario, order);
    (void)same_outcome(scenario, order, &host, &other);
    outcome_free(&host);
    outcome_free(&other);
}

// ---- Too little memory --------------------------------------------------------------------------
static bool names_rank_and_bytes(const char *error) {
    return strstr(error, "rank ") != NULL && strstr(error, " bytes") != NULL &&
           strstr(error, "out of GPU memory") != NULL && strchr(error, '\n') == NULL;
}

#ifndef LOCKSTEP_TEST_CUDA
// Each allocation fails in turn: one line names its owner, and nothing leaks.
static void starve(ls_device *device, const ls_scenario *scenario) {
    int status = LS_ERR_MEMORY;
    long tries = 0;
    for (; status == LS_ERR_MEMORY && tries < 100000; tries++) {
        fake_device_fail_after(tries);
        outcome out = run_on(device, scenario, "tree:proto=ll128");
        fake_device_fail_after(-1);
        status = out.status;
        if (status == LS_ERR_MEMORY && !names_rank_and_bytes(out.error)) {
            (void)fail(scenario, "too little memory", "the error says too little:", out.error);
        }
        if (fake_device_live() != 0) {
            (void)fail(scenario, "too little memory", "arrays were not freed", out.error);
            exit(1);
        }
        outcome_free(&out);
    }
    if (status != LS_OK || tries < 3) {
        (void)fail(scenario, "too little memory", "it never ran", "");
    }
    printf("ok   %s: %ld allocations failed in turn\n", scenario->file, tries - 1);
}
#else
// Takes all memory of the GPU.
static void starve(ls_device *device, const ls_scenario *scenario) {
    enum { BLOCKS = 64 };
    void *blocks[BLOCKS] = {0};
    cudaMemPool_t pool;
    (void)cudaDeviceSynchronize();
    (void)cudaDeviceGetDefaultMemPool(&pool, 0);
    (void)cudaMemPoolTrimTo(pool, 0);
    size_t bytes = (size_t)64 << 30;
    for (int i = 0; i < BLOCKS && bytes >= ((size_t)1 << 16);) {
        if (cudaMalloc(&blocks[i], bytes) == cudaSuccess) {
            i++;
        } else {
            (void)cudaGetLastError();
            bytes /= 2;
        }
    }
    outcome out = run_on(device, scenario, "rank");
    printf("%s without memory: %s\n", scenario->file, out.error);
    if (out.status != LS_ERR_MEMORY || !names_rank_and_bytes(out.error)) {
        (void)fail(scenario, "too little memory", "the error says too little:", out.error);
    }
    outcome_free(&out);
    for (int i = 0; i < BLOCKS; i++) {
        (void)cudaFree(blocks[i]);
    }
    compare(device, scenario, "rank");  // and afterwards runs succeed again
}
#endif

// ---- Files --------------------------------------------------------------------------------------
static ls_scenario *load(const char *path) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    const ls_scenario_options options = {0};
    if (ls_diagnostics_create(&diagnostics, path) != LS_OK ||
        ls_scenario_load(&scenario, diagnostics, path, &options) != LS_OK) {
        printf("FAIL %s cannot be read\n", path);
        failures++;
    }
    ls_diagnostics_free(diagnostics);
    return scenario;
}

static void test_file(ls_device *device, const char *path, bool hungry) {
    ls_scenario *scenario = load(path);
    if (scenario == NULL) {
        return;
    }
    size_t before = arrays;
    if (!ls_scenario_injects(scenario)) {
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
            compare(device, scenario, orders[i]);
        }
        if (hungry) {
            starve(device, scenario);
        }
        printf("     %s: %zu arrays\n", path, arrays - before);
    } else {
        printf("     %s: of ranks on threads, which have no device\n", path);
    }
    ls_scenario_free(scenario);
}

int main(int argc, char **argv) {
    ls_device *device = NULL;
#ifdef LOCKSTEP_TEST_CUDA
    if (ls_device_cuda_open(&device) != LS_OK) {
        printf("skipped: %s\n", ls_error_last()->text);
        return 77;
    }
#else
    device = fake_device();
#endif
    for (int i = 1; i < argc; i++) {
        bool hungry = strstr(argv[i], "starve:") == argv[i];
        test_file(device, argv[i] + (hungry ? strlen("starve:") : 0), hungry);
    }
#ifndef LOCKSTEP_TEST_CUDA
    if (fake_device_live() != 0 || fake_device_used() == 0) {
        printf("FAIL %zu arrays left, %zu kernels ran\n", fake_device_live(), fake_device_used());
        failures++;
    }
#endif
    printf("%zu arrays, %zu elements the same on host and device; %d failed\n", arrays, elements,
           failures);
    return failures == 0 && arrays > 0 ? 0 : 1;
}
