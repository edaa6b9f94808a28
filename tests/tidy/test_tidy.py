"""The linter catches each thing it is there for, and is quiet about a clean tree."""
import os
import tempfile

import tidy

GOOD = "// A file.\n#include \"base/base.h\"\n"
CASES = {
    "kernels/a.c": ("// A.\n#include \"collectives/collectives.h\"\n",
                    "kernels may not include collectives"),
    "kernels/b.c": ("// B.\nvoid b(char *x) { strcpy(x, \"\"); }\n", "strcpy()"),
    "kernels/c.c": ("// C.\nvoid c(void) { printf(\"\"); }\n", "library code never prints"),
    "kernels/d.c": ("int d;\n", "first comment"),
    "kernels/e.c": ("// E.\n" + "int e;\n" * 600, "at most 500"),
    "kernels/f.c": ("// " + "f" * 120 + "\n", "columns"),
    "kernels/g.c": ("// G.\n\tint g;\n", "a tab"),
    "kernels/h.h": ("// H.\nint h;\n", "include guard"),
    "kernels/j.c": ("// J. TO" + "DO: x\n", "unfinished"),
    "kernels/k.c": ("// K.", "no newline"),
    "kernels/l.c": ("// L. strcpy(x)\nconst char *l = \"strcpy(x)\";\n", None),
    "kernels/m.c": ("// M.\n#include \"m.h\"\n", "includes name the folder"),
    "docs/n.md": ("# N\n# Again\n", "exactly one"),
    "docs/o.md": ("# O\n[x](nowhere.md)\n", "leads nowhere"),
    "docs/p.md": ("# P\n[x](n.md)\n", None),
    "docs/q.exe": ("", "no place"),
    "docs/r.sh": ("#!/bin/sh\n", "not executable"),
    "kernels/s.c": ("// S. See /ho" + "me/me/x\n", "somebody's machine"),
    "kernels/t.c": (GOOD, None),
    "kernels/u.c": ("// U.\nint u = LS_F8E5M2;\n", "its table's row"),
    "kernels/v.c": ("// V. LS_F8E5M2\nint v = LS_F8E4M3;\n", None),
    "docs/README.md": ("# docs\n", None),
}

with tempfile.TemporaryDirectory() as root:
    for name, (text, _) in CASES.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    count, complaints = tidy.lint(root)
    assert count == len(CASES), count
    assert any(n == "kernels/README.md" for n, _, _ in complaints), "a folder without README.md"
    for name, (_, expected) in CASES.items():
        found = [what for n, _, what in complaints if n == name and "clang-format" not in what]
        if expected is None:
            assert not found, (name, found)
        else:
            assert len(found) == 1 and expected in found[0], (name, found)
print(f"{len(CASES)} cases")
