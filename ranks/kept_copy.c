// Copies of counts that a call still needs after its caller has returned.
#include <string.h>

#include "ranks/internal.h"

void *ls_kept__copy(ls_request *request, const void *data, size_t bytes) {
    void *memory = NULL;
    size_t whole = 0;
    if (ls_size_add(&whole, sizeof(ls_kept), bytes) != LS_OK ||
        ls_alloc(&memory, 1, whole) != LS_OK) {
        return NULL;
    }
    ls_kept *kept = memory;
    *kept = (ls_kept){.next = request->kept, .bytes = bytes};
    memcpy(kept + 1, data, bytes);
    request->kept = kept;
    return kept + 1;
}

void ls_kept__drop(ls_request *request) {
    while (request->kept != NULL) {
        ls_kept *kept = request->kept;
        request->kept = kept->next;
        ls_free(kept, 1, sizeof *kept + kept->bytes);
    }
    request->call.send_counts = NULL;
    request->call.recv_counts = NULL;
}
