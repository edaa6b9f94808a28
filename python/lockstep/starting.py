"""Lets a rank fork the others: `lockstep exec` starts it normally, and before its program runs it imports torch once for all.

The interpreter calls this from sitecustomize. The rank and the forked ones then run the program in the usual way: sys.argv, __main__,
sys.path and tracebacks are the interpreter's. A rank that may not fork reports why and continues normally.
"""

import atexit
import importlib
import os
import re
import sys

VARIABLE, MODULES, FORKS = "LOCKSTEP_EXEC_STARTER", "LOCKSTEP_EXEC_MODULES", b"forks"
FRAMEWORKS = {"torch", "torchrec", "torchvision", "transformers", "accelerate", "deepspeed", "lightning", "pytorch_lightning",
              "megatron", "torchtitan"}
FILES_MAX, MESSAGE_BYTES, LARGE_BYTES = 500, 1 << 18, 1 << 21
C10D = "torch.distributed.distributed_c10d"  # ends with its process groups
IMPORT = re.compile(r"^([ \t]*)(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([^\n#;]+))", re.M)
# A write to the environment, and the variables that torch and its libraries read as they are imported.
WRITE = re.compile(r"environ\s*\[([^\]]*)\]\s*=(?!=)|(?:environ\.(?:setdefault|update)|putenv|sched_setaffinity)\(([^)]*)")
EARLY = re.compile(r"\b(?:OMP|KMP|GOMP|MKL|OPENBLAS|NUMEXPR|ATEN|TORCH|PYTORCH|CUDA|CUBLAS)_")
DYNAMO = re.compile(r"\boptim\b|Parallel|fully_shard|\bcompile\b")  # imported at their first use
WATCHED = "torch.distributed.fsdp"  # imported with the first process group, to watch its models


def _imports(text):
    """The modules that the program's text imports, and whether it imports them at its start."""
    for indent, source, names in IMPORT.findall(text):
        for name in [source] if source else names.split(","):
            if name.strip():
                yield name.split()[0], not indent


def _file_of(name, path0, importer):
    """The program's own file of the module; None: installed, or not found."""
    base = path0
    if name.startswith("."):
        base = os.path.dirname(importer)
        while name.startswith(".."):
            base, name = os.path.dirname(base), name[1:]
        name = name[1:]
    at = os.path.join(base, *name.split("."))
    return next((file for file in (at + ".py", os.path.join(at, "__init__.py")) if os.path.isfile(file)), None)


def _read(file):
    with open(file, encoding="utf-8", errors="replace") as opened:
        return opened.read()


def _wanted(texts, path0):
    """The torch modules that the program imports at its start; None: it does not use torch. texts: by file; gets the program's own
    modules, too.
    """
    wanted, uses = ["torch"], False
    todo = list(texts.items())
    while todo and len(texts) < FILES_MAX:
        importer, text = todo.pop()
        for name, at_start in _imports(text):
            own = _file_of(name, path0, importer)
            if own is not None and own not in texts:
                texts[own] = _read(own)
                todo.append((own, texts[own]))
            elif own is None and name.split(".")[0] in FRAMEWORKS:
                uses = True
                wanted += [name] if at_start and name.startswith("torch.") else []
        if DYNAMO.search(text) and "LOCKSTEP_PROVE" not in os.environ:  # its behaviour is set before its import
            wanted.append("torch._dynamo")
        if "torch.distributed" in text and os.environ.get("LOCKSTEP_EXEC_WATCH", "off") != "off":
            wanted.append(WATCHED)
    return list(dict.fromkeys(wanted)) if uses else None


def _prepares(texts):
    """Whether the program sets, before it imports torch, what torch reads then."""
    for text in texts.values():
        torch = re.search(r"^\s*(?:from|import)\s+torch\b", text, re.M)
        for write in WRITE.finditer(text, 0, torch.start() if torch else len(text)):
            value = write[1] or write[2] or ""
            if "affinity" in write[0] or EARLY.search(value) or not re.search("[\"']", value):
                return True
    return False


