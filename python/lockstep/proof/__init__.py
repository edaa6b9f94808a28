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
    collectives.install()
    models.install()
    mode.enter()
