"""Runs a PyTorch program in exact arithmetic, for `lockstep prove`: each float has a value in a prime field.

With LOCKSTEP_PROVE in the environment, or from the first capture(exact=True) on, torch's operations run unchanged. A dispatch mode computes
the values (mode.py) by the rules of rules.py; collectives carry the values (collectives.py).
"""

import os

_begun = []


def on():
    return "LOCKSTEP_PROVE" in os.environ or bool(_begun)


def begin():
    """Starts exact arithmetic in a process that was started without it."""
    import torch.distributed as dist

    from lockstep import under_exec

    if on():
        return
    if dist.is_initialized() and dist.get_world_size() > 1 and not under_exec():
        raise RuntimeError("lockstep: capture(exact=True) on several ranks needs lockstep's collectives: start the program with lockstep exec")
    start()


def start():
    """Called after torch is imported."""
    from lockstep.proof import collectives, mode

    _begun.append(True)
    _plain_recurrent_layers()
    collectives.install()
    mode.enter()


def _plain_recurrent_layers():
    """Makes LSTM and GRU consist of matrix products: oneDNN's layer is a single operator."""
    import torch

    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        def plain(*arguments, of=getattr(torch._VF, name)):
            with torch.backends.mkldnn.flags(enabled=False):
                return of(*arguments)

        setattr(torch._VF, name, plain)
