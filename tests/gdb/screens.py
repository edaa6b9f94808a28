"""Runs gdb sessions in the TUI and over MI, as IDEs do: screens.py BUILD SOURCE FILE...

They begin, in a file of their own or in a fenced block of a Markdown page, with
"$ lockstep gdb -tui -- PROGRAM" or "$ lockstep gdb --interpreter=mi3 -- PROGRAM". In the TUI a command
is "(gdb) COMMAND", over MI any line that begins with "-". The lines after it must be there, in this
order, on the screen or in what MI answered; '...' stands for any text. Sessions of the command line
are session.py's. Exit code 77: no gdb that can run a program, or no tmux.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import calls

SENTINEL = "99887766"


class Session:
    def __init__(self, number, command):
        self.number, self.command, self.steps = number, command, []
        self.mi = "--interpreter" in command


def parse(path):
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().split("\n")
    markdown = path.endswith(".md")
    inside, sessions, session = not markdown, [], None
    for number, line in enumerate(lines, 1):
        if markdown and line.startswith("```"):
            inside, session = not inside, None
        elif not inside or line.startswith("# "):
            continue
        elif line.startswith("$ "):
            screen = line.startswith("$ lockstep gdb -") and line.split()[3] not in ("--", "--core")
            session = Session(number, line[2:]) if screen else None
            sessions += [session] if screen else []
        elif session and (line.startswith("-") if session.mi else line.startswith("(gdb) ")):
            session.steps.append((number, line if session.mi else line[6:], []))
        elif session and session.steps and line.strip():
            session.steps[-1][2].append(line.rstrip())
    return sessions


def command_line(build, session):
    words = session.command.split()
    program = words[words.index("--") + 1]
    for folder in ("examples", "tests/gdb"):
        if os.access(os.path.join(build, folder, program), os.X_OK):
            words[words.index("--") + 1] = os.path.join(build, folder, program)
    options = ["-nx", "-iex", "set debuginfod enabled off", "-ex", "set confirm off", "-ex",
               "set print thread-events off", "-ex", "set breakpoint pending on"]
    return [os.path.join(build, "lockstep"), "gdb"] + options + words[2:]


def missing(expected, lines):
    """The first expected line that is missing after the ones before it; None."""
    at = 0
    for line in expected:
        pattern = ".*".join(re.escape(part) for part in line.strip().split("..."))
        while at < len(lines) and re.search(pattern, lines[at]) is None:
            at += 1
        if at == len(lines):
            return line
        at += 1
    return None


# ---- MI: a sentinel after each command is answered once the program has stopped ------------------
def run_mi(build, session, scratch):
    gdb = subprocess.Popen(command_line(build, session), cwd=scratch, stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
                           env=dict(os.environ, LC_ALL="C.UTF-8", HOME=scratch))
    try:
        for number, command, expected in session.steps:
            gdb.stdin.write(f"{command}\n{SENTINEL}-list-features\n")
            gdb.stdin.flush()
            lines = []
            for line in gdb.stdout:
                if line.startswith(SENTINEL):
                    break
                lines.append(line.rstrip("\n"))
            yield number, command, expected, lines
    finally:
        gdb.stdin.close()
        gdb.wait()


# ---- TUI: the screen, once nothing changes on it any more and gdb asks for a command -------------
def tmux(server, *words):
    done = subprocess.run(["tmux", "-S", server, *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def settled(server):
    before, same = None, 0
    for _ in range(6000):
        screen = tmux(server, "capture-pane", "-p")
        if screen is None:
            return ["gdb or tmux has ended; before that:"] + (before or "").split("\n")
        shown = [line for line in screen.split("\n") if line.strip()]
        ready = shown and shown[-1].strip() == "(gdb)"
        same = same + 1 if ready and screen == before else 0
        if same >= 3:
            return screen.split("\n")
        before = screen
        time.sleep(0.1)
    return (before or "nothing was shown").split("\n")


def run_tui(build, session, scratch):
    # A separate server: one that ends still answers for a moment.
    script, server = os.path.join(scratch, "start"), os.path.join(scratch, "tmux")
    with open(script, "w", encoding="utf-8") as stream:
        words = " ".join("'" + w.replace("'", "'\\''") + "'" for w in command_line(build, session))
        stream.write(f"cd {scratch}; export HOME={scratch} LC_ALL=C.UTF-8; exec {words}\n")
    tmux(server, "-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "40", f"bash {script}")
    try:
        settled(server)
        for number, command, expected in session.steps:
            tmux(server, "send-keys", "-l", command)
            tmux(server, "send-keys", "Enter")
            yield number, command, expected, settled(server)
    finally:
        tmux(server, "kill-server")


def check(build, path, session):
    """Commands that differ, and whether the session was left out."""
    print(f"{path}:{session.number}: {session.command}")
    if calls.is_left_out(command for _, command, _ in session.steps):
        return 0, True
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, command, expected, lines in (run_mi if session.mi else run_tui)(build, session,
                                                                                    scratch):
            print(f"  {command}")
            line = missing(expected, lines)
            wrong = any("Traceback" in text or "Python Exception" in text for text in lines)
            if line is not None or wrong:
                bad += 1
                print(f"{path}:{number}: {command}\n  not there: {line}\n  got:", *lines, sep="\n    ")
    return bad, False


# ---- launch.json: what VS Code does with it --------------------------------------------------------
def launches(path):
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.S)]


def check_launch(build, source, path, launch):
    """The setup commands, the program, its start: up to the finding, with its rank announced."""
    bad = 0
    for of in launch["configurations"]:
        def real(text):
            return text.replace("${workspaceFolder}/build", build).replace("${workspaceFolder}", source)
        session = Session(0, "lockstep gdb --interpreter=mi3 -- " + " ".join(
            [real(of["program"])] + of["args"]))
        for command in of["setupCommands"]:
            text = real(command["text"])
            session.steps.append((0, text if text.startswith("-") else
                                  f'-interpreter-exec console "{text}"', ["^done"]))
        session.steps.append((0, "-exec-run", ['*stopped,reason="breakpoint-hit"', "=thread-selected,id="]))
        session.steps.append((0, "-stack-list-frames", ['^done,stack=[frame={...func="train"...}]']))
        bad += check(build, path, session)[0]
    return bad


def can_debug():
    if shutil.which("gdb") is None or shutil.which("tmux") is None:
        return "gdb or tmux is not installed"
    done = subprocess.run(["gdb", "-batch", "-nx", "-ex", "run", "-ex", "python print(6 * 7)", "/bin/true"],
                          capture_output=True, stdin=subprocess.DEVNULL, check=False)
    out = done.stdout.decode(errors="replace")
    return None if "exited normally" in out and "42" in out else "gdb cannot run programs here"


def main():
    build = os.path.abspath(sys.argv[1])
    why = can_debug()
    if why is not None:
        print("skipped: " + why)
        sys.exit(77)
    sessions = [(path, s) for path in sys.argv[3:] for s in parse(path)]
    results = [check(build, path, session) for path, session in sessions]
    bad, left_out = sum(wrong for wrong, _ in results), sum(is_out for _, is_out in results)
    for path in sys.argv[3:]:
        for launch in launches(path) if path.endswith(".md") else ():
            bad += check_launch(build, os.path.abspath(sys.argv[2]), path, launch)
    print(f"{len(sessions)} sessions, {bad} commands differ")
    if left_out and not bad:
        print(f"skipped: {left_out} sessions were left out, the others passed: {calls.WHY}")
        sys.exit(77)
    sys.exit(1 if bad or not sessions else 0)


main()
