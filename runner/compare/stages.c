// The store of stage outputs: entries in order of appearance, found by key through a hash table.
#define _XOPEN_SOURCE 700
#include "runner/compare/stages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "embedding/stages.h"

#define LARGE_BYTES ((size_t)1 << 20)

// A stage output that is mapped from the file.
typedef struct mapped {
    void *data;
    size_t bytes;
    struct mapped *next;
} mapped;

struct ls_stages {
    ls_arena *arena;
    FILE *file;        // of large outputs; NULL: they are in memory
    off_t file_bytes;  // whole pages
    mapped *mapped;
    int ranks;
    size_t bytes;
    ls_stage_entry **entries;  // [capacity], the first `count` in use
    int count;
    int capacity;
    int *slots;           // [slot_count], index + 1 of an entry, 0: empty; open addressing
    uint32_t slot_count;  // a power of two, more than twice `count`
};

int ls_stages_create(ls_stages **out, int ranks) {
    LS_ASSERT(ranks >= 1);
    *out = NULL;
    ls_arena *arena = NULL;
    ls_stages *stages = ls_arena_create_with(&arena, sizeof *stages);
    LS_TRY_MEMORY(stages != NULL);
    stages->arena = arena;
    stages->ranks = ranks;
    *out = stages;
    return LS_OK;
}

void ls_stages_free(ls_stages *stages) {
    if (stages == NULL) {
        return;
    }
    for (const mapped *at = stages->mapped; at != NULL; at = at->next) {
        (void)munmap(at->data, at->bytes);
    }
    if (stages->file != NULL) {
        (void)fclose(stages->file);
    }
    ls_arena_free(stages->arena);
}

int ls_stages_to_file(ls_stages *stages, const char *dir) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/outputs-XXXXXX", dir);
    int made = length > 0 && (size_t)length < sizeof path ? mkstemp(path) : -1;
    if (made < 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot make a file in \"%s\": %s", dir, strerror(errno));
    }
    (void)unlink(path);
    (void)fcntl(made, F_SETFD, FD_CLOEXEC);
    stages->file = fdopen(made, "w+");
    if (stages->file == NULL) {
        (void)close(made);
        return LS_ERR_MEMORY;
    }
    return LS_OK;
}

static int map_output(void **out, ls_stages *stages, const void *data, size_t bytes) {
    off_t page = (off_t)sysconf(_SC_PAGESIZE), at = stages->file_bytes;
    mapped *made = ls_arena_alloc(stages->arena, 1, sizeof *made);
    LS_TRY_MEMORY(made != NULL);
    if (fseeko(stages->file, at, SEEK_SET) != 0 || fwrite(data, bytes, 1, stages->file) != 1 ||
        fflush(stages->file) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot write the outputs: %s", strerror(errno));
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(stages->file), at);
    if (memory == MAP_FAILED) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot map the outputs: %s", strerror(errno));
    }
    *made = (mapped){.data = memory, .bytes = bytes, .next = stages->mapped};
    stages->mapped = made;
    stages->file_bytes = at + ((off_t)bytes + page - 1) / page * page;
    *out = memory;
    return LS_OK;
}

// The slot where `key` is, or the empty one where it belongs.
static uint32_t find_slot(const ls_stages *stages, const char *key) {
    uint32_t slot = ls_random_stream(key) & (stages->slot_count - 1);
    while (stages->slots[slot] != 0 &&
           strcmp(stages->entries[stages->slots[slot] - 1]->key, key) != 0) {
        slot = (slot + 1) & (stages->slot_count - 1);
    }
    return slot;
}

static int grow(ls_stages *stages) {
    int capacity = stages->capacity != 0 ? stages->capacity * 2 : 32;
    ls_stage_entry **entries = ls_arena_alloc(stages->arena, (size_t)capacity, sizeof *entries);
    uint32_t slot_count = (uint32_t)capacity * 4;
    int *slots = ls_arena_alloc(stages->arena, slot_count, sizeof *slots);
    LS_TRY_MEMORY(entries != NULL && slots != NULL);
    if (stages->count > 0) {
        memcpy(entries, stages->entries, (size_t)stages->count * sizeof *entries);
    }
    stages->entries = entries;
    stages->capacity = capacity;
    stages->slots = slots;
    stages->slot_count = slot_count;
    for (int i = 0; i < stages->count; i++) {
        stages->slots[find_slot(stages, entries[i]->key)] = i + 1;
    }
    return LS_OK;
}

