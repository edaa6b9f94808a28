"""Forked ranks behave like started ones: starting.py LOCKSTEP CASE, see starting/program.py."""
import json
import numbers
import os
import shutil
import subprocess
import sys
import tempfile

from check import left_running

HERE = os.path.dirname(os.path.abspath(__file__))


def run(lockstep, folder, start, ranks, words, code=0):
    """Each rank's report of itself, without the processes of the ranks' parents; and the run's report."""
    report = f"{folder}/{start}.json"
    ended = subprocess.run([lockstep, "exec", "-n", str(ranks), "--start", start, "--json", report, "--deadline", "600", "--",
                            sys.executable, *words], stdout=subprocess.PIPE, text=True, cwd=folder, check=False)
    if ended.returncode != code:
        sys.exit(f"--start {start}: exit code {ended.returncode}, not {code}\n{ended.stdout}")
    with open(report, encoding="utf-8") as file:
        case = json.load(file)["cases"][0]
    told = sorted((json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")), key=lambda at: at["RANK"])
    return told, case


def same(lockstep, folder):
    """Ranks have the same view of their process, and ranks have forked others."""
    for words in (["-u", "program.py", "a", "b c"], ["-m", "program", "a"]):
        plain, _ = run(lockstep, folder, "exec", 3, words)
        forked, case = run(lockstep, folder, "auto", 3, words)
        assert "1 of 3 ranks was forked" in case["start"], case
        for at in plain, forked:
            assert len(at) == 3 and len({of.pop("parent") for of in at}) == 1, at
            assert all(len(set(draws)) == 3 for draws in zip(*(of.pop("draw") for of in at))), "ranks draw the same unseeded numbers"
        assert plain == forked, (plain, forked)
    # Ranks whose hashes differ iterate over a set in different orders.
    told, _ = run(lockstep, folder, "auto", 4, ["-c", open("program.py").read(), "hash"])
    assert all(of["argv"] == ["-c", "hash"] and of["main"] == "__main__" and of["file"] is None for of in told), told
    assert len({of["hash"] for of in told}) == 2, told


def ends(lockstep, folder):
    """A forked rank's exit code and signal are reported, with its last line on stderr."""
    for word, code, text in (("exits", 1, "rank 2 ended with exit code 7"),
                             ("signal", 3, "rank 2 was killed by signal 9")):
        _, case = run(lockstep, folder, "fork", 3, ["program.py", word], code)
        assert text in case["findings"][0]["text"], case["findings"]
        assert "exec -n 3 --start fork --" in case["reproduce"], case["reproduce"]
        assert "the last line that rank 2 wrote to stderr: rank 2 ends" in case["findings"][0]["text"]
    # Buffers are flushed at the end.
    told, case = run(lockstep, folder, "fork", 3, ["program.py", "late"])
    assert "2 of 3 ranks were forked" in case["start"], case
    assert sorted((at["RANK"], at["late"]) for at in told) == [(rank, of) for rank in range(3) for of in ("c", "python")], told
    assert not any(at.get("imported") for at in told), told


def refused(lockstep, folder):
    """Programs whose ranks a fork would change, and programs that do not use torch."""
    for name, text, why in (("threads", False, "another sitecustomize"), ("shadow", False, "a module numbers"),
                            ("without", True, "does not import torch")):
        own = f"{folder}/{name}"
        os.makedirs(own)
        shutil.copy(f"{folder}/program.py", own)
        environment = os.environ.get("PYTHONPATH")
        if name == "threads":
            with open(f"{own}/sitecustomize.py", "w", encoding="utf-8") as file:
                file.write("import threading, time\nthreading.Thread(target=time.sleep, args=(1,), daemon=True).start()\n")
            os.environ["PYTHONPATH"] = own
        if name == "shadow":
            shutil.copy(numbers.__file__, own)  # the program finds its own copy, which is the same
        if text:  # a dynamic import is not detected
            with open(f"{own}/program.py", encoding="utf-8") as file:
                source = file.read().replace("import torch.distributed as dist\n", "")
            with open(f"{own}/program.py", "w", encoding="utf-8") as file:
                file.write(source.replace("import torch\n", "import importlib\ntorch = importlib.import_module('torch')\n"
                                          "dist = importlib.import_module('torch.distributed')\n"))
        _, case = run(lockstep, own, "auto", 3, ["program.py"])
        assert why in case["start"], case
        os.environ.pop("PYTHONPATH", None) if environment is None else os.environ.update(PYTHONPATH=environment)


def main():
    lockstep, case = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(f"{HERE}/starting/program.py", folder)
        os.chdir(folder)
        {"same": same, "ends": ends, "refused": refused}[case](os.path.abspath(lockstep), folder)
        left = left_running(folder)
    return f"left running: {left}" if left else 0


if __name__ == "__main__":
    sys.exit(main())
