// The machine a plan is made for: hosts and ranks, memory per tier, bandwidth and latency per link.
#ifndef LS_PLANNER_TOPOLOGY_H
#define LS_PLANNER_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_TOPOLOGY_RANKS_MAX 65536
#define LS_TOPOLOGY_BYTES_MAX (INT64_C(1) << 44)  // of one memory tier of one rank

// Bandwidths are bytes per millisecond and hold for one rank. Every field but ranks,
// ranks_per_host, exchange_us, kernel_us and update_us has a positive value in each preset.
typedef struct ls_topology {
    char name[32];
    const char *source;       // where the numbers are from, one sentence; static
    int ranks;                //
    int ranks_per_host;       // divides ranks
    int64_t hbm_bytes;        // per rank
    int64_t ddr_bytes;        // per rank; of the host divided by its ranks when shared
    bool ddr_shared;          // the ranks of a host draw on one pool of ranks_per_host * ddr_bytes
    double hbm_bandwidth;     // device memory
    double ddr_bandwidth;     // host memory
    double link_bandwidth;    // between device and host memory
    double intra_bandwidth;   // between ranks of one host
    double inter_bandwidth;   // between ranks of different hosts
    double intra_latency_us;  // of one hop
    double inter_latency_us;  //
    double launch_us;         // of a collective before its first byte
    double exchange_us;       // of an all_to_all with a count per rank, likewise; 0: launch_us and
                              // kernel_us, for the copy of a rank's own block
    double kernel_us;         // least time of a kernel; 0 in presets, since data sheets lack it
    double update_us;         // of a shard's update before its first byte: its ids grouped, added
                              // up and stepped; 0: a kernel_us for each feature
    double cache_speedup;     // a row read again costs 1 / cache_speedup of reading it first
} ls_topology;

// One of the named machines: v100_torchrec (TorchRec's defaults), a100, h100, h200. ranks_per_host
// 0: 8, or `ranks` if that is less. LS_ERR_NOT_FOUND suggests a near name; LS_ERR_INVALID: a shape
// that does not divide.
LS_API int ls_topology_preset(ls_topology *out, const char *name, int ranks, int ranks_per_host);
// Name number `index`, or NULL past the last.
const char *ls_topology_preset_name(int index);
// Checks a topology made by hand. LS_ERR_INVALID names the field.
int ls_topology_check(const ls_topology *topology);

// Reads a machine from YAML or JSON text: `preset`, `ranks`, `ranks_per_host` and any field of
// ls_topology by name (sizes in bytes or with a unit "80 GiB"; bandwidths in GB/s, 10^9 bytes).
// Fields not given keep the value of the preset (default v100_torchrec), and ranks and
// ranks_per_host that of *out when they are > 0 there. `source` of *out becomes a static sentence.
// LS_ERR_FORMAT: every error is appended to `errors` as FILE:LINE:COL: error: ..., the line and a
// caret; the first is also the text of ls_error_last. `file` is for messages alone.
LS_API int ls_topology_parse(ls_topology *out, ls_text *errors, const char *file, const char *text,
                             size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
