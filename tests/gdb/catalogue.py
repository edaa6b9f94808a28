"""Bugs of the catalogue in gdb: catalogue.py BUILD SOURCE [COUNT SEED]. For COUNT bugs drawn by SEED, gdb must stop at the finding or at
the judgement of a stage, every rank must have a line, and `shard` and `diff-ranks` must answer. Prints a table of the bugs. COUNT 0: all of
them.
"""
import concurrent.futures as futures
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

# In gdb, after the run: one line of JSON.
LOOK = r'''
import json, re
from lockstep_gdb import scenario
def out(command):
    try:
        return gdb.execute(command, to_string=True)
    except gdb.error as error:
        return "error: " + str(error)
text, seen = out("ranks"), {}
rows = [line[2:].split() for line in text.split("\n")[2:] if line.strip()]
seen["ranks"] = len(rows)
seen["lines"] = sum(re.search(r"\.yaml:\d+$", row[-1]) is not None or row[1] == "returned" for row in rows)
seen["alive"] = sum(row[1] not in ("returned", "died") for row in rows)
seen["bt"] = out("bt").strip().split("\n")[0]
names = {}
for row in rows:
    for name in dict.fromkeys(scenario.held("", int(row[0]), None)[1]):
        shown = out("shard %s %s" % (name, row[0]))
        if name and not shown.startswith("error"):
            names.setdefault(name, []).append(row[0])
best = max(names, key=lambda name: len(names[name]), default=None)
seen["name"], seen["holders"] = best, len(names.get(best, ()))
seen["shard"] = out("shard %s %s" % (best, names[best][0])).strip() if best else ""
seen["diff"] = out("diff-ranks %s %s" % (best, " ".join((names[best] + [row[0] for row in rows if row[0] not in names[best]])[:2]))).strip() if best else ""
seen["finding"] = str(gdb.convenience_variable("finding_name") or "divergence").strip('"')
print("@@" + json.dumps(seen))
'''


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def look(build, scratch, path):
    words = [os.path.join(build, "lockstep"), "gdb", "-nx", "-batch", "-ex", "set width 0", "-ex", "catch finding",
             "-ex", "catch divergence", "-ex", "run", "-ex",
             "source " + os.path.join(scratch, "look.py"), path]
    done = subprocess.run(words, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    lines = [line for line in done.stdout.decode(errors="replace").split("\n") if line.startswith("@@")]
    return json.loads(lines[-1][2:]) if lines else {"lost": done.stdout.decode(errors="replace")[-600:] +
                                                    done.stderr.decode(errors="replace")[-600:]}


def wrong_of(seen):
    """The errors in gdb's output; ""."""
    if "lost" in seen:
        return "gdb did not stop: " + seen["lost"]
    if seen["ranks"] == 0 or seen["lines"] < seen["ranks"]:
        return f"{seen['ranks'] - seen['lines']} of {seen['ranks']} ranks have no line"
    if ".yaml:" not in seen["bt"]:
        return "the backtrace is not the scenario's: " + seen["bt"]
    if seen["name"] is None:
        return ""  # counted
    for command in ("shard", "diff"):
        if not seen[command] or seen[command].startswith("error"):
            return f"{command} does not answer: {seen[command]}"
    return ""


def can_debug():
    """Whether there is a gdb that can run a program here."""
    if shutil.which("gdb") is None:
        return False
    done = subprocess.run(["gdb", "-batch", "-nx", "-ex", "run", "/bin/true"], capture_output=True,
                          stdin=subprocess.DEVNULL, check=False)
    return b"exited normally" in done.stdout


def main():
    if not can_debug():
        sys.exit(77)
    build, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    count, seed = (int(word) for word in sys.argv[3:5]) if len(sys.argv) > 4 else (20, 1)
    bugs = sorted(p for p in glob.glob(os.path.join(source, "scenarios/bugs/*.yaml"))
                  if not p.endswith("_clean.yaml") and "expect:" in read(p))
    drawn = bugs if count == 0 else random.Random(seed).sample(bugs, count)
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        script = os.path.join(scratch, "look.py")
        with open(script, "w", encoding="utf-8") as stream:
            stream.write(LOOK)
        with futures.ThreadPoolExecutor(2) as pool:
            shown_of = list(pool.map(lambda path: look(build, scratch, path), drawn))
        for path, seen in zip(drawn, shown_of):
            why = wrong_of(seen)
            bad += why != ""
            shown = "" if "lost" in seen else (f"{seen['finding']:32} {seen['lines']}/{seen['ranks']} lines, "
                                               f"{seen['alive']} in the program, {seen['name']} of {seen['holders']}")
            print(f"{os.path.basename(path)[:-5]:44} {shown}{' WRONG: ' + why if why else ''}")
    empty = sum(seen.get("name", "") is None for seen in shown_of)  # before anything is sent
    print(f"{len(drawn)} bugs, {bad} wrong, {empty} where no rank holds anything")
    sys.exit(1 if bad or empty * 5 > len(drawn) else 0)


if __name__ == "__main__":
    main()
