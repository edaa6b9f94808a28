// Meshes: an n-D row-major arrangement of ranks, its coordinates and fibers.
#include "local_tensor/internal.h"

#include <string.h>

int ls_mesh_size(int *out, const ls_mesh *mesh) {
    if (mesh->ndim < 1 || mesh->ndim > LS_MESH_DIMS_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "a mesh has %d dimensions; 1 to %d are possible", mesh->ndim,
                       LS_MESH_DIMS_MAX);
    }
    int64_t size = 1;
    for (int d = 0; d < mesh->ndim; d++) {
        if (mesh->dim[d] < 1) {
            return LS_FAIL(LS_ERR_INVALID, "mesh dimension %d has size %d; it must be at least 1",
                           d, mesh->dim[d]);
        }
        size *= mesh->dim[d];  // at most 2^16 * 2^31 before the check below
        if (size > LS_RANKS_MAX) {
            return LS_FAIL(LS_ERR_LIMIT, "the mesh has more than %d ranks", LS_RANKS_MAX);
        }
        if (memchr(mesh->name[d], 0, LS_MESH_NAME_MAX) == NULL) {
            return LS_FAIL(LS_ERR_INVALID, "the name of mesh dimension %d is longer than %d bytes",
                           d, LS_MESH_NAME_MAX - 1);
        }
        for (int e = 0; e < d; e++) {
            if (mesh->name[d][0] != 0 && strcmp(mesh->name[d], mesh->name[e]) == 0) {
                return LS_FAIL(LS_ERR_INVALID, "mesh dimensions %d and %d are both called \"%s\"",
                               e, d, mesh->name[d]);
            }
        }
    }
    *out = (int)size;
    return LS_OK;
}

// Ranks between two neighbours in dimension `axis`.
static int mesh_stride(const ls_mesh *mesh, int axis) {
    int stride = 1;
    for (int d = mesh->ndim - 1; d > axis; d--) {
        stride *= mesh->dim[d];
    }
    return stride;
}

void ls_mesh_coordinates(int *out, const ls_mesh *mesh, int rank) {
    LS_ASSERT(rank >= 0);
    for (int d = mesh->ndim - 1; d >= 0; d--) {
        out[d] = rank % mesh->dim[d];
        rank /= mesh->dim[d];
    }
    LS_ASSERT(rank == 0);
}

int ls_mesh_rank(const ls_mesh *mesh, const int *coordinates) {
    int rank = 0;
    for (int d = 0; d < mesh->ndim; d++) {
        LS_ASSERT(coordinates[d] >= 0 && coordinates[d] < mesh->dim[d]);
        rank = rank * mesh->dim[d] + coordinates[d];
    }
    return rank;
}

void ls_mesh_fiber(int *out, const ls_mesh *mesh, int axis, int rank) {
    LS_ASSERT(axis >= 0 && axis < mesh->ndim);
    int coordinates[LS_MESH_DIMS_MAX];
    ls_mesh_coordinates(coordinates, mesh, rank);
    int stride = mesh_stride(mesh, axis);
    int first = rank - coordinates[axis] * stride;
    for (int i = 0; i < mesh->dim[axis]; i++) {
        out[i] = first + i * stride;
    }
}

int ls_mesh_axis(int *out, const ls_mesh *mesh, const char *name) {
    const char *names[LS_MESH_DIMS_MAX];
    size_t count = 0;
    for (int d = 0; d < mesh->ndim; d++) {
        if (mesh->name[d][0] == 0) {
            continue;
        }
        if (strcmp(mesh->name[d], name) == 0) {
            *out = d;
            return LS_OK;
        }
        names[count++] = mesh->name[d];
    }
    const char *near = ls_nearest(name, names, count);
    return LS_FAIL(LS_ERR_NOT_FOUND, "no mesh dimension is called \"%s\"%s%s%s", name,
                   near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?" : "");
}

int ls_ranks_find(const int *ranks, int rank_count, int rank) {
    for (int i = 0; i < rank_count; i++) {
        if (ranks[i] == rank) {
            return i;
        }
    }
    return -1;
}

void ls_ranks_format(char *out, size_t out_bytes, const int *ranks, int rank_count) {
    LS_ASSERT(out_bytes >= 4);
    size_t length = 0;
    out[0] = 0;
    for (int i = 0; i < rank_count;) {
        int last = i;
        while (last + 1 < rank_count && ranks[last + 1] == ranks[last] + 1) {
            last += 1;
        }
        char part[40];
        const char *comma = i > 0 ? ", " : "";
        int n;
        if (last == i) {
            n = snprintf(part, sizeof part, "%s%d", comma, ranks[i]);
        } else {
            n = snprintf(part, sizeof part, "%s%d%s%d", comma, ranks[i], last == i + 1 ? ", " : "-",
                         ranks[last]);
        }
        // Room for this part and, unless it is the last, for the dots after it.
        size_t needed = (size_t)n + (last + 1 < rank_count ? 4 : 1);
        if (length + needed > out_bytes) {
            memcpy(out + length, "...", 4);
            return;
        }
        memcpy(out + length, part, (size_t)n + 1);
        length += (size_t)n;
        i = last + 1;
    }
}
