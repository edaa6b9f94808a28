"""Python runs this at its start: `lockstep exec` puts its folder first on PYTHONPATH."""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _other():
    """Runs the sitecustomize that this one hides."""
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    library = os.path.dirname(os.__file__)  # some systems have one that prepares crash reports
    return spec is not None and os.path.dirname(spec.origin or "") != library


def _package():
    """Imports the package around this folder, without making its siblings importable."""
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location("lockstep", os.path.join(folder, "__init__.py"),
                                                  submodule_search_locations=[folder])
    package = sys.modules["lockstep"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


_has_other = _other()
if "LOCKSTEP_EXEC" in os.environ:
    _lockstep = _package()
    if "LOCKSTEP_EXEC_STARTER" in os.environ:
        from lockstep import starting

        starting.serve(_has_other or importlib.util.find_spec("usercustomize") is not None)
    _lockstep.hook()
