// Every allocation of the planner fails once, in turn. Each time the result is LS_ERR_MEMORY (or
// success, if the allocation is optional), nothing leaks, and nothing crashes. The process's malloc
// is replaced, so the YAML library is included. The JSON library is not, since it reports missing
// memory as a broken file and leaks. A separate program: sanitizers and Criterion have their own
// malloc.
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/redistribute.h"
#include "planner/traffic.h"
#include "runner/plan/stage_times.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)

int main(void) {
    (void)puts("the allocator cannot be replaced here");
    return 77;
}

#else

// Also for the libraries.
#pragma GCC visibility push(default)

// ---- The allocator ------------------------------------------------------------------------------
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *pointer);

static bool armed;
static long allocations, fail_at, live;

static bool fails(void) {
    return armed && ++allocations == fail_at;
}

static void *counted(void *pointer) {
    live += armed && pointer != NULL;
    if (pointer == NULL) {
        errno = ENOMEM;
    }
    return pointer;
}

void *malloc(size_t size) {
    return counted(fails() ? NULL : __libc_malloc(size));
}

void *calloc(size_t count, size_t size) {
    return counted(fails() ? NULL : __libc_calloc(count, size));
}

void *realloc(void *pointer, size_t size) {
    if (pointer == NULL) {
        return malloc(size);
    }
    return fails() ? NULL : __libc_realloc(pointer, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return counted(fails() ? NULL : __libc_memalign(alignment, size));
}

void *memalign(size_t alignment, size_t size) {
    return aligned_alloc(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    *out = aligned_alloc(alignment, size);
    return *out != NULL ? 0 : ENOMEM;
}

void free(void *pointer) {
    live -= armed && pointer != NULL;
    __libc_free(pointer);
}

#pragma GCC visibility pop

// ---- The calls ----------------------------------------------------------------------------------
static const ls_planner_feature ids = {.pooling = 4.0, .poolings = 1.0, .batch = 64.0};

static ls_planner_table table_of(const char *name, int64_t rows) {
    return (ls_planner_table){.name = name,
                              .rows = rows,
                              .columns = 64,
                              .element_bytes = 4,
                              .optimizer = "rowwise_adagrad",
                              .features = &ids,
                              .feature_count = 1};
}

static int make_problem(ls_planner_problem **out, double hbm_bytes) {
    static const int pinned[] = {1};
    ls_topology topology;
    ls_planner_table tables[4] = {table_of("a", 5000), table_of("b", 300), table_of("c", 40000),
                                  table_of("d", 40000)};
    tables[0].ranks = pinned;
    tables[0].rank_count = 1;
    tables[2].together = tables[3].together = "pair";
    tables[1].apart = tables[2].apart = "far";
    tables[1].shardings = 1u << LS_TABLE_WISE | 1u << LS_COLUMN_WISE;
    *out = NULL;
    LS_TRY(ls_topology_preset(&topology, "h100", 4, 2));
    if (hbm_bytes > 0) {
        topology.hbm_bytes = (int64_t)hbm_bytes;
        topology.ddr_bytes = 0;
    }
    const ls_planner_options options = {.nodes_max = 3000, .seed = 3};
    return ls_planner_problem_create(out, &topology, tables, 4, &options);
}

static int write_reports(ls_planner_problem *problem, const ls_planner_result *result) {
    ls_text text = {0};
    int status = ls_planner_write_text(&text, problem, result);
    status = status == LS_OK ? ls_planner_write_json(&text, problem, result, NULL) : status;
    status = status == LS_OK ? ls_planner_write_svg(&text, problem, result) : status;
    status = status == LS_OK ? ls_planner_write_lp(&text, problem) : status;
    status = status == LS_OK ? ls_planner_explain(&text, problem, result, "c") : status;
    ls_text_free(&text);
    ls_planner_stages stages[4];
    return status == LS_OK ? ls_planner_stage_times(stages, problem, result) : status;
}

static int plan(void) {
    ls_planner_problem *problem;
    ls_planner_result result;
    LS_TRY(make_problem(&problem, 0));
    int status = ls_planner_solve(&result, problem);
    if (status == LS_OK) {
        status = write_reports(problem, &result);
    }
    if (status == LS_OK) {
        status =
            ls_planner_baseline(&result, problem, LS_PROPOSE_ALL, LS_PARTITION_GREEDY_PERF, 50);
    }
    ls_planner_problem_free(problem);
    return status;
}

static int no_fit(void) {
    static ls_planner_diagnosis why;
    ls_planner_problem *problem;
    ls_planner_result result;
    LS_TRY(make_problem(&problem, 6e6));
    ls_text text = {0};
    int status = ls_planner_solve(&result, problem);
    if (status == LS_OK && result.found) {
        status = LS_ERR_INVALID;
    }
    if (status == LS_OK) {
        status = ls_planner_diagnose(&why, problem);
    }
    if (status == LS_OK) {
        status = ls_planner_write_diagnosis(&text, problem, &why);
    }
    if (status == LS_OK) {
        status = ls_planner_write_json(&text, problem, &result, "why");
    }
    ls_text_free(&text);
    ls_planner_problem_free(problem);
    return status;
}

static const char plan_text[] = "lockstep_plan: 1\nranks: 2\nranks_per_host: 2\ntables:\n"
                                "  - name: a\n    rows: 8\n    columns: 4\n"
                                "    sharding: row_wise\n    shards:\n"
                                "      - {rank: 0, offset: [0, 0], size: [4, 4]}\n"
                                "      - {rank: 1, offset: [4, 0], size: [4, 4]}\n"
                                "  - {name: b, rows: 3, columns: 4, sharding: data_parallel}\n";

// Reads, writes in both forms, reads those back, and compares.
static int plan_files(void) {
    ls_arena *arena;
    ls_plan read, again;
    ls_text errors = {0};
    ls_text ours = {0};
    ls_text theirs = {0};
    LS_TRY(ls_arena_create(&arena));
    ls_planner_table known[] = {table_of("a", 8), table_of("b", 3)};
    known[0].columns = known[1].columns = 4;
    int status = ls_plan_read(&read, arena, &errors, "plan", plan_text, strlen(plan_text));
    status = status == LS_OK ? ls_plan_write(&ours, &read) : status;
    status = status == LS_OK
                 ? ls_plan_read(&again, arena, &errors, "again", ls_text_string(&ours), ours.length)
                 : status;
    status = status == LS_OK ? ls_plan_write_torchrec(&theirs, &read) : status;
    status = status == LS_OK ? ls_plan_read_torchrec(&again, arena, ls_text_string(&theirs),
                                                     theirs.length, 2, 2, known, 2)
                             : status;
    if (status == LS_OK) {
        int differing = ls_plan_diff(&ours, &read, &again);
        status = differing == 0 ? LS_OK : differing < 0 ? differing : LS_ERR_INVALID;
    }
    ls_text_free(&errors);
    ls_text_free(&ours);
    ls_text_free(&theirs);
    ls_arena_free(arena);
    return status;
}

// A plan file with several errors: LS_ERR_FORMAT if there is memory for it.
static int broken_plan_file(void) {
    static const char text[] = "lockstep_plan: 1\nranks: 2\nranks_per_host: 2\ntables:\n"
                               "  - {name: a, rows: 8, columns: 4, shardin: row_wise}\n"
                               "  - {name: a, rows: -8, columns: 4, sharding: data_paralel}\n";
    ls_arena *arena;
    ls_plan read;
    ls_text errors = {0};
    LS_TRY(ls_arena_create(&arena));
    int status = ls_plan_read(&read, arena, &errors, "plan", text, strlen(text));
    // The errors are complete, or the status is not LS_ERR_FORMAT.
    const char *last = strstr(ls_text_string(&errors), "data_paralel");
    bool told = !errors.failed && last != NULL && strchr(last, '^') != NULL;
    ls_text_free(&errors);
    ls_arena_free(arena);
    return status != LS_ERR_FORMAT ? status : told ? LS_OK : LS_ERR_INVALID;
}

static int machine_file(void) {
    static const char text[] = "preset: h100\nranks: 4\nhbm_bytes: 80 GB\nlaunch_us: 9\n";
    ls_topology topology = {0};
    ls_text errors = {0};
    int status = ls_topology_parse(&topology, &errors, "machine", text, strlen(text));
    ls_text_free(&errors);
    return status;
}

// Measured times of that plan, written and read back.
static int times_file(void) {
    ls_arena *arena;
    ls_text errors = {0};
    ls_text text = {0};
    ls_stage_time stages[2 * LS_WORK_STAGE_COUNT] = {{.median_ms = 1.5, .least_ms = 1.25}};
    uint64_t sent[] = {8, 16};
    ls_work_time step = {.stage = LS_WORK_OUTPUT_DIST,
                         .what = "outputs",
                         .kind = "all_to_all",
                         .sent_bytes = sent,
                         .ranks = stages};
    ls_stage_times times = {.ranks = 2,
                            .stage_count = LS_WORK_STAGE_COUNT,
                            .scenario = "s",
                            .backend = "sim",
                            .versions = "none",
                            .stages = stages,
                            .steps = &step,
                            .step_count = 1};
    ls_stage_times again;
    LS_TRY(ls_arena_create(&arena));
    int status = ls_plan_read(&times.plan, arena, &errors, "plan", plan_text, strlen(plan_text));
    status = status == LS_OK ? ls_stage_times_write(&text, &times) : status;
    status = status == LS_OK ? ls_stage_times_read(&again, arena, &errors, "times",
                                                   ls_text_string(&text), text.length)
                             : status;
    ls_text_free(&errors);
    ls_text_free(&text);
    ls_arena_free(arena);
    return status;
}

static int redistribution(void) {
    const ls_reshard_placement from[] = {{.kind = LS_RESHARD_SHARD, .dim = 0},
                                         {.kind = LS_RESHARD_SHARD, .dim = 1},
                                         {.kind = LS_RESHARD_PARTIAL, .op = LS_SUM}};
    const ls_reshard_placement to[] = {{.kind = LS_RESHARD_SHARD, .dim = 1},
                                       {.kind = LS_RESHARD_REPLICATE},
                                       {.kind = LS_RESHARD_SHARD, .dim = 0}};
    ls_reshard_mesh mesh;
    static ls_reshard_plan found;
    LS_TRY(ls_reshard_mesh_make(&mesh, (int[]){2, 2, 4}, 3, 8));
    LS_TRY(ls_reshard_search(&found, 1e6, 2, from, to, &mesh));
    return ls_reshard_greedy(&found, 1e6, 2, from, to, &mesh);
}

static int measures(void) {
    static const int64_t seen[] = {1, 5, 5, 7, 0, 2};
    ls_planner_profile profile;
    LS_TRY(ls_planner_profile_make(&profile, seen, 6, 8));
    ls_plan_shard shards[] = {{.rank = 0, .rows = 8, .columns = 2},
                              {.rank = 1, .column_offset = 2, .rows = 8, .columns = 2}};
    ls_plan_table table = {.name = "a",
                           .sharding = LS_COLUMN_WISE,
                           .rows = 8,
                           .columns = 4,
                           .shards = shards,
                           .shard_count = 2};
    const ls_plan of = {.ranks = 2, .ranks_per_host = 2, .tables = &table, .table_count = 1};
    const ls_traffic_table traffic = {.output = LS_F32, .feature_count = 1};
    const ls_traffic_ids own = {.at = seen, .count = 6, .bags = 3};
    const ls_traffic_ids *const all[] = {&own, &own};
    ls_traffic_rank ranks[2];
    LS_TRY(ls_plan_traffic(ranks, &of, &traffic, all, false));
    ls_arena *arena;
    ls_planner_table *made;
    LS_TRY(ls_arena_create(&arena));
    int status = ls_planner_instance(&made, arena, LS_INSTANCE_RANDOM, 4, 1);
    ls_arena_free(arena);
    return status;
}

// ---- Trying -------------------------------------------------------------------------------------
static int failures;

static void complain(const char *name, long number, const char *what, int status) {
    failures++;
    (void)printf("%s, allocation %ld: %s (status %d, \"%s\")\n", name, number, what, status,
                 status == LS_OK ? "" : ls_error_last()->text);
}

static void try_all(const char *name, int (*operation)(void)) {
    ls_error_clear();
    int status = operation();  // one-time allocations exist after this
    if (status != LS_OK) {
        complain(name, 0, "fails by itself", status);
        return;
    }
    long refused = 0;
    for (fail_at = 1;; fail_at++) {
        allocations = live = 0;
        ls_error_clear();
        armed = true;
        status = operation();
        armed = false;
        if (live != 0) {
            complain(name, fail_at, "memory is kept", status);
        }
        if (allocations < fail_at) {
            break;  // all of them have had their turn
        }
        refused += status != LS_OK;
        if (status != LS_OK && status != LS_ERR_MEMORY) {
            complain(name, fail_at, "another error than LS_ERR_MEMORY", status);
        }
        if (failures > 20) {
            return;
        }
    }
    (void)printf("%s: %ld allocations, %ld of them needed\n", name, fail_at - 1, refused);
    if (refused == 0) {
        complain(name, 0, "no allocation was needed: nothing was tested", LS_OK);
    }
}

int main(void) {
    (void)setvbuf(stdout, NULL, _IOLBF, 4096);
    json_set_alloc_funcs(__libc_malloc, __libc_free);
    try_all("machine file", machine_file);
    try_all("plan files", plan_files);
    try_all("broken plan file", broken_plan_file);
    try_all("times file", times_file);
    try_all("redistribution", redistribution);
    try_all("measures", measures);
    try_all("plan", plan);
    try_all("no fit", no_fit);
    return failures > 0;
}

#endif
