"""Compares every scenario with real MPI processes and checks the report: compare.py PROGRAM SOURCE.

The verdict must be pass, every stage that only moves data bit exact, and the JSON as the reference documents it. Then a recording is made
and compared with again.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

MOVES_ONLY = ("input_dist",)
CASE_KEYS = {"name", "file", "backend", "real", "verdict", "class", "stages", "findings", "reproduce"}
STAGE_KEYS = {"name", "class", "against", "elements", "unjudged", "differing", "max_ulps", "bound_ratio",
              "order"}


def run(arguments, expect=0):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != expect:
        sys.exit("%s: exit code %d, not %d\n%s%s" % (" ".join(arguments), done.returncode, expect,
                                                     done.stdout[-4000:], done.stderr[-4000:]))
    return done.stdout


# Defects that MPI's ranks cannot show: findings in a rank's values, and a deadlock that happens to be survived. They are skipped, each with
# the finding that only the simulation has.
UNSEEN = {name: "collective.order_mismatch" for name in (
    "equal_all_reduces_swapped", "equal_axis_reductions_swapped", "equal_buckets_swapped_in_flight",
    "equal_gathers_swapped_on_one_of_seven", "equal_layers_swapped_once")}
UNSEEN |= {"inf_enters_at_one_rank": "value.inf_first", "nan_enters_at_one_rank": "value.nan_first",
          "nan_in_an_embedding": "value.nan_first", "slow_rank": "deadlock.cross_communicator",
          "cross_communicator_on_luck": "deadlock.cross_communicator",
          "gradient_overflow_in_f16": "value.inf_first",
          "weights_drift_apart_declared": "replica.diverged",
          # Found by comparing the tensors of all ranks, or an earlier tensor.
          "replica_changed_by_one_rank": "replica.diverged",
          "dropout_differs_in_replicas": "replica.diverged",
          "nan_enters_a_scan": "value.nan_first",
          "gradients_reduced_twice": "collective.redundant_reduce",
          # Sums of four f8 in MPI's own order: their bound cannot separate wrong sums from right ones.
          "program": "bounds too wide to prove anything"}


def check(report, command, real, cases, unseen=()):
    assert report["format"] == 1 and report["command"] == command
    assert report["verdict"] == "pass" and report["failed"] == 0
    skips = {os.path.basename(skip["file"])[:-5]: skip["reason"] for skip in report.get("skips", ())}
    assert report["skipped"] == len(skips) and set(skips) <= set(unseen), skips
    for name, reason in skips.items():
        assert UNSEEN[name] in reason, (name, reason)
    assert report["passed"] + len(skips) == cases, (report["passed"], len(skips), cases)
    assert report["passed"] == len(report["cases"])
    for case in report["cases"]:
        assert CASE_KEYS <= set(case), case
        assert case["verdict"] == "pass" and case["real"] == real, case["name"]
        for stage in case["stages"]:
            assert STAGE_KEYS <= set(stage), stage
            if stage["name"] in MOVES_ONLY:
                assert stage["class"] == "bit_exact", (case["name"], stage)


def main():
    program, source = sys.argv[1:]
    files = sorted(glob.glob(os.path.join(source, "scenarios", "*", "*.yaml")))
    assert len(files) > 10
    check(json.loads(run([program, "compare", *files, "--real", "mpi", "--json", "-"])), "compare",
          "mpi", len(files), UNSEEN)
    torch = sorted(glob.glob(os.path.join(source, "scenarios", "torch_results", "*.yaml")))
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "recordings")
        run([program, "record", *torch, "--backend", "mpi", "--out", out, "--quiet"])
        check(json.loads(run([program, "compare", *torch, "--real", out, "--json", "-"])),
              "compare", "recording", len(torch))
        check(json.loads(run([program, "replay", out, "--json", "-"])), "replay", "recording",
              len(torch))
    print("%d scenarios compared" % len(files))


main()
