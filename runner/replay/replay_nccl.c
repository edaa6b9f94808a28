// Replaying a directory of NCCL's results: every entry, their cases, and the summary by group.
#include "runner/replay/replay_nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/kinds.h"
#include "runner/replay/replay_internal.h"
#include "runner/replay/replay_nccl_internal.h"

// ---- All entries --------------------------------------------------------------------------------
typedef struct work {
    const ls_nccl_manifest *manifest;
    const char *dir;
    ls_nccl_verdict *verdicts;
    atomic_size_t next;
} work;

static void *worker(void *arg) {
    work *w = arg;
    for (;;) {
        size_t i = atomic_fetch_add(&w->next, 1);
        if (i >= w->manifest->count) {
            return NULL;
        }
        ls_nccl_entry__replay(&w->verdicts[i], &w->manifest->entries[i], w->dir);
    }
}

static void run_all(work *w, int threads) {
    enum { THREADS_MAX = 8 };
    if (threads <= 0) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        threads = processors > 0 ? (int)processors : 1;
    }
    threads = threads > THREADS_MAX ? THREADS_MAX : threads;
    pthread_t helpers[THREADS_MAX];
    int helper_count = 0;
    while (helper_count + 1 < threads &&
           pthread_create(&helpers[helper_count], NULL, worker, w) == 0) {
        helper_count++;
    }
    (void)worker(w);
    for (int i = 0; i < helper_count; i++) {
        (void)pthread_join(helpers[i], NULL);
    }
}

static int add_case(ls_results *results, const ls_nccl_entry *e, const ls_nccl_verdict *v,
                    const char *dir) {
    ls_arena *arena = results->arena;
    ls_stage_result *stage = ls_arena_alloc(arena, 1, sizeof *stage);
    ls_case_result result = {
        .name = ls_arena_strdup(arena, e->file),
        .file = ls_arena_printf(arena, "%s/%s", dir, e->file),
        .backend = ls_backend_kind_sim.name,
        .real = "recording",
        .class_ = v->class_,
        .seconds = v->seconds,
        .reproduce = ls_result_command(arena, "lockstep replay", dir),
    };
    const char *detail = ls_arena_strdup(arena, ls_text_string(&v->detail));
    bool told = !v->name.failed && !v->order.failed && !v->detail.failed;
    if (!told || stage == NULL || result.name == NULL || result.file == NULL ||
        result.reproduce == NULL || detail == NULL) {
        return LS_ERR_MEMORY;
    }
    if (v->skipped) {
        result.skipped = true;
        result.skip_reason = detail;
        return ls_results_add(results, &result);
    }
    result.pass = v->class_ == LS_CLASS_BIT_EXACT || v->class_ == LS_CLASS_REORDERED ||
                  v->class_ == LS_CLASS_WITHIN_BOUND;
    if (v->class_ == LS_CLASS_ERROR) {
        (void)LS_FAIL(v->status, "%s", detail);  // it was another thread's
        ls_replay__case_error(results, &result);
        return ls_results_add(results, &result);
    }
    *stage = (ls_stage_result){
        .name = ls_arena_strdup(arena, ls_text_string(&v->name)),
        .judge = LS_JUDGE_REAL,
        .class_ = v->class_,
        .elements = v->elements,
        .differing = v->differing,
        .max_ulps = v->max_ulps,
        .bound_ratio = v->bound_ratio,
        .order = ls_arena_strdup(arena, ls_text_string(&v->order)),
        .divergence = v->detail.length > 0 ? detail : NULL,
    };
    if (stage->name == NULL || stage->order == NULL) {
        return LS_ERR_MEMORY;
    }
    result.stages = stage;
    result.stage_count = 1;
    ls_case_result_skip_unjudged(&result);
    return ls_results_add(results, &result);
}

// ---- Summary ------------------------------------------------------------------------------------
static bool same_group(const ls_nccl_entry *a, const ls_nccl_entry *b) {
    return a->world == b->world && strcmp(a->op_name, b->op_name) == 0 && a->dtype == b->dtype &&
           strcmp(a->algo, b->algo) == 0 && strcmp(a->proto, b->proto) == 0 &&
           (a->malformed != NULL) == (b->malformed != NULL);
}

