"""Runs gdb sessions and compares what they print: session.py BUILD SOURCE FILE...

A session, in a file of its own or in a fenced block of a Markdown page:

    $ lockstep gdb -- data_parallel --bug
    (gdb) ranks
    4 ranks, 0 sets of calls matched
    ...

The program is one of BUILD/examples, BUILD/tests/gdb or BUILD/tests/exec, or a script of tests/debugger; or `$ lockstep gdb FILE`, a scenario below
SOURCE; or another command line of lockstep that starts gdb. In expected lines '...' stands for any
text, and a line that is only '...' for any number of lines. A block that does not begin with '$' goes
on with the session before it. Lines of gdb's own about threads and processes are left out.

LOCKSTEP_BLESS=1 writes what came into the file; look at the difference before you commit. Exit code 77:
there is no gdb that can run a program here. The time of every command is printed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import calls

NOISE = re.compile(r"^\[(New Thread|Switching to|Thread |Detaching|Inferior \d+ \(process \d+\) (killed|detached))"
                   r"|^Using host libthread_db|^Reading symbols|^\[New LWP|^Core was generated"
                   r"|^warning: (Error disabling|Unable to find lib)|^Starting program"
                   r"|^Saved corefile|^Continuing\.|^\[Current thread is|^\d+\t    __asm__ volatile"
                   r"|^warning: (Memory read failed for corefile|target file)")


class Session:
    def __init__(self, number, command):
        self.number, self.command, self.steps = number, command, []


def parse(path):
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().split("\n")
    markdown, inside, sessions = path.endswith(".md"), not path.endswith(".md"), []
    for number, line in enumerate(lines, 1):
        if markdown and line.startswith("```"):
            inside = not inside
            continue
        if not inside or (not markdown and line.startswith("# ")):
            continue
        if line.startswith("$ lockstep gdb -"):  # the TUI or MI: screens.py
            sessions.append(None if line.split()[3] != "--" else Session(number, line[2:]))
        elif line.startswith("$ lockstep ") and ("gdb" in line or "--break" in line or "--stop" in line):
            sessions.append(Session(number, line[2:]))
        elif line.startswith("$ "):
            sessions.append(None)
        elif line.startswith("(gdb) ") and sessions and sessions[-1]:
            sessions[-1].steps.append((number, line[6:], []))
        elif sessions and sessions[-1] and sessions[-1].steps:
            sessions[-1].steps[-1][2].append(line)
    return [s for s in sessions if s]


def matches(expected, actual):
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.split("...")) + "\n"
    return re.fullmatch(pattern, actual) is not None


def clean(text):
    kept = [line.rstrip() for line in text.split("\n") if not NOISE.match(line)]
    kept = [re.sub(r"0x[0-9a-f]{3,}", "0x...", line) for line in kept if line]
    kept = [line.expandtabs() for line in kept]
    kept = [re.sub(r"\(process \d+\)", "(process ...)", line) for line in kept]
    # How the library's own functions look depends on the compiler.
    kept = [re.sub(r"(hooks\.c(?:, line|:)) ?\d+", r"\1 ...", line) for line in kept]
    return [re.sub(r"(ls_gdb_hook_\w+) \(.*", r"\1 ...", line) for line in kept]


def bless(path, replies):
    """Writes replies (line number of a command -> lines) into the file."""
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().split("\n")
    out, skipping = [], False
    for number, line in enumerate(lines, 1):
        if skipping and not line.startswith(("$ ", "(gdb) ", "# ", "```", "-")) and number < len(lines):
            continue
        skipping = number in replies
        out.append(line)
        out += replies.get(number, [])
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("\n".join(out))


def program_path(build, source, words, scratch):
    """The command line with its program or scenario found; a program for MPI is built."""
    out = []
    for word in words:
        if word == "lockstep":
            word = os.path.join(build, word)
        if "mpi" in words and os.path.exists(os.path.join(source, "tests/gdb", word + ".c")):
            built = os.path.join(scratch, word)
            subprocess.run([os.path.join(build, "lockstep-cc"), "-g", "-O0", "-fopenmp",
                            os.path.join(source, "tests/gdb", word + ".c"), "-o", built], check=True)
            word = built
        if word == "python3":
            word = sys.executable
        if os.path.exists(os.path.join(source, "tests/debugger", word)) and word.endswith(".py"):
            word = os.path.join(source, "tests/debugger", word)
        for folder in ("examples", "tests/gdb", "tests/exec"):
            if os.access(os.path.join(build, folder, word), os.X_OK) and "/" not in word:
                word = os.path.join(build, folder, word)
        if word.endswith(".yaml") and not os.path.isabs(word):
            word = os.path.join(source, word)
        out.append(word)
    return out


def run(build, source, session, scratch):
    wrapper = os.path.join(scratch, "gdb")
    commands = ["set pagination off", "set width 0", "set confirm off", "set print thread-events off",
                "python import time; ls_start = time.monotonic()"]
    for i, (_, command, _) in enumerate(session.steps):
        commands += [f"echo @@{i}\\n", "python ls_start = time.monotonic()", command,
                     "python print(f'\\n@=%.3f' % (time.monotonic() - ls_start))"]
    quoted = " ".join("-ex '" + c.replace("'", "'\\''") + "'" for c in commands)
    with open(wrapper, "w", encoding="utf-8") as stream:
        # The -ex of this test after lockstep's own (catch ..., run), and before --args.
        stream.write(f"""#!/usr/bin/env bash
