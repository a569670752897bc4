#!/usr/bin/env python3
"""Checks that no function is longer than can be read at once.

A C++ function of more than LONGEST lines, from its first line to its closing brace, or a Python one, is a fault
unless LONG_FUNCTIONS lists it with a reason; the comment in front of it says the same ("One function: …").

Usage: functions.py ROOT. Prints one line for each fault; exits 1 if there is one."""
import ast
import pathlib
import re
import sys

LONGEST = 60
# "file function": why it is one.
LONG_FUNCTIONS = {
    "backends/cpu/emit/fold_emitter.cpp FoldEmitter::fold_loop": "blocks of a loop in a loop that name each other",
    "bench/commands/study_shapes.cpp classes": "a table",
    "runtime/cli/main.cpp main_of": "a paragraph for each command",
}
TOPS = ("core", "backends", "runtime", "bench", "tests")
# Not code: comments, strings, characters; a raw string first, as it may hold the others' signs.
NO_CODE = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|'
                     r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'")
SCOPE = re.compile(r"(?:^|[;{}\s])(?:namespace|class|struct|union|enum|extern)\b[^;()=]*$")
NAME = re.compile(r"([~\w:]+(?:\s*operator\s*\S+)?)\s*\(")


def blanked(text):
    """The text with spaces for what is no code, and for lines of the preprocessor."""
    text = NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.M)


def closing(text, place):
    """The place behind the brace that closes the one at `place`."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, place):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.end()
    return len(text)


def cpp_functions(text):
    """(name, first line, number of lines) of each function that is not inside another."""
    text = blanked(text)
    place = begin = 0
    while True:
        found = re.compile(r"[{};]").search(text, place)
        if not found:
            return
        place = found.end()
        if found[0] != "{":
            begin = place
            continue
        head = text[begin:found.start()]
        if SCOPE.search(head):
            begin = place
            continue
        name = NAME.search(head)
        end = closing(text, found.start())
        if name and not re.search(r"=\s*$|\bTEST(_[PF])?\b|\bBENCHMARK", head):
            start = begin + len(head) - len(head.lstrip())
            yield name[1], text.count("\n", 0, start) + 1, text.count("\n", start, end) + 1
        # Initialisers of members, which have braces too, stand before the function's own.
        if re.match(r"\s*[,{]", text[end:end + 80]) and name:
            begin = begin
            place = end
            continue
        begin = place = end


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def long_functions(root):
    """(file, function, line, number of lines)."""
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".c", ".cpp", ".py"):
                continue
            text = path.read_text(encoding="utf-8")
            functions = python_functions(text) if path.suffix == ".py" else cpp_functions(text)
            for name, line, lines in functions:
                if lines > LONGEST:
                    yield str(path.relative_to(root)), name, line, lines


def main():
    root = pathlib.Path(sys.argv[1])
    faults, seen = [], set()
    for file, name, line, lines in long_functions(root):
        seen.add(f"{file} {name}")
        before = (root / file).read_text(encoding="utf-8").splitlines()[max(0, line - 8):line - 1]
        if f"{file} {name}" not in LONG_FUNCTIONS:
            faults.append(f"{file}:{line}: {name} has {lines} lines, more than {LONGEST}")
        elif not any("One function: " in comment for comment in before):
            faults.append(f"{file}:{line}: no comment says why {name} is one function")
    faults += [f"{name}: not longer than {LONGEST} lines, and yet an exception"
               for name in sorted(set(LONG_FUNCTIONS) - seen)]
    print("\n".join(faults + [f"{len(seen)} long functions, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
