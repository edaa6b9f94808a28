// Communicators: queries, construction and freeing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/coll.h"

#define ASK(name, parameters, place, statement)                                                    \
    int name parameters {                                                                          \
        MPI_ENTER_AT(at);                                                                          \
        mpi_comm *of;                                                                              \
        MPI_TRY(ls_mpi__comm_arg(&of, at, comm));                                                  \
        MPI_TRY(ls_mpi__out_arg(at, #place, place));                                               \
        statement;                                                                                 \
        return MPI_SUCCESS;                                                                        \
    }

ASK(MPI_Comm_size, (MPI_Comm comm, int *size), size, *size = of->size)
ASK(MPI_Comm_rank, (MPI_Comm comm, int *rank), rank, *rank = of->rank)
ASK(MPI_Comm_test_inter, (MPI_Comm comm, int *flag), flag, *flag = of->inter ? 1 : 0)
ASK(MPI_Comm_set_name, (MPI_Comm comm, const char *name), name,
    (void)snprintf(of->name, sizeof of->name, "%s", name))
ASK(MPI_Comm_get_name, (MPI_Comm comm, char *name, int *length), name,
    *length = snprintf(name, MPI_MAX_OBJECT_NAME, "%s", of->name))
ASK(MPI_Comm_get_info, (MPI_Comm comm, MPI_Info *info), info, MPI_TRY(MPI_Info_create(info)))

int MPI_Comm_set_info(MPI_Comm comm, MPI_Info info) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    (void)info;
    return ls_mpi__comm_arg(&of, at, comm);
}

int MPI_Comm_remote_size(MPI_Comm comm, int *size) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    *size = of->remote_size;
    return of->inter ? MPI_SUCCESS
                     : ls_mpi__error(at.me, of, MPI_ERR_COMM, __func__,
                                     "the communicator is not an intercommunicator");
}

int MPI_Comm_get_parent(MPI_Comm *parent) {
    MPI_ENTER(me);
    (void)me;
    *parent = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

// ---- Making -------------------------------------------------------------------------------------
static const mpi_collective making = {.name = "a new communicator", .make = ls_mpi__make_comms};

static int make(mpi_where at, const mpi_record *record, MPI_Request *request) {
    MPI_TRY(ls_mpi__out_arg(at, "communicator", record->out));
    return ls_mpi__collective(at.me, record, request);
}

static int duplicate(mpi_where at, MPI_Comm comm, MPI_Comm *out, MPI_Request *request) {
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    mpi_record record = {.collective = &making,
                         .comm = of,
                         .function = at.function,
                         .key = of->rank,
                         .out = out,
                         .topology = of->topology};
    if (request != NULL) {  // MPI 3.1, 6.4.2: the attributes of this moment
        MPI_TRY(ls_mpi__attributes_copy(at, of, comm, of->attributes, &record.attributes));
    }
    MPI_TRY(make(at, &record, request));
    if (request == NULL) {
        mpi_comm *made = ls_mpi__handle_get(at.me, MPI_KIND_COMM, *out, NULL);
        int status = ls_mpi__attributes_copy(at, of, comm, of->attributes, &made->attributes);
        if (status != MPI_SUCCESS) {  // the program has nothing to free
            ls_mpi__handle_slot(at.me, *out)->internal = true;
            *out = MPI_COMM_NULL;
        }
        return status;
    }
    return MPI_SUCCESS;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    return duplicate(at, comm, out, NULL);
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    (void)info;
    return duplicate(at, comm, out, NULL);
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *out, MPI_Request *request) {
    MPI_ENTER_AT(at);
    return duplicate(at, comm, out, request);
}

int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *out, MPI_Request *request) {
    MPI_ENTER_AT(at);
    (void)info;
    return duplicate(at, comm, out, request);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    if (color < 0 && color != MPI_UNDEFINED) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__, "color %d", color);
    }
    const mpi_record record = {.collective = &making,
                               .comm = of,
                               .function = __func__,
                               .color = color,
                               .key = key,
                               .out = out};
    return make(at, &record, NULL);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    (void)info;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    MPI_TRY(ls_mpi__out_arg(at, "communicator", out));
    if (type != MPI_COMM_TYPE_SHARED && type != MPI_UNDEFINED) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__, "split type %d", type);
    }
    const mpi_record record = {.collective = &making,
                               .comm = of,
                               .function = __func__,
                               .color = type == MPI_UNDEFINED ? MPI_UNDEFINED : 0,
                               .key = key,
                               .out = out};
    return make(at, &record, NULL);
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    mpi_group *list;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    MPI_TRY(ls_mpi__group_arg(&list, at, group));
    mpi_group *all = ls_mpi__group_of(of, false);
    for (int i = 0; i < list->size; i++) {
        if (ls_mpi__group_rank(all, list->ranks[i]) < 0) {
            free(all);
            return ls_mpi__error(at.me, of, MPI_ERR_GROUP, __func__,
                                 "rank %d of MPI_COMM_WORLD is in the group, and not in the "
                                 "communicator",
                                 list->ranks[i]);
        }
    }
    free(all);
    int own = ls_mpi__group_rank(list, at.me->id);
    // Disjoint groups may construct at the same time: the lowest rank of each is its color.
    int color = MPI_UNDEFINED;
    if (own != MPI_UNDEFINED) {
        color = of->inter ? 0 : list->ranks[0];
    }
    const mpi_record record = {.collective = &making,
                               .comm = of,
                               .function = __func__,
                               .color = color,
                               .key = own,
                               .group = list,
                               .out = out};
    return make(at, &record, NULL);
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    mpi_group *list;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    MPI_TRY(ls_mpi__group_arg(&list, at, group));
    MPI_TRY(ls_mpi__out_arg(at, "communicator", out));
    *out = MPI_COMM_NULL;
    if (ls_mpi__group_rank(list, at.me->id) < 0) {
        return MPI_SUCCESS;
    }
    return ls_mpi__comm_pending(at.me, of, list->ranks, list->size, list->size, tag, __func__, out);
}

