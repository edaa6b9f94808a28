"""Two commands at a time have different ports for their programs, though nobody listens yet: ports.py LOCKSTEP"""
import subprocess
import sys


def start():
    return subprocess.Popen([sys.argv[1], "exec", "-n", "1", "--", "sh", "-c", "echo port $MASTER_PORT; read line"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def port_of(run):
    return int(next(line for line in run.stdout if line.startswith("port ")).split()[1])


def locks():
    with open("/proc/net/unix", encoding="utf-8") as file:
        return {int(line.rsplit("-", 1)[1]) for line in file if "@lockstep-port-" in line}


def main():
    runs = [start(), start()]
    ports = [port_of(run) for run in runs]
    held = locks()
    for run in runs:
        run.communicate("\n")
    assert len(set(ports)) == 2 and set(ports) <= held, (ports, held)
    assert not set(ports) & locks(), "the ports are still locked"


main()
