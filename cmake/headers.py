"""Reads the declarations of headers as text, in the style of this project.

headers.py functions HEADER...          each function's name, one a line
headers.py macros HEADER...             the same of macros that are called as functions are (ls_...)
headers.py variables HEADER...          the same of variables
headers.py public FOLDER MADE HEADER... copies of the headers as users get them: without functions
                                        that do not say LS_API, types that none of the others needs,
                                        what stands under a heading (members: a comment) that begins
                                        with "Inside the library", and headers that are not given;
                                        members below "Inside the library: N words" become reserved;
                                        each includes others as <lockstep/...>. MADE is the folder
                                        of headers that the build makes
headers.py man FOLDER VERSION HEADER... a page of man section 3 for each header, made of its
                                        comments, and one for each function and macro

Run from the folder that the headers' names are relative to.
"""
import os
import re
import sys

API = "LS_API "
HEADING = re.compile(r"// ---- (.*?) -*$")
INSIDE = "Inside the library"
GIVEN = {"ls_spmd_arguments"}  # types that programs get as void *


def declarations(text):
    """The statements of the top level, in order, without comments and the preprocessor's lines."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    text = text.replace('extern "C" {', "")
    depth, statement = 0, ""
    for character in text:
        if character == "}":
            depth -= 1
            if depth == 0 and statement.rstrip().endswith(")"):
                statement = ""  # the body of an inline function ends it
        elif character == "{":
            depth += 1
        elif depth > 0:
            continue
        elif character == ";":
            if statement.split()[:1] != ["typedef"]:
                yield " ".join(statement.split())
            statement = ""
        else:
            statement += character


def exports(statement):
    return API.strip() in statement.split()


def functions(text):
    """(name, whether it says LS_API) of each function."""
    for statement in declarations(text):
        match = re.match(r"[\w\s*]*?\b(ls_\w+)\s*\(", statement)
        if match:
            yield match.group(1), exports(statement)


MACRO = re.compile(r"#define (ls_[a-z0-9_]+)\(([^)]*)\)")


def macros(text):
    """(name, True) of each macro that a program calls like a function."""
    return [(name, True) for name, _ in MACRO.findall(text)]


def variables(text):
    """The same of variables, of which one statement may declare several."""
    for statement in declarations(text):
        if "extern" in statement.split() and "(" not in statement:
            for part in statement.split(","):
                yield re.search(r"(ls_\w+)\s*(\[\w*\])?$", part).group(1), exports(statement)


# ---- Installed headers ---------------------------------------------------------------------------

def pieces(text):
    """(kind, text) of each comment, directive, blank line and statement of the top level."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        if not line.strip():
            yield "blank", line
        elif HEADING.match(line):
            yield "heading", line
        elif line.startswith("//"):
            yield "comment", line
        elif line.startswith("#") or line in ('extern "C" {', "}"):
            while lines[at - 1].endswith("\\"):
                at += 1
            yield "directive", "\n".join(lines[start:at])
        else:
            def ended():
                code = re.sub(r"//[^\n]*", "", "\n".join(lines[start:at])).strip()
                return code.count("{") == code.count("}") and code.endswith((";", "}"))
            while not ended():
                at += 1
            while at < len(lines) and re.match(r"\s+//", lines[at]):
                at += 1  # the comment behind it goes on
            yield "statement", "\n".join(lines[start:at])


def is_public(statement):
    named = [*functions(statement), *variables(statement)]
    return not named or all(exported for _, exported in named)


TYPE = re.compile(r"(?:typedef )?(?:struct|union)\b[^{;]*(?:\{.*\})?\s*\b(\w+);|"
                  r"typedef [^{;]*\(\*(\w+)\)\([^;]*;", re.S)


def type_of(statement):
    """The name of the struct, union or pointer to functions that the statement is of; None: of no such type."""
    match = TYPE.fullmatch(re.sub(r"//[^\n]*", "", statement).strip())
    return match and (match.group(1) or match.group(2))


def unneeded(texts):
    """The types that no public declaration needs, itself or by another type."""
    types, others = {}, []
    for text in texts:
        for kind, piece in outside(text):
            code = re.sub(r"//[^\n]*", "", cut(piece))
            name = type_of(piece) if kind == "statement" else None
            if name:
                types[name] = types.get(name, "") + code
            elif kind == "directive" or kind == "statement" and is_public(piece):
                others.append(code)
    needed, todo = set(), [*others, *GIVEN]
    while todo:
        found = {word for word in re.findall(r"\w+", todo.pop()) if word in types} - needed
        needed |= found
        todo += [types[name] for name in found]
    return set(types) - needed


