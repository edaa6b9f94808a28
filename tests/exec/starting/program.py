"""A rank that prints its view of its process, and ends as its first argument says."""
import atexit
import ctypes
import json
import os
import random
import signal
import sys

import numpy
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
if sys.argv[1:] in (["exits"], ["signal"]) and rank == 2:
    print("rank 2 ends", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == "signal" else sys.exit(7)
before = set(sys.modules)
dist.init_process_group("gloo")
imported = [name for name in set(sys.modules) - before if name.startswith("torch.")]  # by each rank, where others were imported once
tensor = torch.ones(4) * rank
dist.all_reduce(tensor)
if sys.argv[1:] == ["late"]:  # after the end of the program
    libc = ctypes.CDLL(None)
    atexit.register(print, json.dumps({"RANK": rank, "late": "python", "imported": imported}) + "\n", end="")  # one write, as ranks share the pipe
    atexit.register(libc.printf, b"%s\n", json.dumps({"RANK": rank, "late": "c"}).encode())
    sys.exit(0)
main = sys.modules["__main__"]
told = {
    "argv": sys.argv, "path": sys.path[:2], "main": main.__name__, "file": getattr(main, "__file__", None),
    "spec": str(getattr(main.__spec__, "name", None)), "flags": str(sys.flags), "cwd": os.getcwd(),
    "environment": {name: value for name, value in os.environ.items()
                    if name not in ("LOCKSTEP_RUN", "LOCKSTEP_EXEC", "MASTER_PORT")},
    "threads": torch.get_num_threads(),
    "handlers": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
    "files": sorted(os.listdir("/proc/self/fd"))[:3], "group": os.getpgid(0) == os.getpgid(os.getppid()),
    "result": tensor.tolist(), "RANK": rank,
    "parent": os.getppid(), "draw": [random.random(), float(numpy.random.rand()), torch.initial_seed()],
}
if sys.argv[1:] == ["hash"]:
    told["hash"] = hash("lockstep")
os.write(1, (json.dumps(told) + "\n").encode())  # one write, as ranks share it
dist.destroy_process_group()
