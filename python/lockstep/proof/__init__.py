"""A PyTorch program in exact arithmetic, for `lockstep prove`: a value of a prime field beside every float.

`lockstep prove` names a folder in LOCKSTEP_PROVE. Then torch's operations run as they are, with a dispatch mode that
computes the values (mode.py) by the rules of rules.py; collectives carry the values (collectives.py), and the models'
tensors are captured without a line of the program (models.py).
"""

import os

FOLDER, REFERENCE = "LOCKSTEP_PROVE", "LOCKSTEP_PROVE_REFERENCE"


def on():
    return FOLDER in os.environ


def start():
    """Called when torch has been imported."""
    from lockstep.proof import collectives, mode, models

    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    _plain_recurrent_layers()
    collectives.install()
    models.install()
    mode.enter()


def _plain_recurrent_layers():
    """Lets LSTM and GRU consist of matrix products: oneDNN's layer is one operator."""
    import torch

    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        def plain(*arguments, of=getattr(torch._VF, name)):
            with torch.backends.mkldnn.flags(enabled=False):
                return of(*arguments)

        setattr(torch._VF, name, plain)
