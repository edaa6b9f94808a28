"""Every deadlock of the catalogue, as real MPI processes with a short deadline and without lockstep's checks: the simulator explains each
hang. The corrected version ends, so the bug causes the hang. A rank's processes are ended even if mpiexec loses its proxy. hangs.py
LOCKSTEP MPI_SCENARIO MPI_RANKS PIPELINE PIPELINE_MPI MPIEXEC SECOND_CHANGES SOURCE.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import ended  # noqa: E402
from twins import clean_twin  # noqa: E402

(lockstep, mpi_scenario, mpi_ranks, pipeline, pipeline_mpi, mpiexec, second_changes,
 source) = sys.argv[1:]
HANG_SECONDS = 2
END_SECONDS = 900
WORKERS = 6
HANGS, EAGER, SURVIVES, ENDED = "hangs", "eager", "survives", "is ended"
# The behaviour of each scenario of scenarios/bugs under MPI. eager: MPI buffers a small message and lets the sender continue, so the bug
# appears only with large messages.
SCENARIOS = {
    "all_gather_instead_of_all_reduce": HANGS,
    "axis_against_world": HANGS,
    "barrier_against_all_reduce": HANGS,
    "barrier_before_the_receive": EAGER,
    "broadcast_and_reduce_swapped": HANGS,
    "collective_under_if_rank_0": HANGS,
    "cross_communicator_inversion": HANGS,
    "cross_communicator_on_luck": SURVIVES,  # both calls are in progress: MPI has no single stream
    "cross_entropy_left_out": HANGS,
    "doubled_by_fault": HANGS,
    "early_return_on_nan": HANGS,
    "embedding_host_sum_skipped": HANGS,
    "embedding_id_of_no_row": ENDED,  # by the rank that refuses the received data
    "embedding_length_flipped": ENDED,
    "embedding_lengths_doubled": HANGS,
    "embedding_lengths_skipped": HANGS,
    "embedding_owner_dies": ENDED,
    "embedding_reduce_skipped": HANGS,
    "embedding_sizes_flipped": ENDED,
    "equal_all_reduces_swapped": SURVIVES,  # each call gets the data of the other
    "equal_axis_reductions_swapped": SURVIVES,
    "equal_buckets_swapped_in_flight": SURVIVES,
    "equal_gathers_swapped_on_one_of_seven": SURVIVES,
    "equal_layers_swapped_once": SURVIVES,
    "functional_id_of_no_row": ENDED,
    "gather_to_another_root": HANGS,
    "gradient_of_an_unused_layer": HANGS,
    "killed_rank": ENDED,  # mpiexec ends the job, and does not name the call
    "message_nobody_receives": EAGER,
    "message_nobody_sends": HANGS,
    "norm_of_own_shard": HANGS,
    "out_of_memory_on_one_rank": ENDED,  # by the rank without memory
    "pipeline_in_the_wrong_order": EAGER,
    "rank_out_of_batches": HANGS,
    "reduce_to_another_root": HANGS,
    "redistribute_interrupted": ENDED,
    "retry_on_one_rank": HANGS,
    "ring_of_sends": EAGER,
    "skipped_by_fault": HANGS,
    "skipped_call_of_a_loop": HANGS,
    "slow_rank": SURVIVES,  # as cross_communicator_on_luck
    "softmax_reduce_skipped": HANGS,
    "stalled_rank": HANGS,
    "tensors_joined_skipped": HANGS,
    "tagless_messages_swapped": ENDED,  # MPI finds a message longer than its buffer
    "tensor_shape_flipped": ENDED,
    "two_all_reduces_swapped": SURVIVES,  # MPI sums unrelated values
}
# Every scenario of these families must be above.
FAMILIES = re.compile(r"deadlock|missing_rank|extra_call|unmatched|exited_early|rank\.died|order_mis")
# Programs of tests/ranks/bugs.c: ranks, the behaviour under MPI, the finding.
BUGS = {
    "ring": (4, HANGS, "deadlock.cycle"),
    "self_send": (1, HANGS, "deadlock.cycle"),
    "cross": (3, HANGS, "deadlock.cross_communicator"),
    "cross_survives": (3, SURVIVES, "deadlock.cross_communicator"),
    "unmatched_send": (2, SURVIVES, "p2p.unmatched_send"),  # a small message, kept
    "unmatched_recv": (2, HANGS, "p2p.unmatched_recv"),
    "extra": (4, HANGS, "collective.extra_call"),
    "extra_inside": (4, HANGS, "collective.extra_call"),
    "left_out": (4, HANGS, "collective.missing_rank"),
    "left_out_alike": (4, HANGS, "collective.missing_rank"),
    "out_of_batches": (4, HANGS, "rank.exited_early"),
    "order": (4, SURVIVES, "collective.order_mismatch"),
    "order_async": (4, SURVIVES, "collective.order_mismatch"),
    "p2p_order": (2, ENDED, "p2p.order_mismatch"),
}


def run(command, seconds):
    """Its exit code and output, and None for the code if it was still running at the end."""
    env = dict(os.environ, UCX_LOG_LEVEL="fatal")
    start = time.monotonic()
    # timeout(1) ends mpiexec, which ends its processes.
    done = subprocess.run(["timeout", "-k", "2", str(seconds)] + command, capture_output=True,
                          text=True, check=False, env=env)
    # It ends with -9 after a kill: it is in the group that it kills.
    late = done.returncode in (124, 137, -9) and time.monotonic() - start >= seconds
    return None if late else done.returncode, done.stdout + done.stderr


def on_mpi(ranks, command, seconds, preload=""):
    preloaded = ["env", "LD_PRELOAD=" + preload] if preload else []
    return run(preloaded + [mpiexec, "-n", str(ranks)] + command, seconds)


class Case:
    """One bug: its run under MPI, that of its corrected version, and the program that explains it."""

    def __init__(self, name, outcome, ranks, bug, clean, explain, finding):
        self.name, self.outcome, self.ranks, self.bug = name, outcome, ranks, bug
        self.clean, self.explain, self.finding = clean, explain, finding
        self.large = None  # of a bug that MPI's small messages hide

    def judge(self):
        """Deviations from the expectation; "" if none."""
        hangs = self.outcome == HANGS
        code, output = on_mpi(self.ranks, self.bug, HANG_SECONDS if hangs else END_SECONDS)
        outcome = HANGS if code is None else SURVIVES if code == 0 else ENDED
        expected = SURVIVES if self.outcome == EAGER else self.outcome
        if outcome != expected:
            return f"{outcome} under MPI, not {expected}\n{output}"
        # MPICH's mpiexec kills its proxy, not the ranks, if the second changes while it handles an abort, and waits for
        # them.
        if outcome == ENDED and on_mpi(self.ranks, self.bug, END_SECONDS, second_changes)[0] is None:
            return "goes on without its proxy"
        if self.large and on_mpi(self.ranks, self.large, HANG_SECONDS)[0] is not None:
            return "ends under MPI with large messages too"
        if self.clean:
            code, output = on_mpi(self.ranks, self.clean, END_SECONDS)
            if code != 0:
                return f"its twin without the bug: exit code {code}\n{output}"
        return ""


def scenario_case(name, scratch):
    path = os.path.join(source, "scenarios", "bugs", name + ".yaml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    ranks = 1
    for extent in re.search(r"shape: \[([0-9, ]+)\]", text).group(1).split(","):
        ranks *= int(extent)
    finding = re.search(r"finding: ([a-z0-9_.]+)", text).group(1)
    case = Case(name, SCENARIOS[name], ranks, [mpi_scenario, path],
                [mpi_scenario, clean_twin(path, scratch)],
                [lockstep, "run", path, "--json", "-"], finding)
    if case.outcome == EAGER:
        large = os.path.join(scratch, name + ".yaml")
        with open(large, "w", encoding="utf-8") as file:
            file.write(re.sub(r"count: \d+", "count: 1048576", text))
        case.large = [mpi_scenario, large]
    return case


def all_cases(scratch):
    folder = os.path.join(source, "scenarios", "bugs")
    for entry in sorted(os.listdir(folder)):
        if not entry.endswith(".yaml") or entry.endswith("_clean.yaml"):
            continue
        with open(os.path.join(folder, entry), encoding="utf-8") as file:
            found = re.search(r"expect: \{finding: ([a-z0-9_.]+)", file.read())
        if found and FAMILIES.search(found.group(1)) and entry[:-5] not in SCENARIOS:
            sys.exit(f"{entry}: say what MPI makes of it")
    cases = [scenario_case(name, scratch) for name in SCENARIOS]
    for name, (ranks, outcome, finding) in BUGS.items():
        cases.append(Case(name, outcome, ranks, [mpi_ranks, name], [mpi_ranks, "clean", name],
                          [mpi_ranks, "explain", name], finding))
    cases.append(Case("examples/pipeline --bug", HANGS, 3, [pipeline_mpi, "--bug"],
                      [pipeline_mpi], [pipeline, "--ranks", "3", "--bug"], "deadlock.cycle"))
    return cases


def main():
    bad, count, slowest = 0, {}, 0.0
    ended.begin()
    with tempfile.TemporaryDirectory() as scratch:
        cases = all_cases(scratch)
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            problems = list(pool.map(Case.judge, cases))
    for case, problem in zip(cases, problems):
        start = time.monotonic()
        _, told = run(case.explain, END_SECONDS)
        seconds = time.monotonic() - start
        slowest = max(slowest, seconds)
        if case.finding not in told:
            problem += f"\nnot explained as {case.finding} within {seconds:.2f} s: {told}"
        how = "hangs with large messages" if case.outcome == EAGER else case.outcome
        count[how] = count.get(how, 0) + 1
        bad += problem != ""
        print(f"{case.name}: {how} under MPI; {case.finding}, explained in {seconds:.2f} s"
              if not problem else f"{case.name}: {problem}")
    print(", ".join(f"{n} {how}" for how, n in count.items()) +
          f"; all explained, the slowest in {slowest:.2f} s" * (not bad))
    return 1 if bad else 0


sys.exit(main())
