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

// A key value of that kind that is not freed. With `freed`: one that is still in use.
static int keyval_arg(mpi_keyval **out, mpi_where at, mpi_kind kind, int keyval, bool freed) {
    bool known = keyval > MPI_WIN_MODEL && keyval < LS_MPI_KEYVALS && at.me->keyvals != NULL;
    mpi_keyval *of = known ? &at.me->keyvals[keyval] : NULL;
    bool there = of != NULL && (of->used || (freed && is_there(of)));
    *out = there && of->kind == kind ? of : NULL;
    const char *why = keyval > 0 && keyval <= MPI_WIN_MODEL ? "MPI's own" : "not valid";
    if (there) {
        why = "of other objects";
    }
    return *out != NULL ? MPI_SUCCESS
                        : ls_mpi__error(at.me, NULL, MPI_ERR_KEYVAL, at.function,
                                        "the key value %d is %s", keyval, why);
}

static int create(mpi_where at, mpi_kind kind, MPI_Comm_copy_attr_function *copy,
                  MPI_Comm_delete_attr_function *release, int *keyval, void *state) {
    if (at.me->keyvals == NULL) {
        at.me->keyvals = ls_mpi__alloc(LS_MPI_KEYVALS * sizeof(mpi_keyval));
    }
    for (int k = MPI_WIN_MODEL + 1; k < LS_MPI_KEYVALS; k++) {
        mpi_keyval *made = &at.me->keyvals[k];
        if (!is_there(made)) {
            *made = (mpi_keyval){
                .kind = kind, .copy = copy, .release = release, .state = state, .used = true};
            *keyval = k;
            return MPI_SUCCESS;
        }
    }
    return ls_mpi__error(at.me, NULL, MPI_ERR_OTHER, at.function, "more than %d key values",
                         LS_MPI_KEYVALS);
}

