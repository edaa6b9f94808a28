"""Whether gdb can call functions of a program, which step-all and next-all need. gdb 13 cannot on a processor with AMX: it does not restore
all registers, and the program hangs.
"""
import functools
import re
import subprocess

WHY = "gdb cannot call functions of a program on this processor, which step-all and next-all need"


@functools.cache
def can_call():
    done = subprocess.run(["gdb", "-batch", "-nx", "-ex", "break _exit", "-ex", "run", "-ex", "print (int)getpid() > 0",
                           "/bin/true"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return "extended state" not in done.stdout + done.stderr


def is_left_out(commands):
    """A session that needs a feature that this gdb lacks. Prints so."""
    if can_call() or not any(re.search(r"\b(step|next)-all\b", command) for command in commands):
        return False
    print(f"  left out: {WHY}")
    return True
