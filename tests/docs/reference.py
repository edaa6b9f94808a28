"""Writes docs/reference-commands.md and docs/reference-scenario.md from the program's tables, or fails if the pages differ from them:
reference.py PROGRAM SOURCE [--write]
"""
import json
import os
import re
import subprocess
import sys

PROGRAM, SOURCE = sys.argv[1:3]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], text=True, capture_output=True, check=True).stdout


def commands():
    """The page of commands: the output of each --help."""
    overview = run("--help")
    names = re.findall(r"^  ([a-z]+) {2,}", overview.partition("\nenvironment:")[0], re.M)
    page = ["# Commands", "", "This page has every option of every command, the environment variables and the exit",
            "codes. It is generated from the program's tables; `lockstep COMMAND --help` and `man",
            "lockstep-COMMAND` print the same.", "", "    lockstep help run", "", "```", overview.rstrip(), "```", ""]
    for name in names:
        page += [f"## {name}", "", "```", run(name, "--help").rstrip(), "```", ""]
    return "\n".join(page)


def cell(text):
    return text.replace("|", "\\|").strip()


def schema_type(text):
    """(type, default) of an explained key."""
    kind, _, rest = text.partition("; ")
    return kind, rest


def scenario():
    """The page of keys: the output of run --explain-schema, as tables."""
    page = ["# Scenario keys", "", "This page has every key of a scenario file with type, default, meaning and an example. It is",
            "generated from the program's schema. A type such as *mesh* is a mapping with a section of its own.", "",
            "    lockstep run --explain-schema", ""]
    lines = run("run", "--explain-schema").split("\n")
    at = next(i for i, line in enumerate(lines) if line == "scenario")
    entry = None

    def flush():
        if entry:
            page.append(f"| `{entry[0]}` | {cell(entry[1])} | {cell(entry[2])} | "
                        f"{'`' + cell(entry[3]) + '`' if entry[3] else ''} |")

    heading = True
    for line in lines[at:] + [""]:
        indent = len(line) - len(line.lstrip())
        text = line.strip()
        if not text:
            continue
        if indent == 0:
            flush()
            entry, heading = None, True
            page += ["", f"## {text}", ""]
        elif indent == 2 and re.fullmatch(r"\w+", text):
            flush()
            if heading:
                page += ["", "| key | meaning | type and default | example |", "|---|---|---|---|"]
                heading = False
            entry = [text, "", "", ""]
        elif indent == 2:
            page.append(text)
        elif text.startswith("example: "):
            entry[3] = text[len("example: "):]
        elif entry[3]:
            entry[3] += " " + text
        elif not entry[1] or (not entry[2] and not entry[1].endswith(".")):
            entry[1] += " " + text
        elif entry[2] or TYPES.match(text):
            entry[2] += " " + text
        else:
            entry[1] += " " + text
    flush()
    text = "\n".join(page) + "\n"
    return re.sub(r"\n{3,}", "\n\n", text)


TYPES = re.compile(r"(?:an? |one of |the |true\b|0x|any|[a-z_0-9]+(?:[;,]|$)|\w+ or )")


def keys():
    """Every key of the JSON schema."""
    found = set()

    def walk(node):
        if isinstance(node, dict):
            found.update(node["properties"] if isinstance(node.get("properties"), dict) else ())
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(json.loads(run("run", "--json-schema")))
    return found


def main():
    pages = {"docs/reference-commands.md": commands(), "docs/reference-scenario.md": scenario()}
    listed = set(re.findall(r"^\| `(\w+)` \|", pages["docs/reference-scenario.md"], re.M))
    assert keys() <= listed | {"lockstep"}, keys() - listed
    bad = False
    for name, text in pages.items():
        path = os.path.join(SOURCE, name)
        if sys.argv[3:] == ["--write"]:
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
            continue
        with open(path, encoding="utf-8") as stream:
            if stream.read() != text:
                print(f"{name} differs from the program: tests/docs/reference.py PROGRAM SOURCE --write")
                bad = True
    sys.exit(bad)


main()
