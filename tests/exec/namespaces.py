"""Hosts on one machine: each is a process with its own network, processes, name and /etc/hosts. They end with the process that made them.

Host N is "hN" in the job's network and "mN" in a second one, for what observes the job. Both have a bridge in a network namespace of
their own. A command on a host is started by the host's first process, as by sshd:

    namespaces.py host FOLDER NAME           that process
    namespaces.py on FOLDER NAME COMMAND...  runs the command there, in a shell; options of ssh before NAME are ignored
    namespaces.py relay DELAY JITTER LOSS RATE PORT...  replaces a bridge: frames come later, in another order, slowly, or never
"""
import contextlib
import heapq
import itertools
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.abspath(__file__)
REQUEST_BYTES = 1 << 18
NETWORKS = {"job": ("h", "10.77.0"), "side": ("m", "10.78.0")}
UNSHARED = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


# ---- On a host ----------------------------------------------------------------------------------
def _execute(connection):
    """A command, or a signal for one; the answer is its number, and at its end its exit code."""
    message, files, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 3)
    request = json.loads(message)
    if "signal" in request:
        os.kill(request["process"], request["signal"])
        return
    child = subprocess.Popen(request["command"], stdin=files[0], stdout=files[1], stderr=files[2], env=request["environment"],
                             cwd=request["folder"])
    for file in files:
        os.close(file)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        connection.send(str(child.pid).encode())
        connection.send(str(child.wait()).encode())


def be_host(folder, name):
    socket.sethostname(name)
    subprocess.run(["mount", "--bind", f"{folder}/hosts", "/etc/hosts"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(f"{folder}/{name}.new")
        server.listen(64)
        os.rename(f"{folder}/{name}.new", f"{folder}/{name}")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # processes without a parent are its children
        while True:
            connection = server.accept()[0]
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                _execute(connection)
                os._exit(0)
            connection.close()


class Command:
    """A process on a host."""

    def __init__(self, folder, name, command, environment=None, files=(0, 1, 2)):
        self._at = f"{folder}/{name}"
        self._connection = self._send({"command": command, "environment": environment, "folder": os.getcwd()}, files)
        self.pid = int(self._connection.recv(64) or -1)  # there
        self.code = None

    def _send(self, request, files=()):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self._at)
        socket.send_fds(connection, [json.dumps(request).encode()], files)
        return connection

    def wait(self, seconds=None):
        if self.code is None:
            self._connection.settimeout(seconds)
            self.code = int(self._connection.recv(64) or -signal.SIGKILL)  # empty: the host has ended
            self._connection.close()
        return self.code

    def kill(self, number=signal.SIGKILL):
        with self._send({"process": self.pid, "signal": number}) as connection:
            connection.recv(1)


# ---- The networks -------------------------------------------------------------------------------
def can_make():
    """Why this machine cannot make hosts; None: it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        tried = subprocess.run([*UNSHARED, "ip", "link", "add", "x", "type", "veth"], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return None if tried.returncode == 0 else f"no network namespaces: {tried.stderr.strip()}"


class Hosts:
    def __init__(self, folder, count):
        self.folder, self.count, self._first = folder, count, {}
        with open(f"{folder}/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{start}.{number + 1} {letter}{number}\n" for letter, start in NETWORKS.values() for number in range(count))
        self.ssh = f"{folder}/ssh"
        with open(self.ssh, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o755)) as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}" on "{folder}" "$@"\n')

    def __enter__(self):
        names = [f"h{number}" for number in range(self.count)]
        for name in [*names, "bridges"]:
            self._first[name] = subprocess.Popen([*UNSHARED, sys.executable, HERE, "host", self.folder, name])
        for name, process in self._first.items():
            while not os.path.exists(f"{self.folder}/{name}"):
                assert process.poll() is None, f"{name} does not start"
                time.sleep(0.01)
        for network, (letter, start) in NETWORKS.items():
            self._ip("bridges", f"link add {network} type bridge")
            self._ip("bridges", f"link set {network} up")
            for number, name in enumerate(names):
                self._ip("bridges", f"link add {letter}{number} type veth peer name {network} netns {self._first[name].pid}")
                self._ip("bridges", f"link set {letter}{number} up master {network}")
                self._ip(name, f"addr add {start}.{number + 1}/24 dev {network}")
                self._ip(name, f"link set {network} up")
        return self

    def __exit__(self, *error):
        for process in self._first.values():
            process.kill()  # the kernel ends what runs there, and removes the networks
        for process in self._first.values():
            process.wait()

    def _ip(self, name, words):
        subprocess.run(["nsenter", "-t", str(self._first[name].pid), "-n", "ip", *words.split()], check=True)

    def start(self, number, command, environment=None, files=(0, 1, 2)):
        return Command(self.folder, f"h{number}", command, environment or dict(os.environ), files)

    def cut(self, network, number, up=False):
        """Removes the host's cable of that network, or puts it back."""
        self._ip("bridges", f"link set {NETWORKS[network][0]}{number} {'up' if up else 'down'}")

    def degrade(self, network, delay_s, jitter_s, loss, rate=1e9):
        """From now on frames are late, in another order, or lost. rate: bytes per second of each host."""
        ports = [f"{NETWORKS[network][0]}{number}" for number in range(self.count)]
        for number, port in enumerate(ports):
            self._ip("bridges", f"link set {port} nomaster")
            self._ip(f"h{number}", f"link set {network} gso_max_segs 1")  # a frame is a packet
        return Command(self.folder, "bridges", [sys.executable, HERE, "relay", *map(str, (delay_s, jitter_s, loss, rate)), *ports], dict(os.environ))


def relay(delay_s, jitter_s, loss, rate, names):
    """As tc's netem, which few kernels have; each frame has a time of its own."""
    packet, all_types, vnet_header, outgoing, header_bytes = 263, 3, 15, 4, 10  # of linux/if_packet.h
    ports, known, late, free, numbers = [], {}, [], {}, itertools.count()
    for name in names:
        ports.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(all_types)))
        ports[-1].setsockopt(packet, vnet_header, 1)  # checksums and sizes of segments go with the frame
        ports[-1].bind((name, all_types))

    def take(port):
        frame, address = port.recvfrom(1 << 17)
        if address[2] == outgoing:
            return
        receiver, sender = frame[header_bytes:header_bytes + 6], frame[header_bytes + 6:header_bytes + 12]
        known[sender] = port
        sent = free[port] = max(time.monotonic(), free.get(port, 0)) + len(frame) / rate
        for other in [known[receiver]] if receiver in known else ports:
            if other is not port and random.random() >= loss:
                heapq.heappush(late, (sent + delay_s + random.uniform(-jitter_s, jitter_s), next(numbers), other, frame))

    while True:
        wait = max(0, late[0][0] - time.monotonic()) if late else None
        for port in select.select(ports, [], [], wait)[0]:
            with contextlib.suppress(OSError):  # its cable is out
                take(port)
        while late and late[0][0] <= time.monotonic():
            _, _, other, frame = heapq.heappop(late)
            with contextlib.suppress(OSError):
                other.send(frame)


def main():
    kind, *words = sys.argv[1:]
    if kind == "host":
        be_host(*words)
    if kind == "relay":
        relay(*map(float, words[:4]), words[4:])
    folder, *words = words
    while words[0].startswith("-"):
        words.pop(0)
    sys.exit(abs(Command(folder, words[0], ["sh", "-c", " ".join(words[1:])], dict(os.environ)).wait()))


if __name__ == "__main__":
    main()
