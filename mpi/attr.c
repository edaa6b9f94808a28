// Attributes of communicators, datatypes and windows.
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

int ls_mpi_dup_fn(int handle, int keyval, void *state, void *value_in, void *value_out, int *flag) {
    (void)handle;
    (void)keyval;
    (void)state;
    memcpy(value_out, &value_in, sizeof(void *));
    *flag = 1;
    return MPI_SUCCESS;
}

static bool is_there(const mpi_keyval *of) {
    return of->used || of->references > 0;
}

// One that is not freed, or (freed) one that is in use still.
static mpi_keyval *keyval_of(mpi_rank *me, int keyval, bool freed) {
    bool known = keyval > MPI_WIN_MODEL && keyval < LS_MPI_KEYVALS && me->keyvals != NULL;
    mpi_keyval *of = known ? &me->keyvals[keyval] : NULL;
    return of != NULL && (of->used || (freed && is_there(of))) ? of : NULL;
}

static int create(mpi_where at, MPI_Comm_copy_attr_function *copy,
                  MPI_Comm_delete_attr_function *release, int *keyval, void *state) {
    if (at.me->keyvals == NULL) {
        at.me->keyvals = ls_mpi__alloc(LS_MPI_KEYVALS * sizeof(mpi_keyval));
    }
    for (int k = MPI_WIN_MODEL + 1; k < LS_MPI_KEYVALS; k++) {
        mpi_keyval *made = &at.me->keyvals[k];
        if (!is_there(made)) {
            *made = (mpi_keyval){.copy = copy, .release = release, .state = state, .used = true};
            *keyval = k;
            return MPI_SUCCESS;
        }
    }
    return ls_mpi__error(at.me, NULL, MPI_ERR_OTHER, at.function, "more than %d key values",
                         LS_MPI_KEYVALS);
}

static int release_keyval(mpi_where at, int *keyval) {
    mpi_keyval *of = keyval_of(at.me, keyval != NULL ? *keyval : MPI_KEYVAL_INVALID, true);
    if (of == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_KEYVAL, at.function,
                             "the key value is not valid");
    }
    of->used = false;  // attributes that are set keep their functions
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

static mpi_attribute **find(mpi_attribute **list, int keyval) {
    while (*list != NULL && (*list)->keyval != keyval) {
        list = &(*list)->next;
    }
    return list;
}

static int drop(mpi_rank *me, int handle, mpi_attribute **at) {
    mpi_attribute *gone = *at;
    mpi_keyval *of = &me->keyvals[gone->keyval];
    int status = of->release != NULL ? of->release(handle, gone->keyval, gone->value, of->state)
                                     : MPI_SUCCESS;
    if (status == MPI_SUCCESS) {
        of->references -= 1;
        *at = gone->next;
        free(gone);
    }
    return status;
}

static int set(mpi_where at, int handle, mpi_attribute **list, int keyval, void *value) {
    if (keyval_of(at.me, keyval, false) == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_KEYVAL, at.function, "the key value %d is %s",
                             keyval,
                             keyval > 0 && keyval <= MPI_WIN_MODEL ? "MPI's own" : "not valid");
    }
    mpi_attribute **old = find(list, keyval);
    if (*old != NULL) {
        MPI_TRY(drop(at.me, handle, old));
    }
    mpi_attribute *made = ls_mpi__alloc(sizeof *made);
    *made = (mpi_attribute){keyval, value, *list};
    at.me->keyvals[keyval].references += 1;
    *list = made;
    return MPI_SUCCESS;
}

static void get(mpi_attribute **list, int keyval, void *value, int *flag) {
    mpi_attribute **at = find(list, keyval);
    *flag = *at != NULL ? 1 : 0;
    if (*at != NULL) {
        memcpy(value, &(*at)->value, sizeof(void *));
    }
}

static int remove_one(mpi_where at, int handle, mpi_attribute **list, int keyval) {
    mpi_attribute **of = find(list, keyval);
    if (*of == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_KEYVAL, at.function, "the attribute is not set");
    }
    return drop(at.me, handle, of);
}

int ls_mpi__attributes_copy(mpi_where where, const mpi_comm *comm, int old_handle,
                            const mpi_attribute *from, mpi_attribute **to) {
    for (const mpi_attribute *at = from; at != NULL; at = at->next) {
        mpi_keyval *of = &where.me->keyvals[at->keyval];
        void *value = NULL;
        int flag = 0;
        if (of->copy != NULL) {
            int status = of->copy(old_handle, at->keyval, of->state, at->value, &value, &flag);
            if (status != MPI_SUCCESS) {
                return ls_mpi__error(where.me, comm, MPI_ERR_OTHER, where.function,
                                     "a function that copies an attribute returns %d", status);
            }
        }
        if (flag != 0) {
            mpi_attribute *made = ls_mpi__alloc(sizeof *made);
            *made = (mpi_attribute){at->keyval, value, NULL};
            of->references += 1;
            mpi_attribute **end = to;
            while (*end != NULL) {
                end = &(*end)->next;
            }
            *end = made;
        }
    }
    return MPI_SUCCESS;
}

