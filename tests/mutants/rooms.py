"""The rooms, their files, and the tests that must kill a mutant of a file: those of the room, of rooms that use it, and of the last tier,
which everything uses. Within a tier the quickest runs first. A name may select from a Criterion program: "unit/runner: compare|expect". The
first row whose pattern matches a file counts. A file without a match has no mutants: it needs a GPU.
"""
import re

COMPARE = ("unit/runner: cells|compare|difference|expect|order_search|outputs|program_oracle|reason|recorded|"
           "references|stages|verdict")
JUDGED = ("cli/run", "cli/orders", "cli/false_passes", "cli/recordings", "scenario/bugs",
          "scenario/recordings")
PLANNER = ("unit/planner_decisions", "unit/planner_search", "unit/planner_plan",
           "unit/planner_nofit", "unit/planner_bound", "unit/planner_budget",
           "unit/planner_baseline", "unit/planner_traffic", "unit/planner_stages",
           "unit/planner_cost_lockstep", "unit/planner_cost_torchrec", "unit/planner_limits",
           "unit/planner_redistribute", "unit/planner_plan_file", "unit/planner_exhaustive")
REMOTE = ("exec/host", "exec/correct", "mpi_front/mistakes")
RANKS = ("unit/ranks", "unit/ranks_backend", "unit/hostile", "unit/overlap", "unit/sites")
ORDERS = ("unit/order_bound", "unit/order", "unit/order_exact", "unit/order_explain",
          "unit/order_arithmetic")
EMBEDDING = ("unit/embedding", "unit/embedding_functional")
EMBEDDED = ("cli/run", "cli/reshard", "scenario/bugs", "scenario/torchrec", "scenario/recordings",
            "scenario/replicas", "scenario/sweep")
SCENARIO = ("unit/scenario", "unit/inputs", "cli/hostile", "cli/unusable")
KERNELS = ("unit/kernels_bags", "unit/kernels_convert", "unit/kernels_lookup",
           "unit/kernels_quantise", "unit/kernels_reduce", "unit/kernels_training")
REPORTS = ("unit/reports", "unit/show", "scenario/report_xml", "cli/show", "cli/run", "cli/outputs")
PROCESSES = ("mpi/collectives-3", "mpi/tensor-3", "mpi/embedding-3", "mpi/ranks-3", "mpi/reuse")
LAUNCHED = ("mpi/reuse", "mpi/injected", "mpi/killed_rank", "mpi/interrupted", "mpi/extremes")
ENDED = ("mpi/spread", "cli/recordings", "cli/false_passes", "mpi/hangs")
EXEC = ("exec/none", "exec/op", "exec/count", "exec/p2p", "exec/groups", "exec/overlap", "exec/killed",
        "exec/fails", "exec/cycle", "exec/observe_none", "exec/observe_op", *REMOTE[:2])
CLI = ("unit/cli", "cli/usage", "cli/run", "cli/show", "cli/spmd", "cli/plan", "cli/outputs",
       "cli/mutate", "cli/fuzz", "cli/recordings", "cli/reshard", "cli/everywhere", "cli/unusable")

# The last tier of every room.
ALL = ("unit/runner", "unit/ranks", "unit/collectives", "unit/reports", "unit/recording", "cli/usage",
       "cli/run", "cli/show", "cli/outputs", "cli/plan", "cli/recordings", "cli/false_passes",
       "scenario/bugs", "scenario/models", "scenario/recordings", "mpi/injected", "mpi/training")

