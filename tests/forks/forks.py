"""Many runs of one program under `lockstep exec` with one import of torch, as `lockstep exec` itself does in one run: sitecustomize.py."""
import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = ["torch", "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.optim"]


class Forks:
    def __init__(self, program, whole=False):
        """whole: ranks also tear down at their end what was imported, which forked ones need not."""
        self._program = program
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))
        with theirs:
            self._process = subprocess.Popen([sys.executable, program], pass_fds=[theirs.fileno()], env={
                **os.environ, "PYTHONPATH": path, "FORKS": json.dumps([theirs.fileno(), whole, *MODULES])})
        atexit.register(self._end)

    def _end(self):
        self._connection.close()
        self._process.wait()

    def run(self, command, words, env=None, cwd=None):
        """As subprocess.run([*command, "--", sys.executable, program, *words], capture_output=True, text=True, env=env, cwd=cwd)."""
        whole = [*command, "--", sys.executable, self._program, *words]
        request = {"command": whole, "words": words, "ranks": int(command[command.index("-n") + 1]), "environment": env or dict(os.environ),
                   "folder": cwd or os.getcwd()}
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            socket.send_fds(self._connection, [json.dumps(request).encode()], [out.fileno(), err.fileno()])
            code = self._connection.recv(64)
            out.seek(0)
            err.seek(0)
            assert code, f"the process that forks ended: {err.read()}"
            return subprocess.CompletedProcess(whole, int(code), out.read(), err.read())
