"""Text of the frontends: places, tables of ranks, and source lines."""

import linecache
import os

ROWS = 32  # of a table; with more ranks, equal ones share a row
WIDTH, CALL = 100, 60  # characters of a value and of a call in a table


def short(file):
    """The path relative to the current folder, if it is below that."""
    near = os.path.relpath(file) if os.path.isabs(file) else file
    return file if near.startswith("..") else near


def cut(text, most):
    return text if len(text) <= most else text[:most - 3] + "..."


def place(frame):
    return f"{short(frame['file'])}:{frame['line']} {function(frame)}" if frame else ""


def function(frame):
    name = frame["function"]
    return name if name.startswith("<") else f"{name} ()"


def listed(numbers):
    """0-3, 7"""
    out, numbers = [], sorted(numbers)
    while numbers:
        last = next(at for at in range(len(numbers)) if at + 1 == len(numbers) or numbers[at + 1] != numbers[at] + 1)
        out.append(str(numbers[0]) if last == 0 else f"{numbers[0]}-{numbers[last]}")
        numbers = numbers[last + 1:]
    return ", ".join(out)


def parse(text, most):
    """Rank numbers of a list such as 0-3,7 or all; None: it is none."""
    found = set()
    if text == "all":
        return list(range(most))
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not low.strip().isdigit() or (high and not high.strip().isdigit()):
            return None
        found.update(range(int(low), int(high or low) + 1))
    return sorted(found)


def table(head, rows):
    """Columns of the needed width. A row: (rank, mark, cells); with many ranks, equal rows are merged."""
    if len(rows) > ROWS:
        same = {}
        for rank, mark, cells in rows:
            same.setdefault(tuple(cells), []).append((rank, mark))
        rows = [(listed([rank for rank, _ in of]), "*" if any(mark for _, mark in of) else "", list(cells))
                for cells, of in same.items()]
    cells = [["", *head]] + [["*" if mark else "", str(rank), *cells] for rank, mark, cells in rows[:ROWS]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]
    return lines + ([f"... and {len(rows) - ROWS} more rows"] if len(rows) > ROWS else [])


def source(frame, around=0, first=None, kept=None):
    """Lines of the file around the frame's, or from `first` on."""
    at = frame["line"]
    low = first if first is not None else at - around
    lines = dict(kept or [])
    out = []
    for number in range(max(1, low), max(1, low) + 2 * around + 1):
        text = lines.get(number) or linecache.getline(frame["file"], number).rstrip("\n")
        if text or linecache.getline(frame["file"], number + 1):
            out.append(f"{number:<4}{'->' if number == at and around else '  '} {text}"[:200].rstrip())
    return out