static void write_group(ls_text *out, const work *w, size_t first) {
    size_t counts[LS_CLASS_COUNT] = {0};
    size_t skipped = 0;
    size_t total = 0;
    const ls_nccl_entry *group = &w->manifest->entries[first];
    for (size_t i = first; i < w->manifest->count; i++) {
        if (same_group(group, &w->manifest->entries[i])) {
            total++;
            skipped += w->verdicts[i].skipped ? 1 : 0;
            counts[w->verdicts[i].class_] += w->verdicts[i].skipped ? 0 : 1;
        }
    }
    if (group->malformed != NULL) {
        ls_text_printf(out, "malformed entries: %zu\n", total);
        return;
    }
    ls_text_printf(out, "world %d  %-14s  %-4s  %-4s  %-6s  %4zu:", group->world, group->op_name,
                   ls_dtype_name(group->dtype), group->algo, group->proto, total);
    const char *separator = " ";
    for (int c = 0; c < LS_CLASS_COUNT; c++) {
        if (counts[c] > 0) {
            ls_text_printf(out, "%s%zu %s", separator, counts[c], ls_class_name((ls_class)c));
            separator = ", ";
        }
    }
    if (skipped > 0) {
        ls_text_printf(out, "%s%zu skipped", separator, skipped);
    }
    ls_text_puts(out, "\n");
}

static void write_summary(ls_text *out, const work *w) {
    size_t count = w->manifest->count;
    for (size_t i = 0; i < count; i++) {
        bool seen = false;
        for (size_t before = 0; before < i && !seen; before++) {
            seen = same_group(&w->manifest->entries[before], &w->manifest->entries[i]);
        }
        if (!seen) {
            write_group(out, w, i);
        }
    }
    for (size_t i = 0; i < count; i++) {
        const ls_nccl_verdict *v = &w->verdicts[i];
        if (v->skipped || v->class_ != LS_CLASS_BIT_EXACT) {
            ls_text_printf(out, "\n%s: %s\n", w->manifest->entries[i].file,
                           v->skipped ? "skipped" : ls_class_name(v->class_));
            if (v->order.length > 0) {
                ls_text_printf(out, "  order %s\n", ls_text_string(&v->order));
            }
            ls_text_printf(out, "  %s\n", ls_text_string(&v->detail));
        }
    }
}

static bool is_named(const void *manifest, const char *file) {
    const ls_nccl_manifest *m = manifest;
    for (size_t i = 0; i < m->count; i++) {
        if (strcmp(m->entries[i].file, file) == 0) {
            return true;
        }
    }
    return false;
}

int ls_replay_nccl(ls_results *results, ls_text *summary, const char *dir, int threads) {
    LS_ASSERT(results != NULL && dir != NULL);
    ls_nccl_manifest manifest;
    LS_TRY(ls_nccl_manifest__read(&manifest, dir));
    void *memory = NULL;
    int status = ls_alloc(&memory, NULL, manifest.count, sizeof(ls_nccl_verdict));
    work w = {.manifest = &manifest, .dir = dir, .verdicts = memory};
    if (status == LS_OK) {
        run_all(&w, threads);
        for (size_t i = 0; i < manifest.count && status == LS_OK; i++) {
            const ls_nccl_entry *e = &manifest.entries[i];
            status = add_case(results, e, &w.verdicts[i], dir);
            if (status == LS_OK) {
                status = ls_replay__not_replayed(results, e->file, "unknown", dir, e->unknown);
            }
        }
        if (status == LS_OK) {
            status = ls_replay__unnamed(results, dir, is_named, &manifest);
        }
        if (summary != NULL) {
            write_summary(summary, &w);
        }
        for (size_t i = 0; i < manifest.count; i++) {
            ls_text_free(&w.verdicts[i].name);
            ls_text_free(&w.verdicts[i].order);
            ls_text_free(&w.verdicts[i].detail);
        }
    }
    ls_free(NULL, memory, manifest.count, sizeof(ls_nccl_verdict));
    ls_nccl_manifest__free(&manifest);
    return status;
}
