// The text about replicas that differ.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

static void value_text(char *out, size_t out_bytes, const char *element, ls_dtype dtype) {
    char value[LS_ELEMENT_TEXT_MAX];
    ls_element_format(value, sizeof value, element, dtype);
    (void)snprintf(out, out_bytes, "%s (bits %0*" PRIx64 ")", value, 2 * (int)ls_dtype_bytes(dtype),
                   ls_element_bits(element, dtype));
}

void ls_replica__report(ls_spmd *run, const ls_replica_difference *d) {
    const ls_comm *comm = d->shared->comm;
    const char *a = d->a, *b = d->b;
    size_t element = ls_dtype_bytes(d->dtype), first = 0, differing = 0;
    for (size_t i = d->elements; i-- > 0;) {
        if (memcmp(a + i * element, b + i * element, element) != 0) {
            first = i;
            differing += 1;
        }
    }
    void *memory = NULL;
    if (ls_alloc(&memory, (size_t)d->count, sizeof(int)) != LS_OK) {
        return;
    }
    int *ranks = memory;
    for (int i = 0; i < d->count; i++) {
        ranks[i] = comm->ranks[d->wrong[i]];
    }
    int at_fault = ranks[0], not_at_fault = comm->ranks[d->right];
    char list[128], has[80], should[80];
    ls_ranks_format(list, sizeof list, ranks, d->count);
    ls_text text = {0};
    ls_text_printf(&text,
                   "replicas on %s differ%s%s: rank%s %s hold%s different bits than %srank %d",
                   comm->name, d->when[0] != '\0' ? " " : "", d->when, d->count > 1 ? "s" : "",
                   list, d->count > 1 ? "" : "s",
                   2 * d->count < comm->size ? "the majority, such as " : "", not_at_fault);
    if (d->elements > 0) {
        value_text(has, sizeof has, a + first * element, d->dtype);
        value_text(should, sizeof should, b + first * element, d->dtype);
        ls_text_printf(&text,
                       "; element %zu of %zu is %s on rank %d, %s on rank %d; %zu elements differ",
                       first, d->elements, has, at_fault, should, not_at_fault, differing);
    }
    ls_text_printf(&text, "\n");
    if (d->declared != NULL) {
        ls_text_printf(&text, "declared as a replica at %s:%d\n", d->declared, d->declared_line);
    }
    // Where a process holds one rank it knows the calls of that one.
    const ls_rank *own = &run->ranks[run->direct ? 0 : at_fault];
    if (own->id == at_fault) {
        ls_findings__history(&text, own, 4);
    }
    (void)ls_findings__add(run, LS_FINDING_REPLICA_DIVERGED, ranks, d->count, d->file, d->line,
                           ls_findings__string(run, &text));
    ls_text_free(&text);
    ls_free(memory, (size_t)d->count, sizeof(int));
}
