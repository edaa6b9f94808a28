// A machine read from a file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/topology.h"
#include "formats/yaml_read.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// "80 GiB", "141 GB" or a number of bytes.
static void read_bytes(ls_yaml_reader *source, const ls_yaml_node *map, const char *key,
                       int64_t *out) {
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
    const ls_yaml_node *node = ls_yaml_member(source, map, key, false);
    if (!node) {
        return;
    }
    const char *text = node->kind == LS_YAML_SCALAR ? ls_yaml_text(source->tree, node) : "";
    char *end = NULL;
    double value = strtod(text, &end);
    bool number = end != text;
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
    ls_yaml_error(source, node,
                  "expected a size such as 80 GiB, 141 GB or a number of bytes, at most 16 TiB");
}

static void read_bandwidth(ls_yaml_reader *source, const ls_yaml_node *map, const char *key,
                           double *out) {
    double gb_per_s;
    if (ls_yaml_real(source, ls_yaml_member(source, map, key, false), 1e-3, 1e9, &gb_per_s)) {
        *out = gb_per_s * 1e6;  // bytes per millisecond
    }
}

static void read_count(ls_yaml_reader *source, const ls_yaml_node *map, const char *key, int *out) {
    int64_t value;
    if (ls_yaml_int(source, ls_yaml_member(source, map, key, false), 1, LS_TOPOLOGY_RANKS_MAX,
                    &value)) {
        *out = (int)value;
    }
}

static void read_fields(ls_yaml_reader *source, const ls_yaml_node *root, ls_topology *out) {
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
                                       "update_us",
                                       "cache_speedup"};
    const ls_yaml_node *name = ls_yaml_member(source, root, "name", false);
    const char *text = ls_yaml_word(source, name);
    if (text) {
        (void)snprintf(out->name, sizeof(out->name), "%s", text);
    }
    read_bytes(source, root, "hbm_bytes", &out->hbm_bytes);
    read_bytes(source, root, "ddr_bytes", &out->ddr_bytes);
    ls_yaml_bool(source, ls_yaml_member(source, root, "ddr_shared", false), &out->ddr_shared);
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
                 {"update_us", 0.0, &out->update_us},
                 {"cache_speedup", 1.0, &out->cache_speedup}};
    for (int i = 0; i < COUNT(reals); i++) {
        ls_yaml_real(source, ls_yaml_member(source, root, reals[i].key, false), reals[i].least, 1e6,
                     reals[i].out);
    }
    ls_yaml_only(source, root, keys, COUNT(keys));
}

static void read_machine(ls_yaml_reader *source, const ls_yaml_node *root, ls_topology *out,
                         bool measured) {
    int ranks = out->ranks;
    int per_host = out->ranks_per_host;
    const ls_yaml_node *preset = ls_yaml_member(source, root, "preset", false);
    const char *name = preset ? ls_yaml_word(source, preset) : "v100_torchrec";
    read_count(source, root, "ranks", &ranks);
    read_count(source, root, "ranks_per_host", &per_host);
    if (ranks < 1) {
        ls_yaml_error(source, root, "`ranks` is missing");
    } else if (name && ls_topology_preset(out, name, ranks, per_host) != LS_OK) {
        const ls_yaml_node *at = preset ? preset : root;
        ls_yaml_error(source, at, "%s", ls_error_last()->text);
    } else if (name) {
        read_fields(source, root, out);
        out->source = preset ? "a file, over a preset" : "a file, over TorchRec's constants";
        if (measured) {
            out->source = "measured by lockstep calibrate; the rest is a preset's";
        }
        if (ls_yaml_errors(source) == 0 && ls_topology_check(out) != LS_OK) {
            ls_yaml_error(source, root, "%s", ls_error_last()->text);
        }
    }
}

int ls_topology_parse(ls_topology *out, ls_text *errors, const char *file, const char *text,
                      size_t bytes) {
    LS_ASSERT(out && errors && file && text);
    ls_yaml_reader source = {.file = file, .text = text, .bytes = bytes, .errors = errors};
    LS_TRY(ls_arena_create(&source.arena));
    const ls_yaml_node *root = ls_yaml_open(&source);
    bool measured = false;
    if (root) {
        // The file of lockstep calibrate has the machine as one of its members.
        measured = ls_yaml_member(&source, root, "lockstep_order", false) != NULL;
        root = measured ? ls_yaml_member(&source, root, "machine", true) : root;
    }
    if (root) {
        read_machine(&source, root, out, measured);
    }
    int status = ls_yaml_close(&source, LS_OK);
    ls_arena_free(source.arena);
    return status;
}
