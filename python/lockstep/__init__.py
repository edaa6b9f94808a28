"""lockstep for Python programs: the backend of torch.distributed, and how it takes the place of others.

`lockstep exec -n 4 -- python train.py` runs train.py as it is: its process groups of gloo, and of nccl where torch
sees no GPU, are lockstep's. A program may also ask for the backend by name, "lockstep".
"""

import os
import sys

_debugger = []  # the agent of a rank that is debugged
_MODULE, _RULES = "torch.distributed", "torch._dynamo.trace_rules"


def __getattr__(name):
    """`__version__`: the file VERSION of the wheel, of the source tree or of the installed package."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    folder = os.path.dirname(os.path.realpath(__file__))
    for path in (folder, os.path.join(folder, "..", "..")):
        try:
            with open(os.path.join(path, "VERSION"), encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            pass
    return "unknown"


def under_exec():
    return "LOCKSTEP_EXEC" in os.environ


def _replaced(backend):
    """The backend in place of the one that is asked for, or None: it is to be that one."""
    import torch

    asked = str(backend).lower()
    mine = {"gloo"} if torch.cuda.is_available() else {"gloo", "nccl"}
    parts = dict(part.split(":", 1) if ":" in part else ("cpu", part) for part in asked.split(",") if part)
    if asked == "undefined":
        return None if torch.cuda.is_available() else "lockstep"
    if parts.get("cpu") in mine and (len(parts) == 1 or not torch.cuda.is_available()):
        return "lockstep"
    return None


def capture(model, folder, **options):
    """Keeps the model's parameters, activations and gradients as files in `folder`, for `lockstep diff`: capturing.Capture."""
    from lockstep.capturing import Capture

    return Capture(model, folder, **options)


def install():
    """Lets the groups that torch makes with gloo be lockstep's. get_backend() still says what was asked for."""
    try:
        from torch.distributed import distributed_c10d as c10d
    except ImportError:  # a torch built without it
        return
    from lockstep import torch_backend, watch

    torch_backend.register()
    make, rendezvous = c10d._new_process_group_helper, c10d.rendezvous

    def replaced(size, rank, members, backend, *arguments, **options):
        watch.install()
        ours = _replaced(backend)
        elsewhere = os.environ.get("LOCKSTEP_EXEC_SIMULATED") == "0" and "LOCKSTEP_EXEC_REAL" not in os.environ
        if ours is None or elsewhere:
            return make(size, rank, members, backend, *arguments, **options)
        torch_backend.DESCRIPTIONS.update(dict.fromkeys(arguments[1:2], options.get("group_desc")))
        made = make(size, rank, members, c10d.Backend(ours), *arguments, **options)
        group = made[0]
        if group in c10d._world.pg_map:
            asked = "gloo" if str(backend).lower() == "undefined" else backend
            group.asked = str(asked).split(",")[0].split(":")[-1]
            c10d._world.pg_map[group] = (asked, c10d._world.pg_map[group][1])
        return made

    if _debugger:
        from lockstep.debugger import calls

        calls.install(_debugger[0], torch_backend.client, sys.modules[_MODULE], c10d)

    def connected(*arguments, **options):
        if _debugger:  # a stopped rank is not late
            options["timeout"] = calls.NO_LIMIT
        torch_backend.client.get()  # a rank that waits for the others here can be asked where it is
        return rendezvous(*arguments, **options)

    c10d._new_process_group_helper, c10d.rendezvous = replaced, connected


def _capture_all():
    from lockstep import models, proof

    models.install()
    if proof.on():
        proof.start()


def skip():
    """Keeps Dynamo from tracing lockstep's frames: torch.compile compiles no code of the backend's."""
    rules = sys.modules[_RULES]
    if hasattr(rules, "add"):
        rules.add(__name__)


class _Finder:
    """Calls `prepare` when a module has been loaded."""

    def __init__(self, module, prepare):
        self._module, self._prepare = module, prepare

    def find_spec(self, name, path=None, target=None):
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self._prepare()

        spec.loader.exec_module = exec_module
        return spec


def _debug():
    """A rank of a run with a debugger has its part of it; other processes of the program have none."""
    rank = os.environ.get("LOCKSTEP_EXEC_RANK") or os.environ.get("RANK") or ""
    if "LOCKSTEP_DEBUGGER" in os.environ and rank.isdigit():
        from lockstep.debugger import agent

        # Its own children are no ranks.
        _debugger.append(agent.Agent(os.environ.pop("LOCKSTEP_DEBUGGER"), int(rank)))


def hook():
    """Prepares torch's modules, loaded already or not."""
    _debug()
    wanted = [(_MODULE, install), (_RULES, skip)]
    if "LOCKSTEP_CAPTURE" in os.environ:
        wanted.append(("torch", _capture_all))
    for module, prepare in wanted:
        if module in sys.modules:
            prepare()
        else:
            sys.meta_path.insert(0, _Finder(module, prepare))
