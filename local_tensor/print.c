// Tensors as text: placements, and the first values of every shard.
#include "local_tensor/internal.h"

static void print_head(ls_text *text, const ls_local_tensor *tensor) {
    const ls_mesh *mesh = &tensor->world->mesh;
    ls_text_puts(text, ls_dtype_name(tensor->dtype));
    if (tensor->has_shape) {
        char shape[LS_SHAPE_TEXT_MAX];
        ls_shape_format(shape, sizeof shape, &tensor->shape);
        ls_text_printf(text, " %s", shape);
    }
    ls_text_puts(text, " on mesh [");
    for (int d = 0; d < mesh->ndim; d++) {
        ls_text_printf(text, "%s%s%s%d", d > 0 ? ", " : "", mesh->name[d],
                       mesh->name[d][0] != 0 ? " " : "", mesh->dim[d]);
    }
    ls_text_puts(text, "]");
    if (tensor->has_placements) {
        char placements[256];
        ls_placements_format(placements, sizeof placements, &tensor->placements);
        ls_text_printf(text, ": %s", placements);
    }
    ls_text_puts(text, "\n");
}

static void print_shard(ls_text *text, const ls_local_tensor *tensor, int rank,
                        const ls_shard *shard, size_t values_max) {
    char offset[LS_SHAPE_TEXT_MAX];
    char size[LS_SHAPE_TEXT_MAX];
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    ls_shape_format(size, sizeof size, &shard->block.size);
    ls_text_printf(text, "  rank %d ", rank);
    if (tensor->has_shape) {
        ls_shape_format(offset, sizeof offset, &shard->block.offset);
        ls_text_printf(text, "%s + ", offset);
    }
    ls_text_printf(text, "%s:", size);
    size_t shown = shard->count < values_max ? shard->count : values_max;
    for (size_t i = 0; i < shown; i++) {
        char element[LS_ELEMENT_TEXT_MAX];
        ls_element_format(element, sizeof element, (const char *)shard->data + i * bytes,
                          tensor->dtype);
        ls_text_printf(text, " %s", element);
    }
    if (shown < shard->count) {
        ls_text_printf(text, " ... (%zu)", shard->count);
    }
    ls_text_puts(text, shard->count == 0 ? " empty\n" : "\n");
}

// Writes the text and empties it.
static int flush_text(FILE *stream, ls_text *text) {
    int status = LS_OK;
    if (text->failed) {
        status = LS_FAIL(LS_ERR_MEMORY, "no memory to print a tensor");
    } else if (text->length != 0 && fwrite(text->data, 1, text->length, stream) != text->length) {
        status = LS_FAIL(LS_ERR_IO, "cannot write a tensor's text");
    }
    ls_text_free(text);
    *text = (ls_text){0};
    return status;
}

int ls_local_tensor_print(FILE *stream, const ls_local_tensor *tensor, size_t values_max) {
    ls_text text = {0};
    print_head(&text, tensor);
    LS_TRY(flush_text(stream, &text));
    for (int i = 0; i < tensor->rank_count; i++) {
        for (size_t s = tensor->first[i]; s < tensor->first[i + 1]; s++) {
            print_shard(&text, tensor, tensor->ranks[i], &tensor->shards[s], values_max);
        }
        LS_TRY(flush_text(stream, &text));
    }
    return LS_OK;
}
