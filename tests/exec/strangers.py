"""Processes that say to the coordinator what no front says: strangers.py LOCKSTEP HOST STAND_IN

A stranger's connection is closed and the run continues; a rank of the run is named."""
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

VERSION, CONTROL_BYTES = 4, 1 << 20
RUN_FAILED, SLOT_DONE = 4, 8 + 2048 + 4  # offsets in ls_wire_control
HELLO, SITE, COMM_INIT, CALL, NOTE = 1, 2, 3, 7, 13
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
    """All that a stranger may do; the connections that stay open."""
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
    """The ranks wait until the strangers have done what they do. The last rank connects long before it greets."""
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


def call(kind=0, dtype=9, op=0, slot=1):
    """An all_reduce that has no element."""
    return struct.pack("=IIIIIIiIIIdiIHHIQQQQIIQQ", CALL, 120, 1, kind, dtype, op, 0, 0, slot, 0, 0, 0, os.getpid(), 0, 0, 0,
                       0, NO_STREAM, 0, 0, NONE, NONE, 0, 0)


def note(members, key=b"k\0"):
    """Values that are compared between members, without a value."""
    body = struct.pack(f"={len(members)}i", *members) + key + b"\0"
    return struct.pack("=IIIIIIIIIIQ", NOTE, 48 + len(body), 0, 1, 0, len(members), 0, 0, len(key), 1, 0) + body


# What the rank sends, and what the error says of it.
TYPE, RANK = "rank 0: it sends a malformed message: ", "rank 0: a call of no known kind"
NO_NOTE = TYPE + "a note's texts or members"
OWN = {
    "type": (lambda: struct.pack("=II", 99, 8), TYPE),
    "rank": (bytes, "the process of rank 0 ended with exit code 7"),
    "kind": (lambda: call(kind=200), RANK), "dtype": (lambda: call(dtype=200), RANK), "op": (lambda: call(op=200), RANK),
    "slot": (lambda: call(slot=1 << 14), RANK), "site": (lambda: struct.pack("=IIIiIIII", SITE, 32, 5, 1, 0, 0, 0, 0), TYPE + "a site out of order"),
    "members": (lambda: note([0, 0]), NO_NOTE), "key": (lambda: note([0, 1], b"k"), NO_NOTE),
}


def differ(rank):
    """Notes of two steps, in which a text differs between ranks."""
    memory = memory_of_front()
    made = greet(os.environ["LOCKSTEP_EXEC"], VERSION, rank, 2, memory)
    control = mmap.mmap(memory, CONTROL_BYTES)

    def wait_for(offset):
        while control[offset] == 0:
            time.sleep(0.01)

    body = struct.pack("=ii", 0, 1) + b"k\0\0" + struct.pack("=QQIIII", rank, 1, NONE, 2, 2, 0) + bytes(128) + b"n\0t\0"
    send(made, *(struct.pack("=IIIiIIII", SITE, 36, site, 7 + site, 2, 1, 1, 0) + b"f\0\0\0" for site in (0, 1)),
         struct.pack("=IIIiiiIIII", COMM_INIT, 232, 1, 2, rank, 0, 0, 0, 0, 0) + bytes(192))
    wait_for(SLOT_DONE)
    send(made, *(struct.pack("=IIIIIIIIIIQ", NOTE, 48 + len(body), 0, site, 0, 2, 0, 1, 2, 1, 1 + site) + body for site in (0, 1)))
    wait_for(RUN_FAILED)
    sys.exit(1)


def two_notes(lockstep, folder):
    """A difference that lasts is one finding."""
    done = subprocess.run([lockstep, "exec", "-n", "2", "--json", f"{folder}/two.json", "--",
                           sys.executable, os.path.abspath(__file__), "differ"], capture_output=True, text=True)
    with open(f"{folder}/two.json", encoding="utf-8") as file:
        found = json.load(file)["cases"][0].get("findings", "")
    right = done.returncode == 1 and [(one["ranks"], one["text"].split("\n")[0]) for one in found] == [([1], "k: n differs on rank 1 after step 1")]
    return [] if right else [f"two notes: {done.returncode}, {found}, {done.stdout}"]


def own_rank(lockstep, folder):
    """A rank that breaks the protocol ends its run, which names it."""
    wrong = []
    for case, (_, text) in OWN.items():
        done = subprocess.run([lockstep, "exec", "-n", "1", "--json", f"{folder}/own.json", "--",
                               sys.executable, os.path.abspath(__file__), "rank", case],
                              capture_output=True, text=True)
        with open(f"{folder}/own.json", encoding="utf-8") as file:
            error = json.load(file)["cases"][0].get("error", "")
        print(done.stdout, done.stderr)
        named = re.sub(r" \(process \d+\)", "", error).startswith(text)
        wrong += [] if done.returncode == 3 and named else [f"{case}: {done.returncode}, {error}"]
    return wrong


def be_rank(case):
    """The only member of a communicator. One that is not welcome ends."""
    made = greet(os.environ["LOCKSTEP_EXEC"], VERSION, 5000 if case == "rank" else 0, 1)
    if made.recv(1) != b"W":
        sys.exit(7)
    send(made, struct.pack("=IIIiIIII", SITE, 35, 0, 7, 1, 1, 1, 0) + bytes(3),
         struct.pack("=IIIiiiIIII", COMM_INIT, 232, 1, 1, 0, 0, 0, 0, 0, 0) + bytes(192), OWN[case][0]())
    time.sleep(1000)


def connect_slowly():
    """While the other ranks wait for this one, the coordinator asks the processes where they are: those that have greeted."""
    made = connect(os.environ["LOCKSTEP_EXEC"])
    made.settimeout(2.5)
    try:
        sys.exit(f"the coordinator says {made.recv(1)} to a process that has not greeted")
    except TimeoutError:
        return 0


def main():
    if sys.argv[1] == "slow":
        return connect_slowly()
    if sys.argv[1] == "differ":
        differ(int(os.environ["RANK"]))
    if sys.argv[1] == "rank":
        be_rank(sys.argv[2])
    lockstep, host, stand_in = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        wrong = strangers(lockstep, host, stand_in, folder) + own_rank(lockstep, folder) + two_notes(lockstep, folder)
    print(*wrong, sep="\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