before=()
while [ $# -gt 0 ] && [ "$1" != --args ]; do before+=("$1"); shift; done
exec {shutil.which('gdb')} -nx -batch "${{before[@]}}" {quoted} "$@"
""")
    os.chmod(wrapper, 0o755)
    environment = dict(os.environ, LOCKSTEP_GDB=wrapper, LC_ALL="C.UTF-8", HOME=scratch)
    environment.pop("ASAN_OPTIONS", None)
    if session.command.startswith("lockstep exec"):  # on machines without a GPU
        environment.update(LD_LIBRARY_PATH=os.path.join(build, "tests/exec"), MEET=os.path.join(scratch, "meet"))
    words = program_path(build, source, session.command.split()[1:], scratch)
    done = subprocess.run([os.path.join(build, "lockstep")] + words, cwd=scratch, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace").replace(source + "/", "").replace(" ../", " ")
    parts = re.split(r"^@@(\d+)\n", text, flags=re.M)
    return parts[0], {int(parts[i]): parts[i + 1] for i in range(1, len(parts), 2)}


def check(build, source, path, session):
    """Commands that differ, replies to bless, and whether the session was left out."""
    print(f"{path}:{session.number}: {session.command}")
    if calls.is_left_out(command for _, command, _ in session.steps):
        return 0, {}, True
    with tempfile.TemporaryDirectory() as scratch:
        prefix, found = run(build, source, session, scratch)
    bad, replies = 0, {}
    if re.search(r"auto-load|declined", prefix):
        print("gdb complains at the start:", prefix)
        bad += 1
    for i, (number, command, expected) in enumerate(session.steps):
        text = found.get(i, "gdb ended before this command\n")
        if "Traceback" in text or "Python Exception" in text:
            print(f"{path}:{number}: an error of the extension's own:", text)
            bad += 1
        took = re.search(r"^@=([0-9.]+)$", text, re.M)
        lines = clean(re.sub(r"^@=.*$", "", text, flags=re.M))
        print(f"  {took.group(1) if took else '?'} s  {command}")
        good = matches([e.expandtabs().rstrip() for e in expected if e.strip()], "".join(x + "\n" for x in lines))
        if not good and os.environ.get("LOCKSTEP_BLESS") == "1":
            replies[number] = lines
        elif not good:
            bad += 1
            print(f"{path}:{number}: (gdb) {command}\n  expected:",
                  *(e for e in expected if e.strip()), sep="\n    ")
            print("  got:", *lines, sep="\n    ")
    return bad, replies, False


def can_debug():
    if shutil.which("gdb") is None:
        return "gdb is not installed"
    done = subprocess.run(["gdb", "-batch", "-nx", "-ex", "run", "-ex", "python print(6 * 7)",
                           "/bin/true"], capture_output=True, stdin=subprocess.DEVNULL)
    out = done.stdout.decode(errors="replace")
    if "exited normally" not in out:
        return "gdb cannot run programs here: ptrace is forbidden"
    return None if "42" in out else "this gdb has no Python"


def main():
    build, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    why = can_debug()
    if why is not None:
        print("skipped: " + why)
        sys.exit(77)
    bad = sessions = left_out = 0
    for path in sys.argv[3:]:
        replies = {}
        for session in parse(path):
            sessions += 1
            differ, new, is_out = check(build, source, path, session)
            bad += differ
            left_out += is_out
            replies.update(new)
        if replies:
            bless(path, replies)
    if sessions == 0:
        print("there are no sessions")
        sys.exit(1)
    print(f"{sessions} sessions, {bad} commands differ")
    if left_out and not bad:
        print(f"skipped: {left_out} sessions were left out, the others passed: {calls.WHY}")
        sys.exit(77)
    sys.exit(1 if bad else 0)


main()
