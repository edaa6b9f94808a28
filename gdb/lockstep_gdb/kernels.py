"""Kernels of a CUDA program under `lockstep spmd`: blocks by rank, and the places of their threads. A waiting thread is a fiber with its
frames on its own stack. This module only reads memory.
"""
import gdb

from . import memory, model

SAVED_WORDS = 6  # of a switch (device/fiber.c), rbp last, below the address at which it continues
FRAMES_MAX = 64
# The wait of a thread, by the function that describes it.
REASONS = {"describe_barrier": "its block", "describe_grid": "its grid", "describe_exchange": "its warp",
           "describe": "other ranks", "ls_device__describe_cell": "a signal or counter", "describe_flush": "its puts",
           "describe_puts": "puts", "describe_spin": "a flag", "describe_word": "a word"}


def pointer(address):
    return memory.integers(address, 1, 8)[0]


def state():
    if memory.variable("ls_device__state") is None:
        raise memory.Failure("no CUDA program runs")
    return memory.record("device_state", int(gdb.parse_and_eval("(long)&ls_device__state")))


def kernels(rank):
    """The running kernels of a rank (None: of all), oldest first."""
    found, at = [], state()["kernels"]
    while at != 0:
        one = memory.record("device_kernel", at)
        if one["left"] > 0 and rank in (None, one["rank"]):
            found.insert(0, one)
        at = one["next"]
    return sorted(found, key=lambda kernel: kernel["rank"])


def part(kernel, index):
    return memory.record("device_block", kernel["blocks"] + index * memory.layout("device_block").size)


def thread(block, index):
    return memory.record("device_thread", block["threads"] + index * memory.layout("device_thread").size)


def threads_of(kernel):
    return kernel["launch.block.x"] * kernel["launch.block.y"] * kernel["launch.block.z"]


def frames(of):
    """(function, file, line) of a suspended thread's frames in the program, innermost first."""
    stack = of["stack_pointer"]
    code, base, found = pointer(stack + 8 * SAVED_WORDS), pointer(stack + 8 * (SAVED_WORDS - 1)), []
    low, high = of["stack"], of["stack"] + of["stack_bytes"]
    if of["waits"] and of["at.file"] != 0:  # the call, which may be inlined
        kernel = memory.record("device_kernel", memory.record("device_block", of["block"])["kernel"])
        found.append((memory.text(kernel["launch.name"]), memory.static_text(of["at.file"]), of["at.line"]))
    while len(found) < FRAMES_MAX and code != 0:
        line = gdb.find_pc_line(code - 1)
        block = gdb.block_for_pc(code - 1)
        while block is not None and block.function is None:
            block = block.superblock
        file = line.symtab.fullname() if line.symtab is not None else ""
        lambda_ = block is not None and block.function.print_name.startswith("operator()")  # a launch makes it
        if file and not lambda_ and "/device/" not in file.replace("/tests/device/", "/") and "/include/" not in file:
            found.append((block.function.print_name if block is not None else "??", file, line.line))
        if not low <= base < high - 8:
            break
        code, base = pointer(base + 8), pointer(base)
    return found


def place(of, running):
    if of["ended"]:
        return "ended"
    if of.address == running:
        return "running"
    lines = frames(of)
    where = f" at {model.short_file(lines[0][1])}:{lines[0][2]}" if lines else ""
    if not of["waits"]:
        return ("could run" if lines else "not begun") + where
    block = gdb.block_for_pc(of["why"])
    name = block.function.name if block is not None and block.function is not None else ""
    return f"waiting for {REASONS.get(name, 'something')}{where}"


def count_of(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def spans(numbers):
    return ("threads " if len(numbers) > 1 else "thread ") + memory.rank_list(numbers)


class Kernels(memory.Command, name="kernels", kind=gdb.COMMAND_STATUS):
    """kernels [RANK]: blocks of the kernels that run, by rank, with where their threads are.
kernel-frames RANK BLOCK THREAD shows a thread's frames."""

    def run(self, argument, from_tty):
        listed, running = kernels(int(argument) if argument else None), state()["running"]
        if not listed:
            print("no kernel runs")
        for kernel in listed:
            name = memory.text(kernel["launch.name"])
            print(f"rank {kernel['rank']}: {name}, {count_of(kernel['block_count'], 'block')} of {count_of(threads_of(kernel), 'thread')}")
            for index in range(kernel["block_count"]):
                block, places = part(kernel, index), {}
                if block["threads"] == 0:
                    continue  # it has not begun, or has ended
                for number in range(threads_of(kernel)):
                    places.setdefault(place(thread(block, number), running), []).append(number)
                for text, numbers in places.items():
                    print(f"   block {index}, {spans(numbers)}: {text}")


class Frames(memory.Command, name="kernel-frames", kind=gdb.COMMAND_STACK):
    """kernel-frames RANK BLOCK THREAD: the frames of a thread that waits, in the program's own code."""

    def run(self, argument, from_tty):
        words = argument.split()
        if len(words) != 3 or not all(word.isdecimal() for word in words):
            raise memory.Failure("kernel-frames RANK BLOCK THREAD")
        rank, index, number = map(int, words)
        for kernel in kernels(rank):
            if index < kernel["block_count"] and number < threads_of(kernel):
                block = part(kernel, index)
                of = thread(block, number) if block["threads"] != 0 else {"ended": True}
                if of["ended"] or of.address == state()["running"]:
                    raise memory.Failure("the thread has ended" if of["ended"] else "the thread runs: its frames are gdb's (bt)")
                for depth, (name, file, line) in enumerate(frames(of)):
                    print(f"#{depth}  {name} at {model.short_file(file)}:{line}")
                return
        raise memory.Failure(f"rank {rank} runs no kernel with block {index} and thread {number}")


def register():
    Kernels()
    Frames()
