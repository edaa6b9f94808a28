// Records the lines from which the members of each communicator matched. crossing.c judges them.
#include "ranks/checks/sites.h"

#include <string.h>

#include "ranks/internal.h"

static ls_site place_of(const ls_call *call) {
    return (ls_site){.file = call->file != NULL ? call->file : "", .line = call->line};
}

static ls_site site_of(const ls_request *request) {
    const ls_call *call = &request->call;
    const char *memory = call->recv != NULL ? call->recv : call->send;
    const ls_allocation *allocation = ls_memory__find(request->rank, memory);
    ls_site site = place_of(call);
    site.count = call->count;
    site.memory = (uintptr_t)memory;
    if (allocation != NULL) {
        site.memory -= (uintptr_t)allocation->start;
        site.allocation = allocation->number;
        site.allocated_file = allocation->file;
        site.allocated_line = allocation->line;
    }
    return site;
}

int ls_sites__select(ls_spmd *run, const char *word) {
    static const char *const words[] = {
        [LS_SITES_CROSSING] = "crossing", [LS_SITES_OFF] = "off", [LS_SITES_STRICT] = "strict"};
    const char *name = ls_finding_name(LS_FINDING_ORDER_MISMATCH);
    size_t length = strlen(name);
    for (int i = 0; i <= (int)LS_SITES_STRICT && strncmp(word, name, length) == 0; i++) {
        if (word[length] == '=' && strcmp(word + length + 1, words[i]) == 0) {
            run->checks[LS_FINDING_ORDER_MISMATCH] = true;
            run->sites = (ls_sites_check)i;
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_NOT_FOUND, "\"%s\": only %s has levels: =off, =crossing or =strict", word,
                   name);
}

static bool is_mixed(const ls_meet *meet) {
    const ls_site first = place_of(&meet->requests[0]->call);
    for (int m = 1; m < meet->shared->comm->size; m++) {
        const ls_site other = place_of(&meet->requests[m]->call);
        if (!ls_sites__same(&first, &other)) {
            return true;
        }
    }
    return false;
}

// ---- Strict: every such meeting is a finding ---------------------------------------------------
static int report_strict(ls_spmd *run, const ls_meet *meet) {
    int size = meet->shared->comm->size, like_first = 0, wrong_count = 0;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(int)));
    int *wrong = memory, wrong_member = -1, right_member = -1;
    const ls_site first = place_of(&meet->requests[0]->call);
    for (int m = 0; m < size; m++) {
        const ls_site site = place_of(&meet->requests[m]->call);
        like_first += ls_sites__same(&first, &site) ? 1 : 0;
    }
    bool first_is_wrong = 2 * like_first < size;
    for (int m = 0; m < size; m++) {
        const ls_site site = place_of(&meet->requests[m]->call);
        if (ls_sites__same(&first, &site) == first_is_wrong) {
            wrong[wrong_count++] = meet->requests[m]->call.rank;
            wrong_member = wrong_member < 0 ? m : wrong_member;
        } else {
            right_member = right_member < 0 ? m : right_member;
        }
    }
    const ls_request *at = meet->requests[wrong_member];
    ls_text text = {0};
    ls_text_printf(&text, "call %llu on %s: the ranks' calls match from different lines\n",
                   (unsigned long long)at->call.seq, at->call.comm->name);
    ls_findings__sides(&text, meet->requests, size);
    ls_findings__history(&text, at->rank, 4);
    ls_findings__history(&text, meet->requests[right_member]->rank, 4);
    (void)ls_findings__add(run, LS_FINDING_ORDER_MISMATCH, wrong, wrong_count, at->call.file,
                           at->call.line, ls_findings__string(run, &text));
    ls_text_free(&text);
    ls_free(memory, (size_t)size, sizeof(int));
    return LS_OK;
}

// ---- Keeping -----------------------------------------------------------------------------------
// Makes room for another round: the older half has been judged together with the newer one.
static int slide(ls_spmd *run, ls_shared_comm *shared) {
    ls_sites *sites = shared->sites;
    LS_TRY(ls_crossing__find(run, shared));
    for (int i = 0; i < LS_SITES_ROUNDS / 2; i++) {
        ls_site_round older = sites->rounds[i];
        sites->rounds[i] = sites->rounds[i + LS_SITES_ROUNDS / 2];
        sites->rounds[i + LS_SITES_ROUNDS / 2] = older;
    }
    sites->count = LS_SITES_ROUNDS / 2;
    return LS_OK;
}

static int keep(ls_spmd *run, const ls_meet *meet, bool mixed) {
    ls_shared_comm *shared = meet->shared;
    void *memory = NULL;
    if (shared->sites == NULL) {
        LS_TRY(ls_alloc(&memory, 1, sizeof(ls_sites)));
        shared->sites = memory;
    }
    ls_sites *sites = shared->sites;
    if (sites->count == LS_SITES_ROUNDS) {
        LS_TRY(slide(run, shared));
    }
    ls_site_round *round = &sites->rounds[sites->count];
    size_t size = (size_t)shared->comm->size;
    if (mixed && round->sites == NULL) {
        LS_TRY(ls_alloc(&memory, size, sizeof(ls_site)));
        round->sites = memory;
    }
    round->mixed = mixed;
    round->call = meet->requests[0]->call;
    round->call.send_counts = NULL;
    round->call.recv_counts = NULL;
    for (size_t m = 0; mixed && m < size; m++) {
        round->sites[m] = site_of(meet->requests[m]);
    }
    sites->count += 1;
    return LS_OK;
}

static int agreed(ls_spmd *run, ls_meet *meet) {
    const ls_request *first = meet->requests[0];
    // Barriers carry nothing that another one could get.
    if (first->front != NULL || run->sites == LS_SITES_OFF ||
        !run->checks[LS_FINDING_ORDER_MISMATCH] || ls_kind_is_ask(first->call.kind) ||
        !ls_collective_has_data(ls_collective_of(first->call.kind))) {
        return LS_OK;
    }
    bool mixed = is_mixed(meet);
    if (run->sites == LS_SITES_STRICT) {
        return mixed ? report_strict(run, meet) : LS_OK;
    }
    return keep(run, meet, mixed);
}

static int ended(ls_spmd *run) {
    for (const ls_shared_comm *at = run->comms; at != NULL; at = at->next) {
        if (at->sites != NULL) {
            LS_TRY(ls_crossing__find(run, at));
        }
    }
    for (const ls_crossing *at = run->crossings; at != NULL; at = at->next) {
        (void)ls_findings__add(run, LS_FINDING_ORDER_MISMATCH, at->ranks, at->rank_count,
                               at->first.file, at->first.line, at->text);
    }
    return LS_OK;
}

static void closed_comm(ls_shared_comm *shared) {
    for (int i = 0; shared->sites != NULL && i < LS_SITES_ROUNDS; i++) {
        ls_free(shared->sites->rounds[i].sites, (size_t)shared->comm->size, sizeof(ls_site));
    }
    ls_free(shared->sites, 1, sizeof(ls_sites));
}

const ls_rank_check ls_rank_check__sites = {
    .agreed = agreed, .ended = ended, .closed_comm = closed_comm};
