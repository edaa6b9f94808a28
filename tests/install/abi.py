"""abi.py PREFIX CC [--write]: compares the interface of the installed headers with abi.txt: prototypes, the layout of each struct,
constants and macros. A changed or removed line breaks programs that were built before, and requires a new minor version in VERSION. --write
writes abi.txt. At the end a field is injected into a copy of the headers, and the comparison must report it.
"""
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(here, "abi.txt")


def statements(text):
    """The top-level statements of preprocessed text, with bodies."""
    depth, statement = 0, ""
    for character in text:
        statement += character
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0 and (character == ";" or (character == "}" and re.search(r"\)\s*\{", statement))):
            yield " ".join(statement.split())
            statement = ""


def members(body):
    """(name, text) of each member that the body of a struct declares, nested ones as a whole."""
    depth, member = 0, ""
    for character in body:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character != ";" or depth > 0:
            member += character
            continue
        text, member = " ".join(member.split()), ""
        flat = re.sub(r"\{.*\}", "", text)
        pointer = re.search(r"\(\*\s*(\w+)(?:\[\w*\])*\)\s*\(", flat)
        names = [pointer.group(1)] if pointer else [
            re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", part).group(1) for part in flat.split(",")]
        for name in names if not re.fullmatch(r"(struct|union) ?", flat) else ():
            yield name, text


def look(include, cc):
    """The lines of abi.txt for the headers in include/lockstep."""
    folder = os.path.join(include, "lockstep")
    headers = sorted(os.path.relpath(os.path.join(at, file), folder)
                     for at, _, files in os.walk(folder) for file in files)
    headers = [h for h in headers if not h.startswith("backends/") or h == "backends/kinds.h"]
    unit = "".join(f"#include <lockstep/{header}>\n" for header in headers)
    text, own = "", False
    for line in run(cc, "-std=c17", f"-I{include}", "-E", "-x", "c", "-", input=unit).splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            own = marker.group(1).startswith(folder)
        elif own:
            text += line + "\n"
    lines, asks = [], []
    for header in headers:
        with open(os.path.join(folder, header), encoding="utf-8") as file:
            source = re.sub(r"//[^\n]*|\\\n", "", file.read())
        for macro in re.findall(r"^ *#define (?!LS_\w+_H$|LS_VERSION)(.*)$", source, re.M):
            called = re.match(r"\w+\([^)]*\)", macro)  # its value depends on functions
            lines.append("macro " + " ".join((called.group(0) if called else macro).split()))
    for statement in statements(text):
        struct = re.fullmatch(r"typedef struct (\w+) \{(.*)\} \w+;", statement)
        enum = re.search(r"enum[^{;]*\{(.*)\}", statement)
        if struct:
            of = struct.group(1)
            fields = "".join(f'printf("; %zu+%zu %s", offsetof({of}, {name}), sizeof((({of} *)0)->{name}), '
                             f'"{declared}");\n' for name, declared in members(struct.group(2)))
            asks.append(f'printf("struct {of} %zu", sizeof({of}));\n{fields}puts("");\n')
        elif enum:
            names = re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", enum.group(1))
            asks += [f'printf("constant {name} %lld\\n", (long long){name});\n' for name in names]
        else:
            lines.append(statement)
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "layout")
        run(cc, "-std=c17", f"-I{include}", "-x", "c", "-", "-o", program, input=unit +
            "#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n" + "".join(asks) + "return 0;\n}\n")
        return lines + run(program).splitlines()


def run(*command, **more):
    told = subprocess.run(command, capture_output=True, text=True, **more)
    if told.returncode != 0:
        raise SystemExit(f"{command[0]}: {told.stderr[:2000]}")
    return told.stdout


def main(prefix, cc, write=False):
    include = os.path.join(prefix, "include")
    now = look(include, cc)
    if write:
        with open(KEPT, "w", encoding="utf-8") as file:
            file.write("\n".join(now) + "\n")
    with open(KEPT, encoding="utf-8") as file:
        kept = file.read().splitlines()
    different = [line for line in difflib.unified_diff(kept, now, "before", "now", n=0, lineterm="")]
    print("\n".join(different))
    if any(line.startswith("-") for line in different[2:]):
        print("programs that were built before break: raise the minor version in VERSION, then\n"
              f"    python3 tests/install/abi.py {prefix} {cc} --write")
    elif different:
        print(f"new in the interface: python3 tests/install/abi.py {prefix} {cc} --write")
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(os.path.join(include, "lockstep"), os.path.join(scratch, "lockstep"))
        header = os.path.join(scratch, "lockstep/local_tensor/local_tensor.h")
        with open(header, encoding="utf-8") as file:
            text = file.read()
        with open(header, "w", encoding="utf-8") as file:
            file.write(text.replace("typedef struct ls_world_options {",
                                    "typedef struct ls_world_options {\n    int injected;"))
        changed = [line for line in look(scratch, cc) if line not in now]
        if [line.split()[1] for line in changed] != ["ls_world_options"]:
            raise SystemExit(f"an injected field shows as {changed}")
    sizeless = [line.split()[1] for line in now if re.match(r"struct ls_\w+_options \d+;(?! 0\+8 size_t size;)", line)]
    if sizeless:
        raise SystemExit(f"option structs that do not begin with their size: {', '.join(sizeless)}")
    print(f"{len(now)} lines")
    return bool(different)


sys.exit(main(sys.argv[1], sys.argv[2], "--write" in sys.argv))
