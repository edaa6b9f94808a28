"""Files of results of `lockstep prove --rules`: a line of JSON for the header, and one for each combination. Nothing here imports torch, so
that a bad file is refused at once.
"""

import json
import os

ORDER = ("right", "refused", "wrong", "hung", "unconfirmed")


class BadTable(Exception):
    """A file that is not a table, or that cannot be continued or compared."""


def key_of(row):
    places = [".".join(p) for p in row["placements"]]
    return f"{row['call']} | {'x'.join(map(str, row['mesh']))} | {' '.join(places)} | {row['pass']}"


class Table:
    """A results file: its header {"subject", "torch", "seed"} and its rows, by key."""

    def __init__(self, path, must_exist=False):
        self.header, self.rows = None, {}
        if path is None or (not must_exist and not os.path.exists(path)):
            return
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise BadTable(f"{path} cannot be read: {error}") from error
        for number, line in enumerate(text.split("\n")[:-1], 1):  # a stopped run leaves an incomplete last line
            try:
                row = json.loads(line)
                if self.header is None:
                    self.header = {key: row[key] for key in ("subject", "torch", "seed")}
                else:
                    self.rows[key_of(row)] = {**row, "verdict": ORDER[ORDER.index(row["verdict"])]}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                what = "row" if self.header else "header"
                raise BadTable(f"{path}: line {number} is not a {what} of a table of sharding rules") from error

    def continues(self, header, path):
        """Checks that a run with this header can continue the table."""
        if self.header not in (None, header):
            was, now = (", ".join(f"{key} {value}" for key, value in one.items()) for one in (self.header, header))
            raise BadTable(f"{path} belongs to another run ({was}); this one ({now}) cannot continue it")


class Writer:
    """Writes a results file: first the rows that are known, then each row as it comes."""

    def __init__(self, path, header, rows):
        self.path, self.header = path, header
        self._whole(rows)
        self.file = open(path, "a", encoding="utf-8")

    def _whole(self, rows):
        with open(self.path + ".part", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in [self.header, *rows])
        os.replace(self.path + ".part", self.path)

    def add(self, row):
        """A later row of the same key replaces the earlier one."""
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def end(self, rows):
        self.file.close()
        self._whole(rows)


def opened(options):
    """(the table to compare with, the table to continue) of the options."""
    last = Table(options["against"], must_exist=True)
    if options["against"] and (last.header is None or last.header["subject"] != options["subject"]):
        raise BadTable(f"{options['against']} is not a table of {options['subject']}")
    return last, Table(options["results"] if options["resume"] else None)
