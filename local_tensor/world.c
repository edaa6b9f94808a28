// The world: what the ranks of one program share.
#include "local_tensor/internal.h"

#include <string.h>

// Checks that ranks ascend and are in [0, size).
static int check_held(const int *held, int held_count, int size) {
    if (held_count < 1) {
        return LS_FAIL(LS_ERR_INVALID, "a process must hold at least one rank");
    }
    for (int i = 0; i < held_count; i++) {
        if (held[i] < 0 || held[i] >= size) {
            return LS_FAIL_RANK(LS_ERR_INVALID, held[i],
                                "the held rank %d is not one of the world's %d ranks", held[i],
                                size);
        }
        if (i > 0 && held[i] <= held[i - 1]) {
            return LS_FAIL_RANK(LS_ERR_INVALID, held[i],
                                "held ranks must ascend: rank %d comes after rank %d", held[i],
                                held[i - 1]);
        }
    }
    return LS_OK;
}

static int fill_held(ls_world *world, const int *held) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)world->held_count, sizeof(int)));
    world->held = memory;
    for (int i = 0; i < world->held_count; i++) {
        world->held[i] = held != NULL ? held[i] : i;
    }
    if (world->held_count == world->size) {
        return LS_OK;
    }
    LS_TRY(ls_alloc(&memory, (size_t)world->size, sizeof(int)));
    world->index = memory;
    for (int rank = 0; rank < world->size; rank++) {
        world->index[rank] = -1;
    }
    for (int i = 0; i < world->held_count; i++) {
        world->index[world->held[i]] = i;
    }
    return LS_OK;
}

int ls_world_create(ls_world **out, const ls_world_options *given) {
    return ls_world_create_on(out, given, NULL);
}

int ls_world_create_on(ls_world **out, const ls_world_options *given, ls_device *device) {
    LS_ASSERT(out != NULL && given != NULL);
    *out = NULL;
    int size = 0;
    ls_world_options own;
    const ls_world_options *options = &own;
    LS_TRY(ls_options_take(&own, sizeof own, given));
    if (ls_mesh_size(&size, &options->mesh) != LS_OK) {
        return ls_error_wrap("world");
    }
    if (options->held != NULL && check_held(options->held, options->held_count, size) != LS_OK) {
        return ls_error_wrap("world");
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_world)));
    ls_world *world = memory;
    world->mesh = options->mesh;
    world->size = size;
    world->seed = options->seed;
    world->held_count = options->held != NULL ? options->held_count : size;
    world->device = device != NULL ? device : ls_device_host();
    atomic_init(&world->tensors, 0);
    int status = fill_held(world, options->held);
    if (status != LS_OK) {
        ls_world_free(world);
        return status;
    }
    *out = world;
    return LS_OK;
}

void ls_world_free(ls_world *world) {
    if (world == NULL) {
        return;
    }
    LS_ASSERT(atomic_load(&world->tensors) == 0);
    ls_free(world->index, (size_t)world->size, sizeof(int));
    ls_free(world->held, (size_t)world->held_count, sizeof(int));
    ls_free(world, 1, sizeof *world);
}

const ls_mesh *ls_world_mesh(const ls_world *world) {
    return &world->mesh;
}

int ls_world_size(const ls_world *world) {
    return world->size;
}

int ls_world_held_count(const ls_world *world) {
    return world->held_count;
}

const int *ls_world_held(const ls_world *world) {
    return world->held;
}

int ls_world_held_index(const ls_world *world, int rank) {
    if (rank < 0 || rank >= world->size) {
        return -1;
    }
    return world->index != NULL ? world->index[rank] : rank;
}

uint64_t ls_world_seed(const ls_world *world) {
    return world->seed;
}

void ls_world_set_gate(ls_world *world, ls_memory_gate gate, void *arg) {
    world->gate = gate;
    world->gate_arg = arg;
}

int ls_world_ask_gate(const ls_world *world, size_t bytes) {
    return world->gate != NULL ? world->gate(world->gate_arg, bytes) : LS_OK;
}
