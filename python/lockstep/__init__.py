"""lockstep for Python programs: a backend of torch.distributed, which also replaces gloo and nccl.

`lockstep exec -n 4 -- python train.py` runs train.py unchanged: its process groups of gloo, and of nccl if torch sees no GPU, use lockstep.
A program may also request the backend by name, "lockstep".
"""

import os
import sys

_debugger = []  # the debugger agent of this rank
_MODULE, _RULES = "torch.distributed", "torch._dynamo.trace_rules"


def __getattr__(name):
    """`__version__`: from the file VERSION of the wheel, of the source tree or of the installed package."""
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
    """The backend that replaces the requested one; None: the requested one is used."""
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
    """Makes torch create gloo groups with lockstep. get_backend() still returns the requested name."""
    try:
        from torch.distributed import distributed_c10d as c10d
    except ImportError:  # torch was built without it
        return
    from lockstep import torch_backend, watch, watch_deepspeed, watch_megatron

    torch_backend.register()
    make, rendezvous = c10d._new_process_group_helper, c10d.rendezvous

    def replaced(size, rank, members, backend, *arguments, **options):
        if watch.install():
            watch_deepspeed.install()
            watch_megatron.install()
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

    stops = bool(_debugger) or "LOCKSTEP_EXEC_GATE" in os.environ
    if stops:
        from lockstep.debugger import calls

        calls.unlimit(c10d)
    if _debugger:
        calls.install(_debugger[0], torch_backend.client, sys.modules[_MODULE])

    def connected(*arguments, **options):
        if stops:  # a stopped rank is not late
            options["timeout"] = calls.NO_LIMIT
        torch_backend.client.get()  # reports the place of a rank that waits here
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
    """Calls `prepare` after a module is loaded."""

    def __init__(self, module, prepare):
        self._module, self._prepare = module, prepare

    def find_spec(self, name, path=None, target=None):
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self._prepare()

        spec.loader.exec_module = exec_module
        return spec


def _debug():
    """Starts the agent if this process is a rank of a debugged run; other processes of the program have none."""
    rank = os.environ.get("LOCKSTEP_EXEC_RANK") or os.environ.get("RANK") or ""
    if "LOCKSTEP_DEBUGGER" in os.environ and rank.isdigit():
        from lockstep.debugger import agent

        # its child processes are no ranks
        _debugger.append(agent.Agent(os.environ.pop("LOCKSTEP_DEBUGGER"), int(rank)))


def _when_loaded(module, prepare):
    if module in sys.modules:
        prepare()
    else:
        sys.meta_path.insert(0, _Finder(module, prepare))


def hook():
    """Prepares torch's modules, whether or not they are loaded."""
    _debug()
    _when_loaded(_MODULE, install)
    _when_loaded(_RULES, skip)
    hook_capture()


def hook_capture():
    """Keeps the models of this process if the command wants it."""
    if "LOCKSTEP_CAPTURE" in os.environ:
        _when_loaded("torch", _capture_all)
