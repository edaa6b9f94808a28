// Memory, requests and communicators that ranks leave behind, and ranks that died.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/internal.h"

#define LEAK_SITES_MAX 64  // of a rank, that are reported

static int by_number(const void *a, const void *b) {
    const ls_allocation *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static bool same_site(const ls_allocation *a, const ls_allocation *b) {
    return a->line == b->line && strcmp(a->file, b->file) == 0;
}

// Leaks by the places of their allocation, in program order: malloc's addresses have no meaning.
static void leaked_memory(ls_spmd *run, ls_rank *rank) {
    const ls_allocation *sites[LEAK_SITES_MAX];
    int site_count = 0, count = rank->allocation_count;
    if (count > 0) {
        qsort(rank->allocations, (size_t)count, sizeof *rank->allocations, by_number);
    }
    for (int i = 0; i < count && site_count < LEAK_SITES_MAX; i++) {
        const ls_allocation *here = &rank->allocations[i];
        bool told = here->freed || here->let_go;
        for (int k = 0; k < site_count && !told; k++) {
            told = same_site(sites[k], here);
        }
        if (told) {
            continue;
        }
        sites[site_count++] = here;
        size_t bytes = 0, times = 0;
        for (int k = i; k < count; k++) {
            const ls_allocation *other = &rank->allocations[k];
            if (!other->freed && same_site(other, here)) {
                bytes += other->bytes;
                times += 1;
            }
        }
        ls_text text = {0};
        ls_text_printf(&text, "rank %d never freed the %zu bytes that it allocated at %s:%d%s",
                       rank->id, bytes, here->file, here->line, times > 1 ? "" : "\n");
        if (times > 1) {
            ls_text_printf(&text, ", %zu times\n", times);
        }
        (void)ls_findings__add(run, LS_FINDING_HANDLE_LEAK, &rank->id, 1, here->file, here->line,
                               ls_findings__string(run, &text));
        ls_text_free(&text);
    }
}

static bool is_leaked(const ls_request *request) {
    return !request->detached && request->state != LS_REQUEST_GROUPED;
}

// A request that is never waited for and what became of its buffer is one bug.
static bool used_leaked(const ls_spmd *run, int rank, const char *where) {
    const ls_rank *of = &run->ranks[rank];
    for (const ls_request *at = of->exit_status == 0 ? of->open : NULL; at != NULL; at = at->next) {
        char told[LS_CALL_WHERE_MAX + 256];
        (void)snprintf(told, sizeof told, "%s:%d", at->told ? at->told_file : "", at->told_line);
        if (is_leaked(at) && at->told && strcmp(told, where) == 0) {
            return true;
        }
    }
    return false;
}

static void end_of_rank(ls_spmd *run, ls_rank *rank) {
    for (int i = 0; i < rank->allocation_count; i++) {
        if (!rank->allocations[i].freed) {
            ls_memory__check_beside(rank, &rank->allocations[i], rank->file, rank->line);
        }
    }
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        if (is_leaked(at)) {
            (void)ls_findings__add_call(run, LS_FINDING_HANDLE_LEAK, at,
                                        "its request was never waited for%s",
                                        at->told ? ", and its buffer was used meanwhile" : "");
        }
    }
    leaked_memory(run, rank);
}

static int end_of_run(ls_spmd *run) {
    if (run->checks[LS_FINDING_HANDLE_LEAK]) {
        ls_findings__withdraw(run, LS_FINDING_BUFFER_USE_BEFORE_WAIT, used_leaked);
    }
    for (int r = 0; r < run->rank_count; r++) {
        ls_rank *rank = &run->ranks[r];
        if (rank->state == LS_RANK_DIED) {
            ls_text text = {0};
            ls_text_printf(&text, "rank %d died at %s:%d\n", rank->id, rank->file, rank->line);
            ls_findings__history(&text, rank, 4);
            (void)ls_findings__add(run, LS_FINDING_RANK_DIED, &rank->id, 1, rank->file, rank->line,
                                   ls_findings__string(run, &text));
            ls_text_free(&text);
        } else if (rank->exit_status == 0) {
            end_of_rank(run, rank);
        }
    }
    for (const ls_rank_comm *comm = run->handles; comm != NULL; comm = comm->next) {
        const ls_rank *rank = comm->rank;
        if (comm->of_run || comm->destroyed || comm->abandoned || rank->exit_status != 0 ||
            rank->state == LS_RANK_DIED) {
            continue;
        }
        ls_text text = {0};
        ls_text_printf(&text, "rank %d never destroyed the communicator %s, made at %s:%d\n",
                       rank->id, comm->shared->comm->name, comm->file, comm->line);
        (void)ls_findings__add(run, LS_FINDING_HANDLE_LEAK, &rank->id, 1, comm->file, comm->line,
                               ls_findings__string(run, &text));
        ls_text_free(&text);
    }
    return LS_OK;
}

const ls_rank_check ls_rank_check__leaks = {.ended = end_of_run};
