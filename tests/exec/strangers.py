"""Processes that send the coordinator messages that no frontend sends: strangers.py LOCKSTEP HOST STAND_IN

A stranger's connection is closed and the run continues; a rank of the run is named.
"""
import json
import mmap
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

VERSION, CONTROL_BYTES = 4, 1 << 20
SLOT_DONE = 8 + 2048 + 4  # its offset in ls_wire_control
HELLO, SITE, COMM_INIT, SPLIT, SUBSET, DESTROY, CALL, WAIT, RESUME, BYE, PLACE, STAGING, NOTE = range(1, 14)
# The minimum length of each type of message.
LEAST = {HELLO: 40, SITE: 32, COMM_INIT: 232, SPLIT: 96, SUBSET: 92, DESTROY: 24, CALL: 120, WAIT: 32, RESUME: 16, BYE: 16, PLACE: 1040,
         STAGING: 88, NOTE: 48}
# The number of each; the number after the last dtype is that of a field.
KINDS, DTYPES, OPS, FINDINGS, SLOTS, RANKS_MAX = 13, 12, 9, 44, 1 << 14, 4096
NONE, NO_STREAM = 2**32 - 1, 2**64 - 1


def connect(name):
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.connect("\0" + name)
    return made


def send(to, *packets):
    for packet in packets:
        try:
            to.send(packet)
        except OSError:  # it is closed already
            return


def memory_of_front():
    memory = os.memfd_create("stranger")
    os.ftruncate(memory, CONTROL_BYTES)
    return memory


def greet(name, version, rank, ranks=4, memory=None):
    made = connect(name)
    memory = memory_of_front() if memory is None else memory
    hello = struct.pack("=IIIiiiIiiI", HELLO, 40, version, os.getpid(), rank, ranks, 0, 0, 0, 0)
    try:
        socket.send_fds(made, [hello], [memory])
    except OSError:  # there are too many strangers
        pass
    return made


def disturb(name):
    """All that a stranger may do; returns the connections that stay open."""
    for packet in (b"x", b"\0" * 64, struct.pack("=II", 99, 8), struct.pack("=II", CALL, 4000),
                   struct.pack("=II", SITE, 40) + b"\xff" * 32):
        send(connect(name), packet)
    greet(name, VERSION + 1, 0)
    other = greet(name, VERSION, 0)
    send(other, struct.pack("=II", CALL, 128) + b"\xff" * 120)
    for _ in range(300):
        send(connect(name), b"flood")
    return [connect(name), greet(name, VERSION, 1)]


def socket_of(pid):
    """The name of the coordinator's socket, once it listens."""
    while True:
        with open("/proc/net/unix", encoding="utf-8") as file:
            if found := re.search(rf"@(lockstep-exec-{pid}-\w+)", file.read()):
                return found.group(1)
        time.sleep(0.02)


def strangers(lockstep, host, stand_in, folder):
    """The ranks wait until the strangers are done. The last rank connects long before it greets."""
    slow = f'[ "$RANK" != 3 ] || "{sys.executable}" "{os.path.abspath(__file__)}" slow || exit'
    ranks = f'while [ ! -e "{folder}/go" ]; do sleep 0.05; done; {slow}; exec "{host}"'
    run = subprocess.Popen([lockstep, "exec", "-n", "4", "--json", f"{folder}/report.json", "--",
                            "sh", "-c", ranks], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, env=dict(os.environ, MEET="strangers",
                                               LD_LIBRARY_PATH=stand_in))
    open_ones = disturb(socket_of(run.pid))
    with open(f"{folder}/go", "w", encoding="utf-8"):
        pass
    out, err = run.communicate()
    for at in open_ones:
        at.close()
    print(out, err)
    return [] if run.returncode == 0 and "is closed, and the run continues" in err else [
        f"strangers: exit code {run.returncode}"]


