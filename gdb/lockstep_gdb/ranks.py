"""ranks, rank, calls, waitgraph: the places of ranks, and their waits for each other."""
import gdb

from . import inferiors, memory, model, scenario
from .memory import Failure

FOLD_FROM = 33  # ranks; from here on equal ranks share a line


class State:
    """$rank() and the rank chosen where ranks have no threads."""
    chosen = None

    @staticmethod
    def forget(*_):
        State.chosen = None


def _aligned(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in rows]


def _table(rows):
    print("\n".join(_aligned(rows)))


def _row(rank, calls, place):
    """(state, call, communicator, sequence number, where) of a rank."""
    waits = rank.waits_in() if rank.state not in ("returned", "died") else []
    group = rank.open_group()
    if not waits:
        what = {"returned": f"with {rank.record['exit_status']}"}.get(rank.state, "")
        if rank.state in ("ready", "running") and rank.call_count:
            what = f"after {rank.call_count} call{'s' if rank.call_count > 1 else ''}"
        where = scenario.where(rank)
        if not where:
            where = place or rank.where()
        return (rank.state, ", ".join(w for w in (what, group) if w), "", "", where)
    first = waits[0]
    what, where, wait = calls.describe(first, "call."), calls.where(first, "call."), rank.in_wait(waits)
    if len(waits) > 1:
        what += f" and {len(waits) - 1} more"
    if wait:
        verb = "wait for" if first["asynchronous"] else "end of group:"
        what = f"{verb} {what}, made at {where}"
    return (rank.state, what, calls.comm_name(first["call.comm"], first["call.say"]), str(first["call.seq"]),
            wait or where)


def frame_of(rank, selected):
    """Its program's frame; the selected thread stays selected."""
    if rank is selected:
        return model.program_frame()
    before, frame = gdb.selected_thread(), gdb.selected_frame()
    rank.thread().switch()
    found = model.program_frame()
    text = _Place(found)
    before.switch()
    frame.select()
    return text


class _Place:
    """The data of a frame that model.frame_text() needs after another thread is selected."""

    def __init__(self, frame):
        self._name, self._sal = frame.name(), frame.find_sal()

    def name(self):
        return self._name

    def find_sal(self):
        return self._sal


def _fold(pairs):
    """[(ids, row)] of equal rows, in the order of their first rank."""
    groups = {}
    for number, row in pairs:
        groups.setdefault(row, []).append(number)
    return [(ids, row) for row, ids in groups.items()]


def _print_rows(pairs, marks, folded):
    names = ("inferior", "pid", "state", "call", "communicator", "seq", "where")
    rows = [(" ", "rank", *names[-len(pairs[0][1]):])] if pairs else []
    if folded:
        for ids, row in _fold(pairs):
            mark = "*" if any(i in marks for i in ids) else " "
            rows.append((mark, memory.rank_list(ids)) + row)
    else:
        for number, row in pairs:
            rows.append(("*" if number in marks else " ", str(number)) + row)
    _table(rows)


def _show_group(wanted, all_lines):
    calls = model.Calls()
    group = model.group()
    judged = scenario.Judged.rows() if not group else []
    if judged:
        how = "have returned" if judged[0][1][0] == "returned" else "are in a controller"
        print(f"{len(judged)} ranks {how}; {model.met_text()}")
        shown = [pair for pair in judged if wanted is None or pair[0] in wanted]
        _print_rows(shown, {State.chosen}, not all_lines and len(shown) >= FOLD_FROM)
        return
    if not group:
        print(f"no SPMD run and no group of calls is active; {model.met_text()}")
        return
    pairs = [(c["rank"], ("calls", calls.describe(c), calls.comm_name(c["comm"], c["say"]), str(c["seq"]),
                          calls.where(c)))
             for c in group if wanted is None or c["rank"] in wanted]
    print(f"a controller makes {len(group)} calls for its ranks; {model.met_text()}")
    _print_rows(pairs, {State.chosen}, not all_lines and len(pairs) >= FOLD_FROM)


def _show_kept():
    """Ranks of core files, one a rank."""
    found, here = inferiors.places(), inferiors.selected()
    rows = [("*" if number == here else " ", str(number), call, found.get(number, "")) for number, (_, call) in sorted(inferiors.apart.items())]
    _table([(" ", "rank", "call", "where")] + rows)