static int release_keyval(mpi_where at, mpi_kind kind, int *keyval) {
    mpi_keyval *of;
    MPI_TRY(keyval_arg(&of, at, kind, keyval != NULL ? *keyval : MPI_KEYVAL_INVALID, true));
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

#define REFUSED "a function that deletes an attribute returns %d"
// Where the program's function refuses, that is an error of the object.
static int drop(mpi_where at, int handle, mpi_attribute **which) {
    mpi_attribute *gone = *which;
    mpi_keyval *of = &at.me->keyvals[gone->keyval];
    int status = of->release != NULL ? of->release(handle, gone->keyval, gone->value, of->state)
                                     : MPI_SUCCESS;
    if (status == MPI_SUCCESS) {
        of->references -= 1;
        *which = gone->next;
        free(gone);
        return MPI_SUCCESS;
    }
    const void *object = ls_mpi__handle_get(at.me, of->kind, handle, NULL);
    if (of->kind == MPI_KIND_WIN) {
        return ls_mpi__win_error(at.me, object, status, at.function, REFUSED, status);
    }
    const mpi_comm *comm = of->kind == MPI_KIND_COMM ? object : NULL;
    return ls_mpi__error(at.me, comm, status, at.function, REFUSED, status);
}

int ls_mpi__attribute_set(mpi_where at, mpi_kind kind, int handle, mpi_attribute **list, int keyval,
                          void *value) {
    mpi_keyval *of;
    MPI_TRY(keyval_arg(&of, at, kind, keyval, false));
    mpi_attribute **old = find(list, keyval);
    if (*old != NULL) {
        MPI_TRY(drop(at, handle, old));
    }
    mpi_attribute *made = ls_mpi__alloc(sizeof *made);
    *made = (mpi_attribute){keyval, value, *list};
    of->references += 1;
    *list = made;
    return MPI_SUCCESS;
}

int ls_mpi__attribute_get(mpi_where at, mpi_kind kind, mpi_attribute **list, int keyval,
                          void *value, int *flag) {
    mpi_keyval *of;
    MPI_TRY(keyval_arg(&of, at, kind, keyval, true));
    const mpi_attribute *found = *find(list, keyval);
    *flag = found != NULL ? 1 : 0;
    if (found != NULL) {
        memcpy(value, &found->value, sizeof(void *));
    }
    return MPI_SUCCESS;
}

int ls_mpi__attribute_remove(mpi_where at, mpi_kind kind, int handle, mpi_attribute **list,
                             int keyval) {
    mpi_keyval *key;
    MPI_TRY(keyval_arg(&key, at, kind, keyval, true));
    mpi_attribute **of = find(list, keyval);
    if (*of == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_KEYVAL, at.function, "the attribute is not set");
    }
    return drop(at, handle, of);
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
                return ls_mpi__error(where.me, comm, status, where.function,
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

int ls_mpi__attributes_free(mpi_where at, int handle, mpi_attribute **attributes) {
    while (*attributes != NULL) {
        MPI_TRY(drop(at, handle, attributes));
    }
    return MPI_SUCCESS;
}

// ---- MPI's own ----------------------------------------------------------------------------------
static int tag_ub = 0x3fffffff, host = MPI_PROC_NULL, io = MPI_ANY_SOURCE, global = 1, universe,
           appnum;

static bool predefined(const mpi_rank *me, int keyval, void *value, int *flag) {
    universe = ls_mpi__state.rank_count;
    int *const values[] = {&tag_ub, &host, &io, &global, &universe, ls_mpi__last_code(me), &appnum};
    if (keyval < MPI_TAG_UB || keyval > MPI_APPNUM) {
        return false;
    }
    memcpy(value, &values[keyval - MPI_TAG_UB], sizeof(void *));
    *flag = 1;
    return true;
}

// ---- The functions ------------------------------------------------------------------------------
#define KEYVALS(Kind, kind)                                                                        \
    int MPI_##Kind##_create_keyval(MPI_##Kind##_copy_attr_function *copy,                          \
                                   MPI_##Kind##_delete_attr_function *release, int *keyval,        \
                                   void *state) {                                                  \
        MPI_ENTER_AT(at);                                                                          \
        return create(at, kind, copy, release, keyval, state);                                     \
    }                                                                                              \
    int MPI_##Kind##_free_keyval(int *keyval) {                                                    \
        MPI_ENTER_AT(at);                                                                          \
        return release_keyval(at, kind, keyval);                                                   \
    }
KEYVALS(Comm, MPI_KIND_COMM)
KEYVALS(Type, MPI_KIND_TYPE)
KEYVALS(Win, MPI_KIND_WIN)

#define ATTRIBUTES(Kind, kind, Handle, argument)                                                   \
    int MPI_##Kind##_set_attr(Handle handle, int keyval, void *value) {                            \
        MPI_ENTER_AT(at);                                                                          \
        argument;                                                                                  \
        return ls_mpi__attribute_set(at, kind, handle, &of->attributes, keyval, value);            \
    }                                                                                              \
    int MPI_##Kind##_delete_attr(Handle handle, int keyval) {                                      \
        MPI_ENTER_AT(at);                                                                          \
        argument;                                                                                  \
        return ls_mpi__attribute_remove(at, kind, handle, &of->attributes, keyval);                \
    }
ATTRIBUTES(Comm, MPI_KIND_COMM, MPI_Comm, mpi_comm *of; MPI_TRY(ls_mpi__comm_arg(&of, at, handle)))
ATTRIBUTES(Type, MPI_KIND_TYPE, MPI_Datatype, mpi_type *of;
           MPI_TRY(ls_mpi__type_arg(&of, at, NULL, handle, false));
           of = ls_mpi__type_own(at.me, of))

int MPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    return predefined(at.me, keyval, value, flag)
               ? MPI_SUCCESS
               : ls_mpi__attribute_get(at, MPI_KIND_COMM, &of->attributes, keyval, value, flag);
}

int MPI_Type_get_attr(MPI_Datatype type, int keyval, void *value, int *flag) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, false));
    return ls_mpi__attribute_get(at, MPI_KIND_TYPE, &of->attributes, keyval, value, flag);
}

// The names of MPI 1.
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