def cut(statement):
    """A struct without the library's own members. If programs fill it, reserved words keep their space."""
    def reserved(match):
        return f"\n    uint64_t reserved[{match[1]}];  // zero" if match[1] else ""
    return re.sub(rf"\n +// {INSIDE}(?:: (\d+) words)?\n.*?(?=\n\}})", reserved, statement, flags=re.S)


def outside(text):
    """The pieces but for what is the library's own by its heading."""
    inside = False
    for kind, piece in pieces(text):
        if kind == "heading":
            inside = HEADING.match(piece).group(1).startswith(INSIDE)
        elif piece.startswith("#ifdef __cplusplus"):
            inside = False  # the end of the header
        if not inside:
            yield kind, piece


def for_users(text, headers, dropped):
    """The header without declarations that are the library's own, dropped types, and what is said of them."""
    kept, said, came, last = [], [], False, None  # said: the comment of the statements that come
    for kind, piece in outside(text):
        if kind == "comment":
            said = said + [piece] if last == "comment" else [piece]
            came = False
        elif kind == "statement":
            came = True
        if kind not in ("comment", "statement") and came:
            said = []  # all that it was said of is gone
        public = kind != "statement" or is_public(piece) and type_of(piece) not in dropped
        if not public and last == "comment":
            said = []  # it was said of this one
        included = re.match(r'#include "([^"]+)"', piece) if kind == "directive" else None
        other = included and included.group(1) not in headers
        if included:
            piece = f"#include <lockstep/{included.group(1)}>"
        if kind != "comment" and public and not other:
            kept += [("comment", comment) for comment in said] + [(kind, cut(piece))]
            said = []
        last = kind
    out = []
    for number, (kind, piece) in enumerate(kept):
        after = [(k, p) for k, p in kept[number + 1:] if k != "blank"][:1]
        ends = not after or after[0][0] == "heading" or after[0][1].startswith(("#ifdef __", "#endif"))
        if not (kind == "heading" and ends) and not (kind == "blank" and out[-1:] == [""]):
            out.append(piece)
    return "\n".join(out) + "\n"


def write_public(folder, made, headers):
    texts = {header: read(header if os.path.exists(header) else os.path.join(made, header)) for header in headers}
    dropped = unneeded(texts.values())
    for header, whole in texts.items():
        path = os.path.join(folder, header)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        text = for_users(whole, headers, dropped)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


# ---- Man pages -----------------------------------------------------------------------------------

def page_name(header):
    stem = os.path.splitext(os.path.basename(header))[0]
    return "lockstep" if stem == "lockstep" else "lockstep-" + stem.replace("_", "-")


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def lines_to_show(text):
    """The header without what only the compiler reads."""
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    text = re.sub(r"^#(ifndef|define) LS_\w+_H\n|^#include.*\n", "", text, flags=re.M)
    text = re.sub(r"#endif\s*\Z", "", text)
    declared = False
    for line in text.split("\n"):
        if line.startswith(API):
            line, declared = line[len(API):], True
        elif declared and line.startswith(" " * (len(API) + 1)):
            line = line[len(API):]  # goes on below the parenthesis
        else:
            declared = False
        yield line


def summary(text):
    """The first sentence of the header's first comment."""
    comment = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        comment.append(line[2:].strip())
    first = re.split(r"\.(?:\s|$)", " ".join(comment))[0]
    return first[:1].lower() + first[1:] if first[1:2].islower() else first


def body(lines):
    """Comments as paragraphs, everything else as it stands."""
    shown, out = None, []  # of the line before: "text", "code" or nothing

    def turn(kind):
        nonlocal shown
        if shown == "code" and kind != "code":
            out.append(".fi\n.ft R")
        if kind == "code" and shown != "code":
            out.append(".PP\n.ft CW\n.nf")
        if kind == "text" and shown != "text":
            out.append(".PP")
        shown = kind

    for line in lines:
        heading = HEADING.match(line)
        if heading:
            turn(None)
            out.append(".SH " + roff(heading.group(1).upper()))
        elif line.startswith("//"):
            turn("text")
            words = line[2:]
            if words.startswith("   "):
                out.append(".br")  # a list or a formula keeps its lines
            out.append(roff(words.strip()) or ".PP")
        elif line.strip():
            turn("code")
            out.append(roff(line))
        else:
            turn(None)
    turn(None)
    return "\n".join(out)


