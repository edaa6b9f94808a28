"""Which tests a mutant must get past, nearest first. A name may select from a Criterion program:
"unit/runner: compare|expect". The first pattern that fits a file counts."""
import re

COMPARE = ("unit/runner: cells|compare|difference|expect|order_search|outputs|program_oracle|recorded|"
           "references|stages|verdict")
JUDGED = ("cli/run", "cli/orders", "cli/false_passes", "cli/recordings", "scenario/bugs",
          "scenario/recordings")
PLANNER = ("unit/planner_search", "unit/planner_plan", "unit/planner_nofit", "unit/planner_bound",
           "unit/planner_budget", "unit/planner_baseline", "unit/planner_traffic",
           "unit/planner_stages", "unit/planner_cost_lockstep", "unit/planner_cost_torchrec",
           "unit/planner_limits", "unit/planner_redistribute", "unit/planner_plan_file",
           "unit/planner_exhaustive")
REMOTE = ("exec/host", "exec/correct", "mpi_front/mistakes")
RANKS = ("unit/ranks", "unit/ranks_backend", "unit/hostile", "unit/overlap", "unit/sites")

ROOMS = (
    ("runner/plan/", ("unit/runner: steps|plan",), ("cli/plan", "cli/plan_times")),
    ("runner/launch/planted", ("unit/runner: planted",), ("mpi/planted",)),
    ("runner/compare/compare\\.c", (COMPARE,), JUDGED + ("mpi/planted",)),
    ("runner/compare/order_search", (COMPARE, "cli/orders"), JUDGED),
    ("runner/compare/recorded", (COMPARE, "cli/recordings", "cli/false_passes"), JUDGED),
    ("runner/(compare|program)/", (COMPARE,), JUDGED),
    ("embedding/", ("unit/embedding",), ("cli/run", "scenario/bugs", "scenario/torchrec",
                                         "scenario/recordings", "scenario/sweep")),
    ("orders/", ("unit/order_bound", "unit/order", "unit/order_exact", "unit/order_explain",
                 "unit/order_arithmetic"), (COMPARE, "unit/order_replay", "cli/orders",
                                            "cli/run", "scenario/recordings")),
    ("planner/", PLANNER, ("oracle/planner", "cli/plan")),
    ("collectives/", ("unit/collectives", "unit/recording"), RANKS + (
        "cli/run", "cli/recordings", "scenario/bugs")),
    ("ranks/(meet|p2p)", RANKS, ("cli/run", "scenario/bugs", *REMOTE)),
    ("ranks/", RANKS, ("cli/run", "scenario/bugs", "scenario/sweep", "stress/ranks")),
    ("local_tensor/", ("unit/local_tensor", "unit/tensor_collectives"), (COMPARE, "cli/run")),
    ("fuzz/", ("unit/fuzz",), ("cli/fuzz", "cli/mutate", "scenario/fuzz")),
    ("formats/", ("unit/arrays", "unit/base", "unit/file"), ("cli/run", "cli/outputs")),
)

# What tests need built beside lockstep and lockstep-mpi, and the programs of their own name.
TARGETS = {
    "exec/host": ("exec_host",),
    "exec/correct": ("exec_correct",),
    "mpi_front/mistakes": ("lockstep_mpi_programs", "lockstep_mpi_wrapper"),
}


def tests_of(file):
    """The tiers of tests for a file."""
    for pattern, *tiers in ROOMS:
        if re.match(pattern, file):
            return tiers
    raise LookupError(f"no tests are listed for {file}")
