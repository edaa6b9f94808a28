// rank: one rank of real runs or a block of ranks of simulations that are spread (lockstep-mpi,
// started by mpiexec), or all of them, a thread each (lockstep-cuda), one run after the other on
// behalf of run, compare and record. Not a command for users.

#include "cli/commands.h"
#include "cli/scenarios.h"
#ifdef LOCKSTEP_WITH_MPI
#include "backends/blocks/blocks.h"
#include "backends/mpi/mpi.h"
#endif
#ifdef LOCKSTEP_WITH_NCCL
#include "backends/nccl/nccl.h"
#ifdef LOCKSTEP_WITH_MPI
#include "backends/nccl/nccl_mpi.h"
#endif
#endif
#include "collectives/check.h"
#include "orders/order.h"
#include "runner/launch/launch.h"
#include "runner/program/run_rank.h"

static struct {
    int backend;
    const char *runs;
} given;

static const cli_option options[] = {
    {CLI_CHOICE, "backend", &given.backend, "NAME", .choices = ls_backend_names,
     .help = "Backend that moves the data"},
    {CLI_STRING, "runs", &given.runs, "DIR",
     .help = "File through which this process receives its runs"},
    {.long_name = NULL},
};

// ---- Backends -----------------------------------------------------------------------------------
// This process among those of the run.
typedef struct process {
    int rank;     // the rank it holds, or its number
    int size;     // processes; 1: it holds every rank
    bool blocks;  // it holds a block of the ranks of a simulation
    void *page;   // receives the place of its rank; NULL: it holds several
} process;

static int processes_begin(process *out) {
    *out = (process){.size = 1, .blocks = ls_backend_kinds[given.backend] == &ls_backend_kind_sim};
#ifdef LOCKSTEP_WITH_MPI
    LS_TRY(ls_mpi_init(&out->rank, &out->size));
#endif
    return LS_OK;
}

#ifdef LOCKSTEP_WITH_NCCL
static ls_nccl_kept kept;

static int create_nccl(ls_backend **out, ls_world *world, const ls_launch_run *run,
                       const char **versions) {
    static char description[256];
    static ls_nccl_bootstrap bootstrap;
    // The launcher ends everything at the deadline: this process wants to say why before that.
    ls_nccl_options nccl = {.deadline_seconds = run->deadline_seconds / 2, .kept = &kept};
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
            ls_launch_tell_too_few(run->marks, ls_world_held(world)[0]);
        }
        return status;
    }
    *versions = ls_nccl_describe(description, sizeof description) == LS_OK ? description : "nccl";
    return LS_OK;
}
#endif

#ifdef LOCKSTEP_WITH_MPI
static int create_mpi(ls_backend **out, ls_world *world, const ls_launch_run *run,
                      const char **versions) {
    (void)run;
    *versions = ls_mpi_version();
    return ls_backend_mpi_create(out, world);
}

static int create_blocks(ls_backend **out, ls_world *world, const ls_launch_run *run,
                         const char **versions) {
    (void)run;
    (void)versions;
    return ls_backend_blocks_create(out, world);
}
#endif

static void processes_end(int code) {
#ifdef LOCKSTEP_WITH_MPI
    if (code != LS_EXIT_OK) {
        // The other ranks may wait for this one: end them all.
        ls_mpi_abort(code);
    }
#endif
#ifdef LOCKSTEP_WITH_NCCL
    ls_nccl_kept_free(&kept);
#endif
#ifdef LOCKSTEP_WITH_MPI
    ls_mpi_finalize();
#endif
    (void)code;
}

static int create_backend(ls_backend **out, ls_world *world, const ls_launch_run *run,
                          const char **versions) {
    static const struct {
        const ls_backend_kind *kind;
        int (*create)(ls_backend **out, ls_world *world, const ls_launch_run *run,
                      const char **versions);
    } here[] = {
#ifdef LOCKSTEP_WITH_MPI
        {&ls_backend_kind_mpi, create_mpi},
        {&ls_backend_kind_sim, create_blocks},
#endif
#ifdef LOCKSTEP_WITH_NCCL
        {&ls_backend_kind_nccl, create_nccl},
#endif
    };
    const ls_backend_kind *kind = ls_backend_kinds[given.backend];
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        if (here[i].kind == kind) {
            return here[i].create(out, world, run, versions);
        }
    }
    return LS_FAIL(LS_ERR_BACKEND, "this build has no %s backend", kind->name);
}

// ---- One process's ranks ------------------------------------------------------------------------
// held [scenario->ranks] gets the ranks of this process; returns how many, 0: all.
static int ranks_of(int *held, const ls_scenario *scenario, const process *own) {
    int first = own->rank, count = own->size > 1 ? 1 : 0;
#ifdef LOCKSTEP_WITH_MPI
    if (own->blocks) {
        ls_blocks_of(&first, &count, scenario->ranks, own->rank, own->size);
    }
#endif
    for (int i = 0; i < count; i++) {
        held[i] = first + i;
    }
    (void)scenario;
    return count;
}

static int run_on(ls_world *world, const ls_scenario *scenario, const ls_launch_run *run,
                  const process *own, ls_arena *arena) {
    ls_rank_run ranks = {.scenario = scenario, .dir = run->recording, .own_calls = run->own_calls};
    const char *stated = run->order[0] != 0 ? run->order : scenario->order;
    ls_order *order = NULL;
    ls_finding finding = {0};
    bool found = false;
    int status = own->blocks && stated != NULL ? ls_order_parse(&order, stated) : LS_OK;
    status = status == LS_OK ? create_backend(&ranks.backend, world, run, &ranks.versions) : status;
    if (status == LS_OK && own->page != NULL) {
        ranks.backend->place = ls_launch_place;
        ranks.backend->place_arg = own->page;
    }
    if (status == LS_OK) {
        ranks.backend->order = order;
        status = ls_run_rank(&ranks, arena, &finding, &found);
    }
    if (found) {
        ls_launch_tell_finding(run->marks, own->rank, &finding);
    }
    ls_backend_free(ranks.backend);
    ls_order_free(order);
    return status;
}

