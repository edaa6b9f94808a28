"""Single-point mutants of C sources of this project's style, all of one file in one rewritten file.

A unit is a condition, the value of a declaration or of a return, or a statement. Its mutants become
branches beside it, so that one build holds them all and a variable chooses (mutant.h)."""
import collections
import functools
import re

# kind: value, condition, loop (its condition) or statement. Mutants replace text[start:end].
Unit = collections.namedtuple("Unit", "kind start end line")
# The replacement of the unit; `what` describes it, `key` survives changes elsewhere in the file.
Mutant = collections.namedtuple("Mutant", "file line key what start end unit text")

DECLARATION = re.compile(r"(?:const |unsigned |struct |enum )*[A-Za-z_]\w*[ *]+(?:const )?\**\w+ =\s", re.A)
WORDS = ("return", "goto", "break", "continue", "else", "do", "case", "default")
# Code that only passes errors on, reports them or frees memory: it affects no verdict.
PLUMBING = re.compile(r"LS_FAIL|LS_ASSERT|_free\(|\bfree\(|ls_error_|va_|\bassert|LS_ERR_MEMORY|\(void\)|ls_text_")
SWAPS = {"<": ["<=", ">="], "<=": ["<"], ">": [">=", "<="], ">=": [">"], "==": ["!="], "!=": ["=="],
         "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"],
         "+=": ["=", "-="], "-=": ["="], "*=": ["="], "|=": ["="], "&=": ["="], "<<": [">>"],
         ">>": ["<<"]}
OPERATOR = re.compile(r"(?<= )(<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|\|=|&=|[<>+\-*/%])(?= )")
NAMES = {"true": "false", "false": "true", "fmax": "fmin", "fmin": "fmax", "continue": "break"}


@functools.lru_cache(maxsize=8)
def masked(text):
    """The text with comments, literals and directives blanked, at the same length."""
    def blank(match):
        found = match[0]
        keep = found[0] if found[0] in "\"'" else " "
        return keep + re.sub(r"[^\n]", " ", found[1:-1]) + (keep if len(found) > 1 else "")
    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    text = re.sub(pattern, blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), text,
                  flags=re.M)


def flat(text):
    """The text on one line, without comments."""
    text = re.sub(r"(\"(?:\\.|[^\"\\\n])*\")|//[^\n]*", lambda m: m[1] or "", text)
    return re.sub(r"\s*\n\s*", " ", text).strip()


def closing(mask, at):
    """The position that closes the bracket at `at`."""
    pairs, depth = {"(": ")", "{": "}", "[": "]"}, 0
    opens, closes = mask[at], pairs[mask[at]]
    for i in range(at, len(mask)):
        depth += (mask[i] == opens) - (mask[i] == closes)
        if depth == 0:
            return i
    raise ValueError("a bracket is not closed")


def bodies(mask):
    """(start, end) of function bodies: the text after a `)` at the left edge."""
    at = 0
    while (at := mask.find("{", at)) >= 0:
        end = closing(mask, at)
        if mask[:at].rstrip().endswith(")"):
            yield at + 1, end
        at = end + 1


def split_top(mask, start, end, separator):
    """The parts of mask[start:end] between separators outside of brackets, as (start, end)."""
    depth, parts, first = 0, [], start
    for i in range(start, end):
        depth += (mask[i] in "([{") - (mask[i] in ")]}")
        if depth == 0 and mask[i] == separator:
            parts.append((first, i))
            first = i + 1
    return parts + [(first, end)]


def value_of_declaration(mask, start, end):
    """The value of a declaration of one scalar, or None."""
    found = DECLARATION.match(mask, start, end)
    if not found or mask[found.end():end].lstrip().startswith("{"):
        return None
    if len(split_top(mask, start, end, ",")) > 1 or mask[start:end].split()[0] in WORDS + ("static",):
        return None
    return found.end(), end


def header_units(mask, start, end):
    """Conditions of `if (...)`, `while (...)`, `for (...; ...; ...)` in mask[start:end]."""
    found = re.compile(r"(?:else\s+)?(if|while|for)\s*\(").match(mask, start, end)
    if not found:
        return
    inside, last = found.end(), closing(mask, found.end() - 1)
    if found[1] != "for":
        yield "condition" if found[1] == "if" else "loop", inside, last
        return
    parts = split_top(mask, inside, last, ";")
    value = value_of_declaration(mask, *parts[0]) if parts[0][0] < parts[0][1] else None
    if value:
        yield "value", *value
    if mask[parts[1][0]:parts[1][1]].strip():
        yield "loop", parts[1][0] + 1, parts[1][1]


