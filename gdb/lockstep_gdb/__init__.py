"""gdb commands for lockstep: ranks, collectives, tensors. `help user-defined` lists gdb's own;
docs/debugging.md shows these at work."""
import gdb

from . import catches, cores, editor, frames, kernels, memory, mpi, printers, processes, ranks, scenario, steps, stops, tensors

for module in (ranks, cores, editor, catches, stops, processes, steps, frames, tensors, printers, mpi, kernels, scenario):
    module.register()

gdb.events.new_objfile.connect(memory.forget)
gdb.events.exited.connect(memory.forget)
gdb.events.exited.connect(ranks.State.forget)
