"""Checks the sentences of the repository: words.py ROOT [--program LOCKSTEP] [--subject FILE]

Docs, messages, comments and, with --program, every --help: no sentence starts with a pronoun in
place of its subject, none uses a paraphrase where the field has a term, and those of docs and help
are short. --subject checks a commit's message instead.
"""
import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tokenize

from tidy import C_ENDINGS, list_files

WORDS_MAX = 32  # of a sentence in docs and help; inline code is one word
SUBJECT = re.compile(r"[\w.+-]+(?:/[\w.+-]+)*: [^A-Z\s].*[^.]")
SUBJECT_COLUMNS_MAX = 72

OPENING = re.compile(r"(?:what|who|whoever|whose|that which|of none|none of|theirs|of the one)\b",
                     re.I)
# Paraphrase: term.
TERMS = {
    r"\bfor ever\b": "hangs, never returns",
    r"\bbatons?\b": "run token",
    r"\bcrews?\b": "process pool",
    r"\bkeepers?\b": "reaper",
    r"\bstand(s|ing)? in for\b": "replace",
    r"\bheld against\b": "compared with",
    r"\bput(s|ting)? together\b": "assemble, gather",
    r"\bmembers alike\b": "identical on all members",
    r"\bwhoever\b": "the rank that",
    r"\btold\b(?!\.c)": "reported, printed, named",
    r"\bbeneath\b": "underlying",
    r"\binformed of\b": "reported, sent",
    r"\ba injected\b": "an injected",
    r"\bplant(ed|s|ing)?\b": "inject",
    r"\bcomes? to the same\b": "is equivalent",
}
TERM = [(re.compile(pattern, re.I), term) for pattern, term in TERMS.items()]
# Texts that scripts and scenarios match.
NAMES = {"what messages and uneven calls gave", "whose row is on no rank",
         "whose row is in %d shards, the first on rank %d"}
# Exceptions: kind, and the beginning of the file's name.
REMAINING = {
    "docs": ("backends/", "bench/", "collectives/",
             "embedding/", "exec/", "fuzz/", "gdb/", "kernels/", "oracle/", "planner/", "python/", "ranks/",
             "recordings/", "runner/", "scenarios/", "tests/"),
}


def remaining(kind, name):
    return name.startswith(REMAINING.get(kind, "\0"))



def sentences(text):
    """The sentences of a paragraph; one ends before a word that begins with a capital or code."""
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`\[(*\"])", re.sub(r"\s+", " ", text).strip()):
        if sentence:
            yield sentence


def words(sentence):
    plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", sentence))
    return [word for word in plain.split() if re.search(r"\w", word)]


def paragraphs(text):
    """(line, text) of each paragraph, list item and table cell of a page, without its code."""
    start, block, fenced = 0, [], False
    for number, line in enumerate(text.split("\n") + [""], 1):
        fenced ^= line.startswith("```")
        item = re.match(r"\s*(?:[-*]|\d+\.) (.*)", line)
        if fenced or line.startswith(("    ", "|", "#", "```")) or not line.strip() or item:
            if block:
                yield start, " ".join(block)
            start, block = number, [item.group(1)] if item and not fenced else []
            if line.startswith("|"):
                for cell in line.strip("|").split(" | "):
                    yield number, cell.strip()
        else:
            start, block = (start if block else number), block + [line.strip()]


def of_page(text):
    for number, paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            yield number, sentence


