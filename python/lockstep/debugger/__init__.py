"""The debugger of ranks (docs/debugging.md): an agent in each Python rank, and frontends that control all ranks.

`agent.py` and `values.py` run in each rank. `hub.py` holds the ranks' connections. The frontends are `prompt.py` (a terminal), `dap.py` (an
editor) and `core.py` (files of a post-mortem). The hub starts `lockstep exec`, whose coordinator pauses the run while ranks are stopped
(exec/debugged.c). For C programs and scenarios `gdb_hub.py` is in its place: gdb with lockstep's extension. The hub needs only the standard library.
"""
