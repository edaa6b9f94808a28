"""A scenario in memory: a rank's current step or stage, and its values by name: buffers of a step, tensors, tables, and the outputs of
stages.
"""
import gdb

from . import memory, model
from .memory import Failure

STEPS_MAX = 1 << 20


class Execution:
    """The execution of one rank, or of a process for its ranks."""

    def __init__(self, found):
        self.record, self.scenario = found, memory.record("ls_scenario", found["scenario"])
        self.self_, self.program, self.module = found["self"], found["program"], found["module"]
        self.step = memory.integers(found["step"], 1, 4)[0]

    def steps(self):
        """The steps of its program."""
        count = self.scenario["step_count"]
        if not 0 <= count <= STEPS_MAX:
            raise Failure(f"the scenario has {count} steps: its memory is corrupt")
        return memory.records("ls_scenario_step", self.scenario["steps"], count)


def executions():
    head, out = memory.variable("ls_gdb_executions"), []
    at = int(head) if head is not None and model.has_memory() else 0
    while at != 0 and len(out) < model.RANKS_MAX:
        out.append(Execution(memory.record("ls_gdb_execution", at)))
        at = out[-1].record["next"]
    return out


def is_here():
    """Whether a scenario is run or judged."""
    case = memory.variable("ls_gdb_case")
    return case is not None and model.has_memory() and int(case) != 0


def of_rank(number):
    """The execution of a rank, or of the process that runs it; None."""
    run, found = model.find_run(), executions()
    own = run.ranks[number].record.address if run is not None and number in run.ranks else 0
    for execution in found:
        if execution.self_ == own and own != 0:
            return execution
    return next((e for e in found if e.self_ == 0), None)


def place_text(number):
    """"step gradients", of a rank in a scenario; ""."""
    if not is_here():
        return ""
    execution = of_rank(number)
    if execution is None:
        return ""
    if execution.program != 0:
        name = memory.text(execution.steps()[execution.step]["name"]) \
            if execution.step < execution.scenario["step_count"] else ""
        return f"step {name}" if name else ""
    return f"training step {execution.step}" if execution.step > 0 else "tables"


def line_of(rank):
    """(file, line) where a rank is in its scenario: of its newest call, or of the step it is in."""
    execution = of_rank(rank.id) if is_here() else None
    own = memory.static_text(rank.record["file"]), rank.record["line"]
    if execution is None and not own[0] and is_here():  # it has not begun
        found = memory.record("ls_scenario", int(memory.variable("ls_gdb_case")["scenario"]))
        kind = "steps" if found["is_program"] else "tables"
        first = memory.record(f"ls_scenario_{kind[:-1]}", found[kind])
        return memory.text(found["file"]), first["node.mark.line"]
    if execution is None or (own[0] and rank.waits_in()) or execution.program == 0:
        return own
    steps = execution.steps()
    line = steps[execution.step]["node.mark.line"] if execution.step < len(steps) else 0
    return (memory.text(execution.scenario["file"]), line) if line > 0 else own


def where(rank):
    """"x.yaml:7" of a rank in a scenario that goes on; ""."""
    if not is_here() or rank.state in ("returned", "died"):
        return ""
    file, line = line_of(rank)
    return f"{model.short_file(file)}:{line}" if file else ""


class Judged:
    """The judged stage at which the program stopped."""
    stage = key = at = None

    @classmethod
    def found(cls, where):
        """A finding without a run, at FILE:LINE: the ranks have returned, or have no threads."""
        file, _, line = where.rpartition(":")
        cls.stage, cls.at = None, ("the finding", file, int(line)) if line.isdigit() else None

    @classmethod
    def rows(cls):
        """(rank, row) of every rank, for `ranks`; [] where no stage is judged."""
        if (cls.stage is None and cls.at is None) or not is_here():
            return []
        what, file, line = cls.place()
        row = ("returned" if not executions() else "calls", what, "", "", f"{model.short_file(file)}:{line}")
        return [(number, row) for number in range(cls._scenario()["ranks"])]

    @staticmethod
    def _scenario():
        return memory.record("ls_scenario", int(memory.variable("ls_gdb_case")["scenario"]))

    @classmethod
    def place(cls):
        """Name, file and line of the stage; None."""
        if cls.stage is None:
            return cls.at
        found = cls._scenario()
        return f"stage {cls.stage} is judged", memory.text(found["file"]), cls._line(found)

    @classmethod
    def _line(cls, found):
        """Of the step that gives the stage, or of the table."""
        kind, count = ("steps", "step_count") if found["is_program"] else ("tables", "table_count")
        rows = memory.records(f"ls_scenario_{kind[:-1]}", found[kind], min(found[count], STEPS_MAX))
        names = cls.key.split("/")
        line = next((r["node.mark.line"] for r in rows if memory.text(r["name"]) in names), None)
        return line if line is not None else rows[0]["node.mark.line"]

    @classmethod
    def forget(cls, *_):
        cls.stage = cls.key = cls.at = None


def held(name, number, make):
    """The values of rank `number` under a name of the scenario: make(dtype, bytes, block) for each array, or a Tensor's address; None if
    the scenario has no such name.
    """
    if not is_here():
        return None
    execution, found, known = of_rank(number), [], []
    if execution is not None and execution.program != 0:
        found = _of_program(execution, name, number, make, known)
    elif execution is not None and execution.module != 0:
        found = _of_tables(execution, name, number, make, known)
    return found or _of_outputs(name, number, make, known) or None, known