# The room, the files, the nearest tests, and those of rooms that use it.
ROOMS = (
    ("judge", "runner/compare/order_search", (COMPARE, "cli/orders"), JUDGED),
    ("judge", "runner/compare/recorded", (COMPARE, "cli/recordings", "cli/false_passes"), JUDGED),
    ("judge", "runner/compare/(compare|run|verdict)\\.c", (COMPARE,),
     (*JUDGED, "mpi/injected", "cli/fuzz", "scenario/reasons")),
    ("judge", "runner/compare/trained", (COMPARE, "scenario/replicas"), JUDGED),
    ("judge", "runner/compare/comparison", (COMPARE,), (*JUDGED, "gdb/stop_at")),
    ("judge", "runner/compare/reason", (COMPARE, "scenario/reasons"), (*JUDGED, "cli/prove")),
    ("judge", "runner/compare/(simulate|stages)", (COMPARE,), (*JUDGED, "mpi/spread")),
    ("judge", "runner/(compare/|program/(\\w*oracle|program_cells))", (COMPARE,), JUDGED),
    ("judge", "oracle/", EMBEDDING, (*EMBEDDED, "cli/prove")),
    ("judge", "orders/(bound|exact|explain)", ORDERS,
     (COMPARE, "unit/order_replay", "cli/orders", "cli/run", "scenario/recordings")),
    ("judge", "collectives/(check|finding)", ("unit/collectives", "unit/scenario"),
     (*RANKS, "cli/run", "scenario/bugs")),
    ("judge", "ranks/(meet|p2p|checks)", RANKS,
     ("cli/run", "scenario/bugs", *REMOTE, "mpi_front/cases", "mpi/ranks-3")),
    ("base", "base/", ("unit/base", "unit/file", "unit/arrays"),
     ("unit/kernels_convert", "unit/order_bound", "unit/runner", "cli/run", "cli/outputs")),
    ("formats", "formats/", ("unit/arrays", "unit/base", "unit/file", "unit/scenario"),
     ("cli/run", "cli/outputs", "cli/unusable", "cli/hostile", "cli/recordings", "cli/plan")),
    ("kernels", "kernels/cpu/scalar", ("unit/kernels_convert", "unit/kernels_scalar"), ("cli/run",)),
    ("kernels", "kernels/cpu/device", KERNELS, (*EMBEDDING, "unit/collectives", "cli/run",
                                               "scenario/parallel", "docs/judges")),
    ("kernels", "kernels/cpu/", KERNELS, (*EMBEDDING, "unit/collectives", "unit/runner", "cli/run")),
    ("local_tensor", "local_tensor/", ("unit/local_tensor",
                                       "unit/tensor_collectives"), (COMPARE, "cli/run")),
    ("orders", "orders/", ORDERS, (COMPARE, "unit/order_replay", "cli/orders", "cli/run",
                                   "scenario/recordings")),
    ("collectives", "collectives/", ("unit/collectives", "unit/recording", "unit/tensor_collectives"),
     (*RANKS, "cli/run", "cli/recordings", "scenario/bugs", *PROCESSES[:2])),
    ("backends", "backends/calibrate", ("unit/calibrate",), ("unit/order_replay",)),
    ("backends", "backends/mpi/", PROCESSES, ("mpi/injected", "mpi/training", "mpi/models",
                                              "mpi/spread", "mpi/hangs")),
    ("backends", "backends/(sim/sim|backend|kinds|match)\\.c", ("unit/collectives", "unit/recording",
                                                               "unit/ranks_backend", "unit/runner"),
     ("cli/run", "mpi/collectives-3", "mpi/reuse", "mpi/injected", "scenario/bugs")),
    ("ranks", "ranks/(direct|own_backend)", ("unit/ranks_backend", "mpi/ranks-3"),
     (*RANKS, "mpi/reuse", "scenario/bugs", "scenario/sweep", "spmd/mpi-3")),
    ("ranks", "ranks/remote", RANKS, (*EXEC, "exec/another", "exec/asleep")),
    ("ranks", "ranks/(threads|gdb)", RANKS, ("unit/trainers", "cli/spmd", "scenario/bugs",
                                             "gdb/stepping", "gdb/stops", "gdb/kinds")),
    ("ranks", "ranks/", RANKS, ("unit/trainers", "cli/run", "cli/spmd", "scenario/bugs",
                                "scenario/sweep", "stress/ranks", *REMOTE)),
    ("planner", "planner/", PLANNER, ("oracle/planner", "cli/plan", "stress/planner_memory")),
    ("embedding", "embedding/", EMBEDDING, EMBEDDED),
    ("runner", "runner/plan/", ("unit/runner: steps|plan",), ("cli/plan", "cli/plan_times")),
    ("process", "process/", ("unit/child", "unit/runner", *LAUNCHED), ENDED),
    ("runner", "runner/launch/injected", ("unit/runner: injected",), ("mpi/injected",)),
    ("runner", "runner/launch/", ("unit/runner", *LAUNCHED), ENDED),
    ("runner", "runner/scenario/", SCENARIO, ("unit/runner", "cli/run", "cli/show", "cli/recordings",
                                              "scenario/bugs", "scenario/models", "scenario/need")),
    ("runner", "runner/replay/", ("unit/replay_torch", "unit/runner"),
     ("unit/order_replay", "cli/recordings", "scenario/recordings", "scenario/torchrec")),
    ("runner", "runner/diff/", ("diff/captures", "diff/edges", "diff/layouts"), ("unit/runner",)),
    ("runner", "runner/trace/", ("trace/format", "unit/runner"), ("cli/outputs",)),
    ("runner", "runner/(steps|program)/", ("unit/runner", "unit/scenario"),
     (*JUDGED, "scenario/models", "scenario/parallel", "scenario/fuzz", "docs/judges",
      "mpi/injected")),
    ("runner", "runner/", ("unit/runner", "unit/scenario"), (*JUDGED, "scenario/models")),
    ("report", "report/", REPORTS, ("cli/recordings", "cli/false_passes", "unit/runner")),
    ("exec", "exec/", EXEC, ("exec/replay", "exec/ends_rank", "exec/flight", "exec/python_op",
                             "exec/join", "exec/early", "exec/apart", "exec/ends_left",
                             "exec/ended", "exec/strangers", "exec/start_sleeps", "exec/start_fails", "exec/start_slow",
                             "exec/start_stderr", "exec/restart", "exec/queues", "exec/large",
                             "exec/device_bits", "exec/device_redundant", "exec/hosts_op")),
    ("mpi", "mpi/", ("mpi_front/mistakes", "mpi_front/cases"),
     ("mpi_front/linking", "mpi_front/explore", "mpi_front/compare")),
    ("cli", "cli/cmd_traffic", ("trace/format",), CLI),
    ("cli", "cli/cmd_calibrate", ("cli/orders",), CLI),
    ("cli", "cli/mpi_compare", ("mpi_front/compare",), CLI),
    ("cli", "cli/cmd_mpi", ("mpi_front/cases", "mpi_front/mistakes"),
     ("mpi_front/explore", "mpi_front/compare", *CLI)),
    ("cli", "cli/cmd_rank", ("mpi/killed_rank", "mpi/reuse"), ("mpi/injected", "mpi/spread", *CLI)),
    ("cli", "cli/(cmd_gdb|debugger)", ("unit/cli", "cli/gdb", "gdb/stop_at"), CLI),
    ("fuzz", "fuzz/", ("unit/fuzz",), ("cli/fuzz", "cli/mutate", "scenario/fuzz")),
    ("cli", "cli/", CLI, ("cli/hostile", "cli/orders", "cli/words", "exec/op")),
    # only for python_mutants.py: tests that take the package's folder or the program
    ("python", "python/lockstep/(__init__|capturing|layouts|tensor_files)\\.py", ("python/units",), ("diff/ways", "diff/defects", "diff/silent", "diff/programs")),
    ("python", "python/lockstep/watch(_reductions)?\\.py", ("python/recorded", "python/units"),
     ("python/watch_notes", "python/watch_values", "python/watch_work", "python/watch_ddp", "python/watch_promises", "python/watch_good")),
    ("python", "python/lockstep/(names|torch_(arguments|backend|client|work))\\.py", ("python/recorded", "python/units"),
     ("python/purposes", "python/backend", "python/blocks")),
)

