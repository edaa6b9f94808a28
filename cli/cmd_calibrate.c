// lockstep calibrate --backend nccl --out FILE: the machine file: in which order this machine sums,
// and how long its collectives take.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "backends/calibrate.h"
#include "backends/kinds.h"
#ifdef LOCKSTEP_WITH_NCCL
#include "bench/gpu.h"
#include "backends/nccl/nccl.h"
#include "formats/json.h"
#endif

static struct {
    int backend;  // in ls_backend_names_timed
    bool backend_given;
    const char *out;
    const char *order;
    int ranks;
} given;

static const cli_option options[] = {
    {CLI_CHOICE, "backend", &given.backend, "NAME", .given = &given.backend_given,
     .choices = ls_backend_names_timed,
     .help = "Backend to probe: nccl (default), or sim, which tries the probes on a known order"},
    {CLI_STRING, "out", &given.out, "FILE", .output = CLI_OUTPUT_FILE,
     .help = "Path of the machine file; -: stdout"},
    {CLI_STRING, "order", &given.order, "ORDER",
     .help = "sim: the order to recover (default: rank)"},
    {CLI_INT, "ranks", &given.ranks, "N", .int_min = 2, .int_max = 16,
     .help = "Ranks (default: one per GPU; sim: 4)"},
    {.long_name = NULL},
};

static const ls_backend_kind *asked(void) {
    return given.backend_given ? ls_backend_kind_named(ls_backend_names_timed[given.backend])
                               : &ls_backend_kind_nccl;
}

// ---- The file -----------------------------------------------------------------------------------
static int write_orders(ls_json *json, ls_comm *comm) {
    static const size_t counts[] = {1, 5, 257, 399, 515, 799, 1000, 2049, 4099, 12289, 20011};
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    const ls_calibrate_options calibrate = {
        .counts = counts,
        .count_count = (int)(sizeof counts / sizeof counts[0]),
        .dtypes = dtypes,
        .dtype_count = (int)(sizeof dtypes / sizeof dtypes[0]),
        .progress = cli_progress,
    };
    const char *base = getenv("TMPDIR");
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%s/lockstep-XXXXXX",
                   base != NULL && base[0] != 0 ? base : "/tmp");
    if (mkdtemp(dir) == NULL) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot make the directory \"%s\": %s", dir,
                       strerror(errno));
    }
    int status = ls_calibrate_orders(json, comm, &calibrate, dir);
    (void)rmdir(dir);
    return status;
}

// Both parts on a communicator of all ranks.
static int on_backend(ls_json *json, ls_backend *backend, int ranks,
                      int (*part)(ls_json *json, ls_comm *comm)) {
    ls_comm *comm = NULL;
    int status = ls_comm_create(&comm, backend, NULL, ranks, "world");
    status = status == LS_OK ? part(json, comm) : status;
    ls_comm_free(comm);
    return status;
}

#ifdef LOCKSTEP_WITH_NCCL
static int write_links(ls_json *json, ls_comm *comm) {
    return ls_bench_gpu_links(json, comm, cli_progress);
}

static int on_nccl(ls_json *json, ls_world *world, int ranks, bool links) {
    const ls_nccl_options nccl = {.blocking = links, .quiet_log = true};
    ls_backend *backend = NULL;
    LS_TRY(ls_backend_nccl_create(&backend, world, &nccl));
    int status = on_backend(json, backend, ranks, links ? write_links : write_orders);
    ls_backend_free(backend);
    return status;
}

static int calibrate_nccl(ls_json *json, ls_world *world, int ranks) {
    char versions[256];
    LS_TRY(ls_nccl_describe(versions, sizeof versions));
    ls_json_member_string(json, "versions", versions);
    LS_TRY(on_nccl(json, world, ranks, false));
    return on_nccl(json, world, ranks, true);
}
#endif

static int calibrate_sim(ls_json *json, ls_world *world, int ranks) {
    ls_order *order = NULL;
    ls_backend *backend = NULL;
    LS_TRY(given.order != NULL ? ls_order_parse(&order, given.order) : LS_OK);
    int status = ls_backend_sim_create(&backend, world);
    if (status == LS_OK) {
        backend->order = order;
        status = on_backend(json, backend, ranks, write_orders);
    }
    ls_backend_free(backend);
    ls_order_free(order);
    return status;
}

static int calibrate(ls_text *out, int ranks) {
    const ls_world_options world_options = {.mesh = {.ndim = 1, .dim = {ranks}}};
    ls_world *world = NULL;
    LS_TRY(ls_world_create(&world, &world_options));
    ls_json json;
    ls_json_begin(&json, out, 1);
    ls_json_object_open(&json);
    ls_json_member_int(&json, "lockstep_order", 1);
    ls_json_member_int(&json, "ranks", ranks);
    ls_json_member_string(&json, "backend", asked()->name);
    int status = LS_OK;
#ifdef LOCKSTEP_WITH_NCCL
    status = asked()->open == NULL ? calibrate_nccl(&json, world, ranks)
                                   : calibrate_sim(&json, world, ranks);
#else
    status = calibrate_sim(&json, world, ranks);
#endif
    if (status == LS_OK) {  // else it stops in the middle
        ls_json_object_close(&json);
        ls_text_puts(out, "\n");
    }
    ls_world_free(world);
    return status;
}

static int ranks_wanted(int *out) {
    *out = given.ranks != 0 ? given.ranks : 4;
#ifdef LOCKSTEP_WITH_NCCL
    if (asked()->open == NULL && given.ranks == 0) {
        *out = ls_nccl_device_count();
        if (*out == 0) {
            return LS_ERR_BACKEND;
        }
        if (*out < 2) {
            return LS_FAIL(LS_ERR_BACKEND, "calibration needs at least two GPUs");
        }
        *out = *out > 16 ? 16 : *out;
    }
#endif
    return LS_OK;
}

static int run(const cli_args *args) {
    (void)args;
    if (given.out == NULL) {
        cli_error("calibrate needs --out FILE");
        return LS_EXIT_USAGE;
    }
#ifndef LOCKSTEP_WITH_NCCL
    if (asked()->open == NULL) {
        return cli_become(asked()->threads_program);
    }
#endif
    ls_text text = {0};
    int ranks = 0;
    int status = ranks_wanted(&ranks);
    status = status == LS_OK ? calibrate(&text, ranks) : status;
    cli_progress_end();
    int code = status == LS_OK ? cli_output(given.out, &text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

const cli_command cli_cmd_calibrate = {
    .name = "calibrate",
    .arguments = "",
    .arguments_max = 0,
    .summary = "Measure reduction orders, bandwidth and latency of this machine",
    .details =
        "Probes each reduction, element type and several counts: the order of the ranks' terms, "
        "fused products, and the width of the accumulator. It also fits latency and bandwidth of "
        "the collectives. --order measured:FILE and --machine FILE read the file.",
    .example = "lockstep calibrate --backend nccl --out machine.json",
    .common = 0,
    .options = options,
    .run = run,
};
