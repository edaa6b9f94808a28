"""examples/python/silent_gradients.py, correct and wrong: silent.py LOCKSTEP PYTHON_FOLDER PROGRAM."""
import json
import os
import subprocess
import sys
import tempfile

WRONG = {  # the first wrong tensor, and the text about it
    "uneven_tokens": ("step 0 backward 2", "likely a mean of means: rank 0 has 2.5 times the reference"),
    "router_count": ("step 0 gradient weight", "it is 4 times the reference (world"),
    "expert_scale": ("step 0 gradient weight", "it is 4 times the reference (world"),
    "auxiliary_scale": ("step 0 gradient further.weight", "it is 0.25 times the reference (1/world"),
    "out_norm": ("step 0 gradient scale", "not summed, the sum of what the ranks have is the reference"),
    "lost_sum": ("step 0 gradient first.weight", "not summed, the sum of what the ranks have is the reference"),
    "sink_norm": ("gradient norm", "values, rank 0"),
    "scatter_group": ("step 0 forward model", "its row 2 of 8 is the reference's row 0"),
    "stage_names": ("parameter 0.weight", "only 0 has what the reference has"),
    "label_smoothing": ("step 0 backward model", "values, rank 0"),
    "gathered_logits": ("step 0 backward model", "values, rank 0"),
    "recompute_group": ("step 0 gradient weight", "values, rank 0"),
}


def run(words, folder, python):
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder,
                          env={**os.environ, "PYTHONPATH": python})
    assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr[-3000:]}"


def main():
    lockstep, python, program = map(os.path.abspath, sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        run([sys.executable, program, "right", "one"], folder, python)
        for way in ("right", "wrong"):
            run([lockstep, "exec", "-n", "4", "--start", "fork", "--watch", "off", "--quiet", "--", sys.executable, program, way, way], folder, python)
        for case, (name, text) in WRONG.items():
            for way in ("right", "wrong"):
                done = subprocess.run([lockstep, "diff", f"one/{case}", f"{way}/{case}", "--json", "-"],
                                      capture_output=True, text=True, check=False, cwd=folder)
                stages = json.loads(done.stdout)["cases"][0]["stages"]
                if way == "right":
                    assert done.returncode == 0 and stages, (case, stages)
                    continue
                last = stages[-1]
                assert (done.returncode, last["class"], last["name"]) == (1, "wrong", name), (case, last)
                assert text in last["divergence"], (case, last)
            print(case, "is found:", name)
    return 0


sys.exit(main())
