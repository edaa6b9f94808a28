#!/usr/bin/env python3
"""Runs the MPI Bugs Initiative (https://github.com/mquinson/MBI) under lockstep and counts.

    bench/mbi.py DIR [--build build] [--jobs 2] [--only TEXT] [--tools lockstep,SMPI] [--misses]
                 [--keep FILE]

DIR holds MBI's generators (MBI's gencodes/, or SimGrid's teshsuite/smpi/MBI with corrected labels): they are
run in a folder of their own, nothing of them is kept. The expected label of a code is read from its header
only here. SMPI is SimGrid's (Debian: libsimgrid-dev). --keep has each result written to FILE, where a run
that was ended goes on.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RUN = re.compile(r"^\s+\$ ?(.*)$")
SECONDS_MAX = 300  # for each test, as MBI's own runner gives
# F1 in MBI's README (2021).
PUBLISHED = (("MUST", 0.87), ("McSimGrid", 0.82), ("Aislinn", 0.78), ("ISP", 0.73),
             ("CIVL", 0.47), ("PARCOACH", 0.29))


def generate(folder, into):
    for script in glob.glob(os.path.join(folder, "*.py")):
        shutil.copy(script, into)
    for script in sorted(glob.glob(os.path.join(into, "*Generator.py"))):
        subprocess.run([sys.executable, script], cwd=into, check=True, stdout=subprocess.DEVNULL)
    return sorted(glob.glob(os.path.join(into, "*.c")))


def tests_of(source):
    """(command, expected label) of each test in the header."""
    found, inside = [], False
    lines = iter(open(source, encoding="utf-8"))
    for line in lines:
        if "END_MBI_TESTS" in line:
            break
        inside = inside or "BEGIN_MBI_TESTS" in line
        run = RUN.match(line) if inside else None
        if run:
            verdict = next(lines)
            error = re.match(r"[ |]*ERROR: *(.*)", verdict)
            found.append((run.group(1), error.group(1).strip() if error else "OK"))
    return found


def run(command, folder, seconds):
    """Exit code and output; past its time it ends with all that it has started."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, "timeout"
        return process.returncode, out + err


class Lockstep:
    name = "lockstep"

    def __init__(self, build):
        self.cc = os.path.abspath(os.path.join(build, "lockstep-cc"))
        self.lockstep = os.path.abspath(os.path.join(build, "lockstep"))

    def build(self, source, program):
        return run([self.cc, "-w", source, "-o", program], os.path.dirname(source), 60)

    def test(self, command, program):
        words = command.split()
        ranks = words[words.index("-np") + 1]
        after = words[words.index("${EXE}") + 1:]
        options = ["--buffering", "all"] if "$infty_buffer" in command else []
        code, text = run([self.lockstep, "mpi", "-n", ranks, "--explore", "1000", "--deadline",
                          "20", *options, program, "--", *after],
                         os.path.dirname(program), SECONDS_MAX)
        if code is None:
            return "timeout", text
        return {0: "OK", 1: "ERROR"}.get(code, "failure"), text


class Smpi:
    name = "SMPI"

    def __init__(self, folder):
        self.platform = os.path.join(folder, "cluster.xml")
        with open(self.platform, "w", encoding="utf-8") as out:
            out.write("<?xml version='1.0'?><!DOCTYPE platform SYSTEM "
                      '"https://simgrid.org/simgrid.dtd"><platform version="4.1"><cluster id="c" '
                      'prefix="n-" radical="0-99" suffix="" speed="1Gf" bw="125MBps" lat="50us"/>'
                      "</platform>")

    def build(self, source, program):
        return run(["smpicc", "-w", "-trace-call-location", "-g", source, "-o", program],
                   os.path.dirname(source), 60)

    def test(self, command, program):
        words = command.split()
        ranks = words[words.index("-np") + 1]
        after = words[words.index("${EXE}") + 1:]
        # The sizes from which a standard send waits for its receive: what smpi/buffering sets in
        # versions that have it.
        buffering = ["--cfg=smpi/send-is-detached-thresh:1000000000"] \
            if "$infty_buffer" in command else \
            ["--cfg=smpi/send-is-detached-thresh:0"] if "$zero_buffer" in command else []
        code, text = run(["smpirun", "-np", ranks, "-platform", self.platform, "-analyze",
                          "--cfg=smpi/list-leaks:10", "--cfg=smpi/finalization-barrier:on",
                          *buffering, program, *after],
                         os.path.dirname(program), SECONDS_MAX)
        if code is None:
            return "timeout", text
        if "Bad config key" in text:  # its word, not a verdict
            raise RuntimeError(text)
        bad = re.search("MBI_MSG_RACE|mismatch|DEADLOCK|returned MPI_ERR|Probable memory leak|"
                        "Deadlock|deadlock", text)
        return ("ERROR" if bad or code != 0 else "OK"), text


