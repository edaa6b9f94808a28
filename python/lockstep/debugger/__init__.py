"""The debugger of Python ranks (docs/debugging.md): one engine in each rank, and the faces that drive all of them.

`agent.py` and `values.py` run in each rank. `hub.py` has the ranks' connections; `prompt.py`, `dap.py` and `core.py` are
its faces: a prompt, an editor, and files that are kept. The hub starts `lockstep exec`, whose coordinator holds the run
while ranks are stopped (exec/debugged.c). The hub needs the standard library alone.
"""