def _show_started():
    """Ranks of `lockstep exec` that have not joined a communicator."""
    found, here = inferiors.places(), inferiors.selected()
    rows = [("*" if number == here else " ", str(number), *inferiors.process(number), found.get(number, "")) for number in sorted(inferiors.apart)]
    _table([(" ", "rank", "inferior", "pid", "where")] + rows)


class Ranks(memory.Command, name="ranks", kind=gdb.COMMAND_STATUS):
    """ranks [all | LIST]: the state of every rank, its call, communicator, sequence number and place.

From 33 ranks on, ranks that are in the same state at the same place share a line; `ranks all`
gives each its own. LIST is like 0-3,7. Works on a core file."""

    def run(self, argument, from_tty):
        argument = argument.strip()
        if inferiors.apart and inferiors.Coordinator.number is None:
            _show_kept()
            return
        places, marks = inferiors.places(), {inferiors.selected()}
        with inferiors.in_coordinator():
            self._show(argument, places, marks)

    @staticmethod
    def _show(argument, places, marks):
        run = model.find_run()
        if run is None and inferiors.Coordinator.number is not None:
            _show_started()
            return
        wanted = None if argument in ("", "all") else set(parse_list(argument, run))
        known = run.ranks if run is not None else [c["rank"] for c in model.group()]
        if wanted is not None and known and not wanted <= set(known):
            raise Failure(f"there is no rank {min(wanted - set(known))}; "
                          f"there are ranks {memory.rank_list(sorted(known))}")
        if run is None:
            _show_group(wanted, argument == "all")
            return
        calls = model.Calls()
        selected = model.selected_rank(run)
        ids = [i for i in sorted(run.ranks) if wanted is None or i in wanted]
        folded = argument != "all" and len(ids) >= FOLD_FROM
        pairs = []
        for i in ids:
            rank = run.ranks[i]
            place = places.get(i)
            if (rank.state == "running" or rank.record["parted"]) and rank.thread() is not None:
                place = model.frame_text(frame_of(rank, selected))
            row = _row(rank, calls, place)
            pairs.append((i, (*inferiors.process(i), *row) if places and not folded else row))
        status = run.record["status"]
        ended = "" if status == 0 else \
            f"; it has failed: {memory.text(run.record.at('why'), 160)}"
        print(f"{run.rank_count} ranks, {model.met_text()}{ended}")
        _print_rows(pairs, {selected.id} if selected else marks, folded)


def parse_list(words, run):
    """Rank numbers of "all" or "0-3,7"."""
    if words == "all" and inferiors.apart:
        return sorted(inferiors.apart)
    if words == "all":
        return sorted(run.ranks) if run is not None else [c["rank"] for c in model.group()]
    out = []
    for part in words.replace(" ", "").split(","):
        ends = part.split("-")
        if len(ends) > 2 or not all(e.isdigit() for e in ends):
            raise Failure(f"'{words}' is not a list of ranks; write all, or for example 0-3,7")
        first, last = int(ends[0]), int(ends[-1])
        if not first <= last < model.RANKS_MAX:
            raise Failure(f"'{part}' is not a list of ranks; write all, or for example 0-3,7")
        out += range(first, last + 1)
    return out


def _threads():
    return {thread.ptid[1]: thread for thread in gdb.selected_inferior().threads()}


def switch(run, number, threads=None):
    """Selects the rank's thread and its program's frame; returns the frame."""
    rank = run.rank(number)
    thread = (threads or _threads()).get(rank.tid)
    if thread is None and int(run.record["fibers"]) != 0:
        raise Failure(f"rank {number} is a fiber that does not run ({rank.state}): its stack is not "
                      "shown. In a program that gdb has started ranks are threads")
    if thread is None:
        raise Failure(f"rank {number} has no thread {'any more' if rank.tid else 'yet'} "
                      f"({rank.state})")
    thread.switch()
    frame = model.program_frame()
    frame.select()
    return frame


class quiet_cli:
    """Announces another selected thread to the TUI and IDEs. The command line gets lockstep's own text. Before gdb 13 the command line
    prints gdb's as well.
    """

    def __enter__(self):
        self._set("on")

    def __exit__(self, *_):
        self._set("off")

    @staticmethod
    def _set(value):
        try:
            # The TUI draws its source window from the text that the command line would print.
            if "not active" in gdb.execute("info win", to_string=True):
                gdb.execute(f"set suppress-cli-notifications {value}")
        except gdb.error:
            pass


