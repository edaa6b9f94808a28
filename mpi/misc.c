// Error codes, info objects and memory of MPI_Alloc_mem.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/image/image.h"
#include "mpi/rma.h"

// ---- Error codes that a rank adds: each is its own class ----------------------------------------
typedef struct mpi_codes {
    int code, class_of;
    char text[MPI_MAX_ERROR_STRING];
    struct mpi_codes *before;  // the codes that were added before
} mpi_codes;

static mpi_codes *own(const mpi_rank *me, int code) {
    mpi_codes *of = me->codes;
    while (of != NULL && of->code != code) {
        of = of->before;
    }
    return of;
}

int *ls_mpi__last_code(const mpi_rank *me) {
    static int none = MPI_ERR_LASTCODE;
    return me->codes != NULL ? &me->codes->code : &none;
}

int MPI_Error_class(int code, int *class_out) {
    bool added = code > MPI_ERR_LASTCODE;
    const mpi_codes *of = added ? own(ls_mpi__enter_any(__func__), code) : NULL;
    *class_out = of != NULL ? of->class_of : code;
    return MPI_SUCCESS;
}

int MPI_Error_string(int code, char *text, int *length) {
    bool added = code > MPI_ERR_LASTCODE;
    const mpi_codes *of = added ? own(ls_mpi__enter_any(__func__), code) : NULL;
    *length = snprintf(text, MPI_MAX_ERROR_STRING, "%s",
                       of != NULL ? of->text : ls_mpi__class_name(code));
    return MPI_SUCCESS;
}

static int add_code(mpi_rank *me, int class_of, int *out) {
    mpi_codes *made = ls_arena_alloc(ls_mpi__state.run->arena, 1, sizeof *made);
    if (made == NULL) {
        return MPI_ERR_OTHER;
    }
    made->before = me->codes;
    *out = made->code = *ls_mpi__last_code(me) + 1;
    made->class_of = class_of < 0 ? *out : class_of;
    me->codes = made;
    return MPI_SUCCESS;
}

int MPI_Add_error_class(int *class_out) {
    MPI_ENTER_ANY(me);
    return add_code(me, -1, class_out);
}

int MPI_Add_error_code(int class_in, int *code) {
    MPI_ENTER_ANY(me);
    return add_code(me, class_in, code);
}

int MPI_Add_error_string(int code, const char *text) {
    mpi_codes *of = own(ls_mpi__enter_any(__func__), code);
    if (of == NULL) {
        return MPI_ERR_ARG;
    }
    (void)snprintf(of->text, sizeof of->text, "%s", text);
    return MPI_SUCCESS;
}

// ---- Info ---------------------------------------------------------------------------------------
typedef struct info_pair {
    char *key, *value;
    struct info_pair *next;
} info_pair;
typedef struct info {
    info_pair *first;
} info;

void ls_mpi__infos_open(mpi_rank *me) {
    ls_mpi__handle_constant(me, MPI_KIND_INFO, 1, ls_mpi__alloc(sizeof(info)));  // MPI_INFO_ENV
}

static int info_arg(info **out, mpi_where at, MPI_Info handle) {
    const char *why;
    *out = ls_mpi__handle_get(at.me, MPI_KIND_INFO, handle, &why);
    return *out != NULL
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, NULL, MPI_ERR_INFO, at.function, "the info is %s", why);
}

static info_pair **find(info *of, const char *key) {
    info_pair **at = &of->first;
    while (*at != NULL && strcmp((*at)->key, key) != 0) {
        at = &(*at)->next;
    }
    return at;
}

int MPI_Info_create(MPI_Info *out) {
    MPI_ENTER_ANY(me);
    *out = ls_mpi__handle_add(me, MPI_KIND_INFO, ls_mpi__alloc(sizeof(info)));
    ls_mpi__handle_slot(me, *out)->function = __func__;
    return MPI_SUCCESS;
}

static void drop_pair(info_pair **at) {
    info_pair *gone = *at;
    *at = gone->next;
    free(gone->key);
    free(gone->value);
    free(gone);
}

int MPI_Info_free(MPI_Info *handle) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle != NULL ? *handle : MPI_INFO_NULL));
    if (*handle == MPI_INFO_ENV) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_INFO, __func__, "MPI_INFO_ENV is not freed");
    }
    while (of->first != NULL) {
        drop_pair(&of->first);
    }
    free(of);
    ls_mpi__handle_free(at.me, *handle);
    *handle = MPI_INFO_NULL;
    return MPI_SUCCESS;
}