static int release(mpi_where at, MPI_Comm *comm) {
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm != NULL ? *comm : MPI_COMM_NULL));
    if (of == at.me->world || of == at.me->self) {
        return ls_mpi__error(at.me, of, MPI_ERR_COMM, at.function, "%s cannot be freed", of->name);
    }
    MPI_TRY(ls_mpi__attributes_free(at, *comm, &of->attributes));
    ls_mpi__handle_free(at.me, *comm);  // calls in flight keep the object
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *comm) {
    MPI_ENTER_AT(at);
    return release(at, comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm) {
    MPI_ENTER_AT(at);
    return release(at, comm);
}

// ---- Intercommunicators -------------------------------------------------------------------------
int MPI_Intercomm_create(MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader,
                         int tag, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    const char *file = ls_mpi__file;
    int line = ls_mpi__line;
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, local));
    MPI_TRY(ls_mpi__out_arg(at, "communicator", out));
    if (local_leader < 0 || local_leader >= of->size || of->inter) {
        return ls_mpi__error(at.me, of, of->inter ? MPI_ERR_COMM : MPI_ERR_RANK, __func__,
                             "local leader %d of a communicator of %d", local_leader, of->size);
    }
    // The leaders exchange their groups and broadcast the remote one.
    int size = of->size, remote_size = 0;
    mpi_group *own = ls_mpi__group_of(of, false);
    int *remote = NULL;
    MPI_Status status;
    if (of->rank == local_leader) {
        MPI_TRY(MPI_Sendrecv(&size, 1, MPI_INT, remote_leader, tag, &remote_size, 1, MPI_INT,
                             remote_leader, tag, peer, &status));
        remote = ls_mpi__alloc((size_t)remote_size * sizeof *remote);
        MPI_TRY(MPI_Sendrecv(own->ranks, size, MPI_INT, remote_leader, tag, remote, remote_size,
                             MPI_INT, remote_leader, tag, peer, &status));
    }
    MPI_TRY(MPI_Bcast(&remote_size, 1, MPI_INT, local_leader, local));
    if (remote == NULL) {
        remote = ls_mpi__alloc((size_t)remote_size * sizeof *remote);
    }
    MPI_TRY(MPI_Bcast(remote, remote_size, MPI_INT, local_leader, local));
    ls_mpi_at(file, line);
    int *all = ls_mpi__alloc((size_t)(size + remote_size) * sizeof *all);
    bool first = own->ranks[0] < remote[0];
    memcpy(all + (first ? 0 : remote_size), own->ranks, (size_t)size * sizeof *all);
    memcpy(all + (first ? size : 0), remote, (size_t)remote_size * sizeof *all);
    for (int i = 0; i < remote_size; i++) {
        if (ls_mpi__group_rank(own, remote[i]) >= 0) {
            return ls_mpi__error(at.me, of, MPI_ERR_COMM, __func__,
                                 "rank %d of MPI_COMM_WORLD is in both groups", remote[i]);
        }
    }
    int result = ls_mpi__comm_pending(at.me, NULL, all, size + remote_size,
                                      first ? size : remote_size, tag, __func__, out);
    free(all);
    free(remote);
    free(own);
    return result;
}

int MPI_Intercomm_merge(MPI_Comm inter, int high, MPI_Comm *out) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, inter));
    if (!of->inter) {
        return ls_mpi__error(at.me, of, MPI_ERR_COMM, __func__,
                             "the communicator is not an intercommunicator");
    }
    const mpi_record record = {.collective = &making,
                               .comm = of,
                               .function = __func__,
                               .key = (high != 0 ? 1 << 20 : 0) + (of->first == 0 ? 0 : 1 << 19) +
                                      of->rank,
                               .merges = true,
                               .out = out};
    return make(at, &record, NULL);
}
