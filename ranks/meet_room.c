// The room of a communicator for calls that wait for others.
#include "ranks/internal.h"

#define ROOM_FIRST 4  // open matches at once: more than one only with asynchronous calls

int ls_meet__open(ls_shared_comm *shared) {
    void *memory = NULL;
    size_t size = (size_t)shared->comm->size;
    LS_TRY(ls_alloc(&memory, size, sizeof(uint64_t)));
    shared->rounds = memory;
    LS_TRY(ls_alloc(&memory, ROOM_FIRST, sizeof(ls_meet *)));
    shared->ring = memory;
    shared->room = ROOM_FIRST;
    LS_TRY(ls_alloc(&memory, size, sizeof(ls_request *)));
    shared->sends = memory;
    LS_TRY(ls_alloc(&memory, size, sizeof(ls_request *)));
    shared->recvs = memory;
    LS_TRY(ls_alloc(&memory, size, sizeof(ls_request *)));
    shared->any = memory;
    return LS_OK;
}

void ls_meet__free(ls_shared_comm *shared, ls_meet *meet) {
    size_t size = (size_t)shared->comm->size;
    ls_free((void *)meet->requests, size, sizeof(ls_request *));
    ls_free((void *)meet->calls, size, sizeof(ls_call *));
    ls_free(meet, 1, sizeof *meet);
}

void ls_meet__close(ls_shared_comm *shared) {
    size_t size = (size_t)shared->comm->size;
    for (uint64_t i = 0; shared->ring != NULL && i < shared->count; i++) {
        ls_meet__free(shared, shared->ring[(shared->base + i) % shared->room]);
    }
    while (shared->free_meets != NULL) {
        ls_meet *next = shared->free_meets->next_free;
        ls_meet__free(shared, shared->free_meets);
        shared->free_meets = next;
    }
    ls_free(shared->rounds, size, sizeof(uint64_t));
    ls_free((void *)shared->ring, shared->room, sizeof(ls_meet *));
    ls_free((void *)shared->sends, size, sizeof(ls_request *));
    ls_free((void *)shared->recvs, size, sizeof(ls_request *));
    ls_free((void *)shared->any, size, sizeof(ls_request *));
    ls_free((void *)shared->keyed, shared->keyed_room, sizeof(ls_request *));
}

ls_meet *ls_meet__at(const ls_shared_comm *shared, uint64_t round) {
    if (round < shared->base || round >= shared->base + shared->count) {
        return NULL;
    }
    return shared->ring[round % shared->room];
}
