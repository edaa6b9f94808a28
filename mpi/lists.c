// The lists of counts, displacements and datatypes of a collective. The program may not change
// them before the call completes, and a change must not affect other ranks.
#include <string.h>

#include "mpi/coll.h"

// The lists that a call reads until it completes.
typedef const void *__attribute__((may_alias)) any_list;
typedef struct list {
    any_list *at;
    size_t bytes;
    MPI_Datatype element;
} list;

static size_t room_of(const list *of) {
    return (of->bytes + sizeof(MPI_Aint) - 1) / sizeof(MPI_Aint) * sizeof(MPI_Aint);
}

static int lists_of(list out[8], mpi_record *record) {
    const mpi_collective *kind = record->collective;
    int n = 0;
    for (int side = 0; side < 2; side++) {
        mpi_side *of = side == 0 ? &record->send : &record->recv;
        size_t blocks = (size_t)ls_mpi__blocks_of(record->comm, kind, side == 0);
        const list all[] = {
            {(any_list *)&of->counts, blocks * sizeof(int), MPI_INT},
            {(any_list *)&of->displs, blocks * sizeof(int), MPI_INT},
            {(any_list *)&of->byte_displs, blocks * sizeof(MPI_Aint), MPI_AINT},
            {(any_list *)&of->types, blocks * sizeof(MPI_Datatype), MPI_INT},
        };
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            if (*all[i].at != NULL && of->buf != MPI_IN_PLACE && blocks > 0) {
                out[n++] = all[i];
            }
        }
    }
    return n;
}

static size_t types_of(mpi_request *request, bool send) {
    const mpi_record *record = &request->record;
    const mpi_side *side = send ? &record->send : &record->recv;
    bool listed = side->types != NULL && side->buf != MPI_IN_PLACE;
    return listed ? (size_t)ls_mpi__blocks_of(record->comm, record->collective, send) : 0;
}

// The other ranks see the lists as they were at the call.
void ls_mpi__lists_copy(mpi_request *request) {
    list all[8];
    size_t bytes = 0;
    int n = lists_of(all, &request->record);
    for (int i = 0; i < n; i++) {
        request->given[i] = *all[i].at;
        bytes += room_of(&all[i]);
    }
    size_t types[2] = {types_of(request, false), types_of(request, true)};
    bytes += (types[0] + types[1] > 0 ? types[0] + types[1] + 2 : 0) * sizeof(mpi_type *);
    char *at = request->lists = bytes > 0 ? ls_mpi__alloc(bytes) : NULL;
    for (int i = 0; i < n; i++) {
        memcpy(at, *all[i].at, all[i].bytes);
        *all[i].at = at;
        at += room_of(&all[i]);
    }
    for (int send = 0; send < 2; send++) {
        mpi_side *side = send ? &request->record.send : &request->record.recv;
        const mpi_type **objects = (const mpi_type **)at;
        for (size_t b = 0; b < types[send]; b++) {
            objects[b] = ls_mpi__block_type(request->record.comm->owner, side, (int)b);
        }
        side->objects = types[send] > 0 ? objects : NULL;
        at += types[send] > 0 ? (types[send] + 1) * sizeof *objects : 0;  // ends with NULL
    }
    ls_mpi__types_use(&request->record);
}

void ls_mpi__lists_own(mpi_rank *me, mpi_request *request) {
    list all[8];
    int n = lists_of(all, &request->record);
    for (int i = 0; i < n; i++) {
        const mpi_type *type = ls_mpi__basic(all[i].element & 0xff);
        request->owned[2 + i] = ls_mpi__own(me, request->given[i], all[i].bytes / type->size, type,
                                            false, request->record.function);
    }
}

int ls_mpi__block_reach_arg(mpi_where at, mpi_comm *comm, const mpi_side *side, int b,
                            const mpi_type *type) {
    ptrdiff_t displ = side->displs != NULL && side->types == NULL ? side->displs[b] : 0, bytes;
    bool fits = side->byte_displs == NULL || ls_mpi__fits(&bytes, side->byte_displs[b], 0, 0);
    size_t elements = (size_t)side->counts[b] + (size_t)(displ < 0 ? -displ : displ);
    return fits ? ls_mpi__reach_arg(at, comm, NULL, elements, type)
                : ls_mpi__error(at.me, comm, MPI_ERR_ARG, at.function,
                                "a displacement does not fit into the address space");
}