def call(kind=0, dtype=9, op=0, slot=1, comm=1, flags=0, counts=(), memory=(NONE, NONE), more=b""):
    """An all_reduce that has no element."""
    body = struct.pack(f"={len(counts)}Q", *counts) + more
    return struct.pack("=IIIIIIiIIIdiIHHIQQQQIIQQ", CALL, 120 + len(body), comm, kind, dtype, op, 0, flags, slot, 0, 0, 0, os.getpid(), 0, 0, 0,
                       0, NO_STREAM, 0, 0, *memory, 0, 0) + body


def item(name=b"n\0", shown=b"t\0", dtype=NONE, sizes=None):
    name_bytes, shown_bytes = sizes or (len(name), len(shown))
    return struct.pack("=QQIIII", 1, 1, dtype, name_bytes, shown_bytes, 0) + bytes(128) + name + shown


def note(members=(0,), key=b"k\0", about=b"\0", items=(), finding=0, more=b"", said=()):
    """Values that are compared between members; without items none."""
    body = struct.pack(f"={len(members)}i", *members) + key + about + b"".join(items) + more
    counts = {"members": len(members), "items": len(items), "key": len(key), "about": len(about), **dict(said)}
    return struct.pack("=IIIIIIIIIIQ", NOTE, 48 + len(body), finding, 0, 0, counts["members"], 0, counts["items"], counts["key"],
                       counts["about"], 0) + body


def site(number=1, texts=(b"f\0", b"\0", b"\0"), lengths=None, more=b""):
    lengths, body = lengths or [len(text) for text in texts], b"".join(texts) + more
    return struct.pack("=IIIiIIII", SITE, 32 + len(body), number, 1, *lengths, 0) + body


def init(ranks, rank):
    return struct.pack("=IIIiiiIIII", COMM_INIT, 232, 2, ranks, rank, 0, 1, 0, 0, 0) + b"other".ljust(192, b"\0")


def subset(count, *members, parent=1):
    return struct.pack("=IIIIIII", SUBSET, 92 + 4 * len(members), parent, 2, 1, 0, count) + bytes(64) + struct.pack(f"={len(members)}i", *members)


def staging(memory=1, slot=1):
    return struct.pack("=IIIIQ", STAGING, 88, memory, slot, 64) + bytes(64)


# The rank's message, and the error about it; None: it is accepted, and the run checks nothing.
TYPE, CALLED = "it sends a malformed message: ", "a call of an unknown kind"
CUT, NO_NOTE, NO_HEAD, NO_ITEM, NO_SITE = (TYPE + what for what in (
    "a truncated message", "a note's texts or members", "a note's head", "a note's item", "a site out of order"))