def go_to(run, number):
    """Like switch(), with gdb's own commands, so that the TUI and IDEs follow; returns the text to print."""
    if inferiors.apart:
        return inferiors.go_to_text(number)
    frame, rank = switch(run, number), run.rank(number)
    level = frame.level()
    with quiet_cli():
        gdb.execute(f"thread {gdb.selected_thread().num}", to_string=True)
        gdb.execute(f"frame level {level}", to_string=True)
    if rank.state in ("returned", "died"):
        last = f", its last call at {rank.where()}" if rank.where() else ""
        return f"[rank {number}, {rank.state}] its program is over{last}"
    if frame.name() in (model.RANK_BEGINS, "rank_main"):
        return f"[rank {number}, {rank.state}] its program has not begun"
    if not model.is_of_program(frame):  # a scenario's steps are no C code
        place = scenario.place_text(number)
        return f"[rank {number}, {rank.state}] {place}{' ' if place else ''}at {scenario.where(rank) or rank.where()}"
    return f"[rank {number}, {rank.state}] {model.frame_text(frame)}"


class RankCommand(memory.Command, name="rank", kind=gdb.COMMAND_STACK, prefix=True):
    """rank [N]: selects rank N: its thread, and the frame in which its program made the call.

Without N: says which rank is selected. `rank apply all|LIST COMMAND` runs a command in each."""

    def run(self, argument, from_tty):
        argument = argument.strip()
        if inferiors.apart and argument.isdigit():
            print(inferiors.go_to_text(int(argument)))
            return
        run = model.find_run() if not inferiors.apart else None
        if argument == "":
            rank = model.selected_rank(run)
            number = rank.id if rank is not None else inferiors.selected() if inferiors.apart else State.chosen
            print("the selected thread runs no rank" if number is None else f"rank {number}")
            return
        if not argument.isdigit():
            raise Failure(f"'{argument}' is not a rank: ranks are numbers from 0 on")
        number = int(argument)
        if run is None:
            if not any(c["rank"] == number for c in model.group()):
                raise Failure(f"no call of rank {number} is being made here")
            State.chosen = number
            print(f"rank {number}, which has no thread: its controller makes its calls")
            return
        print(go_to(run, number))


class RankApply(memory.Command, name="rank apply", kind=gdb.COMMAND_STACK):
    """rank apply all|LIST COMMAND: runs COMMAND in the program's frame of each rank, like 0-3,7."""

    def run(self, argument, from_tty):
        parts = argument.strip().split(None, 1)
        if len(parts) != 2:
            raise Failure("usage: rank apply all|LIST COMMAND")
        run = model.need_run() if not inferiors.apart else None
        ids, threads = parse_list(parts[0], run), _threads()
        with inferiors.restored():
            for i in ids:
                try:
                    inferiors.go_to(i) if run is None else switch(run, i, threads)
                except Failure as error:
                    print(f"rank {i}: {error}")
                    continue
                out = gdb.execute(parts[1], from_tty=False, to_string=True).rstrip("\n")
                lines = out.split("\n")
                print(f"rank {i}: {lines[0]}" if len(lines) == 1 else
                      "\n".join([f"rank {i}:"] + ["  " + line for line in lines]))


class CallsCommand(inferiors.RunCommand, name="calls", kind=gdb.COMMAND_STATUS):
    """calls [N] [all | LIST]: the last N (5) calls of the selected rank, or of others, newest last."""

    def run(self, argument, from_tty):
        words = argument.split()
        most = 5
        if words and words[0].isdigit():
            most = int(words.pop(0))
        run = model.need_run()
        if words:
            ids = parse_list(",".join(words), run)
        else:
            rank = model.selected_rank(run)
            if rank is None and self.rank is None:
                raise Failure("the selected thread runs no rank; enter 'calls N all', or select one")
            ids = [rank.id if rank is not None else self.rank]
        calls, history = model.Calls(), run.record["history"]
        folded = {}
        for i in ids:
            folded.setdefault(self._text(run.rank(i), calls, history, most), []).append(i)
        for shown, same in folded.items():
            print(f"rank{'s' if len(same) > 1 else ''} {memory.rank_list(same)}: {shown}")

    @staticmethod
    def _text(rank, calls, history, most):
        kept = min(rank.call_count, history, most)
        entries = memory.records("ls_history_entry", rank.record["history"], history)
        rows, pending = [], rank.pending()
        for number in range(rank.call_count - kept, rank.call_count):
            entry = entries[number % history]
            done = ", ".join(w for w in ("" if entry["done"] else "not complete",
                                         pending.get(number, "")) if w)
            rows.append(("", str(number), calls.describe(entry, "call."),
                         calls.comm_name(entry["call.comm"], entry["call.say"]), calls.where(entry, "call."), done))
        return "\n".join([f"{rank.call_count} call{'' if rank.call_count == 1 else 's'}"] +
                         _aligned(rows))


