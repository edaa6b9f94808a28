"""Wraps // comments beyond 100 columns: wrap_comments.py FILE...

Only own-line comments are changed; overflow moves to the next line of the same paragraph, or to a new one. Comments after code are left to
the author.
"""
import re
import sys

COLUMNS = 100
COMMENT = re.compile(r"^(\s*)(//\s?)(\s*)(.*)$")


def split(prefix, body):
    """The words of body that fit behind prefix, and the rest."""
    words = body.split(" ")
    fitting = words.pop(0)
    while words and len(prefix) + len(fitting) + 1 + len(words[0]) <= COLUMNS:
        fitting += " " + words.pop(0)
    return fitting, " ".join(words)


def continues(line, indent, pad):
    """Whether line continues the paragraph of a comment of this indentation."""
    found = COMMENT.match(line)
    return (found and found.group(1) == indent and found.group(3) == pad and
            re.match(r"[\w(\"'\[]", found.group(4)))


def wrap(text):
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        found = COMMENT.match(lines[i])
        if len(lines[i]) > COLUMNS and found:
            indent, slashes, pad, body = found.groups()
            if re.match(r"-{4}.*-{4}$", body):  # a banner
                lines[i] = lines[i][:COLUMNS]
            else:
                prefix = indent + slashes + pad
                fitting, rest = split(prefix, body)
                lines[i] = prefix + fitting
                if rest and i + 1 < len(lines) and continues(lines[i + 1], indent, pad):
                    lines[i + 1] = prefix + rest + " " + COMMENT.match(lines[i + 1]).group(4)
                elif rest:
                    lines.insert(i + 1, prefix + rest)
        i += 1
    return "\n".join(lines)


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as stream:
        before = stream.read()
    after = wrap(before)
    if after != before:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(after)
