"""Turns preprocessed CUDA C++ into C++: launches (kernel<<<...>>>(...)) and __shared__ variables.
cuda.py IN OUT. Lines stay where they are."""
import re
import sys


def skip_back(text, at):
    """The start of the callee that ends before `at`: names, ::, and template arguments."""
    depth = 0
    while at > 0:
        c = text[at - 1]
        if c == ">":
            depth += 1
        elif c == "<":
            depth -= 1
        elif depth == 0 and not (c.isalnum() or c in "_:"):
            break
        at -= 1
    return at


def matching(text, at):
    """The place behind the bracket that closes the one at `at`; strings are skipped."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    close = [pairs[text[at]]]
    at += 1
    while close:
        c = text[at]
        if c in "\"'":
            at += 1
            while text[at] != c:
                at += 2 if text[at] == "\\" else 1
        elif c in pairs:
            close.append(pairs[c])
        elif c in ")]}":
            if close.pop() != c:
                raise SystemExit("unmatched brackets in a kernel launch")
        at += 1
    return at


def launch_end(text, at):
    while not text.startswith(">>>", at):
        at = matching(text, at) if text[at] in "([{" else at + 1
    return at


def launches(text):
    done, rest = [], 0
    for found in re.finditer(r"<<<", text):
        if found.start() < rest:
            continue
        name_end = len(text[:found.start()].rstrip())
        start = skip_back(text, name_end)
        name = text[start:name_end].strip()
        if not name or name in ("operator",):
            continue
        end = launch_end(text, found.end())
        open_at = end + 3
        while text[open_at].isspace():
            open_at += 1
        if text[open_at] != "(":
            continue
        close = matching(text, open_at)
        arguments = text[open_at + 1:close - 1]
        label = re.sub(r"\s+", " ", name).replace('"', "'")
        comma = ", " if arguments.strip() else ""
        done.append(text[rest:start])
        done.append(f'::lockstep::launch("{label}", {text[found.end():end]})'
                    f"([=](auto... ls_each) {{ {name}(ls_each...); }}{comma}{arguments})")
        rest = close
    return "".join(done) + text[rest:]


def declarators(text):
    depth, start = 0, 0
    for at, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def shared(text):
    count = 0

    def one(found):
        nonlocal count
        before, body = found.group(1) or "", found.group(3)
        body = re.sub(r"\balignas\s*\([^)]*\)|__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "",
                      body)
        extern = "extern" in before or re.search(r"\bextern\b", body)
        body = re.sub(r"\bextern\b|\bstatic\b|\bvolatile\b", "", body)
        parts = list(declarators(body))
        first = re.match(r"\s*(.*?[\s*&>])([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)$", parts[0], re.S)
        if first is None:
            raise SystemExit(f"__shared__ {body}: not understood")
        kind, out = first.group(1).strip(), []
        for part in [first.group(2) + first.group(3)] + [p.strip() for p in parts[1:]]:
            name, dims = re.match(r"([A-Za-z_]\w*)\s*(.*)$", part, re.S).groups()
            count += 1
            if extern or dims.replace(" ", "") == "[]":
                out.append(f"{kind} *const {name} = ::lockstep::dynamic_shared<{kind}>()")
            else:
                out.append(f"{kind} (&{name}){dims} = ::lockstep::shared<{kind} {dims}, {count}>()")
        return "; ".join(out) + ";" + "\n" * found.group(0).count("\n")

    return re.sub(r"((?:\b(?:extern|static|volatile)\s+)*)(\b__shared__)\b([^;]*);", one, text)


def main():
    text = open(sys.argv[1], encoding="utf-8", errors="surrogateescape").read()
    text = shared(launches(text))
    open(sys.argv[2], "w", encoding="utf-8", errors="surrogateescape").write(text)


main()