int ls_mpi__attributes_free(mpi_rank *me, int handle, mpi_attribute **attributes) {
    while (*attributes != NULL) {
        int status = drop(me, handle, attributes);
        if (status != MPI_SUCCESS) {
            return ls_mpi__error(me, NULL, MPI_ERR_OTHER, "an attribute's delete function",
                                 "it returns %d", status);
        }
    }
    return MPI_SUCCESS;
}

// ---- MPI's own ----------------------------------------------------------------------------------
static int tag_ub = 0x3fffffff, host = MPI_PROC_NULL, io = MPI_ANY_SOURCE, global = 1, universe,
           appnum, last_code = MPI_ERR_LASTCODE;

static bool predefined(int keyval, void *value, int *flag) {
    universe = ls_mpi__state.rank_count;
    int *const values[] = {&tag_ub, &host, &io, &global, &universe, &last_code, &appnum};
    if (keyval < MPI_TAG_UB || keyval > MPI_APPNUM) {
        return false;
    }
    memcpy(value, &values[keyval - MPI_TAG_UB], sizeof(void *));
    *flag = 1;
    return true;
}

// ---- The functions ------------------------------------------------------------------------------
#define KEYVALS(Kind)                                                                              \
    int MPI_##Kind##_create_keyval(MPI_##Kind##_copy_attr_function *copy,                          \
                                   MPI_##Kind##_delete_attr_function *release, int *keyval,        \
                                   void *state) {                                                  \
        mpi_where at = {ls_mpi__enter(__func__), __func__};                                        \
        return create(at, copy, release, keyval, state);                                           \
    }                                                                                              \
    int MPI_##Kind##_free_keyval(int *keyval) {                                                    \
        mpi_where at = {ls_mpi__enter(__func__), __func__};                                        \
        return release_keyval(at, keyval);                                                         \
    }
KEYVALS(Comm)
KEYVALS(Type)
KEYVALS(Win)

#define ATTRIBUTES(Kind, Handle, argument)                                                         \
    int MPI_##Kind##_set_attr(Handle handle, int keyval, void *value) {                            \
        mpi_where at = {ls_mpi__enter(__func__), __func__};                                        \
        argument;                                                                                  \
        return set(at, handle, &of->attributes, keyval, value);                                    \
    }                                                                                              \
    int MPI_##Kind##_delete_attr(Handle handle, int keyval) {                                      \
        mpi_where at = {ls_mpi__enter(__func__), __func__};                                        \
        argument;                                                                                  \
        return remove_one(at, handle, &of->attributes, keyval);                                    \
    }
ATTRIBUTES(Comm, MPI_Comm, mpi_comm *of; MPI_TRY(ls_mpi__comm_arg(&of, at, handle)))
ATTRIBUTES(Type, MPI_Datatype, mpi_type *of;
           MPI_TRY(ls_mpi__type_arg(&of, at, NULL, handle, false)))

int MPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag) {
    mpi_where at = {ls_mpi__enter(__func__), __func__};
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    if (!predefined(keyval, value, flag)) {
        get(&of->attributes, keyval, value, flag);
    }
    return MPI_SUCCESS;
}

int MPI_Type_get_attr(MPI_Datatype type, int keyval, void *value, int *flag) {
    mpi_where at = {ls_mpi__enter(__func__), __func__};
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, false));
    get(&of->attributes, keyval, value, flag);
    return MPI_SUCCESS;
}

int ls_mpi__attribute_set(mpi_where at, int handle, mpi_attribute **list, int keyval, void *value) {
    return set(at, handle, list, keyval, value);
}

int ls_mpi__attribute_remove(mpi_where at, int handle, mpi_attribute **list, int keyval) {
    return remove_one(at, handle, list, keyval);
}

void ls_mpi__attribute_get(mpi_attribute **list, int keyval, void *value, int *flag) {
    get(list, keyval, value, flag);
}

// Names of MPI 1.
int MPI_Keyval_create(MPI_Copy_function *copy, MPI_Delete_function *release, int *keyval,
                      void *state) {
    return MPI_Comm_create_keyval(copy, release, keyval, state);
}

int MPI_Keyval_free(int *keyval) {
    return MPI_Comm_free_keyval(keyval);
}

int MPI_Attr_put(MPI_Comm comm, int keyval, void *value) {
    return MPI_Comm_set_attr(comm, keyval, value);
}

int MPI_Attr_get(MPI_Comm comm, int keyval, void *value, int *flag) {
    return MPI_Comm_get_attr(comm, keyval, value, flag);
}

int MPI_Attr_delete(MPI_Comm comm, int keyval) {
    return MPI_Comm_delete_attr(comm, keyval);
}