NO_COMM, MANY, ITEMS = "process N has no communicator 7", list(range(RANKS_MAX)), [item()]
OWN = {
    "type": (lambda: struct.pack("=II", 99, 8), TYPE + "a message of an unknown type"),
    "head": (lambda: b"x" * 7, CUT), "length": (lambda: struct.pack("=III", BYE, 16, 0), CUT),
    **{f"least {kind}": (lambda kind=kind: struct.pack("=II", kind, LEAST[kind] - 4) + bytes(LEAST[kind] - 12), CUT) for kind in LEAST},
    "twice": (lambda: struct.pack("=IIIiiiIiiI", HELLO, 40, VERSION, 1, 0, 1, 0, 0, 0, 0), TYPE + "a greeting of another lockstep version"),
    # Calls: the last of each enumeration is valid, the next is not.
    **{f"{name} {value}": (lambda name=name, value=value: call(**{name: value}), CALLED) for name, value in (
        ("kind", KINDS), ("kind", 200), ("dtype", DTYPES + 1), ("dtype", 200), ("op", OPS), ("op", 200), ("slot", SLOTS), ("slot", NONE))},
    "counts": (lambda: call(flags=4), "a call with more or fewer counts than members"),
    "more counts": (lambda: call(counts=(0,)), "a call with more or fewer counts than members"),
    "comm": (lambda: call(comm=7), NO_COMM), "split": (lambda: struct.pack("=IIIIiiII", SPLIT, 96, 7, 2, 0, 0, 1, 0) + bytes(64), NO_COMM),
    "destroy": (lambda: struct.pack("=IIIIII", DESTROY, 24, 7, 0, 0, 0), NO_COMM),
    # Sites in order, each text with its end.
    "site": (lambda: site(5), NO_SITE), "site again": (lambda: site(0), NO_SITE), "no file": (lambda: site(texts=(b"", b"\0", b"\0")), NO_SITE),
    "open stack": (lambda: site(texts=(b"\0", b"x", b"\0")), NO_SITE), "long file": (lambda: site(lengths=(99, 1, 1)), NO_SITE),
    "behind a site": (lambda: site(more=b"\0"), NO_SITE), "a site": (lambda: site(), None),
    # Members of communicators.
    **{f"{rank} of {ranks}": (lambda rank=rank, ranks=ranks: init(ranks, rank), f"rank {rank} of {ranks} cannot join a communicator")
       for rank, ranks in ((0, 0), (0, -1), (-1, 1), (1, 1), (0, RANKS_MAX + 1))},
    "subset of none": (lambda: subset(0), "a communicator of 0 of 1 members"), "subset of two": (lambda: subset(2, 0, 1), "a communicator of 2 of 1 members"),
    "subset cut": (lambda: subset(1), "a communicator of 1 of 1 members"), "subset longer": (lambda: subset(1, 0, 0), "a communicator of 1 of 1 members"),
    "subset without it": (lambda: subset(1, 5), "rank -1 of 1 cannot join a communicator"), "subset of nothing": (lambda: subset(1, 0, parent=7), NO_COMM),
    # Memory of GPUs.
    **{f"staging {memory} {slot}": (lambda memory=memory, slot=slot: staging(memory, slot), "process N gives out memory out of order") for memory, slot in ((0, 1), (2, 1), (1, SLOTS))},
    "staging": (staging, None),
    # Notes.
    "members": (lambda: note([0, 0]), NO_NOTE), "descending": (lambda: note([1, 0]), NO_NOTE), "key": (lambda: note([0, 1], b"k"), NO_NOTE),
    "no key": (lambda: note(key=b""), NO_NOTE), "about": (lambda: note(about=b"x"), NO_NOTE), "no about": (lambda: note(about=b""), NO_NOTE),
    "long key": (lambda: note(said={"key": 99}), NO_NOTE), "long about": (lambda: note(said={"about": 99}), NO_NOTE),
    "finding": (lambda: note(finding=FINDINGS), NO_HEAD), "too many members": (lambda: note(MANY + [RANKS_MAX]), NO_HEAD),
    "members cut": (lambda: note(said={"members": 3}), NO_HEAD), "items cut": (lambda: note(said={"items": 1}), NO_HEAD),
    "item behind": (lambda: note(items=[item(), bytes(159)], said={"items": 2}), TYPE + "a note's item is truncated"),
    "item lengths": (lambda: note(items=[item(sizes=(2, 3))]), NO_ITEM),
    "item type": (lambda: note(items=[item(dtype=DTYPES)]), NO_ITEM), "item name": (lambda: note(items=[item(name=b"n")]), NO_ITEM),
    "item shown": (lambda: note(items=[item(shown=b"t")]), NO_ITEM), "behind": (lambda: note(items=ITEMS, more=b"\0"), TYPE + "trailing bytes after a note"),
    "note": (lambda: note(items=ITEMS), None), "tensor": (lambda: note(items=[item(dtype=DTYPES - 1, shown=b"[1]\0")]), None),
    "last finding": (lambda: note(finding=FINDINGS - 1, items=ITEMS), None), "most members": (lambda: note(MANY, items=ITEMS), None),
}
# Greetings that are refused: the process then ends with exit code 7.
GREETINGS = {"rank": (RANKS_MAX, 1, CONTROL_BYTES), "ranks": (0, RANKS_MAX + 1, CONTROL_BYTES), "memory": (0, 1, 4096), "no memory": (0, 1, None)}


FLOAT, AT_END, EXCUSED, STALE, HINT, APART, NEAR = 7, 2**64 - 1, 1, 2, 4, 8, 16


