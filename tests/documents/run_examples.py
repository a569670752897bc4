#!/usr/bin/env python3
"""Runs the examples of a document: run_examples.py BIN ROOT DOCUMENT...

BIN is the folder of the programs (tile, tile-bench), ROOT the top of the repository, DOCUMENT a Markdown file. A
fenced block whose info string names a file (```tile softmax.tile) is written to that file in an empty folder, where
the document's commands run; a later block of the same name replaces it. In a block ```console each line that begins
with `$ ` is a command, given to a shell with BIN in its PATH and ROOT in the variable TILE_ROOT, and the lines behind
it are the expected output (standard output and error together). A line `...` stands for any lines, `…` inside a line
for any characters; white space at the ends of lines does not count. A command may go on after a backslash at the end
of its line. A block whose info string has the word `sketch` is shown only, and so is one with `needs-PROGRAM` where
there is no such program (the skip is said).

Prints each difference with the line of the document; exits 1 if there is one, or if a document has no example."""
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^( *)(`{3,})\s*(\S*)\s*(.*?)\s*$")
SECONDS = 120  # for one command; examples are small


def blocks(text):
    """(line number of the first line, language, words behind it, lines) of each fenced block."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at])
        at += 1
        if not fence:
            continue
        body = []
        begin = at + 1
        indent = len(fence[1])  # of a block inside a list
        while at < len(lines) and lines[at].strip() != fence[2]:
            body.append(lines[at][indent:])
            at += 1
        at += 1
        yield begin, fence[3], fence[4].split(), body


def commands(begin, body):
    """(line number, command, expected lines) of each command of a console block."""
    found = []
    for offset, line in enumerate(body):
        if found and found[-1][1].endswith("\\") and not found[-1][2]:
            found[-1][1] = found[-1][1][:-1] + line.strip()
        elif line.startswith("$ "):
            found.append([begin + offset, line[2:], []])
        elif found:
            found[-1][2].append(line.rstrip())
    for _, _, expected in found:
        while expected and not expected[-1]:
            expected.pop()
    return found


def pattern(expected):
    """A regular expression for the expected lines."""
    parts = []
    for line in expected:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append("[^\n]*".join(re.escape(piece) for piece in line.split("…")) + r"\n")
    return re.compile("".join(parts))


def normalised(output):
    lines = [line.rstrip() for line in output.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def run_document(programs, root, path):
    """(number of commands, number of differences)"""
    ran = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", TILE_ROOT=str(root),
                           TILE_CACHE_DIR=os.path.join(folder, ".cache"))
        for begin, language, words, body in blocks(path.read_text(encoding="utf-8")):
            lacking = [w for w in words if w.startswith("needs-") and shutil.which(w[6:], path=environment["PATH"]) is None]
            if lacking:
                print(f"{path.relative_to(root)}:{begin}: skipped, {' '.join(lacking)}")
            if lacking or "sketch" in words:
                continue
            if language != "console":
                if words and "." in words[0]:
                    pathlib.Path(folder, words[0]).write_text("\n".join(body) + "\n", encoding="utf-8")
                continue
            for line, command, expected in commands(begin, body):
                done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True, timeout=SECONDS,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                got = normalised(done.stdout)
                ran += 1
                if not pattern(expected).fullmatch("".join(f"{text}\n" for text in got)):
                    wrong += 1
                    print(f"{path.relative_to(root)}:{line}: $ {command}")
                    print("\n".join(difflib.unified_diff(expected, got, "document", "output", lineterm="")))
    return ran, wrong


def main():
    programs, root = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    failed = False
    for name in sys.argv[3:]:
        path = pathlib.Path(name).resolve()
        ran, wrong = run_document(programs, root, path)
        print(f"{path.relative_to(root)}: {ran} commands, {wrong} differ")
        failed = failed or wrong > 0 or ran == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
