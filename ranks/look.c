// Questions about requests, communicators and sites that change nothing.
#include <stdio.h>
#include "ranks/checks/sites.h"
#include <string.h>
#include "ranks/internal.h"

int ls_request__awaited(const ls_request **out, int most, const ls_rank *rank) {
    int count = 0;
    for (const ls_thread *by = &rank->main; by != NULL && count < most; by = by->next) {
        const ls_request *current = by->current;
        if (current != NULL && current->awaited == by && current->state != LS_REQUEST_DONE) {
            out[count++] = current;
        }
    }
    for (const ls_request *at = rank->open; at != NULL && count < most; at = at->next) {
        bool awaited = at->awaited != NULL && at->state != LS_REQUEST_DONE;
        if (awaited && at != at->awaited->current) {
            out[count++] = at;
        }
    }
    return count;
}

bool ls_sites__same(const ls_site *a, const ls_site *b) {
    return a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0);
}

int ls_comm_size(const ls_rank_comm *comm) {
    return comm->shared->comm->size;
}
