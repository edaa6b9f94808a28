"""Turns preprocessed CUDA C++ into C++: launches (kernel<<<...>>>(...)), __shared__ variables, and multimem instructions
in asm. cuda.py IN OUT. Lines stay where they are."""
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


MULTIMEM = {"ld_reduce": "LS_CUDA_LOAD", "st": "LS_CUDA_STORE", "red": "LS_CUDA_UPDATE"}
# Numbers of NCCL's types and operations.
TYPES = {"f16": 6, "f16x2": 6, "bf16": 9, "bf16x2": 9, "f32": 7, "f64": 8, "s32": 2, "u32": 3, "s64": 4, "u64": 5, "b32": 3,
         "b64": 5}
OPERATIONS = {"add": 0, "max": 2, "min": 3, "and": 6, "or": 7, "xor": 8}
ORDERS = {"weak": -1, "relaxed": 0, "acquire": 2, "release": 3}  # __ATOMIC_*
SCOPES = {"cta": "BLOCK", "cluster": "DEVICE", "gpu": "DEVICE", "sys": "SYSTEM"}
STRING = r'"(?:[^"\\]|\\.)*"'


def place(text, at):
    """FILE:LINE of the source, by the preprocessor's markers."""
    before = text[:at]
    marker = list(re.finditer(r'^# (\d+) "([^"]*)".*$', before, re.M))[-1]
    return f"{marker.group(2)}:{int(marker.group(1)) + before.count(chr(10), marker.end()) - 1}"


def parts(text, mark):
    """`text`, split at `mark` outside of brackets and strings."""
    done, start, at = [], 0, 0
    while at < len(text):
        if text[at] == '"':
            at = re.compile(STRING).match(text, at).end()
        elif text[at] in "([{":
            at = matching(text, at)
        elif text[at] == mark:
            done.append(text[start:at])
            start = at = at + 1
        else:
            at += 1
    return done + [text[start:]]


def operations_of(kind):
    """Those that PTX has on a type."""
    if kind in ("f32", "f64"):
        return ["add"]
    return ["and", "or", "xor"] if kind[0] == "b" and kind[1] != "f" else ["add", "min", "max"]


def instruction(body):
    """A call for the multimem instruction in an asm's brackets; None: it is not one that can be translated."""
    sections = parts(body, ":")
    template = "".join(s[1:-1] for s in re.findall(STRING, sections[0])).replace("\\n", " ").replace("\\t", " ")
    operands = [re.match(rf"\s*{STRING}\s*(\(.*\))\s*$", one, re.S) for section in sections[1:3]
                for one in parts(section, ",") if one.strip()]
    found = re.match(r"\s*multimem\.(ld_reduce|st|red)\.([\w.:]+)\s+([^;]*);\s*$", template)
    if found is None or None in operands:
        return None
    kind, words = found.group(1), [w for w in found.group(2).split(".") if w not in ("global", "v2", "v4", "v8", "acc::f32")]
    taken = {name: [w for w in words if w in table] for name, table in
             (("type", TYPES), ("operation", OPERATIONS), ("order", ORDERS), ("scope", SCOPES))}
    address = re.search(r"\[\s*%(\d+)\s*(?:\+\s*(\d+)\s*)?\]", found.group(3))
    if address is None or sum(map(len, taken.values())) != len(words) or len(taken["type"]) != 1 \
            or taken["operation"] not in ([[]] if kind == "st" else [[op] for op in operations_of(taken["type"][0])]):
        return None
    registers = re.findall(r"%(\d+)", found.group(3)[:address.start()] + found.group(3)[address.end():])
    order = ORDERS[(taken["order"] or ["relaxed" if kind == "red" else "weak"])[0]]
    what = [f"::{MULTIMEM[kind]}", str(TYPES[taken["type"][0]]), str(OPERATIONS[(taken["operation"] or ["add"])[0]]), str(order),
            "::LS_CUDA_SCOPE_" + SCOPES[(taken["scope"] or ["sys"])[0]], "{__builtin_FILE(), __builtin_LINE()}"]
    values = [f"(uint64_t)({operands[int(address.group(1))].group(1)}) + {address.group(2) or 0}"]
    values += [operands[int(number)].group(1) for number in registers]
    return (f"::lockstep::multimem_{'load' if kind == 'ld_reduce' else 'store'}"
            f"(::ls_cuda_multimem{{{', '.join(what)}}}, {', '.join(values)})")


def multimem(text):
    done, rest = [], 0
    for found in re.finditer(r"\b(?:asm|__asm__|__asm)\b\s*(?:\b(?:volatile|__volatile__)\b\s*)?\(", text):
        end = matching(text, found.end() - 1)
        body = text[found.end():end - 1]
        if "multimem." not in body:
            continue
        call = instruction(body)
        if call is None:
            raise SystemExit(f"{place(text, found.start())}: asm({' '.join(body.split())}): of multimem, single instructions "
                             f"ld_reduce, st and red on {', '.join(TYPES)} are supported")
        done += [text[rest:found.start()], call, "\n" * text.count("\n", found.start(), end)]
        rest = end
    return "".join(done) + text[rest:]


def main():
    text = open(sys.argv[1], encoding="utf-8", errors="surrogateescape").read()
    text = shared(launches(multimem(text)))
    open(sys.argv[2], "w", encoding="utf-8", errors="surrogateescape").write(text)


main()