static const char *copy_name(ls_stages *stages, const char *name) {
    return name != NULL ? ls_arena_strdup(stages->arena, name) : NULL;
}

static int add_entry(ls_stages *stages, ls_stage_entry **out, const char *key,
                     const ls_stage_output *output) {
    if (stages->count == stages->capacity) {
        LS_TRY(grow(stages));
    }
    ls_stage_entry *entry = ls_arena_alloc(stages->arena, 1, sizeof *entry);
    ls_stage_array *ranks = ls_arena_alloc(stages->arena, (size_t)stages->ranks, sizeof *ranks);
    LS_TRY_MEMORY(entry != NULL && ranks != NULL);
    memcpy(entry->key, key, strlen(key) + 1);
    entry->stage = copy_name(stages, output->stage);
    entry->table = copy_name(stages, output->table);
    entry->feature = copy_name(stages, output->feature);
    entry->field = copy_name(stages, output->field);
    entry->stage_of_tables = output->stage_of_tables;
    entry->field_of_tables = output->field_of_tables;
    entry->step_of_tables = output->step_of_tables;
    entry->dtype = output->dtype;
    entry->reduces = output->reduces;
    entry->roundings = output->roundings;
    entry->ranks = ranks;
    stages->entries[stages->count] = entry;
    stages->count += 1;
    stages->slots[find_slot(stages, key)] = stages->count;
    *out = entry;
    return LS_OK;
}

static int store_output(void *arg, const ls_stage_output *output) {
    ls_stages *stages = arg;
    char key[LS_STAGE_KEY_MAX];
    LS_TRY(ls_stage_key(key, sizeof key, output));
    if (output->rank < 0 || output->rank >= stages->ranks) {
        return LS_FAIL_RANK(LS_ERR_INVALID, output->rank, "%s: rank %d is not among the %d ranks",
                            key, output->rank, stages->ranks);
    }
    size_t count = 0;
    size_t bytes = 0;
    LS_TRY(ls_shape_count(&count, &output->shape));
    LS_TRY(ls_size_mul(&bytes, count, ls_dtype_bytes(output->dtype)));
    ls_stage_entry *entry = (ls_stage_entry *)(uintptr_t)ls_stages_find(stages, key);
    if (entry == NULL) {
        LS_TRY(add_entry(stages, &entry, key, output));
    }
    if (entry->dtype != output->dtype) {
        return LS_FAIL_RANK(LS_ERR_INVALID, output->rank,
                            "%s: rank %d has %s, but an earlier rank has %s", key, output->rank,
                            ls_dtype_name(output->dtype), ls_dtype_name(entry->dtype));
    }
    ls_stage_array *array = &entry->ranks[output->rank];
    if (array->present) {
        return LS_FAIL_RANK(LS_ERR_INVALID, output->rank, "%s: rank %d has it twice", key,
                            output->rank);
    }
    if (output->in_room) {
        array->data = (void *)(uintptr_t)output->data;
    } else if (stages->file != NULL && bytes >= LARGE_BYTES) {
        LS_TRY(map_output(&array->data, stages, output->data, bytes));
    } else {
        array->data = ls_arena_copy(stages->arena, output->data, bytes);
    }
    LS_TRY_MEMORY(array->data != NULL);
    if (output->exact != NULL && output->in_room) {
        array->exact = (double *)(uintptr_t)output->exact;
        array->bounds = (double *)(uintptr_t)output->bounds;
        array->overflow = (unsigned char *)(uintptr_t)output->overflow;
    } else if (output->exact != NULL) {
        array->exact = ls_arena_copy(stages->arena, output->exact, count * sizeof(double));
        array->bounds = ls_arena_copy(stages->arena, output->bounds, count * sizeof(double));
        array->overflow = ls_arena_copy(stages->arena, output->overflow, count);
        LS_TRY_MEMORY(array->exact != NULL && array->bounds != NULL && array->overflow != NULL);
    }
    array->present = true;
    array->shape = output->shape;
    array->count = count;
    entry->reduces = entry->reduces || output->reduces;
    stages->bytes += bytes;
    return LS_OK;
}