def value(name, hash_=1, shown="[2, 3, 4]", samples=(1.0,) * 8, count=24, dtype=FLOAT):
    """A tensor by its hash and eight of its elements; of no dtype: a text."""
    elements = bytes(128) if dtype == NONE else b"".join(struct.pack("=f", one) + bytes(12) for one in samples)
    return struct.pack("=QQIIII", hash_, count, dtype, len(name) + 1, len(shown) + 1, 0) + elements + f"{name}\0{shown}\0".encode()


def word(name, shown):
    return value(name, sum(shown.encode()), shown, dtype=NONE)


def changed(at):
    return [7.0 if i == at else 1.0 for i in range(8)]


def compared(items, step=1, key="k", about="", flags=0):
    """A note of values that three ranks share."""
    body = struct.pack("=iii", 0, 1, 2) + f"{key}\0{about}\0".encode() + b"".join(items)
    return struct.pack("=IIIIIIIIIIQ", NOTE, 48 + len(body), 0, 0, flags, 3, 0, len(items), len(key) + 1, len(about) + 1, step) + body


def apart(text, step):
    """A note of values that must differ between any two of three ranks; they change with the step."""
    return compared([word("t", f"{text} {step}")], step, about="why", flags=APART)


def factor(number, part=1e-3):
    """A note of a value, and by which part of it that of another rank may differ."""
    return compared([value("f", abs(hash((number, part))), "[]", (number, part) * 4, 2)], flags=NEAR)


