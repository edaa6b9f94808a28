"""Runs a transcript: transcript.py PROGRAM_FOLDER SOURCE FILE.t

A transcript is a list of commands with what they print and how they exit:

    # a comment
    $ lockstep doctr
    ! error: unknown command 'doctr'; did you mean 'doctor'?
    ? 2

Lines after '$' are expected stdout as they stand ('> ' in front), stderr ('! '), and the exit code
('? N'; 0 when left out). In expected lines '...' stands for any text, and a line that is only '> ...'
or '! ...' for any number of lines. Each file runs in a scratch folder of its own with the program
first in PATH and SOURCE in $SOURCE; commands are bash.

LOCKSTEP_BLESS=1 rewrites the file with what was printed; look at the difference before you commit.
"""
import os
import re
import subprocess
import sys
import tempfile


class Step:
    def __init__(self, number, command, comments):
        self.number, self.command, self.comments = number, command, comments
        self.out, self.err, self.code = [], [], 0


def parse(text):
    steps, comments = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("$ "):
            steps.append(Step(number, line[2:], comments))
            comments = []
        elif line[:2] in ("> ", "! ", "? ") or line in (">", "!"):
            if not steps:
                raise SystemExit(f"line {number}: expected a command before this")
            if line[0] == "?":
                steps[-1].code = int(line[2:])
            else:
                (steps[-1].out if line[0] == ">" else steps[-1].err).append(line[2:])
        elif line == "" or line.startswith("#"):
            comments.append(line)
        else:
            raise SystemExit(f"line {number}: not a transcript line: {line!r}")
    return steps, comments


def matches(expected, actual):
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.split("...")) + "\n"
    return re.fullmatch(pattern, actual) is not None


def render(steps, trailing):
    lines = []
    for step in steps:
        lines += step.comments + ["$ " + step.command]
        lines += [("> " + line).rstrip() for line in step.out]
        lines += [("! " + line).rstrip() for line in step.err]
        lines += [f"? {step.code}"] if step.code else []
    return "\n".join(lines + trailing)


def main():
    programs, source, path = map(os.path.abspath, sys.argv[1:])
    with open(path, encoding="utf-8") as stream:
        steps, trailing = parse(stream.read())
    if not steps:
        raise SystemExit("the transcript has no commands")
    bless = os.environ.get("LOCKSTEP_BLESS") == "1"
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        environment = {"PATH": programs + ":" + os.environ["PATH"], "SOURCE": source,
                       "HOME": scratch, "LC_ALL": "C.UTF-8", "TERM": "dumb"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LOCKSTEP_MUTANT"):
            if name in os.environ:
                environment[name] = os.environ[name]
        for step in steps:
            run = subprocess.run(["bash", "-c", step.command], cwd=scratch, env=environment,
                                 capture_output=True, stdin=subprocess.DEVNULL)
            out = run.stdout.decode(errors="replace").replace(source, "$SOURCE")
            err = run.stderr.decode(errors="replace").replace(source, "$SOURCE")
            good = (matches(step.out, out) and matches(step.err, err) and
                    run.returncode == step.code)
            if good:
                continue
            if bless:
                step.out, step.err = out.splitlines(), err.splitlines()
                step.code = run.returncode
                continue
            bad += 1
            print(f"{path}:{step.number}: $ {step.command}")
            print("  expected:", *step.out, *("! " + e for e in step.err), sep="\n    ")
            print(f"  exit code {step.code}; got {run.returncode} and:")
            print("   ", *out.splitlines(), *("! " + e for e in err.splitlines()), sep="\n    ")
    if bless:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(render(steps, trailing))
    print(f"{len(steps)} commands, {bad} differ")
    sys.exit(1 if bad else 0)


main()
