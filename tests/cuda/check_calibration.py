"""The measured orders of real GPUs agree with NCCL's log there: check_calibration.py PROGRAM SOURCE. Recordings of four and three GPUs, and
of eight ranks on one, are compared under the measured orders of the same machine. Every reduction must be bit exact, as under the orders
from the log.
"""
import json
import os
import subprocess
import sys


MACHINE, SHARED = "h200-nccl-2.28.9", "h200-shared-nccl-2.32.3"


def compared(program, source, machine, files, order):
    real = os.path.join(source, "recordings", machine)
    command = [program, "compare", *files, "--real", real, "--json", "-"]
    done = subprocess.run(command + (["--order", order] if order else []), capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return json.loads(done.stdout)["cases"]


def main():
    program, source = sys.argv[1:]
    stages = 0
    sweep = os.path.join(source, "scenarios", "nccl_sweep")
    for machine, ranks, names in ((MACHINE, 4, ("all_reduce_four", "reduce_four")),
                                  (MACHINE, 3, ("all_reduce_three", "reduce_three")),
                                  (SHARED, 8, ("forced_eight",))):
        files = [os.path.join(sweep, name + ".yaml") for name in names]
        measured = os.path.join(source, "recordings", "%s.machine%d.json" % (machine, ranks))
        assert json.load(open(measured))["ranks"] == ranks
        for order in ("measured:" + measured, None):
            for case in compared(program, source, machine, files, order):
                for stage in case["stages"]:
                    if not stage["name"].startswith("oracle:"):
                        assert stage["class"] == "bit_exact", (order, case["name"], stage)
                        stages += 1
    # Another machine's order must fail, or the comparisons above prove nothing.
    files = [os.path.join(sweep, "all_reduce_four.yaml")]
    classes = {stage["class"] for case in compared(program, source, MACHINE, files, "rank")
               for stage in case["stages"] if not stage["name"].startswith("oracle:")}
    assert classes - {"bit_exact"}, classes
    print("%d stages agree" % stages)


main()
