#!/usr/bin/env python3
"""Checks that no class does the jobs of several.

A class or struct of core, the backends or the runtime that declares more than MOST_FUNCTIONS member functions, or
more than MOST_FIELDS members of data beside more than FEW_FUNCTIONS functions (with fewer it is plain data), is a
fault unless LARGE_CLASSES lists it with a reason. Constructors, destructors and operators count; friends, nested
types, aliases, enumerators, and what is deleted or defaulted do not. The text is read as it stands: a declaration
ends at ';' or at the end of a body, and is a function if a parameter list follows its name.

Usage: classes.py ROOT [--list N]. Prints one line for each fault (with --list, the N largest classes); exits 1 if
there is a fault."""
import pathlib
import re
import sys

from functions import blanked, closing

MOST_FUNCTIONS = 25
MOST_FIELDS = 15
FEW_FUNCTIONS = 5
TOPS = ("core", "backends", "runtime")
# "file class": why it is one.
LARGE_CLASSES = {
    "backends/cpu/memory/memory.h Memory": "not yet divided",
    "backends/cuda/print/printer.h Printer": "not yet divided",
    "core/autodiff/derivation/derivation.h Derivation": "not yet divided",
    "core/distribute/partitioner.h Partitioner": "not yet divided",
    "core/autodiff/loops/ordered_fold.cpp Adjoint": "not yet divided",
    "core/language/lift/context.h Context": "not yet divided",
    "core/language/lift/evaluator.h Evaluator": "not yet divided",
    "core/language/mfg/elaborate.h Elaborator": "not yet divided",
    "core/language/mfg/frames.h Frames": "not yet divided",
    "core/language/mfg/parser.h Parser": "a function for each rule of the grammar",
    "core/language/tile/elaborate.h Elaborator": "not yet divided",
    "core/language/tile/parser.h Parser": "a function for each rule of the grammar",
    "core/lower/context/frame.h Frame": "the nest under construction, which all that lowers adds to",
    "core/lower/context/piece_context.h PieceContext": "constants that follow from a piece and its schedule",
    "core/lower/gpu/lower_tensor_core_gemm.cpp TensorCoreLowering": "not yet divided",
    "core/lower/gpu/simt_gemm_lowering.h SimtGemmLowering": "not yet divided",
    "core/nest/interpret.cpp Machine": "a function for each kind of statement and node",
    "core/nest/passes/partition.cpp Partitioner": "not yet divided",
    "core/simplify/simplifier.h Simplifier": "a function for each rule",
    "core/support/small_vector.h SmallVector": "the functions of std::vector",
    "runtime/engine/cache/kernel_cache.h KernelCache": "not yet divided",
    "runtime/engine/engine.h LoadedProgram": "not yet divided",
    "runtime/python/src/program.h Program": "a function for each of the Python class",
}
CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?((?:\w+::)*\w+)\s*(?:final\s*)?(?::[^;{}()]*)?\{")
LABEL = re.compile(r"^\s*(?:public|private|protected)\s*:(?!:)")
NO_MEMBER = re.compile(r"^(?:using|typedef|friend|static_assert|enum|class|struct|union|template\s+(?:class|struct))\b")

# What the reader must make of each kind of declaration: read first, so that it never passes for want of reading.
EXAMPLE = """
class A : public B<int> {
 public:
  explicit A(int x) : x_(x), y_{1} {}
  ~A() = default;
  int get() const { return x_; }
  bool operator==(const A& other) const;
  template <class T>
  void put(T&& t) { if (t) { x_ = 1; } }
  [[nodiscard]] std::map<int, std::vector<int>> all(const std::function<void(int)>& f = {}) const;
  friend class C;
  using F = std::function<int(int)>;
  enum class K { a, b };
  struct N { int q; void n(); };
 private:
  std::function<void(int)> callback_;  // not a function (of the class)
  int x_ = 0, y_;
  std::vector<int> v_{1, 2};
  std::function<int(int)> g_ = [](int i) { return i; };
  Lowering low_{parts_, 1};
  static constexpr int k = f(3);
  double rows[4];
};
"""
EXPECTED = [("A", 2, 5, 8), ("N", 14, 1, 1)]


def without_arguments(text):
    """The text without what stands in <>, so that `std::function<void(int)> f` has no parentheses."""
    before = None
    while before != text:
        before, text = text, re.sub(r"(?<=\w)<[^<>;{}]*>", "", text)
    return text


def members(body):
    """The declarations of a class's body, each without its own body or initialiser in braces."""
    place = begin = 0
    while True:
        found = re.compile(r"[{};]").search(body, place)
        if not found:
            return
        place = found.end()
        if found[0] == "{":
            place = closing(body, found.start())
            head = body[begin:found.start()]
            # An initialiser in braces, a nested type, or a list of members to initialise goes on up to ';' or a body.
            goes_on = re.match(r"\s*[,;{]|\s*\w+\s*[;=,{]", body[place:])
            if goes_on and (not re.search(r"\)[^()]*$", head) or re.match(r"\s*[,{]", body[place:])):
                body = body[:found.start()] + re.sub(r"[^\n]", " ", body[found.start():place]) + body[place:]
                continue
        yield body[begin:place]
        begin = place


def kind_of(declaration):
    """"function", "fields" with how many, or None."""
    text = declaration
    while LABEL.match(text):
        text = LABEL.sub("", text, count=1)
    text = re.sub(r"\[\[[^\]]*\]\]", " ", text).strip()
    if not text or NO_MEMBER.match(text):
        return None, 0
    if re.search(r"=\s*(?:delete|default)\s*;$", text):
        return None, 0
    text = re.sub(r"^template\s*(?=<)", "x", text)
    text = without_arguments(text)
    if re.search(r"\boperator\b", text):
        return "function", 1
    head = re.split(r"=|\{", text, maxsplit=1)[0]
    if re.search(r"\w\s*\(", head) and not re.search(r"\(\s*\*", head):
        return "function", 1
    names = re.sub(r"\{[^{}]*\}|=[^,;]*", "", text)
    return ("fields", names.count(",") + 1) if re.search(r"[\w\]]$", names.rstrip("; \n")) else (None, 0)


def classes(text):
    """(name, line, functions, fields) of each class of a file, nested ones too."""
    text = blanked(text)
    for found in CLASS.finditer(text):
        if re.search(r"\benum\s*$", text[:found.start()]):
            continue
        body = text[found.end():closing(text, found.end() - 1) - 1]
        functions = fields = 0
        for declaration in members(body):
            kind, count = kind_of(declaration)
            functions += count if kind == "function" else 0
            fields += count if kind == "fields" else 0
        yield found[1], text.count("\n", 0, found.start()) + 1, functions, fields


def all_classes(root):
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                for name, line, functions, fields in classes(path.read_text(encoding="utf-8")):
                    yield str(path.relative_to(root)), name, line, functions, fields


def main():
    root = pathlib.Path(sys.argv[1])
    if list(classes(EXAMPLE)) != EXPECTED:
        print(f"the example is read as {list(classes(EXAMPLE))}")
        return 1
    found = list(all_classes(root))
    if "--list" in sys.argv:
        by_size = sorted(found, key=lambda c: -max(c[3] / MOST_FUNCTIONS, c[4] / MOST_FIELDS if c[3] else 0))
        for file, name, line, functions, fields in by_size[:int(sys.argv[-1])]:
            print(f"{file}:{line}: {name}: {functions} functions, {fields} fields")
        return 0
    faults, seen = [], set()
    for file, name, line, functions, fields in found:
        if functions <= MOST_FUNCTIONS and (fields <= MOST_FIELDS or functions <= FEW_FUNCTIONS):
            continue
        seen.add(f"{file} {name}")
        if f"{file} {name}" not in LARGE_CLASSES:
            faults.append(f"{file}:{line}: {name} has {functions} functions and {fields} fields, more than "
                          f"{MOST_FUNCTIONS} or {MOST_FIELDS}")
    faults += [f"{name}: not a large class, and yet an exception" for name in sorted(set(LARGE_CLASSES) - seen)]
    print("\n".join(faults + [f"{len(found)} classes, {len(faults)} faults"]))
    return 1 if faults or not found else 0


if __name__ == "__main__":
    sys.exit(main())