def _tests(words):
    """The test files in pytest's arguments."""
    for word in words:
        word = word.split("::")[0]
        if word.endswith(".py") and os.path.isfile(word):
            yield word
        elif os.path.isdir(word):
            yield from (os.path.join(folder, file) for folder, _, files in os.walk(word) for file in files
                        if file.endswith(".py"))


def _program(kind, words, place):
    """The program's texts by file, and the folder that the interpreter puts first on sys.path."""
    if kind == "c":
        return {"": words[place]}, os.getcwd()
    if kind == "s" and os.path.isfile(words[place]):
        return {words[place]: _read(words[place])}, os.path.dirname(os.path.realpath(words[place]))
    own = _file_of(words[place], os.getcwd(), "") if kind == "m" else None
    files = [own] if own else list(_tests(words[place + 1:]))[:FILES_MAX] if words[place] == "pytest" else []
    return {file: _read(file) for file in files}, os.getcwd()


def _shadowed(path0, before):
    """Finds an imported module that the program would find in its own folder."""
    found = {name.split(".")[0] for name in set(sys.modules) - before}
    for entry in os.listdir(path0 or "."):
        name = entry.split(".")[0]
        at = os.path.join(path0, entry)
        package = os.path.isdir(at) and os.path.exists(os.path.join(at, "__init__.py"))
        if name in found and (package or entry.endswith((".py", ".so", ".pyc"))):
            return name
    return None


def _observed():
    """Debuggers, coverage and other tools start in each process."""
    other = [name for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG") if name in os.environ]
    return other or sys.gettrace() is not None or sys.getprofile() is not None or "coverage" in sys.modules


def threads():
    """Threads of this process, without those that their library ends before a fork."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return len(os.listdir("/proc/self/task"))


def _spare(imported):
    """The last atexit callback. Freeing the imported objects one by one would write to, and so copy, nearly all of their memory, and takes
    longer than the rest of a small program.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(imported))
    for name, module in imported.items():
        if sys.modules.get(name) is module and name != C10D:
            del sys.modules[name]


def _import(modules):
    """The reason why this process cannot fork ranks after the import; None: it can."""
    for name in modules:
        importlib.import_module(name)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "an import initialises CUDA"
    return "an import starts threads" if threads() > 1 else None


def serve(other):
    """Forks the ranks that the coordinator requests. other: the program's environment has its own sitecustomize."""
    number, kind, place, forced = os.environ.pop(VARIABLE).split()
    modules = [name for name in os.environ.pop(MODULES, "").split(",") if name]
    socket, before, imported = int(number), set(sys.modules), {}
    atexit.register(_spare, imported)
    os.set_inheritable(socket, False)
    with open("/proc/self/cmdline", encoding="utf-8", errors="surrogateescape") as file:
        words = file.read().split("\0")[:-1]
    texts, path0 = _program(kind, words, int(place))
    wanted = _wanted(texts, path0)
    if wanted is None and (modules or forced == "1"):
        wanted = ["torch"]
    why = "each process runs another sitecustomize" if other else None
    why = why or ("a tool observes the process" if _observed() else None)
    why = why or ("the program does not import torch" if wanted is None else None)
    why = why or ("the program prepares the import of torch" if _prepares(texts) else None)
    if why is None and _file_of("torch", path0, ""):
        why = "the program's folder has a module torch"
    if why is not None:
        os.write(socket, why.encode())
        os.close(socket)
        return
    try:
        why = _import(wanted + modules)
        shadowed = _shadowed(path0, before)
        why = why or (f"the program's folder has a module {shadowed}" if shadowed else None)
    except BaseException as error:  # the program receives it as well
        why = f"{type(error).__name__}: {error}"[:200]
    if why is not None:  # start again without these imports
        os.write(socket, why.encode())
        os.execvp(words[0], words)
    imported.update((name, module) for name, module in sys.modules.items() if name not in before)
    _fork_all(socket)


