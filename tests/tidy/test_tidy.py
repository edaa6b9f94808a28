"""The linter catches each thing it is there for, and is quiet about a clean tree."""
import os
import tempfile

import tidy
import circles
import words

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
    "kernels/h.h": ("// H.\nint h;\n", "pragma once"),
    "kernels/j.c": ("// J. TO" + "DO: x\n", "unfinished"),
    "kernels/k.c": ("// K.", "no newline"),
    "kernels/l.c": ("// L. strcpy(x)\nconst char *l = \"strcpy(x)\";\n", None),
    "kernels/m.c": ("// M.\n#include \"m.h\"\n", "includes name the folder"),
    "docs/n.md": ("# N\n# Again\n", "exactly one"),
    "docs/o.md": ("# O\n[x](nowhere.md)\n", "leads nowhere"),
    "docs/p.md": ("# P\n[x](n.md)\n", None),
    "python/README.md": ("# python\n", None),
    "python/aa.py": ("\"\"\"AA.\"\"\"\nzip(a, b)\ndef f(x: int): pass\n", None),
    "python/ab.py": ("\"\"\"AB.\"\"\"\nzip(a, b, strict=True)\n", "strict="),
    "python/ac.py": ("\"\"\"AC.\"\"\"\nmatch a:\n    case 1:\n        pass\n", "Python 3.9"),
    "docs/q.exe": ("", "no place"),
    "docs/r.sh": ("#!/bin/sh\n", "not executable"),
    "kernels/s.c": ("// S. See /ho" + "me/me/x\n", "somebody's machine"),
    "kernels/t.c": (GOOD, None),
    "kernels/u.c": ("// U.\nint u = LS_F8E5M2;\n", "its table's row"),
    "kernels/v.c": ("// V. LS_F8E5M2\nint v = LS_F8E4M3;\n", None),
    "kernels/w.c": ("// W.\nint w(int a) { return a ? 1 : a > 1 ? 2 : 3; }\n", "in another one"),
    "kernels/x.c": ("// X.\nint x(int a) { return a ? b(a > 1 ? 2 : 3) : 1; }\n", "in another"),
    "kernels/y.c": ("// Y.\nint y(int a) { return (a ? 1 : 2) > 1 ? 2 : 3; }\n", "in another"),
    "kernels/z.c": ("// Z. a ? b ? 1 : 2 : 3\nint z(int a) {\n    if (a ? 1 : 2) {\n"
                    "        f(a ? 1 : 2, a ? 1 : 2);\n    }\n    a = a ? 1 : 2;\n"
                    "    return (a ? 1 : 2) + (a ? 1 : 2);\n}\n", None),
    "kernels/aa.c": ("// AA.\nint aa(int a, int b, int c, int d, int e, const char *f, int (*g)(int),"
                     "\n       int h, int i[2]);\n", "more than 8 parameters"),
    "kernels/ab.c": ("// AB.\nint ab(int a, int b, int c, int d, int e, int f, int g, int h);\n"
                     "int ac(void) {\n    return ad(a, b * 2, c, d, e, f, g, h, i, j);\n}\n", None),
    "ranks/checks/table.c": ("// The table.\nX(good)\n", None),
    "ranks/checks/good.c": ("// Good.\nconst ls_rank_check ls_rank_check__good = {0};\n", None),
    "ranks/checks/lost.c": ("// Lost.\nconst ls_rank_check ls_rank_check__lost = {0};\n", "no row"),
    "ranks/checks/bare.c": ("// Bare.\nint bare;\n", "with its descriptor"),
    "ranks/README.md": ("# ranks\n", None),
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

WORDS = [
    ("docs", "What a rank sends is checked first.", "its subject"),
    ("comments", "Whose call it is does not matter.", "its subject"),
    ("docs", "What does a rank send?", None),
    ("docs", "A rank that knows what it sends is checked.", None),
    ("messages", "the ranks wait for ever in a call", "hang"),
    ("comments", "Of the plants in the garden, one is green.", "inject"),
    ("docs", "A rank " + "very " * 40 + "long", "at most"),
    ("comments", "A rank " + "very " * 40 + "long", None),
    ("docs", "Run " + "`a b c d e f g` " * 12, None),
]
for kind, sentence, expected in WORDS:
    found = list(words.complaints(kind, sentence))
    assert (not found) if expected is None else (len(found) == 1 and expected in found[0]), found
PAGE = "# T\n\nWhat is it. It is\nlong.\n\n    what code says is code\n\n| who | it was |\n"
assert [s for _, s in words.of_page(PAGE)][:3] == ["What is it.", "It is long.", "who"]
CODE = "// Whose\n// it is.\nint a;  // who says so\nchar *b = \"of none\";\n"
assert [(k, s) for k, _, s in words.of_code(CODE)] == [
    ("comments", "Whose it is."), ("comments", "who says so"), ("messages", "of none")]
for subject in ("exec: name ranks that end", "docs/findings: add one", "Revert \"exec: x\""):
    assert words.check_subject(subject) is None, subject
for subject in ("Name ranks", "exec: Name ranks", "exec: name ranks.", "exec: " + "x" * 80):
    assert words.check_subject(subject), subject

# A driver calls a toolbox, which calls the driver back; an upper floor is needed from below.
circles.FLOORS[:] = [("low/",), ("high/",)]
RING = {"a": {"b": {"ls_b"}}, "b": {"c": {"ls_c"}}, "c": {"a": {"ls_a"}}, "d": {"a": {"ls_a"}}}
assert circles.find_circles(RING) == [["a", "b", "c"]]
told = list(circles.complaints(RING, []))
assert told[1:] == ["    a -> b: ls_b", "    b -> c: ls_c", "    c -> a: ls_a"], told
assert not list(circles.complaints(RING, [{"a", "b", "c"}]))
assert "no circle" in list(circles.complaints(RING, [{"a", "b", "c", "d"}]))[0]
TREE = {"high/a": {"low/b": {"ls_b"}}, "low/b": {}}
assert not list(circles.complaints(TREE, [{"elsewhere", "low/b"}]))
TREE["low/b"] = {"high/c": {"ls_c"}}
TREE["high/c"] = {}
assert list(circles.complaints(TREE, [])) == ["low/b needs an upper floor: high/c: ls_c"]
print(f"{len(WORDS)} sentences")
