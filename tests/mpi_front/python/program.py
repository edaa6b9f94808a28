"""Each rank is a separate interpreter: modules, threads, the C API through ctypes."""
import ctypes
import json
import math
import sys
import threading

import mpi4py.MPI as mpi

sums = []
thread = threading.Thread(target=lambda: sums.append(mpi.sum(mpi.rank + 1)))
thread.start()
thread.join()
sys.own = mpi.rank
mpi.sum(0)
print(json.dumps({"rank": mpi.rank, "own": sys.own, "sum": sums[0], "floor": math.floor(2.5),
                  "api": ctypes.pythonapi.Py_IsInitialized(), "executable": sys.executable,
                  "loader": isinstance(mpi.__loader__, type)}))
if len(sys.argv) > 1:
    mpi.receive(1 - mpi.rank)  # wrong
