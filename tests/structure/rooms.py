#!/usr/bin/env python3
"""Checks the rooms of the compiler: includes between folders of core point one way, and no folder is too large to
be looked through.

ROOMS lists core's folders, the lowest first: a file includes files of its own folder and of folders above it in
the list, so that there is no circle. Every folder of core with sources is in the list.

Usage: rooms.py ROOT. Prints one line for each fault; exits 1 if there is one."""
import collections
import pathlib
import re
import sys

ROOMS = """support simplify ir ir/ranks ir/analysis lattice
language language/idioms language/tile language/mfg language/lift
target passes/bind passes/normalize warnings interpret
distribute/mesh distribute distribute/choice distribute/overlap distribute/overlap/pieces
autodiff autodiff/derivation autodiff/loops
nest nest/passes
kernel kernel/forms
schedule/legality schedule/facts schedule/cost/piece schedule/cost
schedule/space/piece schedule/space schedule/search
fusion passes/optimize layout pipeline
lower/launch lower/context lower/tile lower/piece lower/gpu lower""".split()
# Languages are one room: the table of languages knows every one of them, and each is built from what they share.
# Gradients are another: the parts know the options of differentiate.h, which puts them together. So is the IR: the
# text form and the verifier of bound programs are those of ranks' programs too.
ONE_ROOM = {"ir/ranks": "ir", "language/idioms": "language", "language/tile": "language", "language/mfg": "language",
            "language/lift": "language", "autodiff/derivation": "autodiff", "autodiff/loops": "autodiff"}
MOST_SOURCES = 28
LARGE_FOLDERS = {}
LONGEST = 450
LONG_FILES = {
    "bench/peers/driver.py": "runs alone in a peer's Python",
    "core/nest/interpret.cpp": "one case for each kind of statement",
    "runtime/include/tile/tile.h": "the C interface is one header, most of which says what calls do",
    "runtime/python/src/program.cpp": "one function for each method of the package's Program",
    "tests/cuda/emulation.h": "precompiled alone, in front of every emulated kernel",
    "tests/cuda_runtime/test_runs.cpp": "cases",
    "tests/random/random_lift.cpp": "one generator",
    "tests/unit/schedule/test_schedule_space.cpp": "cases",
}
SOURCES = {".h", ".c", ".cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"core/([^"]+)/[^/"]+"')


def includes_upward(root):
    rank = {room: place for place, room in enumerate(ROOMS)}
    for path in sorted((root / "core").rglob("*")):
        if path.suffix not in SOURCES:
            continue
        name = path.relative_to(root)
        room = "/".join(name.parts[1:-1])
        if room not in rank:
            yield f"{name}: core/{room} is no room"
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            other = found[1]
            if other not in rank:
                yield f"{name}:{number}: {line.strip()}: core/{other} is no room"
            elif ONE_ROOM.get(other, other) != ONE_ROOM.get(room, room) and rank[other] > rank[room]:
                yield f"{name}:{number}: {line.strip()}: {room} is below {other}"


def sizes(root):
    folders = collections.Counter()
    long_files = set()
    for top in ("core", "backends", "runtime", "bench", "tests"):
        for path in (root / top).rglob("*"):
            if path.suffix not in SOURCES | {".py"}:
                continue
            name = path.relative_to(root)
            if path.suffix in SOURCES:
                folders[str(name.parent)] += 1
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > LONGEST:
                long_files.add(str(name))
                if str(name) not in LONG_FILES:
                    yield f"{name}: {lines} lines, more than {LONGEST}"
    for name in sorted(set(LONG_FILES) - long_files):
        yield f"{name}: not longer than {LONGEST} lines, and yet an exception"
    for folder, count in sorted(folders.items()):
        if count > MOST_SOURCES and folder not in LARGE_FOLDERS:
            yield f"{folder}: {count} sources, more than {MOST_SOURCES}"
    for folder in sorted(LARGE_FOLDERS):
        if folders[folder] <= MOST_SOURCES:
            yield f"{folder}: not larger than {MOST_SOURCES} sources, and yet an exception"


def main():
    root = pathlib.Path(sys.argv[1])
    faults = list(includes_upward(root)) + list(sizes(root))
    faults += [f"core/{room}: a room without sources" for room in ROOMS
               if not any(p.suffix in SOURCES for p in (root / "core" / room).glob("*"))]
    print("\n".join(faults + [f"{len(ROOMS)} rooms, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
