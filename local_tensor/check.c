// Agreement: that shards are what a placement demands, and that ranks have the same shapes.
#include "local_tensor/internal.h"

#include <inttypes.h>

int ls_local_tensor__check_single(const ls_local_tensor *tensor) {
    for (int i = 0; i < tensor->rank_count; i++) {
        size_t count = tensor->first[i + 1] - tensor->first[i];
        if (count != 1) {
            return LS_FAIL_RANK(LS_ERR_INVALID, tensor->ranks[i],
                                "rank %d has %zu shards where one is needed", tensor->ranks[i],
                                count);
        }
    }
    return LS_OK;
}

// That one rank's shard has the block `want`; offsets count only when `offsets` is set.
static int check_shard(const ls_shard *shard, const ls_block *want, int rank, bool offsets) {
    const ls_block *has = &shard->block;
    if (has->size.ndim != want->size.ndim) {
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d's shard has %d dimensions, the tensor %d", rank,
                            has->size.ndim, want->size.ndim);
    }
    size_t count = 1;
    for (int d = 0; d < want->size.ndim; d++) {
        if (has->size.dim[d] != want->size.dim[d]) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                "rank %d has %" PRId64 " of dimension %d; its placement demands "
                                "%" PRId64,
                                rank, has->size.dim[d], d, want->size.dim[d]);
        }
        if (offsets && has->offset.dim[d] != want->offset.dim[d]) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                "rank %d starts at %" PRId64 " of dimension %d; its placement "
                                "demands %" PRId64,
                                rank, has->offset.dim[d], d, want->offset.dim[d]);
        }
        count *= (size_t)want->size.dim[d];
    }
    if (shard->count != count || (shard->data == NULL) != (count == 0)) {
        return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                            "rank %d's shard counts %zu elements%s; its placement demands %zu",
                            rank, shard->count, shard->data == NULL ? " without memory" : "",
                            count);
    }
    return LS_OK;
}

// That every shard has the size that normalized placements of `shape` demand, and its place too or,
// where `give` (the tensor, to be changed) is not NULL, gets that place.
static int check_blocks(ls_local_tensor *give, const ls_local_tensor *tensor, const ls_shape *shape,
                        const ls_placements *placements, const ls_starts *starts) {
    const ls_world *world = tensor->world;
    int status = LS_OK;
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        int rank = tensor->ranks[i];
        size_t first = tensor->first[i], count = tensor->first[i + 1] - first;
        ls_pieces want;
        LS_TRY(ls_pieces__create(&want, shape, &world->mesh, placements, starts->of, rank));
        if (count != want.count) {
            status = LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                  "rank %d has %zu shards where its placement demands %zu", rank,
                                  count, want.count);
        }
        for (size_t k = 0; k < count && status == LS_OK; k++) {
            const ls_block *block = ls_pieces__at(&want, k);
            status = check_shard(&tensor->shards[first + k], block, rank, give == NULL);
            if (status == LS_OK && give != NULL) {
                give->shards[first + k].block = *block;
            }
        }
        ls_pieces__free(&want);
    }
    return status;
}

int ls_local_tensor_check(const ls_local_tensor *tensor) {
    if (!tensor->has_placements) {
        return LS_FAIL(LS_ERR_INVALID, "the tensor has no placements to check its shards by");
    }
    ls_starts starts;
    LS_TRY(ls_starts__create(&starts, &tensor->placements, &tensor->world->mesh));
    int status = check_blocks(NULL, tensor, &tensor->shape, &tensor->placements, &starts);
    ls_starts__free(&starts);
    return status;
}

int ls_local_tensor_place(ls_local_tensor *tensor, const ls_shape *shape,
                          const ls_placements *placements) {
    const ls_mesh *mesh = &tensor->world->mesh;
    size_t count = 0;
    ls_placements normal;
    ls_starts starts;
    LS_TRY(ls_shape_count(&count, shape));
    LS_TRY(ls_placements_normalize(&normal, placements, shape, mesh));
    LS_TRY(ls_placements__check_ops(&normal, tensor->dtype));
    LS_TRY(ls_starts__create(&starts, &normal, mesh));
    int status = check_blocks(tensor, tensor, shape, &normal, &starts);
    status = status == LS_OK ? ls_local_tensor__set_placements(tensor, shape, &normal) : status;
    ls_starts__free(&starts);
    return status;
}

int ls_local_tensor_check_metadata(const ls_local_tensor *tensor, int ragged_dim) {
    LS_TRY(ls_local_tensor__check_single(tensor));
    const ls_shard *first = tensor->shards;
    for (int i = 1; i < tensor->rank_count; i++) {
        const ls_shape *a = &first->block.size;
        const ls_shape *b = &tensor->shards[i].block.size;
        int rank = tensor->ranks[i];
        if (a->ndim != b->ndim) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                "rank %d's shard has %d dimensions, rank %d's has %d",
                                tensor->ranks[0], a->ndim, rank, b->ndim);
        }
        for (int d = 0; d < a->ndim; d++) {
            if (d != ragged_dim && a->dim[d] != b->dim[d]) {
                return LS_FAIL_RANK(LS_ERR_MISMATCH, rank,
                                    "dimension %d is %" PRId64 " on rank %d but %" PRId64
                                    " on rank %d",
                                    d, a->dim[d], tensor->ranks[0], b->dim[d], rank);
            }
        }
    }
    return LS_OK;
}
