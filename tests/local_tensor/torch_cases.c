// Compares lockstep's shards with PyTorch's from a file of cases.
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "local_tensor/local_tensor.h"
#include "torch_cases.h"

static void read_case(ls_mesh *mesh, ls_shape *shape, ls_placements *placements,
                      const json_t *entry) {
    *mesh = (ls_mesh){0};
    *shape = (ls_shape){0};
    char text[128] = "";
    size_t length = 0;
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach(json_object_get(entry, "mesh"), i, item) {
        mesh->dim[mesh->ndim++] = (int)json_integer_value(item);
    }
    json_array_foreach(json_object_get(entry, "size"), i, item) {
        shape->dim[shape->ndim++] = json_integer_value(item);
    }
    json_array_foreach(json_object_get(entry, "placements"), i, item) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? ", " : "",
                                   json_string_value(item));
    }
    cr_assert(ls_placements_parse(placements, text) == LS_OK);
}

// Compares one rank's shard with torch's [shape, values].
static void check_shard(const ls_shard *shard, const json_t *local, size_t case_index, int rank) {
    const json_t *sizes = json_array_get(local, 0);
    const json_t *values = json_array_get(local, 1);
    cr_assert((size_t)shard->block.size.ndim == json_array_size(sizes));
    for (int d = 0; d < shard->block.size.ndim; d++) {
        cr_assert(shard->block.size.dim[d] == json_integer_value(json_array_get(sizes, (size_t)d)),
                  "case %zu rank %d dimension %d", case_index, rank, d);
    }
    cr_assert(shard->count == json_array_size(values));
    for (size_t i = 0; i < shard->count; i++) {
        cr_assert(((const float *)shard->data)[i] ==
                      (float)json_number_value(json_array_get(values, i)),
                  "case %zu rank %d element %zu", case_index, rank, i);
    }
}

size_t check_torch_cases(const char *path) {
    json_error_t error;
    json_t *cases = json_load_file(path, 0, &error);
    cr_assert(json_is_array(cases), "%s: %s", path, error.text);
    size_t shards = 0;
    size_t c = 0;
    json_t *entry = NULL;
    json_array_foreach(cases, c, entry) {
        ls_mesh mesh;
        ls_shape shape;
        ls_placements placements;
        read_case(&mesh, &shape, &placements, entry);
        ls_world *world = NULL;
        cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = mesh}) == LS_OK);
        cr_assert(ls_world_size(world) == json_integer_value(json_object_get(entry, "world")));
        size_t count = 0;
        cr_assert(ls_shape_count(&count, &shape) == LS_OK);
        float *full = calloc(count, sizeof *full);
        for (size_t i = 0; i < count; i++) {
            full[i] = (float)i;
        }
        ls_local_tensor *tensor = NULL;
        cr_assert(ls_local_tensor_distribute(&tensor, world, full, &shape, LS_F32, &placements) ==
                  LS_OK);
        free(full);
        for (int rank = 0; rank < ls_world_size(world); rank++) {
            char key[16];
            (void)snprintf(key, sizeof key, "%d", rank);
            const json_t *local = json_object_get(json_object_get(entry, "local"), key);
            cr_assert(json_array_size(local) == 2);
            check_shard(ls_local_tensor_shard(tensor, rank, 0), local, c, rank);
            shards += 1;
        }
        cr_expect(ls_local_tensor_check(tensor) == LS_OK);
        ls_local_tensor_free(tensor);
        ls_world_free(world);
    }
    json_decref(cases);
    return shards;
}
