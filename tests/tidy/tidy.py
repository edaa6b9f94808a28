"""Lints the repository: tidy.py ROOT. Each rule is a function; each complaint is FILE:LINE: text."""
import ast
import os
import re
import shutil
import subprocess
import sys

LINE_COLUMNS_MAX = 100
FILE_LINES_MAX = 500
FILE_BYTES_MAX = 1 << 20
FILE_BYTES_MAX_DATA = 4 << 20
C_ENDINGS = (".c", ".h", ".cu", ".cuh", ".inc")
TEXT_ENDINGS = C_ENDINGS + (".md", ".txt", ".cmake", ".in", ".py", ".sh", ".lua", ".yaml", ".yml", ".t")
DATA_ENDINGS = (".json", ".npy", ".safetensors", ".svg", ".supp", ".bin", ".sum", ".S")
PLAIN_NAMES = {".gitignore", ".clang-format", ".clang-tidy", ".editorconfig", "bootstrap", ".ci/run", "LICENSE", "Containerfile",
               "VERSION", "pyproject.toml", "examples/ci/Jenkinsfile"}
SKIPPED_FOLDERS = {".git", "build", "__pycache__", ".carry", "shared"}

# A folder may include the folders in its row, itself, and its subfolders.
def rooms_above(*rooms):
    """Each of `rooms`, ground floor first, may include all below it."""
    return {room: list(rooms[:i]) for i, room in enumerate(rooms)}


ARROWS = rooms_above("base", "formats", "process", "kernels", "local_tensor", "orders", "collectives",
                     "backends", "ranks", "planner", "embedding", "oracle", "runner", "report", "exec")
# Lower folders that a room does not need.
for room, below in {"process": ["formats"], "kernels": ["formats"], "local_tensor": ["formats"],
                    "orders": ["local_tensor"],
                    "planner": ["local_tensor", "orders", "collectives", "backends", "ranks"],
                    "ranks": ["formats"],
                    # It shares no code with what it judges.
                    "oracle": ["formats", "process", "local_tensor", "collectives", "backends", "ranks", "planner"]}.items():
    ARROWS[room] = [name for name in ARROWS[room] if name not in below]
for room in ("kernels", "local_tensor", "orders", "collectives", "backends", "ranks", "planner",
             "embedding", "report"):
    ARROWS[room].remove("process")
ARROWS["mpi"] = ARROWS["ranks"] + ["ranks", "process"]
ARROWS["device"] = ARROWS["ranks"] + ["ranks"]
ARROWS["diagnose"] = ARROWS["runner"] + ["runner", "fuzz"]
ROOMS = set(ARROWS) | {"cli", "gdb", "bench", "fuzz", "tests", "examples"}

BANNED = {
    "strcpy": "copies without a limit", "strcat": "appends without a limit",
    "sprintf": "prints without a limit: snprintf", "vsprintf": "prints without a limit: vsnprintf",
    "gets": "reads without a limit", "system": "starts a shell", "popen": "starts a shell",
    "atoi": "hides errors: strtol", "atof": "hides errors: strtod", "atol": "hides errors: strtol",
    "strtok": "keeps hidden state", "rand": "is not reproducible: ls_random", "alloca": "no limit",
    "srand": "is not reproducible", "tmpnam": "races", "mktemp": "races",
    "setjmp": "skips clean-up", "longjmp": "skips clean-up",
}
# Library code reports errors; only programs print and exit. Defining such a function is no call.
LIBRARY_BANNED = {"printf": "library code never prints", "puts": "library code never prints",
                  "perror": "library code never prints", "exit": "library code never exits"}
BANNED_CALL = re.compile(r"(?<![\w.>\"])(" + "|".join(BANNED) + r")\s*\(")
LIBRARY_CALL = re.compile(r"(?<![\w.>\"])(?<!void )(" + "|".join(LIBRARY_BANNED) + r")\s*\(")
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
LOCAL_PATH = re.compile(r"(?<![\w.$}])/(work|tmp/wt|root|home)/")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


