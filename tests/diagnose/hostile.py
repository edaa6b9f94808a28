"""Files that are no dumps: hostile.py LOCKSTEP. A message with the file's name and exit code 2; nothing that a pickle names is executed."""
import os
import pickle
import random
import sys

from dumps import Said, dump, entry

MARK = "lockstep-hostile-mark"


class Runs:
    def __reduce__(self):
        return os.mkdir, (MARK,)


def main():
    lockstep, wrong = sys.argv[1], []
    good = dump([entry("all_reduce", 8), entry("all_reduce", 8, state="started")])
    data = pickle.dumps(good, protocol=2)
    other = dump([entry("all_reduce", 8)], groups=(("0", "default_pg", [0, 1, 1]),))
    files = {
        "empty": b"", "text": b"hello", "names": pickle.dumps({"entries": Runs()}), "cut": data[:len(data) // 2],
        "array": b"[1, 2]", "nothing": b"{}", "entries": pickle.dumps({"entries": [1, 2]}),
        "memo": b"\x80\x02}r\xff\xff\xff\x7f.", "long": b"\x80\x02\x8b\xff\xff\xff\x7f.", "deep": b"[" * 100000,
        "twice": pickle.dumps(other), "unlisted": pickle.dumps(dump([entry("all_reduce", 8)], groups=())),
        "outside": pickle.dumps(dump([entry("all_reduce", 8)], groups=(("0", "default_pg", [5, 6]),))),
        "huge": pickle.dumps(dump([entry("all_reduce", 1 << 62)])),
        "peer": pickle.dumps(dump([entry("send 0->9", 8)])), "rank": pickle.dumps(dict(good, rank=-1)),
    }
    for name, content in files.items():
        said = Said(lockstep, {f"{name}_0": content})
        if said.code != 2 or f"{name}_0" not in said.err + said.out and "history" not in said.err:
            wrong.append(f"{name}: code {said.code}: {said.err}{said.out}")
    if os.path.exists(MARK):
        os.rmdir(MARK)
        wrong.append("a pickle ran what it names")
    draw = random.Random(7)
    for number in range(int(os.environ.get("LOCKSTEP_DUMPS", "40"))):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 6)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        said = Said(lockstep, {0: bytes(changed), 1: good})
        if said.code not in (0, 1, 2) or "Traceback" in said.err:
            wrong.append(f"change {number}: code {said.code}: {said.err[-2000:]}")
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