# Suites of larger programs that test one file: they kill its mutants faster.
NEAREST = (
    ("runner/compare/difference", "unit/runner: difference"),
    ("runner/compare/expect", "unit/runner: expect"),
    ("runner/compare/stages", "unit/runner: stages"),
    ("runner/compare/verdict", "unit/runner: verdict"),
    ("runner/compare/reason", "unit/runner: reason"),
    ("runner/compare/recorded", "unit/runner: recorded"),
    ("runner/compare/compare_reference", "unit/runner: references"),
    ("runner/compare/compar", "unit/runner: outputs"),
    ("runner/program/program_cells", "unit/runner: cells"),
    ("runner/program/program_oracle", "unit/runner: program_oracle"),
    ("ranks/checks/replica", "unit/overlap: replica"),
    ("oracle/range", "unit/embedding: range"),
    ("oracle/(opt|state|train|expect_train)", "unit/embedding: training"),
    ("oracle/", "unit/embedding: oracle|judge|means"),
)

# Targets that tests need beside the programs in their commands: always, and by label.
ALWAYS = ("lockstep", "lockstep-mpi")
TARGETS = {
    "cli": ("spmd_program",),
    "exec": ("exec_stand_in", "exec_stand_in_nccl", "lockstep_nccl_front", "lockstep_nccl_observe"),
    "gdb": ("gdb_many", "gdb_comms", "gdb_rough", "gdb_kinds", "gdb_shared", "gdb_types"),
    "mpi_front": ("lockstep_mpi_programs", "lockstep_mpi_wrapper"),
}


def row_of(file):
    for row in ROOMS:
        if re.match(row[1], file):
            return row
    return None


def room_of(file):
    """The room of a file, or None: it has no mutants."""
    row = row_of(file)
    return row and row[0]


def tests_of(file):
    """The tiers of tests for a file."""
    first, *rest = row_of(file)[2:]
    near = tuple(test for pattern, test in NEAREST if re.match(pattern, file))[:1]
    return [near + first, *rest, ALL]