# The files of an addition (CONTRIBUTING.md): for each kind of row one example, by the identifier that the product's code uses beside its
# row, and where it may.
HOMES = {
    r"LS_(?:ROW_)?F8E5M2": ["kernels/cuda/device.cuh"],
    r"f8e5m2_(?:de|en)code\w*": ["kernels/cpu/bits.h", "kernels/cpu/convert.c",
                                 "kernels/cpu/scalar.c"],
    r"LS_EXSCAN|ls_collective__exscan": ["collectives/calls.h", "collectives/scan.c"],
    r"LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM": [
        "oracle/optimizer.c", "kernels/cpu/field_update.c", "kernels/cpu/update_loops.inc",
        "kernels/cpu/update_reference.c", "kernels/cuda/update.cu"],
    r"LS_STEP_CAST|ls_step__cast": ["runner/steps/cast.c"],
    r"LS_FINDING_RMA_RACE": ["collectives/finding.h", "mpi/race.c", "device/finding.c"],
    r"cli_cmd_traffic": ["cli/cmd_traffic.c"],
    r"LS_TABLE_COLUMN_WISE": ["planner/plan.h", "planner/nofit.c", "runner/replay/torch_tensor.c",
                              "runner/replay/import_torchrec_scenario.c"],
}
HOMES_OF = [(re.compile(rf"\b(?:{name})\b"), files) for name, files in HOMES.items()]


def list_files(root):
    """Files that git tracks or would track; without git, all except build outputs."""
    if os.path.exists(os.path.join(root, ".git")) and shutil.which("git"):
        listing = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-co",
                                  "--exclude-standard", "-z"], capture_output=True)
        if listing.returncode == 0:
            names = [name for name in listing.stdout.decode().split("\0") if name]
            return sorted(n for n in set(names) if os.path.lexists(os.path.join(root, n)))
    files = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and
                      not f.startswith("build-")]
        files += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(name for name in files if not name.endswith(".o"))


