"""pytest under `lockstep exec`: each rank writes its own report, py.xml and py.rank1.xml, py.rank2.xml ..."""

import os

pytest_plugins = ["lockstep.pytest_plugin"]


def pytest_configure(config):
    rank, path = int(os.environ.get("RANK") or 0), getattr(config.option, "xmlpath", None)
    if path and rank > 0:
        root, ending = os.path.splitext(path)
        config.option.xmlpath = f"{root}.rank{rank}{ending}"