def judge(tool, source, program_folder):
    """One row a test: (code, command, expected, outcome, what was said, seconds)."""
    program = os.path.join(program_folder, os.path.basename(source)[:-2])
    started = time.time()
    code, text = tool.build(source, program)
    rows = []
    for command, expected in tests_of(source):
        outcome, said = ("unimplemented", text) if code != 0 else tool.test(command, program)
        rows.append((os.path.basename(source), command, expected, outcome, said,
                     time.time() - started))
        started = time.time()
    if os.path.exists(program):
        os.unlink(program)
    return rows


class Kept:
    """The rows of each tool and code, on disk as they come: a line for each code."""

    def __init__(self, path):
        self.rows, self.file = {}, None
        if path is not None:
            if os.path.exists(path):
                with open(path, encoding="utf-8") as lines:
                    for line in lines:
                        tool, code, rows = json.loads(line)
                        self.rows[tool, code] = rows
            self.file = open(path, "a", encoding="utf-8")

    def judge(self, tool, source, folder):
        key = tool.name, os.path.basename(source)
        if key not in self.rows:
            self.rows[key] = judge(tool, source, folder)
            if self.file is not None:
                self.file.write(json.dumps([*key, self.rows[key]]) + "\n")
                self.file.flush()
        return self.rows[key]


def table(name, rows, seconds):
    count = {"TP": 0, "TN": 0, "FP": 0, "FN": 0, "other": 0, "unimplemented": 0}
    for _, _, expected, outcome, _, _ in rows:
        wrong = expected != "OK"
        if outcome == "OK":
            count["FN" if wrong else "TN"] += 1
        elif outcome == "ERROR":
            count["TP" if wrong else "FP"] += 1
        else:
            count["unimplemented" if outcome == "unimplemented" else "other"] += 1
    tp, tn, fp, fn = (count[k] for k in ("TP", "TN", "FP", "FN"))
    ran = tp + tn + fp + fn

    def ratio(a, b):
        return a / b if b else 0.0
    recall, precision = ratio(tp, tp + fn), ratio(tp, tp + fp)
    print(f"{name:10} {tp:5} {tn:5} {fp:4} {fn:4} {count['unimplemented']:6} {count['other']:6} "
          f"{ratio(ran + count['other'], len(rows)):9.4f} {ratio(ran, len(rows)):10.4f} "
          f"{ratio(tn, tn + fp):11.4f} {recall:7.4f} {precision:9.4f} "
          f"{ratio(2 * precision * recall, precision + recall):7.4f} "
          f"{ratio(tp + tn, len(rows)):8.4f} {seconds:7.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--tools", default="lockstep")
    parser.add_argument("--keep")
    parser.add_argument("--misses", action="store_true", help="print what lockstep said of each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-mbi-") as folder:
        sources = [s for s in generate(options.folder, folder) if options.only in s]
        known = {"lockstep": lambda: Lockstep(options.build), "SMPI": lambda: Smpi(folder)}
        kept, results = Kept(options.keep), []
        for tool in [known[name]() for name in options.tools.split(",")]:
            programs = os.path.join(folder, tool.name)
            os.mkdir(programs)
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                rows = [row for rows in pool.map(lambda s, t=tool, p=programs: kept.judge(t, s, p),
                                                 sources) for row in rows]
            results.append((tool.name, rows, sum(row[5] for row in rows) / options.jobs))
        print(f"{'tool':10} {'TP':>5} {'TN':>5} {'FP':>4} {'FN':>4} {'unimpl':>6} {'other':>6} "
              f"{'coverage':>9} {'conclusive':>10} {'specificity':>11} {'recall':>7} "
              f"{'precision':>9} {'F1':>7} {'accuracy':>8} {'seconds':>7}")
        for name, rows, seconds in results:
            table(name, rows, seconds)
        print("published F1 (2021): " + ", ".join(f"{n} {f:.2f}" for n, f in PUBLISHED))
        for name, command, expected, outcome, said, _ in results[0][1]:
            if (expected != "OK") != (outcome == "ERROR") or outcome not in ("OK", "ERROR"):
                print(f"miss: {name} ({command}): expected {expected}, got {outcome}")
                if options.misses:
                    print(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
