"""Ten mistakes of MPI programs in gdb: mistakes.py BUILD SOURCE. gdb stops at the finding. Every rank that is in a call is at its line of
the program, and the selected frame is main's. Prints a table. Exit code 77: no gdb that can run a program.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from catalogue import can_debug

WANTED = {"ring": "deadlock.cycle", "op": "collective.op_mismatch", "count": "collective.count_mismatch", "kind": "collective.kind_mismatch",
          "root": "collective.root_mismatch", "missing": "rank.exited_early", "truncate": "p2p.count_mismatch", "tag": "deadlock.cycle",
          "flight": "buffer.use_before_wait", "alias": "call.invalid"}
LOOK = r'''
import json
seen = {name: gdb.execute(name, to_string=True) for name in ("ranks", "bt")}
seen["finding"] = str(gdb.convenience_variable("finding_name")).strip('"')
print("@@" + json.dumps(seen))
'''


def look(build, scratch, program, name):
    words = [os.path.join(build, "lockstep"), "gdb", "-nx", "-batch", "-ex", "set width 0", "-ex", "catch finding", "-ex", "run", "-ex",
             "source look.py", "--", os.path.join(build, "lockstep"), "mpi", "-n", "4", program, name]
    done = subprocess.run(words, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True)
    lines = [line for line in done.stdout.split("\n") if line.startswith("@@")]
    assert lines, f"{name}: gdb did not stop: {done.stdout[-800:]}{done.stderr[-800:]}"
    return json.loads(lines[-1][2:])


def main():
    build, source = map(os.path.abspath, sys.argv[1:3])
    if not can_debug():
        print("skipped: gdb is missing or may not run programs")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "mistakes")
        with open(os.path.join(source, "tests/gdb/mistakes.c"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(scratch, "look.py"), "w", encoding="utf-8") as file:
            file.write(LOOK)
        subprocess.run([os.path.join(build, "lockstep-cc"), "-g", "-O0", "-fopenmp", os.path.join(source, "tests/gdb/mistakes.c"), "-o",
                        program], check=True)
        for name, finding in WANTED.items():
            seen = look(build, scratch, program, name)
            rows = [line for line in seen["ranks"].split("\n")[2:] if line.strip()]
            places = [re.search(r"mistakes\.c:(\d+)$", row.rstrip()) for row in rows]
            print(f"{name:9} {seen['finding']:26} {', '.join(place[1] if place else '-' for place in places)}")
            assert seen["finding"] == finding, (name, seen)
            assert len(rows) == 4 and all(place or row.lstrip("*").split()[1] in ("returned", "ready") for place, row in zip(places, rows)), seen["ranks"]
            selected = next(row for row in rows if row.startswith("*"))
            assert "returned" in selected or re.search(r"in main \(.*mistakes\.c:\d+", seen["bt"]), seen["bt"]
            # The wrong calls of this mistake: no other rank's line is among them.
            begin = text.index(f'"{name}"')
            low, high = text.count("\n", 0, begin) + 1, text.count("\n", 0, text.index("strcmp", begin)) + 1
            assert any(place and low < int(place[1]) <= high for place in places), (name, low, high, seen["ranks"])
    print("gdb stops at each of the ten mistakes")
    return 0


sys.exit(main())