def _fork_all(number):
    import ctypes
    import gc
    import socket

    gc.freeze()  # else each rank's collector writes to, and so copies, all memory of the imports

    reader, writer = os.pipe()
    with socket.socket(fileno=number) as connection:
        connection.send(FORKS)
        middle = os.fork()  # its children become the coordinator's when it ends
        called = _fork_each(connection) if middle == 0 else None
        os.close(writer)
        if called is None:
            os.waitpid(middle, 0)
    if called is None:
        ctypes.CDLL(None).ls_client_forked()
    else:
        _become(*called, reader)
    os.close(reader)


def _fork_each(connection):
    """Forks a rank per message; returns in the rank, with what _become() needs of it."""
    import socket

    middle = os.getpid()
    try:
        while True:
            message, files, _, _ = socket.recv_fds(connection, 1 << 12, 1)
            if not message:
                os._exit(0)
            rank = os.fork()
            if rank == 0:
                return message.decode().split("\n"), files[0], middle
            os.close(files[0])
            connection.send(str(rank).encode())
    except OSError:  # the coordinator reports that a rank is missing
        os._exit(1)


def _become(message, errors, middle, reader):
    """Restores the state that an exec of this rank would have given it. reader: it ends as the process `middle` ends."""
    import time

    os.read(reader, 1)
    while os.getppid() == middle:
        time.sleep(0.0002)
    end_with(int(message[0]))
    become(message, errors)


def join_pages():
    """Makes this process's memory of large pages. It costs what about 25 forks do: a fork, and the end of the child, take a time per page."""
    import ctypes

    madvise = ctypes.CDLL(None).madvise
    with open("/proc/self/maps", encoding="utf-8") as file:
        areas = [line.split() for line in file]
    for place, rights, _, _, _, *name in areas:
        start, end = (int(address, 16) for address in place.split("-"))
        start, end = -(-start // LARGE_BYTES) * LARGE_BYTES, end // LARGE_BYTES * LARGE_BYTES
        if rights == "rw-p" and name in ([], ["[heap]"]) and start < end:
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 25)  # MADV_COLLAPSE; older kernels refuse it


def end_with(parent):
    """This process is killed when its parent ends."""
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def fork_ranks(count):
    """Forks ranks for the coordinator that this process becomes; returns here without a result.

    A rank returns when the coordinator calls it: its number, and `message` and `errors` for become().
    """
    import socket

    parent, forked = os.getpid(), []
    for rank in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = os.fork()
        if child == 0:
            ours.close()
            end_with(parent)
            message, files, _, _ = socket.recv_fds(theirs, MESSAGE_BYTES, 1)
            theirs.close()
            if not message:
                os._exit(1)
            return rank, message.decode().split("\n"), files[0]
        theirs.close()
        os.set_inheritable(ours.fileno(), True)
        forked.append(f"{child}:{ours.detach()}")
    os.environ["LOCKSTEP_EXEC_FORKED"] = ",".join(forked)
    return None


def become(message, errors, preload=None):
    """Makes this process a rank, by the coordinator's message. preload: the library's path if it is not loaded yet."""
    import ctypes

    _, quiet, *settings = message
    os.dup2(errors, 2)
    os.close(errors)
    if quiet == "1":
        os.dup2(2, 1)
    os.environ.update(setting.split("=", 1) for setting in settings)
    library = ctypes.CDLL(preload and os.environ[preload].split(":")[0], ctypes.RTLD_GLOBAL)
    library.ls_client_forked()
    library.getenv.restype = ctypes.c_char_p
    os.environ["LOCAL_RANK"] = library.getenv(b"LOCAL_RANK").decode()
    if "torch" in sys.modules:  # as in a new process; the standard library's generator reseeds itself
        sys.modules["torch"].default_generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    return library
