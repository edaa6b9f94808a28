"""An interpreter that imports torch once and forks the ranks of many runs: forks.py starts it. A rank returns from here, and the interpreter
runs the program as usual.
"""
import atexit
import ctypes
import gc
import importlib.util
import json
import os
import runpy
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES = 1 << 18


def _starting():
    """The module of lockstep's that makes a forked process a rank; the package is imported by each rank."""
    path = os.path.join(HERE, "../../python/lockstep/starting.py")
    spec = importlib.util.spec_from_file_location("forks_starting", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _become_whole(message, errors, preload):
    """Without starting.become's early end: this process tears its libraries down, as a started one."""
    gc.unfreeze()
    os.dup2(errors, 2)
    os.close(errors)
    os.environ.update(setting.split("=", 1) for setting in message[2:])
    ctypes.CDLL(os.environ[preload].split(":")[0], ctypes.RTLD_GLOBAL)


def _be_rank(starting, whole, message, errors, words):
    (_become_whole if whole else starting.become)(message, errors, "LD_PRELOAD")
    sys.argv[1:] = words
    hook = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    sys.path[sys.path.index(HERE)] = hook
    runpy.run_path(os.path.join(hook, "sitecustomize.py"))


def _run(starting, whole, request, files):
    """Forks the ranks and becomes `lockstep exec`; returns in a rank."""
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    called = starting.fork_ranks(request["ranks"])
    if called is not None:
        return _be_rank(starting, whole, *called[1:], request["words"])
    os.execv(request["command"][0], request["command"])


def _serve():
    number, whole, *modules = json.loads(os.environ.pop("FORKS"))
    starting, before, imported = _starting(), set(sys.modules), {}
    if not whole:
        atexit.register(starting._spare, imported)
    for name in modules:
        importlib.import_module(name)
    assert starting.threads() == 1, "an import starts threads"
    imported.update((name, module) for name, module in sys.modules.items() if name not in before)
    gc.freeze()
    with socket.socket(fileno=number) as connection:
        while True:
            message, files, _, _ = socket.recv_fds(connection, BYTES, 2)
            if not message:
                os._exit(0)
            child = os.fork()
            if child == 0:
                connection.close()
                return _run(starting, whole, json.loads(message), files)
            for file in files:
                os.close(file)
            _, status = os.waitpid(child, 0)
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


_serve()
