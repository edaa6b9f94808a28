"""Runs sessions of `lockstep exec --debug` and compares what they print: session.py BUILD SOURCE FILE...

A session, in a file of its own or in a fenced block of a Markdown page:

    $ lockstep exec --debug -n 4 -- python3 train.py
    (lockstep) ranks
    ...

Programs are those of this folder and of examples/. In expected lines '...' stands for any text, and a line that is only '...'
for any number of lines. The lines before the first prompt are not compared. A session that has ended leaves nothing behind.
LOCKSTEP_BLESS=1 writes what came into the file.
"""
import os
import re
import subprocess
import sys
import tempfile

PROMPT = "(lockstep) "
SEPARATE = "\x1e"


def parse(path):
    """Sessions: [line number, command, [[line number, typed, expected lines]], earlier commands in its folder]."""
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().split("\n")
    markdown, inside, sessions, reading, before = path.endswith(".md"), not path.endswith(".md"), [], False, []
    for number, line in enumerate(lines, 1):
        if markdown and line.startswith("```"):
            inside, reading = not inside, False
        elif inside and line.startswith("$ "):
            reading = line.startswith("$ lockstep exec --debug") or line.startswith("$ lockstep gdb --core")
            if reading:
                sessions.append([number, line[2:], [], before])
                before = []
            elif line.startswith("$ lockstep exec --core"):
                before = [*before, line[2:]]
        elif inside and line.startswith(PROMPT) and sessions:
            reading = True
            sessions[-1][2].append([number, line[len(PROMPT):], []])
        elif inside and reading and sessions[-1][2] and not (line.startswith("# ") and not markdown):
            sessions[-1][2][-1][2].append(line)
    return sessions


def matches(expected, actual):
    pattern = ""
    for line in expected:
        pattern += r"(?:[^\n]*\n)*" if line == "..." else "[^\n]*".join(re.escape(part) for part in line.split("...")) + "\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


def program(build, source, words):
    here = os.path.join(source, "tests", "debugger")
    out = []
    for word in words:
        found = [path for path in (os.path.join(here, word), os.path.join(source, "examples", "python", word))
                 if word.endswith(".py") and os.path.exists(path)]
        out.append({"lockstep": os.path.join(build, "lockstep"), "python3": sys.executable}.get(word, found[0] if found else word))
    return out


def run(build, source, session, scratch):
    _, command, steps, before = session
    for first in before:
        subprocess.run(program(build, source, first.split()), cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=300, check=False)
    done = subprocess.run(program(build, source, command.split()), cwd=scratch, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=300, check=False,
                          input="".join(typed + "\n" for _, typed, _ in steps))
    text = done.stdout.replace(os.path.join(source, "tests/debugger/"), "").replace(source + "/", "").replace(scratch + "/", "")
    text = re.sub(r"sim, \d+\.\d\d s", "sim, 0.00 s", text)
    parts = text.split("\n" + PROMPT)
    replies = [[line.rstrip() for line in part.rstrip("\n").split("\n")] for part in parts]
    return replies, done.returncode


def check(build, source, path, bless):
    failed, blessed = 0, {}
    for session in parse(path):
        with tempfile.TemporaryDirectory() as scratch:
            replies, code = run(build, source, session, scratch)
        print(f"{os.path.basename(path)}:{session[0]}: {session[1]} (exit code {code})")
        steps = session[2]
        if len(replies) - 1 != len(steps):
            failed += 1
            print(f"  {len(replies) - 1} prompts, not {len(steps)}")
            print("\n".join("  " + line for reply in replies for line in reply))
        for (number, typed, expected), reply in zip(steps, replies[1:]):
            expected = [line.rstrip() for line in expected]
            while expected and not expected[-1]:
                expected.pop()
            actual = [line for line in reply[1:]]
            while actual and not actual[-1]:
                actual.pop()
            blessed[number] = actual
            if not matches(expected, actual):
                failed += 1
                print(f"  {path}:{number}: {typed}\n   expected:", *expected, "   came:", *actual, sep="\n    ")
    if bless and failed:
        write(path, blessed)
    return failed


def write(path, blessed):
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().split("\n")
    out, skipping = [], False
    for number, line in enumerate(lines, 1):
        if skipping and not line.startswith(("$ ", PROMPT, "# ", "```")) and number < len(lines):
            continue
        skipping = number in blessed
        out.append(line)
        out += blessed.get(number, [])
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("\n".join(out))


def main():
    build, source, *paths = sys.argv[1:]
    failed = sum(check(build, source, path, os.environ.get("LOCKSTEP_BLESS") == "1") for path in paths)
    print(f"{failed} replies differ" if failed else "all replies are as expected")
    return 1 if failed else 0


sys.exit(main())
