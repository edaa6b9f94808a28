"""Core files that are truncated, or in which memory was overwritten: every command either answers or prints a one-line reason, and none
takes long: corrupt.py BUILD. Exit code 77: no gdb that can trace.
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

COMMANDS = ("ranks", "ranks all", "rank", "rank 1", "rank apply all print self", "calls 5 all", "waitgraph",
            "print *self", "print *self->run", "print *self->world", "shard data 1", "diff-ranks data 0 1",
            "print $rank()", "print $seq()", "next-collective", "goto-collective 0",
            "until-collective 1 on world")
SECONDS_MAX = 600


def need(condition, text):
    if not condition:
        raise SystemExit(text)


def gdb(build, program, *commands):
    words = ["gdb", "-nx", "-q", "-batch", "-iex", "set auto-load safe-path /", "-iex",
             f"source {os.path.join(build, 'lockstep-gdb.py')}"]
    for command in ("set pagination off", "set confirm off", *commands):
        words += ["-ex", command]
    done = subprocess.run(words + ["--args", *program], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", timeout=SECONDS_MAX)
    return done.stdout + done.stderr


def loads(core):
    """(file offset, bytes) of writable memory, by the core's program headers."""
    at, count = struct.unpack_from("<Q", core, 32)[0], struct.unpack_from("<H", core, 56)[0]
    out = []
    for i in range(count):
        kind, flags, offset = struct.unpack_from("<IIQ", core, at + 56 * i)
        size = struct.unpack_from("<Q", core, at + 56 * i + 32)[0]
        if kind == 1 and flags & 2 and size > 0:
            out.append((offset, size))
    return out


def variants(core):
    yield "as it is", core
    for part in (0.9, 0.5, 0.1):
        yield f"cut off at {part:.0%}", core[:int(len(core) * part)]
    for seed in range(8):
        random.seed(seed)
        data = bytearray(core)
        for offset, size in loads(core):
            # Words of every kind of invalid value: huge, negative, small, pointers to nowhere.
            for _ in range(max(1, size // 200)):
                struct.pack_into("<Q", data, offset + random.randrange(max(1, size // 8 - 1)) * 8,
                                 random.choice((0, 1, 2 ** 31, 2 ** 64 - 1, 0x5555deadbee8, 2 ** 40)))
        yield f"overwritten, seed {seed}", bytes(data)


def main():
    build = os.path.abspath(sys.argv[1])
    program = os.path.join(build, "examples/pipeline")
    if shutil.which("gdb") is None:
        print("skipped: gdb is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        core = os.path.join(folder, "core")
        out = gdb(build, [program, "--bug"], "catch finding", "run", f"generate-core-file {core}", "kill")
        if not os.path.exists(core):
            print("skipped: gdb makes no core file here\n" + out)
            sys.exit(77)
        with open(core, "rb") as stream:
            sound = stream.read()
        for name, data in variants(sound):
            with open(core, "wb") as stream:
                stream.write(data)
            commands = [word for c in COMMANDS for word in (f"echo @@{c}\\n", c)]
            out = gdb(build, [program], f"core-file {core}", *commands)
            need("Traceback" not in out and "Python Exception" not in out, f"{name}:\n{out}")
            need(f"@@{COMMANDS[-1]}" in out, f"{name}: gdb ended early\n{out}")
            if name == "as it is":
                need("circle: 1 -> 2 -> 1" in out and "a core file cannot continue" in out, out)
            print(f"{name}: {len(out)} characters")


main()