ONE = [value("w")]
# The notes of each of three ranks; the ranks at fault and the lines of the finding, or None.
NOTES = {
    "same": ([[compared(ONE)]] * 3, None),
    "element": ([[compared(ONE)], [compared(ONE)], [compared([value("w", 2, samples=changed(3))])]],
                ([2], "k: w differs on rank 2 after step 1\n  element [0, 2, 1]: 7 on rank 2, 1 on rank 0\n")),
    "last": ([[compared(ONE)], [compared([value("w", 2, samples=changed(7))])], [compared(ONE)]], ([1], "  element [1, 2, 3]: 7 on rank 1, 1 on rank 0\n")),
    "few": ([[compared([value("w", 1, "[5]", count=5)])]] * 2 + [[compared([value("w", 2, "[5]", changed(4), 5)])]], ([2], "  element [4]: 7 on rank 2, 1 on rank 0\n")),
    "eight": ([[compared([value("w", 1, "[8]", count=8)])]] * 2 + [[compared([value("w", 2, "[8]", changed(7), 8)])]], ([2], "  element [7]: 7 on rank 2, 1 on rank 0\n")),
    "equal": ([[compared(ONE)], [compared(ONE)], [compared([value("w", 2)])]], ([2], "  the 8 elements that were looked at are equal\n")),
    "counts": ([[compared(ONE)], [compared(ONE)], [compared([value("w", 2, "[2]", changed(0), 2)])]], ([2], "  the 8 elements that were looked at are equal\n")),
    "text": ([[compared([word("t", text)])] for text in "aab"], ([2], "k: t differs on rank 2 after step 1\n  rank 2: b\n  rank 0: a\n")),
    "majority": ([[compared([word("t", text)])] for text in "abb"], ([0], "k: t differs on rank 0 after step 1\n  rank 0: a\n  rank 1: b\n")),
    "none alike": ([[compared([word("t", text)])] for text in "abc"], ([1, 2], "k: t differs on ranks 1, 2 after step 1\n  rank 1: b\n  rank 0: a\n")),
    "first": ([[compared([word("t", text)], 0, "k#3")] for text in "aab"], ([2], "k: t differs on rank 2 before the first step\n")),
    "end": ([[compared([word("t", text)], AT_END)] for text in "aab"], ([2], "k: t differs on rank 2 at the end\n")),
    "two": ([[compared([word(name, text if name in "bd" else "x") for name in "abcd"])] for text in "xxy"], ([2], "  2 of 4 values differ: d\n")),
    "four": ([[compared([word(name, text) for name in "abcd"])] for text in "xxy"], ([2], "  4 of 4 values differ: b, c, d\n")),
    "five": ([[compared([word(name, text) for name in "abcde"])] for text in "xxy"], ([2], "  5 of 5 values differ: b, c, e, ...\n")),
    "abouts": ([[compared([word("t", text)], about=about)] for text, about in zip("aab", ("loaded", "", "loaded"))], ([2], "  ranks 0, 2: loaded\n")),
    "one about": ([[compared([word("t", text)], about=about)] for text, about in zip("aab", ("x", "y", "z"))], ([2], "  rank 0: x\n  rank 1: y\n  rank 2: z\n")),
    "order": ([[compared([word("s", "x"), word("t", "a")])], [compared([word("t", "a"), word("s", "x")])], [compared([word("t", "b"), word("s", "x")])]],
              ([2], "k: t differs on rank 2 after step 1\n")),
    "lacking": ([[compared([word("t", "a")])], [compared([word("t", "b")])], [compared([word("s", "a")])]], None),
    "other keys": ([[compared([word("t", text)], key=text)] for text in "aab"], None),
    "other steps": ([[compared([word("t", text)], step)] for text, step in zip("aab", (1, 1, 2))], None),
    "apart": ([[apart(text, 1), apart(text, 2), apart(text + "x", 3)] for text in "aab"],
              ([0, 1], "k: t: ranks 0, 1 have the same in each of 3 steps\n  why\n")),
    "apart in two steps": ([[apart(text, 1), apart(text, 2)] for text in "aaa"], None),
    "apart once": ([[apart(text, 1), apart(text + other, 2), apart(text, 3)] for text, other in ("ax", "ay", "bz")], None),
    "apart of nothing": ([[compared([], flags=APART)]] * 3, None),
    "hint": ([[compared([word("t", text)], flags=HINT)] for text in "aab"], None),
    "near": ([[factor(number)] for number in (0.5, 0.50049, 0.49951)], None),
    "not near": ([[factor(number)] for number in (0.5, 0.5, 0.49)], ([2], "k: f differs on rank 2 after step 1\n  0.49 on rank 2, 0.5 on rank 0\n")),
    "near by the larger part": ([[factor(number, part)] for number, part in ((0.5, 0.1), (0.5, 0.1), (0.49, 0))], None),
    "near of a sign": ([[factor(number)] for number in (-1.0, 1.0, 1.0)], ([0], "k: f differs on rank 0 after step 1\n  -1 on rank 0, 1 on rank 1\n")),
    "near and no number": ([[factor(number)] for number in (1.0, 1.0, float("nan"))], ([2], "k: f differs on rank 2 after step 1\n  nan on rank 2, 1 on rank 0\n")),
    "stale": ([[compared([word("t", text)], flags=flags)] for text, flags in zip("aab", (0, STALE, 0))], None),
    "excused": ([[compared([word("t", text)], flags=EXCUSED)] for text in "aab"], ([2], "k: t differs on rank 2 after step 1\n")),
    "excused by two": ([[compared([word("t", text)], flags=flags)] for text, flags in zip("aab", (EXCUSED, EXCUSED, 0))], ([2], "k: t differs on rank 2 after step 1\n")),
    "equal again": ([[compared([word("t", text)], flags=EXCUSED), compared([word("t", "a")], 2)] for text in "aab"], None),
    "lasting": ([[compared([word("t", text)], flags=EXCUSED), compared([word("t", text)], 2)] for text in "aab"], ([2], "k: t differs on rank 2 after step 2\n")),
    "twice": ([[compared([word("t", text)]), compared([word("t", text)], 2)] for text in "aab"], ([2], "k: t differs on rank 2 after step 1\n")),
}


