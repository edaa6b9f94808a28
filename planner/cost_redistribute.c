// PyTorch's collective costs (torch/distributed/tensor/_collective_utils.py), restated, with the
// all-to-all that it leaves out.
#include <math.h>

#include "planner/redistribute.h"

#define INTRA_GB_PER_S 87.7
#define INTER_FACTOR   0.22
#define INTRA_HOP_US   0.6
#define INTER_HOP_US   2.7
#define BASE_US        6.6
#define SHARD_SHARD_US 1.0  // PyTorch's penalty on shard to shard
#define BYTES_PER_GIB  1073741824.0

int ls_reshard_mesh_make(ls_reshard_mesh *out, const int *sizes, int ndim, int devices_per_host) {
    LS_ASSERT(out && sizes);
    if (ndim < 1 || ndim > LS_RESHARD_MESH_MAX || devices_per_host < 1) {
        return LS_FAIL(LS_ERR_INVALID, "redistribute: a mesh of %d dimensions, %d devices a host",
                       ndim, devices_per_host);
    }
    *out = (ls_reshard_mesh){.ndim = ndim};
    int64_t product = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        if (sizes[i] < 1 || sizes[i] > 1 << 20) {
            return LS_FAIL(LS_ERR_INVALID, "redistribute: mesh dimension %d has size %d", i,
                           sizes[i]);
        }
        product = product > INT64_C(1) << 40 ? product : product * sizes[i];
        bool inside = product <= devices_per_host;
        out->size[i] = sizes[i];
        out->bandwidth[i] = inside ? INTRA_GB_PER_S : INTRA_GB_PER_S * INTER_FACTOR;
        out->latency_us[i] = inside ? INTRA_HOP_US : INTER_HOP_US;
    }
    return LS_OK;
}

static double ring_us(double gib, const ls_reshard_mesh *mesh, int dim, int hops) {
    double n = mesh->size[dim];
    return BASE_US + hops * mesh->latency_us[dim] + gib * hops / n / mesh->bandwidth[dim] * 1e6;
}

double ls_reshard_all_gather_us(double gib, const ls_reshard_mesh *mesh, int dim) {
    return ring_us(gib, mesh, dim, mesh->size[dim] - 1);
}

double ls_reshard_reduce_scatter_us(double gib, const ls_reshard_mesh *mesh, int dim) {
    return ring_us(gib, mesh, dim, mesh->size[dim] - 1);
}

double ls_reshard_all_reduce_us(double gib, const ls_reshard_mesh *mesh, int dim) {
    return ring_us(gib, mesh, dim, 2 * (mesh->size[dim] - 1));
}

// A rank keeps 1 / n of its shard and sends the rest.
double ls_reshard_all_to_all_us(double gib, const ls_reshard_mesh *mesh, int dim) {
    return ring_us(gib, mesh, dim, mesh->size[dim] - 1);
}

static bool same(const ls_reshard_placement *a, const ls_reshard_placement *b) {
    return a->kind == b->kind && (a->kind != LS_RESHARD_SHARD || a->dim == b->dim) &&
           (a->kind != LS_RESHARD_PARTIAL || a->op == b->op);
}

double ls_reshard_cost_us(double bytes, const ls_reshard_placement *from,
                          const ls_reshard_placement *to, const ls_reshard_mesh *mesh) {
    LS_ASSERT(from && to && mesh);
    bool replicated = true;
    double gib = bytes / BYTES_PER_GIB;
    double cost = 0.0;
    for (int i = 0; i < mesh->ndim; i++) {
        replicated = replicated && from[i].kind == LS_RESHARD_REPLICATE;
        gib /= from[i].kind == LS_RESHARD_SHARD ? mesh->size[i] : 1.0;
    }
    for (int i = 0; i < mesh->ndim && !replicated; i++) {
        if (same(&from[i], &to[i])) {
            continue;
        }
        if (from[i].kind == LS_RESHARD_SHARD && to[i].kind == LS_RESHARD_REPLICATE) {
            gib *= mesh->size[i];
            cost += ls_reshard_all_gather_us(gib, mesh, i);
        } else if (from[i].kind == LS_RESHARD_SHARD && to[i].kind == LS_RESHARD_SHARD) {
            cost += ls_reshard_all_gather_us(gib, mesh, i) + SHARD_SHARD_US;
        } else if (from[i].kind == LS_RESHARD_PARTIAL && to[i].kind == LS_RESHARD_REPLICATE) {
            cost += ls_reshard_all_reduce_us(gib, mesh, i);
        } else if (from[i].kind == LS_RESHARD_PARTIAL && to[i].kind == LS_RESHARD_SHARD) {
            cost += ls_reshard_reduce_scatter_us(gib, mesh, i);
            gib /= mesh->size[i];
        } else if (from[i].kind != LS_RESHARD_REPLICATE) {  // shard or partial to (other) partial
            return INFINITY;
        }
    }
    return cost;
}
