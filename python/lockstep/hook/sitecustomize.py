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


def _package():
    """The package around this folder, wherever it lies: what else is there is not to be imported."""
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location("lockstep", os.path.join(folder, "__init__.py"),
                                                  submodule_search_locations=[folder])
    package = sys.modules["lockstep"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


_other()
if "LOCKSTEP_EXEC" in os.environ:
    _package().hook()
