// A machine read from a file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/topology.h"
#include "planner/tree.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// "80 GiB", "141 GB" or a number of bytes.
static void read_bytes(ls_tree_source *source, const ls_tree *map, const char *key, int64_t *out) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1.0},
                 {"B", 1.0},
                 {"KB", 1e3},
                 {"MB", 1e6},
                 {"GB", 1e9},
                 {"TB", 1e12},
                 {"KiB", 1024.0},
                 {"MiB", 1048576.0},
                 {"GiB", 1073741824.0},
                 {"TiB", 1099511627776.0}};
    const ls_tree *node = ls_tree__member(source, map, key, false);
    if (!node) {
        return;
    }
    char *end = NULL;
    double value = node->kind == LS_TREE_SCALAR ? strtod(node->text, &end) : 0.0;
    bool number = end && end != node->text;
    while (number && *end == ' ') {
        end++;
    }
    for (int i = 0; number && i < COUNT(units); i++) {
        double bytes = value * units[i].bytes;
        if (strcmp(end, units[i].name) == 0 && bytes >= 0.0 &&
            bytes <= (double)LS_TOPOLOGY_BYTES_MAX) {
            *out = (int64_t)bytes;
            return;
        }
    }
    ls_tree__error(source, node->line, node->column,
                   "expected a size such as 80 GiB, 141 GB or a number of bytes, at most 16 TiB");
}

static void read_bandwidth(ls_tree_source *source, const ls_tree *map, const char *key,
                           double *out) {
    double gb_per_s;
    if (ls_tree__real(source, ls_tree__member(source, map, key, false), 1e-3, 1e9, &gb_per_s)) {
        *out = gb_per_s * 1e6;  // bytes per millisecond
    }
}

static void read_count(ls_tree_source *source, const ls_tree *map, const char *key, int *out) {
    int64_t value;
    if (ls_tree__int(source, ls_tree__member(source, map, key, false), 1, LS_TOPOLOGY_RANKS_MAX,
                     &value)) {
        *out = (int)value;
    }
}

static void read_fields(ls_tree_source *source, const ls_tree *root, ls_topology *out) {
    static const char *const keys[] = {"preset",
                                       "name",
                                       "ranks",
                                       "ranks_per_host",
                                       "hbm_bytes",
                                       "ddr_bytes",
                                       "ddr_shared",
                                       "hbm_bandwidth",
                                       "ddr_bandwidth",
                                       "link_bandwidth",
                                       "intra_bandwidth",
                                       "inter_bandwidth",
                                       "intra_latency_us",
                                       "inter_latency_us",
                                       "launch_us",
                                       "exchange_us",
                                       "kernel_us",
                                       "cache_speedup"};
    const ls_tree *name = ls_tree__member(source, root, "name", false);
    const char *text = ls_tree__text(source, name);
    if (text) {
        (void)snprintf(out->name, sizeof(out->name), "%s", text);
    }
    read_bytes(source, root, "hbm_bytes", &out->hbm_bytes);
    read_bytes(source, root, "ddr_bytes", &out->ddr_bytes);
    ls_tree__bool(source, ls_tree__member(source, root, "ddr_shared", false), &out->ddr_shared);
    read_bandwidth(source, root, "hbm_bandwidth", &out->hbm_bandwidth);
    read_bandwidth(source, root, "ddr_bandwidth", &out->ddr_bandwidth);
    read_bandwidth(source, root, "link_bandwidth", &out->link_bandwidth);
    read_bandwidth(source, root, "intra_bandwidth", &out->intra_bandwidth);
    read_bandwidth(source, root, "inter_bandwidth", &out->inter_bandwidth);
    const struct {
        const char *key;
        double least;
        double *out;
    } reals[] = {{"intra_latency_us", 0.0, &out->intra_latency_us},
                 {"inter_latency_us", 0.0, &out->inter_latency_us},
                 {"launch_us", 0.0, &out->launch_us},
                 {"exchange_us", 0.0, &out->exchange_us},
                 {"kernel_us", 0.0, &out->kernel_us},
                 {"cache_speedup", 1.0, &out->cache_speedup}};
    for (int i = 0; i < COUNT(reals); i++) {
        ls_tree__real(source, ls_tree__member(source, root, reals[i].key, false), reals[i].least,
                      1e6, reals[i].out);
    }
    ls_tree__only(source, root, keys, COUNT(keys));
}

static void read_machine(ls_tree_source *source, const ls_tree *root, ls_topology *out,
                         bool measured) {
    int ranks = out->ranks;
    int per_host = out->ranks_per_host;
    const ls_tree *preset = ls_tree__member(source, root, "preset", false);
    const char *name = preset ? ls_tree__text(source, preset) : "v100_torchrec";
    read_count(source, root, "ranks", &ranks);
    read_count(source, root, "ranks_per_host", &per_host);
    if (ranks < 1) {
        ls_tree__error(source, root->line, root->column, "`ranks` is missing");
    } else if (name && ls_topology_preset(out, name, ranks, per_host) != LS_OK) {
        const ls_tree *at = preset ? preset : root;
        ls_tree__error(source, at->line, at->column, "%s", ls_error_last()->text);
    } else if (name) {
        read_fields(source, root, out);
        out->source = measured ? "measured by lockstep calibrate; the rest is a preset's"
                      : preset ? "a file, over a preset"
                               : "a file, over TorchRec's constants";
        if (source->error_count == 0 && ls_topology_check(out) != LS_OK) {
            ls_tree__error(source, root->line, root->column, "%s", ls_error_last()->text);
        }
    }
}

int ls_topology_parse(ls_topology *out, ls_text *errors, const char *file, const char *text,
                      size_t bytes) {
    LS_ASSERT(out && errors && file && text);
    ls_tree_source source = {.file = file, .text = text, .bytes = bytes, .errors = errors};
    LS_TRY(ls_arena_create(&source.arena, NULL));
    const ls_tree *root = ls_tree__read(&source);
    if (root) {
        // What lockstep calibrate writes has the machine as one of its members.
        bool measured = ls_tree__member(&source, root, "lockstep_order", false) != NULL;
        root = measured ? ls_tree__member(&source, root, "machine", true) : root;
    }
    if (root) {
        read_machine(&source, root, out, root->key != NULL);
    }
    int status = ls_tree__status(&source);
    ls_arena_free(source.arena);
    return status;
}