def be_noting(rank, case):
    """A rank of three, which sends its values and ends when it has joined."""
    memory = memory_of_front()
    made = greet(os.environ["LOCKSTEP_EXEC"], VERSION, rank, 3, memory)
    control = mmap.mmap(memory, CONTROL_BYTES)
    send(made, site(0, (b"f\0", b"\0", b"\0")), struct.pack("=IIIiiiIIII", COMM_INIT, 232, 1, 3, rank, 0, 0, 0, 0, 0) + bytes(192))
    while control[SLOT_DONE] == 0:
        time.sleep(0.01)
    send(made, *NOTES[case][0][rank])
    send(made, struct.pack("=IIiI", BYE, 16, 0, 0))  # and leaves the answer to its greeting unread
    sys.exit(0)


def notes(lockstep, folder, case):
    """The notes of three ranks give at most one finding, whose text names the ranks and their values."""
    expected, report = NOTES[case][1], f"{folder}/{case}.json"
    done = subprocess.run([lockstep, "exec", "-n", "3", "--json", report, "--", sys.executable, os.path.abspath(__file__), "note", case],
                          capture_output=True, text=True)
    with open(report, encoding="utf-8") as file:
        found = [(one["ranks"], one["text"]) for case_ in json.load(file)["cases"] for one in case_["findings"]]
    right = (done.returncode, found) == (5, []) if expected is None else (
        done.returncode == 1 and len(found) == 1 and found[0][0] == expected[0] and expected[1] in found[0][1])
    return [] if right else [f"{case}: {done.returncode}, {found}, {done.stdout}{done.stderr}"]


def own_rank(lockstep, folder, case):
    """A rank that breaks the protocol ends its run, which names the rank."""
    text, report = "" if case in GREETINGS else OWN[case][1], f"{folder}/{case}.json"
    done = subprocess.run([lockstep, "exec", "-n", "1", "--json", report, "--", sys.executable, os.path.abspath(__file__), "rank", case],
                          capture_output=True, text=True)
    with open(report, encoding="utf-8") as file:
        error = "".join(one.get("error") or "" for one in json.load(file)["cases"])
    if case in GREETINGS:
        right = done.returncode == 3 and error.startswith("the process of rank 0 ended with exit code 7")
    else:
        named = re.sub(r"process \d+", "process N", re.sub(r" \(process \d+\)", "", error))
        right = (done.returncode, error) == (5, "") if text is None else done.returncode == 3 and named.startswith("rank 0: " + text)
    return [] if right else [f"{case}: {done.returncode}, {error}, {done.stderr}"]


def be_rank(case):
    """The only member of a communicator. An invalid one ends."""
    rank, ranks, size = GREETINGS.get(case, (0, 1, CONTROL_BYTES))
    memory = os.memfd_create("rank")
    os.ftruncate(memory, size or 0)
    made = greet(os.environ["LOCKSTEP_EXEC"], VERSION, rank, ranks, memory)
    if made.recv(1) != b"W":
        sys.exit(7)
    send(made, site(0, (b"\0", b"\0", b"\0")),
         struct.pack("=IIIiiiIIII", COMM_INIT, 232, 1, 1, 0, 0, 0, 0, 0, 0) + bytes(192), OWN[case][0]())
    send(made, struct.pack("=IIiI", BYE, 16, 0, 0))
    sys.exit(0)


def connect_slowly():
    """While the other ranks wait for this one, the coordinator asks the processes for their places: those that have greeted."""
    made = connect(os.environ["LOCKSTEP_EXEC"])
    made.settimeout(2.5)
    try:
        sys.exit(f"the coordinator says {made.recv(1)} to a process that has not greeted")
    except TimeoutError:
        return 0


def main():
    if sys.argv[1] == "slow":
        return connect_slowly()
    if sys.argv[1] == "note":
        be_noting(int(os.environ["RANK"]), sys.argv[2])
    if sys.argv[1] == "rank":
        be_rank(sys.argv[2])
    lockstep, host, stand_in = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        wrong = strangers(lockstep, host, stand_in, folder)
        with ThreadPoolExecutor(12) as pool:
            wrong += sum(pool.map(lambda case: own_rank(lockstep, folder, case), [*OWN, *GREETINGS]), [])
            wrong += sum(pool.map(lambda case: notes(lockstep, folder, case), NOTES), [])
    print(*wrong, sep="\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