def statement_unit(mask, start, end):
    """The unit of a statement without its semicolon."""
    text = mask[start:end]
    if text.startswith("return"):
        return ("value", start + 6, end) if text[6:].strip() else None
    value = value_of_declaration(mask, start, end)
    if value:
        return "value", *value
    is_call = re.match(r"[A-Za-z_]\w*\(", text)
    is_assignment = re.match(r"[\w*()\[\].>&+ -]+?(?<![=!<>]) ?[-+*/|&]?=\s", text) and not re.match(
        r"[A-Za-z_]\w* \*?\w", text)
    plain = re.match(r"(break|continue)$", text) or re.search(r"(\+\+|--)$", text)
    return ("statement", start, end) if is_call or is_assignment or plain else None


def units(text):
    """The units of a file, in order."""
    mask = masked(text)
    found = []
    for first, last in bodies(mask):
        at = first
        while at < last:
            space = re.compile(r"(?:\s|[{};]|case [^:?]*:|default:|\w+:(?= *\n))*").match(mask, at, last)
            at = end = space.end()
            while end < last and mask[end] not in ";{}":
                if mask[end] in "([":
                    end = closing(mask, end)
                elif mask[end] == "=" and re.match(r"=\s*\{", mask[end:last]):
                    end = closing(mask, mask.index("{", end))
                elif mask[end] == ")":
                    break
                end += 1
                # A compound literal continues; a block's head ends.
                if end < last and mask[end] == "{" and mask[end - 1] == ")":
                    end = closing(mask, end) + 1
            if end >= last:
                break
            if mask[end] == "{":
                mine = list(header_units(mask, at, end))
            else:
                one = statement_unit(mask, at, end)
                mine = [one] if one else []
            found += [Unit(kind, a, b, text.count("\n", 0, a) + 1) for kind, a, b in mine]
            at = end + 1
    return found


# Swapping a count and a size in a call changes nothing or only the request.
COMMUTES = re.compile(r".*(?:alloc|size_mul|size_add|add_overflow|__count|fmax|fmin|strcmp)\($")


def swaps(text, mask):
    """(start, end, replacement) of neighbouring arguments of calls, swapped."""
    for call in re.finditer(r"\b[a-z_]\w*\(", mask):
        end = closing(mask, call.end() - 1)
        parts = [] if COMMUTES.match(call[0]) else split_top(mask, call.end(), end, ",")
        for (a, b), (c, d) in zip(parts, parts[1:]):
            left, right = text[a:b].strip(), text[c:d].strip()
            if left != right and "NULL" not in (left, right):
                yield a, d, f"{text[a:b].replace(left, right)},{text[c:d].replace(right, left)}"


def changes(unit, text):
    """(start, end, replacement) of every operator that applies inside a unit."""
    inside, mask = text[unit.start:unit.end], masked(text)[unit.start:unit.end]
    for found in OPERATOR.finditer(mask):
        near = mask[max(0, found.start() - 12):found.end() + 12]
        if "NULL" in near or "LS_OK" in near:
            continue
        before = mask[:found.start()].rstrip()
        if found[1] in "*-+&" and (not before or before[-1] in "=(,?:"):
            continue
        yield from ((found.start(), found.end(), new) for new in SWAPS[found[1]])
    for found in re.finditer(r"\b(true|false|fmax|fmin|continue)\b", mask):
        yield found.start(), found.end(), NAMES[found[1]]
    for found in re.finditer(r"(?<![\w.])(\d+)(?![\w.])", mask):
        new = [str(int(found[1]) + 1)] + ([str(int(found[1]) - 1)] if int(found[1]) > 1 else [])
        yield from ((found.start(), found.end(), one) for one in new)
    for found in re.finditer(r"(?<![\w.])(\d+\.\d+)(?![\w.])", mask):
        yield found.start(), found.end(), str(float(found[1]) * 2 + (float(found[1]) == 0))
    for found in re.finditer(r"(?<=[(&| ])!(?=[\w(])", mask):
        yield found.start(), found.end(), ""
    yield from swaps(inside, mask)
    if text.endswith("return", 0, unit.start) and not re.fullmatch(
            r"\s*(\d+|true|false|status|NULL|LS_\w+)", mask):
        yield 0, len(mask), " 0"
    if unit.kind == "condition":
        for a, b in (p for s in ("&", "|") for p in split_top(mask, 0, len(mask), s)):
            if (a, b) != (0, len(mask)) and b > a and "NULL" not in mask[a:b]:
                lead = len(mask[a:b]) - len(mask[a:b].lstrip())
                yield a + lead, len(mask[:b].rstrip()), "1" if "&" in mask[b:b + 1] + mask[
                    max(0, a - 1):a] else "0"
        yield 0, len(mask), "1"
    if unit.kind in ("condition", "loop"):
        yield 0, len(mask), "0"
    if unit.kind == "statement":
        yield 0, len(inside), ""


