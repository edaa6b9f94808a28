// Handles: indices of the rank's tables. A generation distinguishes a freed handle from its
// successor.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

#define INDEX_BITS      19
#define INDEX_MASK      ((1 << INDEX_BITS) - 1)
#define GENERATION_BITS 8
#define KIND_SHIFT      27

static int number_of(int handle) {
    return handle & INDEX_MASK;
}

static unsigned generation_of(int handle) {
    return (unsigned)handle >> INDEX_BITS & ((1U << GENERATION_BITS) - 1);
}

static int kind_of(int handle) {
    return (int)((unsigned)handle >> KIND_SHIFT);
}

static const char *const kind_names[MPI_KIND_COUNT] = {
    "nothing", "communicator", "group",         "datatype", "operation",
    "request", "window",       "error handler", "info",     "message"};

static const char *const null_names[MPI_KIND_COUNT] = {"0",
                                                       "MPI_COMM_NULL",
                                                       "MPI_GROUP_NULL",
                                                       "MPI_DATATYPE_NULL",
                                                       "MPI_OP_NULL",
                                                       "MPI_REQUEST_NULL",
                                                       "MPI_WIN_NULL",
                                                       "MPI_ERRHANDLER_NULL",
                                                       "MPI_INFO_NULL",
                                                       "MPI_MESSAGE_NULL"};

static void grow(mpi_table *table) {
    int room = table->room == 0 ? 2 * LS_MPI_FIRST_OWN : 2 * table->room;
    mpi_slot *slots = ls_mpi__alloc((size_t)room * sizeof *slots);
    if (table->count > 0) {
        memcpy(slots, table->slots, (size_t)table->count * sizeof *slots);
    }
    free(table->slots);
    table->slots = slots;
    table->room = room;
    table->count = table->count < LS_MPI_FIRST_OWN ? LS_MPI_FIRST_OWN : table->count;
}

int ls_mpi__handle_add(mpi_rank *me, mpi_kind kind, void *object) {
    mpi_table *table = &me->tables[kind];
    int number = table->first_free;
    if (number > 0) {
        table->first_free = table->slots[number].next_free;
    } else {
        if (table->count == table->room) {
            grow(table);
        }
        number = table->count++;
    }
    if (number > INDEX_MASK) {
        ls_mpi__exhausted("more than %d handles of one kind are in use", INDEX_MASK);
    }
    mpi_slot *slot = &table->slots[number];
    slot->object = object;
    slot->generation = (slot->generation + 1) & ((1U << GENERATION_BITS) - 1);
    slot->file = ls_mpi__file;
    slot->line = ls_mpi__line;
    slot->internal = false;
    return (int)((unsigned)kind << KIND_SHIFT | slot->generation << INDEX_BITS | (unsigned)number);
}

void ls_mpi__handle_constant(mpi_rank *me, mpi_kind kind, int number, void *object) {
    mpi_table *table = &me->tables[kind];
    LS_ASSERT(number < LS_MPI_FIRST_OWN);
    if (table->room == 0) {
        grow(table);
    }
    table->slots[number].object = object;
    table->slots[number].file = "";
}

mpi_slot *ls_mpi__handle_slot(mpi_rank *me, int handle) {
    mpi_table *table = &me->tables[kind_of(handle)];
    LS_ASSERT(number_of(handle) < table->count);
    return &table->slots[number_of(handle)];
}

void *ls_mpi__handle_get(mpi_rank *me, mpi_kind kind, int handle, const char **why) {
    static _Thread_local char text[256];
    const char *ignored;
    why = why != NULL ? why : &ignored;
    int is = kind_of(handle), number = number_of(handle);
    const mpi_table *table = &me->tables[kind];
    *why = text;
    if (handle == (int)((unsigned)kind << KIND_SHIFT)) {
        *why = null_names[kind];
        return NULL;
    }
    if (is != (int)kind) {
        bool other = is > 0 && is < MPI_KIND_COUNT;
        (void)snprintf(text, sizeof text, "%s%s, no %s", other ? "a " : "not valid",
                       other ? kind_names[is] : "", kind_names[kind]);
        return NULL;
    }
    if (number >= table->count) {
        *why = "not valid";
        return NULL;
    }
    const mpi_slot *slot = &table->slots[number];
    if (number >= LS_MPI_FIRST_OWN &&
        (slot->object == NULL || slot->generation != generation_of(handle))) {
        if (slot->object == NULL && slot->generation == generation_of(handle)) {
            (void)snprintf(text, sizeof text, "a %s that was freed at %s:%d", kind_names[kind],
                           slot->file, slot->line);
        } else {
            (void)snprintf(text, sizeof text, "a %s that was freed", kind_names[kind]);
        }
        return NULL;
    }
    if (slot->object == NULL) {
        *why = "not valid";
    }
    return slot->object;
}

void ls_mpi__handle_free(mpi_rank *me, int handle) {
    mpi_table *table = &me->tables[kind_of(handle)];
    int number = number_of(handle);
    if (number < LS_MPI_FIRST_OWN) {
        return;
    }
    mpi_slot *slot = &table->slots[number];
    slot->object = NULL;
    slot->file = ls_mpi__file;
    slot->line = ls_mpi__line;
    slot->next_free = table->first_free;
    table->first_free = number;
}

void ls_mpi__handles_close(mpi_rank *me) {
    for (int kind = 0; kind < MPI_KIND_COUNT; kind++) {
        free(me->tables[kind].slots);
        me->tables[kind] = (mpi_table){0};
    }
}