def _edges(run, calls):
    """(rank, its call, ranks it waits for) of every rank that waits."""
    for number in sorted(run.ranks):
        rank = run.ranks[number]
        if rank.state == "stalled":
            yield number, "stalled by a fault", ()
        if rank.state != "blocked":
            continue
        for found in rank.waits_in():
            comm = calls.comm(found["call.comm"])
            where = calls.where(found, "call.")
            name = calls.comm_name(found["call.comm"], found["call.say"])
            what = f"{calls.describe(found, 'call.')} on {name}, {where}"
            if calls.verb(found, "call.") in ("send", "recv"):
                yield number, what, (comm.ranks[found["call.root"]],)
            elif found["meet"] != 0:
                yield number, what, calls.missing(found["meet"])


def _circle(edges):
    """A shortest cycle in {rank: set of ranks}, as a list of ranks; None."""
    best = None
    for start in sorted(edges)[:64]:  # enough to find one; a shortest through each
        parent, queue = {start: None}, [start]
        for at in queue:
            if start in edges.get(at, ()):
                path = [at]
                while parent[path[-1]] is not None:
                    path.append(parent[path[-1]])
                path.reverse()
                if best is None or len(path) < len(best):
                    best = path
                break
            for to in sorted(edges.get(at, ())):
                if to not in parent:
                    parent[to] = at
                    queue.append(to)
    return best


class WaitGraph(inferiors.RunCommand, name="waitgraph", kind=gdb.COMMAND_STATUS):
    """waitgraph: which rank waits for which, in which call, and a circle if there is one."""

    def run(self, argument, from_tty):
        run = model.need_run()
        calls, graph, lines = model.Calls(), {}, {}
        for number, what, others in _edges(run, calls):
            graph.setdefault(number, set()).update(others)
            lines.setdefault((what, others), []).append(number)
        if not lines:
            print("no rank waits")
            return
        for (what, others), ids in lines.items():
            plural = "s" if len(ids) > 1 else ""
            verb = "wait" if len(ids) > 1 else "waits"
            states = sorted({run.ranks[i].state for i in others if i in run.ranks} - {"blocked"})
            rest = f" ({', '.join(states)})" if states else ""
            of = "rank" if len(others) == 1 else "ranks"
            whom = f"{verb} for {of} {memory.rank_list(sorted(others))}{rest}" if others else verb
            print(f"rank{plural} {memory.rank_list(ids)} {whom}: {what}")
        circle = _circle(graph)
        if circle is not None:
            print("circle: " + " -> ".join(map(str, circle + circle[:1])))


class RankFunction(gdb.Function):
    """$rank(): the selected rank; -1 if none is."""

    def __init__(self):
        super().__init__("rank")

    def invoke(self):
        return memory.guarded(self._number)

    @staticmethod
    def _number():
        number = selected_fast()
        if number is None:
            number = State.chosen
        return -1 if number is None else number


def selected_fast():
    """The selected rank by its thread's name alone, for conditions that are evaluated often."""
    thread = gdb.selected_thread()
    if thread is None or inferiors.apart:
        return inferiors.selected()
    name = thread.name
    if name is not None and name.startswith("rank ") and name[5:].isdigit():
        return int(name[5:])
    rank = model.selected_rank(model.find_run())
    return rank.id if rank is not None else None


class SeqFunction(gdb.Function):
    """$seq(): the number of the newest call of world that all its ranks have made, as goto-collective
takes it; -1: none."""

    def __init__(self):
        super().__init__("seq")

    def invoke(self):
        with inferiors.in_coordinator():
            return memory.guarded(model.newest_of_world)


def register():
    for command in (Ranks, RankCommand, RankApply, CallsCommand, WaitGraph, RankFunction,
                    SeqFunction):
        command()