def without_comments_and_strings(text):
    """C text with comments, string and character contents blanked; line structure is kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def check_names(name, size):
    ending = os.path.splitext(name)[1]
    corpus = name.startswith("tests/data/")
    known = ending in TEXT_ENDINGS + DATA_ENDINGS or name in PLAIN_NAMES or corpus
    if not known:
        yield 1, f"files ending in '{ending}' have no place here"
    limit = FILE_BYTES_MAX_DATA if ending in DATA_ENDINGS or corpus else FILE_BYTES_MAX
    if size > limit:
        yield 1, f"{size} bytes; at most {limit}"


def check_lines(name, text):
    lines = text.split("\n")
    code = name.endswith(C_ENDINGS)
    for number, line in enumerate(lines, 1):
        if "\t" in line and not name.endswith(".t"):
            yield number, "a tab"
        if line != line.rstrip() and not name.endswith(".t"):
            yield number, "white space at the end of the line"
        if code and len(line) > LINE_COLUMNS_MAX:
            yield number, f"{len(line)} columns; at most {LINE_COLUMNS_MAX}"
        if UNFINISHED.search(line):
            yield number, "unfinished work"
        if LOCAL_PATH.search(line):
            yield number, "a path of somebody's machine"
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    if code and len(lines) > FILE_LINES_MAX:
        yield len(lines), f"{len(lines)} lines; at most {FILE_LINES_MAX}"


def check_code(name, text):
    if not name.endswith(C_ENDINGS):
        return
    room = name.split("/")[0]
    if not text.startswith("//") and not text.startswith("/*"):
        yield 1, "the first comment says what the file is"
    bare = without_comments_and_strings(text)
    for number, line in enumerate(bare.split("\n"), 1):
        for call in BANNED_CALL.findall(line):
            if room == "tests" and call == "system":
                continue  # tests clean their scratch folders with it
            yield number, f"{call}() {BANNED[call]}"
        if room in ARROWS:
            for call in LIBRARY_CALL.findall(line):
                yield number, f"{call}(): {LIBRARY_BANNED[call]}"
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not found:
            continue
        target = found.group(1)
        target_room = target.split("/")[0]
        if "/" not in target:
            if room not in ("tests", "examples"):
                yield number, f"'{target}': includes name the folder"
        elif room in ARROWS and target_room in ROOMS and target_room != room:
            if target_room not in ARROWS[room]:
                yield number, f"{room} may not include {target_room}"
        if room in ARROWS and target_room != room and target.endswith("internal.h"):
            yield number, f"'{target}' is private to {target_room}"
    # Headers that users get have guards, since a program may see two copies of them.
    if name.endswith(".h") and not re.search(r"#ifndef LS_\w+_H\n#define LS_\w+_H|^#pragma once$", text, re.M):
        yield 1, "no #pragma once, and no include guard LS_..._H"


def nested_conditions(bare):
    """Positions of each '?' in an operand of another one; `bare` has no comments and strings."""
    # Of each open bracket: whether a '?' stands in its expression so far, or in a bracket of that.
    outer, here, inside = [], False, False
    for at, char in enumerate(bare):
        if char in "([{":
            outer.append((here, inside))
            here = inside = False
        elif char in ")]}" and outer:
            within = (here or inside) and char != "}"
            here, inside = outer.pop()
            inside = inside or within
        elif char == "?":
            if here or inside or any(seen for seen, _ in outer):
                yield at
            here = True
        elif char in ";," or (char == "=" and "=" not in bare[at + 1:at + 2] and
                              bare[at - 1:at] not in tuple("=<>!")):
            here = inside = False


def check_conditions(name, text):
    if not name.endswith(C_ENDINGS) or name.split("/")[0] in ("tests", "examples"):
        return
    bare = without_comments_and_strings(text)
    for at in nested_conditions(bare):
        yield bare.count("\n", 0, at) + 1, "a '?:' in another one: if, switch, table or function"


PARAMETERS_MAX = 8
# Signatures that programs were built against, and MPI's own.
WIDE = re.compile(r"MPI_\w+|ls_call_at|ls_keyed_jagged_(?:create|create_variable|from_offsets|"
                  r"from_padded)")
NAMED = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(")
ENDS = re.compile("[;{]")
# A parameter: two words, a type and a name, or a pointer to a function.
PARAMETER = re.compile(r"\s*(?:\w+(?:::\w+)*(?:<[^()]*>)?[\s*&]+)+\w*(?:\[[^\]]*\])*(?:\s*=.*)?\s*$|"
                       r"[^(]*\(\s*\*", re.S)


def wide_functions(bare):
    """(position, name) of each declared function with too many parameters."""
    bare = bare.replace("\\\n", " \n")
    for found in NAMED.finditer(bare):
        end = ENDS.search(bare, found.end())
        end = end.start() if end else len(bare)
        if bare.count(",", found.end(), end) < PARAMETERS_MAX:
            continue
        depth, start, parts = 0, found.end(), []
        for at in range(found.end(), end):
            char = bare[at]
            if depth == 0 and char in ",)":
                parts.append(bare[start:at])
                start = at + 1
                if char == ")":
                    break
            depth += (char in "([") - (char in ")]")
        if len(parts) > PARAMETERS_MAX and all(PARAMETER.match(part) for part in parts):
            yield found.start(), found.group(1)


def check_parameters(name, text):
    if not name.endswith(C_ENDINGS) or name.split("/")[0] in ("tests", "examples"):
        return
    bare = without_comments_and_strings(text)
    for at, function in wide_functions(bare):
        if not WIDE.fullmatch(function):
            yield (bare.count("\n", 0, at) + 1,
                   f"{function}: more than {PARAMETERS_MAX} parameters: group some in a struct")


def check_homes(name, text):
    if not name.endswith(C_ENDINGS) or name.split("/")[0] in ("tests", "bench", "fuzz", "examples"):
        return
    for number, line in enumerate(without_comments_and_strings(text).split("\n"), 1):
        for pattern, files in HOMES_OF:
            found = pattern.search(line)
            if found and name not in files:
                yield number, f"{found.group(0)}: its table's row is to say what is asked here"


def check_markdown(name, text, files):
    if not name.endswith(".md"):
        return
    fenced = False
    titles = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        titles += line.startswith("# ")
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:|#", target):
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(name), target.split("#")[0]))
            if path not in files and not any(f.startswith(path + "/") for f in files):
                yield number, f"the link leads nowhere: {target}"
    if titles != 1:
        yield 1, f"{titles} titles ('# '); exactly one"


def check_python(name, text):
    """The package runs on Python 3.9."""
    if not name.startswith("python/") or not name.endswith(".py"):
        return
    try:
        tree = ast.parse(text, feature_version=(3, 9))
    except SyntaxError as error:
        yield error.lineno, f"Python 3.9: {error.msg}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "zip" and node.keywords:
            yield node.lineno, "Python 3.9 has no strict= of zip"


def check_executable(name, mode, text):
    script = text.startswith("#!")
    if script and not mode & 0o111:
        yield 1, "starts with #! but is not executable"
    if not script and mode & 0o111:
        yield 1, "is executable but does not start with #!"


def check_tree(files):
    folders = {name.split("/")[0] for name in files if "/" in name}
    for folder in sorted(folders - {".ci", ".github"}):
        if f"{folder}/README.md" not in files:
            yield f"{folder}/README.md", "missing: each folder says what it is"


# A folder's descriptors, and the table that has a row for each.
TABLES = [("ranks/checks/", r"ls_rank_check__(\w+) = \{", ["ranks/checks/table.c"]),
          ("collectives/", r"ls_collective__(\w+) = \{", ["collectives/calls.h"]),
          ("runner/steps/", r"ls_step__(\w+) = \{",
           ["runner/scenario/scenario.h", "runner/steps/step.h"]),
          ("runner/replay/", r"ls_importer_(\w+) = \{", ["runner/replay/import.c"]),
          ("cli/", r"cli_command cli_cmd_(\w+) = \{", ["cli/commands.h"])]
# Files of ranks/checks/ that several checks use; another without a check is named CHECK_PART.c.
CHECK_PARTS = {"ranks/checks/crossing.c", "ranks/checks/select.c", "ranks/checks/table.c"}


def check_rows(root, files):
    def read(name):
        with open(os.path.join(root, name), encoding="utf-8") as stream:
            return without_comments_and_strings(stream.read())

    for folder, descriptor, tables in TABLES:
        if tables[0] not in files:
            continue
        rows = set(re.findall(r"[A-Za-z]+(?:_?[A-Za-z0-9]+)*", "".join(map(read, tables))))
        rows |= {row.split("_", 2)[-1] for row in rows}  # ls_importer_torch, cli_cmd_run
        for name in files:
            if not name.startswith(folder) or not name.endswith(".c"):
                continue
            made = re.findall(descriptor, read(name))
            part = os.path.basename(name)[:-2].rsplit("_", 1)[0] in rows or name in CHECK_PARTS
            if folder == "ranks/checks/" and not made and not part:
                yield name, "no ls_rank_check__NAME: a check is a file with its descriptor"
            for one in made:
                if one not in rows:
                    yield name, f"{one} has no row in {tables[0]}"


def check_format(root, files):
    program = shutil.which("clang-format")
    sources = [name for name in files if name.endswith((".c", ".h"))]
    version = program and subprocess.run([program, "--version"], capture_output=True).stdout
    if not version or not re.search(rb"version 14\.", version):
        print("clang-format 14 is not here: the format was not checked")
        return
    result = subprocess.run([program, "--dry-run", "-Werror", *sources], cwd=root,
                            capture_output=True, text=True)
    for line in result.stderr.split("\n"):
        found = re.match(r"([^:]+):(\d+):\d+: error:", line)
        if found:
            yield found.group(1), f"line {found.group(2)}: not as clang-format writes it"


def lint(root):
    """All complaints, as (file, line, text)."""
    names = list_files(root)
    files = set(names)
    complaints = []
    for name in names:
        path = os.path.join(root, name)
        if os.path.islink(path):
            complaints.append((name, 1, "a link"))
            continue
        info = os.stat(path)
        found = list(check_names(name, info.st_size))
        if name.endswith(TEXT_ENDINGS) or name in PLAIN_NAMES:
            with open(path, encoding="utf-8", errors="replace") as stream:
                text = stream.read()
            if "tests/data/" not in name and "/malformed/" not in name:
                found += check_lines(name, text)
            found += check_code(name, text)
            found += check_homes(name, text)
            found += check_conditions(name, text)
            found += check_parameters(name, text)
            found += check_markdown(name, text, files)
            found += check_python(name, text)
            found += check_executable(name, info.st_mode, text)
        complaints += [(name, line, what) for line, what in found]
    complaints += [(name, 1, what) for name, what in check_tree(files)]
    complaints += [(name, 1, what) for name, what in check_rows(root, names)]
    complaints += [(name, 1, what) for name, what in check_format(root, names)]
    return len(names), complaints


if __name__ == "__main__":
    count, complaints = lint(sys.argv[1])
    for name, line, what in complaints:
        print(f"{name}:{line}: {what}")
    if any("columns; at most" in what for _, _, what in complaints):
        print("tests/tidy/wrap_comments.py FILE... wraps comments")
    print(f"{count} files, {len(complaints)} complaints")
    sys.exit(1 if complaints or count == 0 else 0)
