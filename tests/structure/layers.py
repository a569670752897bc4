#!/usr/bin/env python3
"""Checks the direction of includes: bench -> runtime -> backends -> core, no backend knows another, and core is
made of the standard library alone, without threads, clocks and files.

Usage: layers.py ROOT. Prints one line for each include that points the wrong way; exits 1 if there is one."""
import pathlib
import re
import sys

RANK = {"core": 0, "backends": 1, "runtime": 2, "bench": 3}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
STANDARD = set("""algorithm any array atomic bit bitset cctype cerrno cfloat charconv cinttypes climits cmath
compare complex concepts coroutine cstddef cstdint cstdio cstdlib cstring cwchar deque exception forward_list functional
initializer_list iomanip iterator limits list locale map memory memory_resource new numbers numeric optional
ostream queue random ranges ratio set source_location span sstream stack stdexcept string string_view
system_error tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
version""".split())
FILES = re.compile(r"\b(?:std::)?(fopen|freopen|getenv|system|fprintf|printf|puts|abort|exit)\s*\(")


def fault(file, system, name):
    """Why `file` (relative to the root, as its parts) must not include `name`, or None."""
    layer = file[0]
    if system:
        if layer == "core" and name not in STANDARD:
            return "core includes only the standard library, without threads, clocks and files"
        return None
    target = name.split("/")
    if target[0] not in RANK:
        return None if layer != "core" else "core includes by path from the root of the repository"
    if RANK[target[0]] > RANK[layer]:
        return f"{layer} is below {target[0]}"
    if layer == target[0] == "backends" and len(file) > 2 and len(target) > 2 and file[1] != target[1]:
        return "no backend knows another"
    if layer == target[0] == "backends" and file[1:] == ("backend.h",) and len(target) > 2:
        return "the interface knows no backend"
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    faults = []
    seen = 0
    for layer in RANK:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            seen += 1
            file = path.relative_to(root).parts
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                found = INCLUDE.match(line)
                why = fault(file, found[1] == "<", found[2]) if found else None
                if not found and layer == "core" and FILES.search(line.split("//")[0]):
                    why = "core touches no files, no environment, and never prints or exits"
                if why:
                    faults.append(f"{'/'.join(file)}:{number}: {line.strip()}: {why}")
    print("\n".join(faults + [f"{seen} files, {len(faults)} faults"]))
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
