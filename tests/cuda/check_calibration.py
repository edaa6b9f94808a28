"""What the probes found on real GPUs agrees with what NCCL's log said there: check_calibration.py
PROGRAM SOURCE. Recordings made on four and three GPUs are compared under the measured orders of the
same machine; every reduction must be bit exact, as it is under the orders read from the log.
"""
import json
import os
import subprocess
import sys


def compared(program, source, files, order):
    real = os.path.join(source, "recordings", "h200-nccl-2.28.9")
    command = [program, "compare", *files, "--real", real, "--json", "-"]
    done = subprocess.run(command + (["--order", order] if order else []), capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return json.loads(done.stdout)["cases"]


def main():
    program, source = sys.argv[1:]
    stages = 0
    for ranks, word in ((4, "four"), (3, "three")):
        sweep = os.path.join(source, "scenarios", "nccl_sweep")
        files = [os.path.join(sweep, "%s_%s.yaml" % (name, word)) for name in ("all_reduce", "reduce")]
        measured = os.path.join(source, "recordings", "h200-nccl-2.28.9.machine%d.json" % ranks)
        assert json.load(open(measured))["ranks"] == ranks
        for order in ("measured:" + measured, None):
            for case in compared(program, source, files, order):
                for stage in case["stages"]:
                    if not stage["name"].startswith("oracle:"):
                        assert stage["class"] == "bit_exact", (order, case["name"], stage)
                        stages += 1
    # An order that the machine does not use must show, or the comparisons above prove nothing.
    files = [os.path.join(source, "scenarios", "nccl_sweep", "all_reduce_four.yaml")]
    classes = {stage["class"] for case in compared(program, source, files, "rank")
               for stage in case["stages"] if not stage["name"].startswith("oracle:")}
    assert classes - {"bit_exact"}, classes
    print("%d stages agree" % stages)


main()
