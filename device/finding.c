// Makes the findings of device code. Each names the rank, the block and the warp of an access.
#include <stdarg.h>
#include <stdio.h>

#include "device/internal.h"

void ls_device__who(ls_text *text, const device_unit *unit, uint32_t tick) {
    bool past = tick < unit->since;
    int block = past ? unit->past_block : unit->block, warp = past ? unit->past_warp : unit->warp;
    ls_text_printf(text, "rank %d", unit->rank);
    if (past && tick < unit->past_since) {
        ls_text_puts(text, ", a block that has ended");
    } else if (block >= 0) {
        ls_text_printf(text, ", block %d, warp %d", block, warp);
    } else {
        ls_text_puts(text, block == -1 ? ", host" : ", stream");
    }
}

typedef struct found {
    ls_finding_id id;
    const int *ranks;
    int count;
    ls_cuda_site at;
    ls_text *text;
} found;

static void add_finding(void *arg) {
    const found *what = arg;
    ls_rank *self = ls_device__state.rank;
    ls_text_puts(what->text, "\n");
    ls_schedule__enter(self);
    (void)ls_findings__add(self->run, what->id, what->ranks, what->count,
                           what->at.file != NULL ? what->at.file : "", what->at.line,
                           ls_findings__string(self->run, what->text));
    ls_schedule__leave(self);
    ls_text_free(what->text);
}

void ls_device__find(ls_finding_id id, const int *ranks, int count, ls_cuda_site at,
                     ls_text *text) {
    found what = {id, ranks, count, at, text};
    ls_device__with_stack(add_finding, &what);
}

void ls_device__race(const int ranks[2], ls_cuda_site at, ls_text *text) {
    ls_device__find(LS_FINDING_RMA_RACE, ranks, ranks[0] == ranks[1] ? 1 : 2, at, text);
}

void ls_device__invalid(int rank, ls_cuda_site at, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ls_text text = {0};
    ls_text_puts(&text, line);
    ls_device__find(LS_FINDING_CALL_INVALID, &rank, 1, at, &text);
}

void ls_device__fail(int status, const char *why) {
    ls_rank *self = ls_device__state.rank;
    ls_schedule__enter(self);
    ls_spmd__fail(self->run, status, why);
    ls_schedule__leave(self);
    ls_device__state.over = true;
}
