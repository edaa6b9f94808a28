"""A PyTorch program in exact arithmetic, for `lockstep prove`: a value of a prime field beside every float.

With LOCKSTEP_PROVE in the environment, torch's operations run as they are, with a dispatch mode that computes the
values (mode.py) by the rules of rules.py; collectives carry the values (collectives.py).
"""

import os


def on():
    return "LOCKSTEP_PROVE" in os.environ


def start():
    """Called when torch has been imported."""
    from lockstep.proof import collectives, mode

    _plain_recurrent_layers()
    collectives.install()
    mode.enter()


def _plain_recurrent_layers():
    """Lets LSTM and GRU consist of matrix products: oneDNN's layer is one operator."""
    import torch

    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        def plain(*arguments, of=getattr(torch._VF, name)):
            with torch.backends.mkldnn.flags(enabled=False):
                return of(*arguments)

        setattr(torch._VF, name, plain)
