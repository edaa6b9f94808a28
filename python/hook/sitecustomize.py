"""Python runs this as it starts: `lockstep exec` puts its folder first on PYTHONPATH."""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _other():
    """The sitecustomize that there would be without this one runs as well."""
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_other()
if "LOCKSTEP_EXEC" in os.environ:
    sys.path.append(os.path.dirname(_HERE))
    import lockstep

    lockstep.hook()
