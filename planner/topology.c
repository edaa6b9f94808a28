// Named machines and the check of a topology. Reading one from a file is in topology_file.c.
#include "planner/topology.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GIB              (INT64_C(1) << 30)
#define GIB_PER_S(value) ((value) * (double)GIB / 1000.0)
#define GB_PER_S(value)  ((value)*1e9 / 1000.0)

// Latencies: those of PyTorch's redistribution cost model (0.6 us a hop inside a host, 2.7 us
// between hosts, 6.6 us before the first byte). The cache speed-up is the usual ratio of L2 to HBM
// bandwidth.
#define LATENCIES .intra_latency_us = 0.6, .inter_latency_us = 2.7, .launch_us = 6.6
#define GB        (INT64_C(1000) * 1000 * 1000)
#define DGX_HOST  .ddr_bytes = 250 * GB, .ddr_shared = true

// clang-format off
static const ls_topology presets[] = {
    {.name = "v100_torchrec", .source = "TorchRec planner constants: a 32 GiB V100-class GPU",
     .hbm_bytes = 32 * GIB, .ddr_bytes = 128 * GIB,
     .hbm_bandwidth = GIB_PER_S(897.0), .ddr_bandwidth = GIB_PER_S(51.0),
     .link_bandwidth = GIB_PER_S(32.0), .intra_bandwidth = GIB_PER_S(600.0),
     .inter_bandwidth = GIB_PER_S(12.5), LATENCIES, .cache_speedup = 2.5},
    {.name = "a100",
     .source = "NVIDIA A100 80GB SXM and DGX A100 data sheets: NVLink 3 at 300 GB/s each way, one "
               "200 Gb/s port a GPU, PCIe 4 x16, 2 TB of host memory for 8 GPUs",
     .hbm_bytes = 80 * GB, DGX_HOST,
     .hbm_bandwidth = GB_PER_S(2039.0), .ddr_bandwidth = GB_PER_S(50.0),
     .link_bandwidth = GB_PER_S(31.5), .intra_bandwidth = GB_PER_S(300.0),
     .inter_bandwidth = GB_PER_S(25.0), LATENCIES, .cache_speedup = 2.5},
    {.name = "h100",
     .source = "NVIDIA H100 SXM and DGX H100 data sheets: NVLink 4 at 450 GB/s each way, one "
               "400 Gb/s port a GPU, PCIe 5 x16, 2 TB of host memory for 8 GPUs",
     .hbm_bytes = 80 * GB, DGX_HOST,
     .hbm_bandwidth = GB_PER_S(3350.0), .ddr_bandwidth = GB_PER_S(75.0),
     .link_bandwidth = GB_PER_S(63.0), .intra_bandwidth = GB_PER_S(450.0),
     .inter_bandwidth = GB_PER_S(50.0), LATENCIES, .cache_speedup = 2.5},
    {.name = "h200",
     .source = "NVIDIA H200 SXM data sheet (141 GB, 4.8 TB/s); links and host as DGX H100",
     .hbm_bytes = 141 * GB, DGX_HOST,
     .hbm_bandwidth = GB_PER_S(4800.0), .ddr_bandwidth = GB_PER_S(75.0),
     .link_bandwidth = GB_PER_S(63.0), .intra_bandwidth = GB_PER_S(450.0),
     .inter_bandwidth = GB_PER_S(50.0), LATENCIES, .cache_speedup = 2.0},
};
// clang-format on
#define PRESET_COUNT ((int)(sizeof(presets) / sizeof(presets[0])))

const char *ls_topology_preset_name(int index) {
    LS_ASSERT(index >= 0);
    return index < PRESET_COUNT ? presets[index].name : NULL;
}

int ls_topology_preset(ls_topology *out, const char *name, int ranks, int ranks_per_host) {
    LS_ASSERT(out && name);
    for (int i = 0; i < PRESET_COUNT; i++) {
        if (strcmp(name, presets[i].name) == 0) {
            *out = presets[i];
            out->ranks = ranks;
            out->ranks_per_host = (ranks < 8 ? ranks : 8);
            if (ranks_per_host) {
                out->ranks_per_host = ranks_per_host;
            }
            return ls_topology_check(out);
        }
    }
    const char *names[PRESET_COUNT];
    for (int i = 0; i < PRESET_COUNT; i++) {
        names[i] = presets[i].name;
    }
    const char *near = ls_nearest(name, names, PRESET_COUNT);
    return LS_FAIL(LS_ERR_NOT_FOUND, "no machine is called \"%s\"%s%s%s", name,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

int ls_topology_check(const ls_topology *topology) {
    LS_ASSERT(topology);
    int ranks = topology->ranks;
    int per_host = topology->ranks_per_host;
    if (ranks < 1 || ranks > LS_TOPOLOGY_RANKS_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "topology: ranks is %d; it must be 1 to %d", ranks,
                       LS_TOPOLOGY_RANKS_MAX);
    }
    if (per_host < 1 || ranks % per_host != 0) {
        return LS_FAIL(LS_ERR_INVALID, "topology: %d ranks do not fill hosts of %d", ranks,
                       per_host);
    }
    const struct {
        const char *name;
        double value;
        double least, most;
    } fields[] = {
        {"hbm_bytes", (double)topology->hbm_bytes, 0, (double)LS_TOPOLOGY_BYTES_MAX},
        {"ddr_bytes", (double)topology->ddr_bytes, 0, (double)LS_TOPOLOGY_BYTES_MAX},
        {"hbm_bandwidth", topology->hbm_bandwidth, 1, 1e15},
        {"ddr_bandwidth", topology->ddr_bandwidth, 1, 1e15},
        {"link_bandwidth", topology->link_bandwidth, 1, 1e15},
        {"intra_bandwidth", topology->intra_bandwidth, 1, 1e15},
        {"inter_bandwidth", topology->inter_bandwidth, 1, 1e15},
        {"intra_latency_us", topology->intra_latency_us, 0, 1e9},
        {"inter_latency_us", topology->inter_latency_us, 0, 1e9},
        {"launch_us", topology->launch_us, 0, 1e9},
        {"exchange_us", topology->exchange_us, 0, 1e9},
        {"kernel_us", topology->kernel_us, 0, 1e9},
        {"update_us", topology->update_us, 0, 1e9},
        {"cache_speedup", topology->cache_speedup, 1, 1e6},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        // Written so that NaN fails, too.
        if (!(fields[i].value >= fields[i].least && fields[i].value <= fields[i].most)) {
            return LS_FAIL(LS_ERR_INVALID, "topology: %s is %g; it must be %g to %g",
                           fields[i].name, fields[i].value, fields[i].least, fields[i].most);
        }
    }
    return LS_OK;
}
