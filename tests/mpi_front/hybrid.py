"""Threads of a rank in concurrent calls: correct programs are silent under every seed, which repeats the order of their threads, and wrong
ones are found. hybrid.py BUILD SOURCES SEEDS [NAME]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# programs of wrong.c: the finding, and its lines, marked by "wrong: "
WRONG = (
    ("circle", "deadlock.cycle", ("circle 0", "circle 1")),
    ("locked", "deadlock.cycle", ("locked",)),
    ("crossed", "deadlock.cross_communicator", ("crossed",)),
    ("at_once", "call.invalid|collective.kind_mismatch", ("at once", "at once too")),
    ("both_complete", "call.invalid", ("both complete",)),
    ("too_many", "p2p.unmatched_recv", ("too many",)),
    ("endless", "deadlock.cycle", ("endless",)),
    ("never_complete", "deadlock.cycle", ("never complete",)),
    ("beside_receive", "buffer.use_before_wait", ("beside a receive",)),
    ("beside_sendrecv", "buffer.use_before_wait", ("beside a sendrecv",)),
)

# programs with one reporting rank: the first whose polls end
ALONE = ("general_late", "general_sections", "flag_late", "never_complete")

# programs of ordered.c, and the lines of the race without order
ORDERED = (
    ("barrier", ("call", "barrier")),
    ("single", ("call", "single")),
    ("loop", ("call", "loop")),
    ("regions", ("call", "regions")),
    ("task", ("call", "task")),
    ("tasks", None),
    ("turns", None),
    ("join", ("call", "helper")),
    ("condition", ("call", "helper")),
    ("semaphore", ("call", "helper")),
    ("flag", ("call", "helper")),
    ("pthread_barrier", ("call", "helper")),
    ("late_call", None),
    ("early", ("call", "early")),
    ("allocations", None),
    ("message", ("put", "message")),
)


def schedules_of(seeds):
    return [[], ["--delayed-rank", "0"]] + \
        [["--schedule", "random", "--seed", str(seed)] for seed in range(1, seeds + 1)]


def ranks_of(way):
    return (1,) if way in ALONE else (2, 3, 4)


def line_of(source, words):
    for number, line in enumerate(open(source, encoding="utf-8"), 1):
        if line.rstrip().endswith("// wrong: " + words):
            return f"{os.path.basename(source)}:{number}"
    raise AssertionError(words)


def ordered(run, build_program, sources, seeds, only):
    """Unordered accesses of several threads of a rank to window memory race."""
    source = os.path.join(sources, "ordered.c")
    inside, outside = build_program(source), build_program(source, "-DOUTSIDE")
    runs = [(inside, way, lines) for way, lines in ORDERED] + \
        [(outside, way, lines) for way, lines in ORDERED if way != "message"]
    for program, way, lines in runs:
        for schedule in schedules_of(seeds) if not only or way in only else ():
            code, text = run(program, [way], 2, schedule)
            assert code == 0, (way, schedule, code, text)
            if lines is not None:
                code, text = run(program, [way, "wrong"], 2, schedule)
                assert code == 1 and "rma.race," in text, (way, schedule, code, text)
                for words in lines:
                    assert line_of(source, words) in text, (way, schedule, words, text)
    program = build_program(os.path.join(sources, "ordered_classes.h"))
    for schedule in schedules_of(seeds):
        for ranks in (1, 2) if not only else ():
            code, text = run(program, [], ranks, schedule)
            assert code == 0, (ranks, schedule, code, text)


def main():
    build, sources, seeds, only = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    wrong, right = (os.path.join(sources, name + ".c") for name in ("wrong", "right"))
    ways = re.findall(r'\{"(\w+)", ', open(right, encoding="utf-8").read())
    assert len(ways) >= 8, ways
    with tempfile.TemporaryDirectory() as folder:
        def build_program(source, *flags):
            program = os.path.join(folder, os.path.basename(source)[:-2] + "".join(flags))
            compiler = "lockstep-cc"
            if source.endswith(".h"):
                source = shutil.copy(source, program + ".cpp")
                compiler = "lockstep-c++"
            subprocess.run([os.path.join(build, compiler), "-fopenmp", *flags, source, "-o", program],
                           check=True)
            return program

        def run(program, arguments, ranks, schedule):
            done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", str(ranks), *schedule,
                                   program, "--", *arguments], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

        program, runs, orders = build_program(right), 0, {}
        for way in ways:
            for ranks in ranks_of(way) if not only or way in only else ():
                for schedule in schedules_of(seeds):
                    code, text = run(program, [way], ranks, schedule)
                    assert code == 0, (way, ranks, schedule, code, text)
                    runs += 1
                    if way == "order" and ranks == 3:
                        orders[tuple(schedule)] = re.search(r"^\[.*", text, re.M)[0]
        for schedule, order in orders.items():
            text = run(program, ["order"], 3, schedule)[1]
            assert order in text, (schedule, order, text)
        assert only or len(set(orders.values())) > 1, orders

        ordered(run, build_program, sources, seeds, only)
        program = build_program(wrong)
        for way, finding, lines in WRONG:
            for schedule in schedules_of(seeds) if not only or way in only else ():
                code, text = run(program, [way], ranks_of(way)[0], schedule)
                assert code == 1 and re.search(f"({finding}),", text), (way, schedule, code, text)
                assert way != "circle" or "rank 1, thread 1, waits for" in text, text
                for words in lines:
                    assert line_of(wrong, words) in text, (way, schedule, words, text)
    print(f"{runs} runs of {len(ways)} correct programs, {len(WRONG)} wrong ones")


main()