def split(argument):
    """(name, rest) of "NAME WORDS", for the longest name with a value on a rank; names may end with numbers. None."""
    run = model.find_run() if is_here() else None
    numbers = sorted(run.ranks) if run is not None else [0]
    known = {name for n in numbers[:64] for name in held("", n, None)[1]} if is_here() else ()
    fits = [name for name in known if name and argument.startswith(name + " ")]
    name = max(fits, key=len, default=None)
    return (name, argument[len(name):]) if name is not None else None


def _dtype(number):
    return memory.enum_name("ls_dtype", "LS_", number)


def _array(make, dtype, address, count, block):
    width = int(memory.variable("dtype_rows")[dtype]["bytes"])
    return make(_dtype(dtype), memory.read(address, count * width), block)


def _of_program(execution, name, number, make, known):
    program = memory.record("ls_program", execution.program)
    tensors = memory.records("ls_program_tensor", program["tensors"], program["tensor_count"]) \
        if program["tensors"] != 0 else []
    for tensor in reversed(tensors):  # the newest counts
        known.append(memory.text(tensor["name"]))
        if known[-1] == name and tensor["tensor"] != 0:
            return tensor["tensor"]
    steps = execution.steps()
    calls = memory.records("ls_step_calls", program["calls"], len(steps)) if program["calls"] != 0 else []
    flying = _flying(number)
    for step, of in zip(steps, calls):
        label = memory.text(step["name"])
        known.append(label)
        if label != name or of["at"] == 0:
            continue
        out = []
        for made in memory.records("ls_made_call", of["at"], of["count"]):
            if made["call.rank"] != number:
                continue
            dtype = made["call.dtype"]
            if made["call.send"] != 0:
                out.append(_array(make, dtype, made["call.send"], made["send_count"], ".send"))
            if made["call.recv"] not in flying | {0, made["call.send"]}:
                out.append(_array(make, dtype, made["call.recv"], made["recv_count"], ".recv"))
        return out
    return []


def _flying(number):
    """Memory that incomplete calls of a rank will write."""
    run = model.find_run()
    if run is None or number not in run.ranks:
        return set()
    rank = run.ranks[number]
    out = {found["call.recv"] for found in rank.waits_in()}
    at = rank.record["open"]
    while at != 0 and len(out) < model.LIST_MAX:
        found = memory.record("ls_request", at)
        out.add(found["call.recv"])
        at = found["next"]
    return out


def _of_tables(execution, name, number, make, known):
    address = memory.pointers(execution.module, 1)[0]
    if address == 0:
        return []
    module, out = memory.record("ls_embedding", address), []
    for table in memory.records("embedding_table", module["tables"], module["table_count"]):
        config = memory.record("ls_table", table["config"])
        known.append(memory.text(config["name"]))
        if known[-1] != name:
            continue
        plan = memory.record("ls_plan_table", table["plan"])
        count = plan["shard_count"]
        blocks = memory.records("ls_plan_shard", plan["shards"], count)
        shards = memory.records("ls_shard", table["shards"], count)
        dtype = config["dtype"] if config["row_format"] == 0 else \
            next(n for n, word in memory.enum("ls_dtype", "LS_").items() if word == "u8")
        for block, shard in zip(blocks, shards):
            if block["rank"] == number and shard["data"] != 0:
                at = (f"[{block['row_offset']}:{block['row_offset'] + block['rows']}, "
                      f"{block['column_offset']}:{block['column_offset'] + block['columns']}]")
                out.append(_array(make, dtype, shard["data"], shard["count"], at))
    return out


def _of_outputs(name, number, make, known):
    """Outputs by their stage, table, feature or field, or several of these: output_dist/user."""
    case = memory.variable("ls_gdb_case").dereference()
    for store in ("by_ranks", "simulated"):
        if int(case[store]) == 0:
            continue
        stages, out = memory.record("ls_stages", int(case[store])), []
        entries = memory.pointers(stages["entries"], stages["count"]) if stages["count"] else ()
        for entry in (memory.record("ls_stage_entry", at) for at in entries):
            words = [memory.text(entry[field]) for field in ("stage", "table", "feature", "field")]
            known.append(words[0])
            if not name or not set(name.split("/")) <= set(words):
                continue
            array = memory.records("ls_stage_array", entry["ranks"], stages["ranks"])[number] \
                if number < stages["ranks"] else None
            if array is not None and array["data"] != 0:
                label = "/".join(dict.fromkeys(w for w in words if w and w not in name.split("/")))
                out.append(_array(make, entry["dtype"], array["data"], array["count"], "." + label))
        if out:
            return out
    return []


class InfoStep(memory.Command, name="info step", kind=gdb.COMMAND_STATUS):
    """info step: the selected rank in its scenario: file and line, step or stage, its call."""

    def run(self, argument, from_tty):
        run = model.find_run()
        rank = model.selected_rank(run)
        if rank is None or not is_here():
            raise Failure("the selected thread runs no rank of a scenario")
        waits, calls = rank.waits_in(), model.Calls()
        call = f": {calls.describe(waits[0], 'call.')} on {calls.comm_name(waits[0]['call.comm'])}" if waits else ""
        print(f"rank {rank.id}, {rank.state}, {place_text(rank.id)} at {rank.where()}{call}")


def register():
    gdb.events.cont.connect(Judged.forget)
    gdb.events.exited.connect(Judged.forget)
    InfoStep()
