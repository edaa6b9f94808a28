"""Replays with one failed allocation at a time: check_memory.py PROGRAM SHIM STEP DIR...

Where an allocation fails that matters, the exit code is 3; never that of a mismatch or of an unusable file, and where
the run goes on all the same (a buffer that is not needed) nothing is missing from its report. jansson's lexer asserts
that it gets memory, or crashes without: those few ends are its own.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile


def replay(program, shim, folder, fail_at, scratch):
    count = os.path.join(scratch, "count")
    done = subprocess.run([program, "replay", "--json", "-", folder], capture_output=True, text=True,
                          env=dict(os.environ, LD_PRELOAD=shim, FAIL_AT=str(fail_at), FAIL_COUNT=count))
    with open(count, encoding="utf-8") as file:
        return done, int(file.read() or 0)


def counts(done):
    report = json.loads(done.stdout)
    return [report[key] for key in ("passed", "failed", "skipped")] + [len(report["cases"])]


def main():
    program, shim, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for folder in sys.argv[4:]:
        with tempfile.TemporaryDirectory() as scratch:
            whole, total = replay(program, shim, folder, 0, scratch)
            assert whole.returncode == 0 and total > 100, (folder, whole.returncode, total)
            told = inside = 0
            for at in range(1, total + 1, step):
                done, _ = replay(program, shim, folder, at, scratch)
                if done.returncode in (-signal.SIGABRT, -signal.SIGSEGV):
                    inside += 1
                    continue
                assert done.returncode in (0, 3), (folder, at, done.returncode, done.stdout, done.stderr)
                assert done.returncode == 3 or counts(done) == counts(whole), (folder, at, done.stdout)
                told += done.returncode == 3
            tried = (total + step - 1) // step
            print("%s: %d tried, %d told, %d ended in jansson" % (folder, tried, told, inside))
            assert told > 0.8 * tried and inside < 0.05 * tried
    return 0


sys.exit(main())