def of_code(text):
    """(kind, line, sentence) of the comments and the string literals of a C file."""
    block, start = [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        comment = re.match(r"\s*//+ ?(.*)", line)
        if comment:
            start, block = (start if block else number), block + [comment.group(1)]
            continue
        for sentence in sentences(" ".join(block)):
            yield "comments", start, sentence
        block = []
        bare = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
        trailing = re.search(r"//+ (.*)", bare)
        if trailing:
            yield "comments", number, trailing.group(1)
        if not line.lstrip().startswith("#include"):
            for literal in re.findall(r'"((?:\\.|[^"\\])*)"', line):
                yield "messages", number, literal


def of_python(text):
    """(line, sentence) of the docstrings and the comments of a Python file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            for sentence in sentences(ast.get_docstring(node)):
                yield node.body[0].lineno, sentence
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def of_help(program):
    listed = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    for name in re.findall(r"^  ([a-z]+) {2,}", listed, re.M):
        text = subprocess.run([program, name, "--help"], capture_output=True, text=True,
                              check=True).stdout
        entry = []
        for number, line in enumerate(text.split("\n") + [""], 1):
            option = re.match(r"  .*?(?:-\w|--[\w-]+).*?(?:  (\S.*)|$)", line)
            if option or not line.strip() or line.startswith("options:"):
                for sentence in sentences(" ".join(entry)):
                    yield f"{name} --help", number, sentence
                entry = [option.group(1) or ""] if option else []
            else:
                entry.append(line.strip())


def complaints(kind, sentence):
    if len(sentence.split()) < 4 or sentence in NAMES:
        return
    plain = re.sub(r"`[^`]*`", "code", sentence).strip("\"'(*[ -")
    if OPENING.match(plain) and not sentence.rstrip(" )*").endswith("?"):
        yield "starts without its subject"
    for pattern, term in TERM:
        found = pattern.search(plain)
        if found:
            yield f"'{found.group()}': {term}"
    count = len(words(sentence))
    if kind in ("docs", "help") and count > WORDS_MAX:
        yield f"{count} words; at most {WORDS_MAX}"


def everything(root, program):
    for name in list_files(root):
        if not name.endswith((".md", ".py") + C_ENDINGS):
            continue
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as stream:
            text = stream.read()
        if name.endswith(".md"):
            # Generated pages list types and choices, whose length is no sentence's.
            kind = "messages" if "/reference-" in name else "docs"
            for number, sentence in of_page(text):
                yield kind, name, number, sentence
        elif name.endswith(".py"):
            for number, sentence in of_python(text):
                yield "comments", name, number, sentence
        else:
            for kind, number, sentence in of_code(text):
                if kind == "comments" or name.split("/")[0] not in ("tests", "bench", "examples"):
                    yield kind, name, number, sentence
    if program:
        for name, number, sentence in of_help(program):
            yield "help", name, number, sentence


def check_subject(subject):
    if not SUBJECT.fullmatch(subject) and not subject.startswith(("Merge ", "Revert ")):
        return f"'{subject}' is not 'room: imperative, lower case' without a full stop"
    if len(subject) > SUBJECT_COLUMNS_MAX:
        return f"'{subject}' has {len(subject)} columns; at most {SUBJECT_COLUMNS_MAX}"
    return None


def newest_subject(root):
    """The subject of the newest commit; None without git."""
    try:
        log = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "log", "-1",
                              "--no-merges", "--format=%s"], capture_output=True, text=True,
                             check=False)
    except OSError:
        return None
    return log.stdout.strip() or None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--program")
    parser.add_argument("--subject", metavar="FILE")
    parser.add_argument("--all", action="store_true", help="show what is not yet read, too")
    options = parser.parse_args()
    if options.subject:
        with open(options.subject, encoding="utf-8") as stream:
            wrong = check_subject(stream.readline().strip())
        sys.exit(wrong)
    subject = newest_subject(options.root)
    wrong = check_subject(subject) if subject else None
    bad = [wrong] if wrong else []
    count = 0
    for kind, name, number, sentence in everything(options.root, options.program):
        count += 1
        if options.all or not remaining(kind, name):
            bad += [f"{name}:{number}: {kind}: {text}: {sentence[:300]}"
                    for text in complaints(kind, sentence)]
    print(*bad, sep="\n")
    print(f"{count} sentences, {len(bad)} complaints")
    sys.exit(1 if bad or count == 0 else 0)


if __name__ == "__main__":
    main()