def page(header, version, libraries):
    text = read(header)
    name = page_name(header)
    return (f'.TH {name.upper()} 3 "" "lockstep {version}"\n.SH NAME\n{name} \\- '
            f"{roff(summary(text))}\n.SH SYNOPSIS\n.B #include <lockstep/{roff(header)}>\n.PP\n"
            f"cc \\&... $(pkg\\-config \\-\\-cflags \\-\\-libs {roff(libraries)})\n"
            f".SH DESCRIPTION\n{body(lines_to_show(text))}\n")


def entries(text):
    """name: (lines that declare it, lines of the comment above its block), functions and macros."""
    found, said, last = {}, [], None
    for kind, piece in pieces(text):
        if kind == "comment":
            said = said + [piece] if last == "comment" else [piece]
        elif kind in ("blank", "heading"):
            said = []
        macro = MACRO.match(piece)
        if macro:
            found[macro.group(1)] = ([f"{macro.group(1)}({macro.group(2)})"], said)
        elif kind == "statement":
            for name, _ in functions(piece):
                found[name] = (list(lines_to_show(piece)), said)
        last = kind
    return found


def entry_page(header, version, name, known):
    """The page of one function or macro; known: the entries of all headers."""
    declared, said = known[name]
    behind = name + "_at"  # called by a macro with the caller's file and line
    if behind in known:
        said = known[behind][1]
        declared = declared + ["", *known[behind][0]]
    about = [line for line in lines_to_show(read(header)) if line.startswith("//")][:1]
    what = summary("\n".join(said)) if said else summary(read(header))
    text = body(declared) + "\n.SH DESCRIPTION\n" + body(said or about)
    return (f'.TH {name.upper()} 3 "" "lockstep {version}"\n.SH NAME\n{name} \\- {roff(what)}\n'
            f".SH SYNOPSIS\n.B #include <lockstep/{roff(header)}>\n{text}\n.SH SEE ALSO\n"
            f".BR {roff(page_name(header))} (3),\n.BR lockstep (3)\n")


def library(header):
    """The pkg-config package that has what the header declares."""
    for suffix in ("mpi", "nccl"):
        if header.startswith(f"backends/{suffix}/"):
            return "lockstep-mpi" if header.endswith("_mpi.h") else f"lockstep-{suffix}"
    return "lockstep"


def overview(headers, version):
    rows = "".join(f".TP\n.BR {roff(page_name(header))} (3)\n{roff(summary(read(header)))}\n"
                   for header in headers if page_name(header) != "lockstep")
    return (f'.TH LOCKSTEP 3 "" "lockstep {version}"\n.SH NAME\nlockstep \\- '
            f'{roff(summary(read("lockstep.h")))}\n.SH SYNOPSIS\n.B #include <lockstep/lockstep.h>\n'
            ".PP\ncc \\&... $(pkg\\-config \\-\\-cflags \\-\\-libs lockstep)\n"
            ".SH THREADS\nFunctions that take no object may be called from any thread. An object is used by "
            "one thread at a time; objects of two worlds are independent. The calls of a rank come from "
            "its thread, or from one that\n.BR ls_rank_attach (3)\nhas made the rank's. The last error "
            "is kept for each thread.\n"
            f".SH HEADERS\n{rows}.SH SEE ALSO\n.BR lockstep (1)\n")


def write_pages(folder, version, headers):
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.unlink(os.path.join(folder, old))  # of headers that are gone

    def put(name, text):
        path = os.path.join(folder, name + ".3")
        if os.path.exists(path):
            raise SystemExit(f"two pages are called {name}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    known = {name: entry for header in headers for name, entry in entries(read(header)).items()}
    for header in headers:
        if header == "lockstep.h":
            put("lockstep", overview(headers, version))
            continue
        put(page_name(header), page(header, version, library(header)))
        for name in entries(read(header)):
            put(name, entry_page(header, version, name, known))
        for name, _ in variables(read(header)):
            put(name, f".so man3/{page_name(header)}.3\n")


def main(arguments):
    listed = {"functions": functions, "macros": macros, "variables": variables}
    if len(arguments) > 1 and arguments[0] in listed:
        for header in arguments[1:]:
            for name, _ in listed[arguments[0]](read(header)):
                print(name)
    elif len(arguments) > 3 and arguments[0] == "public":
        write_public(arguments[1], arguments[2], arguments[3:])
    elif len(arguments) > 3 and arguments[0] == "man":
        write_pages(arguments[1], arguments[2], arguments[3:])
    else:
        raise SystemExit(__doc__.strip())


main(sys.argv[1:])