static void *room(void *arg, size_t bytes) {
    ls_stages *stages = arg;
    bool to_file = stages->file != NULL && bytes >= LARGE_BYTES;
    return to_file ? NULL : ls_arena_alloc(stages->arena, bytes, 1);
}

ls_stage_sink ls_stages_sink(ls_stages *stages) {
    return (ls_stage_sink){.arg = stages, .emit = store_output, .room = room};
}

// ---- Order --------------------------------------------------------------------------------------
typedef struct place {
    ls_stage_entry *entry;
    int stage, rank, index;
} place;

static int compare_places(const void *a, const void *b) {
    const place *x = a, *y = b;
    int stages = (x->stage > y->stage) - (x->stage < y->stage);
    int ranks = (x->rank > y->rank) - (x->rank < y->rank);
    if (stages != 0) {
        return stages;
    }
    return ranks != 0 ? ranks : x->index - y->index;
}

// The stage's number in a run; a program's tensors come first. *at: the step to try first.
static int stage_number(const ls_stage_entry *entry, const ls_scenario *scenario, int *at) {
    if (!scenario->is_program) {
        return entry->step_of_tables * LS_STAGE_COUNT + entry->stage_of_tables;
    }
    for (int i = 0; i < scenario->step_count; i++) {
        int step = (*at + i) % scenario->step_count;
        if (strcmp(scenario->steps[step].name, entry->stage) == 0) {
            *at = step;
            return 1 + step;
        }
    }
    return 0;
}

int ls_stages_arrange(ls_stages *stages, const ls_scenario *scenario) {
    void *memory = NULL;
    size_t count = (size_t)stages->count;
    LS_TRY(ls_alloc(&memory, count, sizeof(place)));
    place *places = memory;
    for (int i = 0, at = 0; i < stages->count; i++) {
        ls_stage_entry *entry = stages->entries[i];
        places[i] =
            (place){.entry = entry, .stage = stage_number(entry, scenario, &at), .index = i};
        while (!entry->ranks[places[i].rank].present) {
            places[i].rank += 1;
            LS_ASSERT(places[i].rank < stages->ranks);
        }
    }
    qsort(places, count, sizeof *places, compare_places);
    if (count > 0) {
        memset(stages->slots, 0, stages->slot_count * sizeof *stages->slots);
    }
    for (int i = 0; i < stages->count; i++) {
        stages->entries[i] = places[i].entry;
        stages->slots[find_slot(stages, places[i].entry->key)] = i + 1;
    }
    ls_free(memory, count, sizeof(place));
    return LS_OK;
}

int ls_stages_ranks(const ls_stages *stages) {
    return stages->ranks;
}

int ls_stages_count(const ls_stages *stages) {
    return stages->count;
}

const ls_stage_entry *ls_stages_at(const ls_stages *stages, int index) {
    LS_ASSERT(index >= 0 && index < stages->count);
    return stages->entries[index];
}

const ls_stage_entry *ls_stages_find(const ls_stages *stages, const char *key) {
    if (stages->slot_count == 0) {
        return NULL;
    }
    int index = stages->slots[find_slot(stages, key)];
    return index != 0 ? stages->entries[index - 1] : NULL;
}

ls_stage_output ls_stage_entry_output(const ls_stage_entry *entry, int rank) {
    const ls_stage_array *array = &entry->ranks[rank];
    return (ls_stage_output){
        .stage = entry->stage,
        .stage_of_tables = entry->stage_of_tables,
        .field_of_tables = entry->field_of_tables,
        .step_of_tables = entry->step_of_tables,
        .table = entry->table,
        .feature = entry->feature,
        .field = entry->field,
        .rank = rank,
        .dtype = entry->dtype,
        .shape = array->shape,
        .data = array->data,
        .reduces = entry->reduces,
        .roundings = entry->roundings,
    };
}

size_t ls_stages_bytes(const ls_stages *stages) {
    return stages->bytes;
}