def mutants(file, text):
    """Every mutant of a file, in order."""
    seen, made = collections.Counter(), set()
    for unit in units(text):
        own = text[unit.start:unit.end]
        if PLUMBING.search(own) or (unit.kind == "condition" and re.search("NULL|status", own)
                                    and not re.search("&&|\\|\\|", own)):
            continue
        for start, end, new in changes(unit, text):
            changed = own[:start] + new + own[end:]
            if changed in (own, "") and new != "" or (unit, changed) in made:
                continue
            made.add((unit, changed))
            what = f"{flat(own)} -> {flat(changed) or '(left out)'}"
            seen[what] += 1
            key = f"{file}: {what}" + (f" #{seen[what]}" if seen[what] > 1 else "")
            yield Mutant(file, unit.line, key, what, unit.start + start, unit.start + end, unit,
                         changed)


def of_list(file, text, old, new, nth=0):
    """The mutant that a list names by the changed text. LookupError: missing, or not inside of one unit."""
    at = -1
    for _ in range(nth + 1):
        at = text.find(old, at + 1)
    if at < 0:
        raise LookupError(f"{file}: {old!r} is not there")
    end = at + len(old)
    while at < end and new and text[at] == new[0]:
        at, new = at + 1, new[1:]
    while at < end and new and text[end - 1] == new[-1]:
        end, new = end - 1, new[:-1]
    for unit in units(text):
        whole = unit.kind == "statement" and text[at:end].strip().rstrip(";") == text[
            unit.start:unit.end] and new.strip() in ("", ";")
        if whole or unit.start <= at and end <= unit.end:
            changed = "" if whole else text[unit.start:at] + new + text[end:unit.end]
            for known in mutants(file, text):
                if known.unit == unit and known.text == changed:
                    return known
            own = flat(text[unit.start:unit.end])
            what = f"{own} -> {flat(changed) or '(left out)'}"
            return Mutant(file, unit.line, f"{file}: {what}", what, at, end, unit, changed)
    raise LookupError(f"{file}: {old!r} is more than one statement")


def rewritten(name, text, numbered, header):
    """The file with all of its mutants. numbered: (number, mutant). To the compiler a mutant is a line of a separate file, mutant/NUMBER;
    other lines keep their numbers.
    """
    of = collections.defaultdict(list)
    for number, mutant in numbered:
        of[mutant.unit].append((number, flat(mutant.text)))
    for unit in sorted(of, key=lambda u: -u.start):
        own, head = text[unit.start:unit.end], ""
        cast = "!!" if unit.kind in ("condition", "loop") else ""
        for number, new in of[unit]:
            head += f'\n#line 1 "mutant/{number}"\n' + (
                f"if (LS_MUTANT({number})) {{ {new}; }} else" if unit.kind == "statement" else
                f" LS_MUTANT({number}) ? {cast}({new}) :")
        head += f'\n#line {unit.line} "{name}"\n'
        own = f"{{ {own};}}" if unit.kind == "statement" else f"{cast}({own.strip()})"
        text = text[:unit.start] + head + own + text[unit.end:]
    # The file's feature macros must precede the first system header.
    asked = [found.end() for found in re.finditer(r"^#define _\w+_SOURCE\b.*\n", text, re.M)]
    at = asked[-1] if asked else 0
    line = text.count("\n", 0, at) + 1
    return f"{text[:at]}#include \"{header}\"\n#line {line} \"{name}\"\n{text[at:]}"
