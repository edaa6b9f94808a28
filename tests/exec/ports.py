"""A command gives its program no port that another command has, though nobody listens yet: ports.py LOCKSTEP"""
import os
import socket
import subprocess
import sys

FIRST, COUNT, APART = 15000, 1600, 10  # of exec/children.c, which tries the port of its process number first
kept = []


def take():
    """In the process that becomes lockstep: the lock of its first port, which stays open."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    lock.bind(f"\0lockstep-port-{FIRST + APART * (os.getpid() % COUNT)}")
    lock.set_inheritable(True)
    kept.append(lock)


def start(before=None):
    return subprocess.Popen([sys.argv[1], "exec", "-n", "1", "--", "sh", "-c", "echo port $MASTER_PORT; read line"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=before, close_fds=False)


def port_of(run):
    return int(next(line for line in run.stdout if line.startswith("port ")).split()[1])


def locks():
    with open("/proc/net/unix", encoding="utf-8") as file:
        return {int(line.rsplit("-", 1)[1]) for line in file if "@lockstep-port-" in line}


def main():
    runs = [start(), start(take)]
    ports, held = [port_of(run) for run in runs], locks()
    taken = FIRST + APART * (runs[1].pid % COUNT)
    for run in runs:
        run.communicate("\n")
    assert all(port % APART == FIRST % APART for port in ports), "a program may use the next ports, too"
    assert taken in held and taken not in ports and set(ports) <= held, (ports, taken, held)
    assert not set(ports) & locks(), "the ports are still locked"


main()
