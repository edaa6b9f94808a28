// Pictures as JSON, for programs that want the blocks and not the drawing.
#include "report/show.h"
#include "formats/json.h"

static void write_dims(ls_json *json, const char *key, const ls_shape *shape) {
    ls_json_member_array(json, key);
    for (int d = 0; d < shape->ndim; d++) {
        ls_json_int(json, shape->dim[d]);
    }
    ls_json_array_close(json);
}

static void write_picture(ls_json *json, const ls_picture *picture) {
    ls_json_object_open(json);
    ls_json_member_string(json, "title", picture->title);
    write_dims(json, "shape", &picture->shape);
    ls_json_member_array(json, "blocks");
    for (int b = 0; b < picture->block_count; b++) {
        const ls_picture_block *held = &picture->blocks[b];
        ls_json_object_open(json);
        ls_json_member_int(json, "rank", held->rank);
        write_dims(json, "offset", &held->block.offset);
        write_dims(json, "size", &held->block.size);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
    ls_json_object_close(json);
}

void ls_show_json(ls_json *json, const ls_picture *pictures, int count) {
    LS_ASSERT(json != NULL && pictures != NULL && count > 0);
    ls_json_member_int(json, "ranks", pictures[0].ranks);
    ls_json_member_array(json, "tensors");
    for (int i = 0; i < count; i++) {
        write_picture(json, &pictures[i]);
    }
    ls_json_array_close(json);
}
