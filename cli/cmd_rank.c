// rank FILE: one rank of a real run (lockstep-mpi, started by mpiexec), or all of them, a thread
// each (lockstep-cuda), on behalf of run, compare and record. Not a command for users.

#include "base/file.h"
#include "cli/commands.h"
#include "cli/scenarios.h"
#ifdef LOCKSTEP_WITH_MPI
#include "backends/mpi/mpi.h"
#endif
#ifdef LOCKSTEP_WITH_NCCL
#include "backends/nccl/nccl.h"
#ifdef LOCKSTEP_WITH_MPI
#include "backends/nccl/nccl_mpi.h"
#endif
#endif
#include "runner/launch/launch.h"
#include "runner/program/run_rank.h"

static struct {
    cli_run_options run;
    int backend;
    const char *recording;
    const char *marks;
    bool own_calls;
} given;

static const cli_option options[] = {
    {.type = CLI_CHOICE,
     .long_name = "backend",
     .value = &given.backend,
     .value_name = "NAME",
     .choices = ls_backend_names,
     .help = "What moves the data"},
    {.type = CLI_STRING,
     .long_name = "recording",
     .value = &given.recording,
     .value_name = "DIR",
     .help = "Where this rank's part of the recording goes"},
    {.type = CLI_STRING,
     .long_name = "marks",
     .value = &given.marks,
     .value_name = "DIR",
     .help = "Where this rank says that it lives and that it is done"},
    {.type = CLI_SWITCH,
     .long_name = "own-calls",
     .value = &given.own_calls,
     .help = "A program's rank makes its collectives by itself"},
    CLI_RUN_OPTIONS(given.run),
    {.long_name = NULL},
};

// ---- Backends -----------------------------------------------------------------------------------
// This process among those of the run.
typedef struct process {
    int rank;    // the rank it holds
    int size;    // processes; 1: it holds every rank
    void *page;  // where it says where its rank is; NULL: it holds every rank
} process;

static int processes_begin(process *out) {
    *out = (process){.rank = 0, .size = 1};
#ifdef LOCKSTEP_WITH_MPI
    LS_TRY(ls_mpi_init(&out->rank, &out->size));
#endif
    return LS_OK;
}

static void processes_end(int code) {
#ifdef LOCKSTEP_WITH_MPI
    if (code != LS_EXIT_OK) {
        // The other ranks may wait for this one: end them all.
        ls_mpi_abort(code);
    }
    ls_mpi_finalize();
#endif
    (void)code;
}

#ifdef LOCKSTEP_WITH_NCCL
static int create_nccl(ls_backend **out, ls_world *world, const char **versions) {
    static char description[256];
    static ls_nccl_bootstrap bootstrap;
    // The launcher ends everything at the deadline: this process wants to say why before that.
    ls_nccl_options nccl = {.deadline_seconds = given.run.deadline_seconds / 2};
#ifdef LOCKSTEP_WITH_MPI
    LS_TRY(ls_nccl_mpi_bootstrap(&bootstrap));
    nccl.bootstrap = &bootstrap;
#else
    (void)bootstrap;
#endif
    int status = ls_backend_nccl_create(out, world, &nccl);
    if (status != LS_OK) {
        ls_error error = *ls_error_last();  // counting may fail too
        int have = ls_nccl_device_count();
        (void)ls_error__set(error.file, error.line, error.code, error.rank, "%s", error.text);
        if (have > 0 && have < ls_nccl_devices_needed(world, &nccl)) {
            ls_launch_tell_too_few(given.marks, ls_world_held(world)[0]);
        }
        return status;
    }
    *versions = ls_nccl_describe(description, sizeof description) == LS_OK ? description : "nccl";
    return LS_OK;
}
#endif

#ifdef LOCKSTEP_WITH_MPI
static int create_mpi(ls_backend **out, ls_world *world, const char **versions) {
    *versions = ls_mpi_version();
    return ls_backend_mpi_create(out, world);
}
#endif

static int create_backend(ls_backend **out, ls_world *world, const char **versions) {
    static const struct {
        const ls_backend_kind *kind;
        int (*create)(ls_backend **out, ls_world *world, const char **versions);
    } here[] = {
#ifdef LOCKSTEP_WITH_MPI
        {&ls_backend_kind_mpi, create_mpi},
#endif
#ifdef LOCKSTEP_WITH_NCCL
        {&ls_backend_kind_nccl, create_nccl},
#endif
    };
    const ls_backend_kind *kind = ls_backend_kinds[given.backend];
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        if (here[i].kind == kind) {
            return here[i].create(out, world, versions);
        }
    }
    return LS_FAIL(LS_ERR_BACKEND, "this program has no %s backend", kind->name);
}

// ---- One process's ranks ------------------------------------------------------------------------
static int run_ranks(const ls_scenario *scenario, const process *own) {
    ls_world_options world_options = {.mesh = scenario->mesh, .seed = scenario->seed};
    if (own->size > 1) {
        world_options.held = &own->rank;
        world_options.held_count = 1;
    }
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    const char *versions = NULL;
    LS_TRY(ls_world_create(&world, &world_options));
    int status = create_backend(&backend, world, &versions);
    if (status == LS_OK && own->page != NULL) {
        backend->place = ls_launch_place;
        backend->place_arg = own->page;
    }
    if (status == LS_OK) {
        status = ls_run_rank(scenario, backend, versions, given.recording, given.own_calls);
        if (status != LS_OK) {
            ls_launch_tell_finding(given.marks, own->rank);
        }
    }
    ls_backend_free(backend);
    ls_world_free(world);
    return status;
}

// Says that every rank of this process lives, or is done.
static int mark(int (*say)(const char *marks, int rank), const ls_scenario *scenario,
                const process *own) {
    if (own->size > 1) {
        return say(given.marks, own->rank);
    }
    for (int rank = 0; rank < scenario->ranks; rank++) {
        LS_TRY(say(given.marks, rank));
    }
    return LS_OK;
}

static int run_scenario(const ls_scenario *scenario, process *own) {
    if (own->size > 1 && scenario->ranks != own->size) {
        cli_error("%s wants %d ranks, mpiexec started %d", scenario->file, scenario->ranks,
                  own->size);
        return LS_EXIT_USAGE;
    }
    int status = own->size > 1 ? ls_launch_place_open(&own->page, given.marks, own->rank) : LS_OK;
    status = status == LS_OK ? mark(ls_launch_announce, scenario, own) : status;
    status = status == LS_OK ? run_ranks(scenario, own) : status;
    status = status == LS_OK ? mark(ls_launch_done, scenario, own) : status;
    if (status != LS_OK && own->size > 1) {
        (void)ls_error_wrap("rank %d", own->rank);
    }
    if (status != LS_OK) {
        ls_launch_tell_error(given.marks, own->rank);
    }
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}

static int run(const cli_args *args) {
    if (given.recording == NULL || given.marks == NULL) {
        cli_error("rank is started by run, compare and record");
        return LS_EXIT_USAGE;
    }
    ls_launch_keep(given.marks);
    if (given.run.deadline_seconds <= 0) {
        given.run.deadline_seconds = 60;
    }
    process own;
    int status = processes_begin(&own);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    cli_scenarios scenarios = {0};
    int code = cli_scenarios_load(&scenarios, args, true);
    if (code == LS_EXIT_OK) {
        code = run_scenario(scenarios.at[0], &own);
    }
    cli_scenarios_free(&scenarios);
    processes_end(code);
    return code;
}

const cli_command cli_cmd_rank = {
    .name = "rank",
    .arguments = "FILE",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "One rank of a real run; started by run, compare and record",
    .details = "",
    .common = CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