static int run_ranks(const ls_scenario *scenario, const ls_launch_run *run, const process *own) {
    ls_arena *arena = NULL;
    ls_world *world = NULL;
    LS_TRY(ls_arena_create(&arena));
    int *held = ls_arena_alloc(arena, (size_t)scenario->ranks, sizeof *held);
    int status = held != NULL ? LS_OK : LS_ERR_MEMORY;
    ls_world_options of_world = {.mesh = scenario->mesh, .seed = scenario->seed};
    if (status == LS_OK) {
        of_world.held_count = ranks_of(held, scenario, own);
        of_world.held = of_world.held_count > 0 ? held : NULL;
        status = ls_world_create(&world, &of_world);
    }
    status = status == LS_OK ? run_on(world, scenario, run, own, arena) : status;
    ls_world_free(world);
    ls_arena_free(arena);
    return status;
}

// Announces the watched part, or its end: its rank or every rank; in a spread simulation every
// process, announced by the first one, which the others have joined.
static int mark(int (*say)(const char *marks, int rank), const ls_scenario *scenario,
                const ls_launch_run *run, const process *own) {
    if (own->size > 1 && !own->blocks) {
        return say(run->marks, own->rank);
    }
    int count = own->blocks ? own->size : scenario->ranks;
    for (int i = 0; i < count && own->rank == 0; i++) {
        LS_TRY(say(run->marks, i));
    }
    return LS_OK;
}

// The processes of a simulation continue, or end, together.
static int meet(int status, const process *own) {
    bool all_well = true;
#ifdef LOCKSTEP_WITH_MPI
    if (own->blocks) {
        ls_error error = *ls_error_last();
        LS_TRY(ls_blocks_meet(&all_well, status == LS_OK));
        if (status != LS_OK) {
            return ls_error__set(error.file, error.line, status, error.rank, "%s", error.text);
        }
    }
#endif
    (void)own;
    return status != LS_OK || all_well
               ? status
               : LS_FAIL(LS_ERR_RANK_DIED, "another process of this run has failed");
}

static int run_scenario(const ls_scenario *scenario, const ls_launch_run *run, process *own) {
    bool one_rank = own->size > 1 && !own->blocks;
    if (one_rank && scenario->ranks != own->size) {
        cli_error("%s needs %d ranks, mpiexec started %d", scenario->file, scenario->ranks,
                  own->size);
        return LS_EXIT_USAGE;
    }
    int status = one_rank ? ls_launch_place_open(&own->page, run->marks, own->rank) : LS_OK;
    status = status == LS_OK ? mark(ls_launch_announce, scenario, run, own) : status;
    status = status == LS_OK ? run_ranks(scenario, run, own) : status;
    if (status != LS_OK && one_rank) {
        (void)ls_error_wrap("rank %d", own->rank);
    }
    if (status != LS_OK &&
        !(own->blocks && status == LS_ERR_RANK_DIED)) {  // the failed process gives the reason
        ls_launch_tell_error(run->marks, own->rank);
    }
    status = meet(status, own);
    status = status == LS_OK ? mark(ls_launch_done, scenario, run, own) : status;
    ls_launch_place_close(own->page);
    own->page = NULL;
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}

// The next run, of which the first process of a spread simulation hears for all.
static bool next_run(ls_launch_run *out, const process *own) {
    struct {
        ls_launch_run run;
        bool is;
    } next = {.is = false};
    if (!own->blocks || own->rank == 0) {
        next.is = ls_launch_next(&next.run);
    }
#ifdef LOCKSTEP_WITH_MPI
    if (own->blocks && ls_blocks_share(&next, sizeof next) != LS_OK) {
        return false;
    }
#endif
    *out = next.run;
    return next.is;
}

static int run_one(const ls_launch_run *run, process *own) {
    const char *file = run->scenario;
    const cli_args files = {.count = 1, .values = &file};
    cli_scenarios scenarios = {0};
    cli_options_common.seed = run->seed;
    cli_options_common.seed_given = true;
    ls_check_clear();
    ls_error_clear();
    int code = cli_scenarios_load(&scenarios, &files, true);
    code = code == LS_EXIT_OK ? run_scenario(scenarios.at[0], run, own) : code;
    cli_scenarios_free(&scenarios);
    return code;
}

static int serve(const cli_args *args) {
    (void)args;
    if (given.runs == NULL) {
        cli_error("rank is started by run, compare and record");
        return LS_EXIT_USAGE;
    }
    ls_launch_keep(given.runs);
    process own;
    int status = processes_begin(&own);
    if (status == LS_OK && !(own.blocks && own.rank > 0)) {
        status = ls_launch_join(given.runs, own.rank);
    }
    if (status != LS_OK) {
        return cli_fail(status);
    }
    int code = LS_EXIT_OK;
    for (ls_launch_run run; code == LS_EXIT_OK && next_run(&run, &own);) {
        code = run_one(&run, &own);
    }
    processes_end(code);
    return code;
}

const cli_command cli_cmd_rank = {
    .name = "rank",
    .arguments = "",
    .arguments_min = 0,
    .arguments_max = 0,
    .summary = "One rank of real runs; started by run, compare and record",
    .details = "",
    .options = options,
    .run = serve,
};