int MPI_Info_set(MPI_Info handle, const char *key, const char *value) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle));
    if (key == NULL || value == NULL || strlen(key) > MPI_MAX_INFO_KEY ||
        strlen(value) > MPI_MAX_INFO_VAL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_INFO_KEY, __func__,
                             "the key or the value is NULL or too long");
    }
    info_pair **place = find(of, key);
    if (*place == NULL) {
        *place = ls_mpi__alloc(sizeof **place);
        (*place)->key = strdup(key);
    }
    free((*place)->value);
    (*place)->value = strdup(value);
    return MPI_SUCCESS;
}

int MPI_Info_get(MPI_Info handle, const char *key, int length, char *value, int *flag) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle));
    const info_pair *pair = *find(of, key);
    *flag = pair != NULL ? 1 : 0;
    if (pair != NULL) {
        (void)snprintf(value, (size_t)length + 1, "%s", pair->value);
    }
    return MPI_SUCCESS;
}

int MPI_Info_get_valuelen(MPI_Info handle, const char *key, int *length, int *flag) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle));
    const info_pair *pair = *find(of, key);
    *flag = pair != NULL ? 1 : 0;
    *length = pair != NULL ? (int)strlen(pair->value) : *length;
    return MPI_SUCCESS;
}

// *length: the room, then the size of the value with its terminator.
int MPI_Info_get_string(MPI_Info handle, const char *key, int *length, char *value, int *flag) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle));
    const info_pair *pair = *find(of, key);
    *flag = pair != NULL ? 1 : 0;
    if (pair != NULL) {
        if (*length > 0) {
            (void)snprintf(value, (size_t)*length, "%s", pair->value);
        }
        *length = (int)strlen(pair->value) + 1;
    }
    return MPI_SUCCESS;
}

int MPI_Info_get_nkeys(MPI_Info handle, int *count) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle));
    *count = 0;
    for (const info_pair *pair = of->first; pair != NULL; pair = pair->next) {
        *count += 1;
    }
    return MPI_SUCCESS;
}

int MPI_Info_get_nthkey(MPI_Info handle, int n, char *key) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle));
    const info_pair *pair = of->first;
    for (int i = 0; i < n && pair != NULL; i++) {
        pair = pair->next;
    }
    if (pair == NULL || n < 0) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, __func__, "there is no key %d", n);
    }
    (void)snprintf(key, MPI_MAX_INFO_KEY + 1, "%s", pair->key);
    return MPI_SUCCESS;
}

int MPI_Info_delete(MPI_Info handle, const char *key) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle));
    info_pair **pair = find(of, key);
    if (*pair == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_INFO_NOKEY, __func__, "there is no key %s", key);
    }
    drop_pair(pair);
    return MPI_SUCCESS;
}

int MPI_Info_dup(MPI_Info handle, MPI_Info *out) {
    MPI_ENTER_ANY_AT(at);
    info *of;
    MPI_TRY(info_arg(&of, at, handle));
    MPI_TRY(MPI_Info_create(out));
    for (const info_pair *pair = of->first; pair != NULL; pair = pair->next) {
        MPI_TRY(MPI_Info_set(*out, pair->key, pair->value));
    }
    return MPI_SUCCESS;
}

// ---- Memory -------------------------------------------------------------------------------------
int MPI_Alloc_mem(MPI_Aint size, MPI_Info handle, void *pointer_out) {
    MPI_ENTER_AT(at);
    (void)handle;
    void *memory =
        size >= 0 ? ls_mpi__memory_give((size_t)size, __builtin_return_address(0), LS_MPI_FREE_MEM)
                  : NULL;
    if (memory == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_NO_MEM, __func__, "%ld bytes", (long)size);
    }
    memcpy(pointer_out, &memory, sizeof memory);
    return MPI_SUCCESS;
}

int MPI_Free_mem(void *pointer) {
    MPI_ENTER(me);
    (void)me;
    ls_mpi__memory_take(pointer, __builtin_return_address(0), LS_MPI_FREE_MEM);
    return MPI_SUCCESS;
}
