"""The type stubs of the extension module say what the module has: names, parameters, defaults and docstrings; checkers of
types accept them, and the package with them."""
import ast
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import tilejit as tile
from tilejit import _core

PACKAGE = pathlib.Path(tile.__file__).parent
STUB = ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf-8"))
SETTINGS = pathlib.Path(__file__).parents[2] / "runtime" / "python" / "pyproject.toml"
FUNCTION = (ast.FunctionDef, ast.ClassDef)
# What nanobind's classes and functions are, which no stub can say.
NANOBIND = re.compile(r"metaclass differs$|is a disjoint base at runtime|_core\.version is not a function$|"
                      r"_core\.Executable\.__init__ is inconsistent")


def declared():
    """Every function, class and member of the stub by its dotted name."""
    for node in STUB.body:
        if isinstance(node, FUNCTION):
            yield node.name, node
            for member in getattr(node, "body", []):
                if isinstance(node, ast.ClassDef) and isinstance(member, FUNCTION):
                    yield f"{node.name}.{member.name}", member


def found(name):
    """The object of the module that has the name; of a property what computes it."""
    owner, _, member = name.rpartition(".")
    value = inspect.getattr_static(getattr(_core, owner) if owner else _core, member)
    return value.fget if isinstance(value, property) else value


def parameters(node):
    """Names, kinds and defaults of what a definition takes; what *inputs and **named are called is of no matter."""
    a = node.args
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + [ast.unparse(d) for d in a.defaults]
    made = [(p.arg, "plain", d) for p, d in zip(plain, defaults) if p.arg != "self"]
    made += [("", "rest", None)] if a.vararg else []
    made += [(p.arg, "keyword", d and ast.unparse(d)) for p, d in zip(a.kwonlyargs, a.kw_defaults)]
    return made + ([("", "named", None)] if a.kwarg else [])


def definition(signature):
    """nanobind's signature as the syntax tree of a function: defaults are numbered beside the text."""
    text, _, values = signature
    text = re.sub(r"\\(\d+)", lambda m: repr(values[int(m[1])]), text)
    return ast.parse(re.sub(r"^def \(", "def _(", text) + ": ...").body[0]


SIGNED = [name for name, node in declared()
          if isinstance(node, ast.FunctionDef) and getattr(found(name), "__nb_signature__", None)]


def test_names():
    names = {name for name, _ in declared()}
    expected = {name for name in vars(_core) if not name.startswith("_")}
    for cls in [value for value in vars(_core).values() if isinstance(value, type)]:
        expected |= {f"{cls.__name__}.{m}" for m in vars(cls) if not m.startswith("_")}
    assert {name for name in names if "__" not in name} == expected


@pytest.mark.parametrize("name", SIGNED)
def test_parameters(name):
    (signature,) = found(name).__nb_signature__
    assert parameters(dict(declared())[name]) == parameters(definition(signature))


def test_parameters_are_looked_at():
    assert len(SIGNED) > 25
    one, other = (ast.parse(f"def f(self, a, b={d}, *c, d=1, **e): ...").body[0] for d in (1, 2))
    assert parameters(one) != parameters(other) and len(parameters(one)) == 5


@pytest.mark.parametrize("name", [name for name, _ in declared() if "__" not in name])
def test_docstrings(name):
    node = dict(declared())[name]
    said = ast.get_docstring(node)
    value = found(name)
    if isinstance(node, ast.ClassDef):
        text = value.__doc__
    else:
        text = value.__nb_signature__[0][1]
    assert said and " ".join(said.split()) == " ".join((text or "").split())


def test_what_is_public_has_a_docstring():
    for name in tile.__all__:
        assert (inspect.getdoc(getattr(tile, name)) or "").strip(), name
    for path in PACKAGE.glob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def faults(output):
    return [line for line in output.splitlines() if line.startswith("error: ") and not NANOBIND.search(line)]


def test_stubtest(tmp_path):
    pytest.importorskip("mypy.stubtest")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "tilejit._core"], cwd=tmp_path, capture_output=True,
                          text=True, env={"PYTHONPATH": str(PACKAGE.parent)})
    assert re.search(r"checked 1 module", done.stdout), done.stdout + done.stderr
    assert not faults(done.stdout), done.stdout
    assert faults("error: tilejit._core.Program.tone is not present at runtime")


def test_mypy(tmp_path):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", SETTINGS, "--cache-dir", tmp_path, "-p", "tilejit"],
                          cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_user_s_program_is_checked_by_the_stubs(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text("import tilejit\n"
                                     "program = tilejit.program('…')\n"
                                     "reveal_type(program.grad('O', ['A']).outputs)\n"
                                     "program.tune(1, seconds='long')\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", SETTINGS, "--cache-dir", tmp_path, "use.py"],
                          cwd=tmp_path, capture_output=True, text=True, env={"MYPYPATH": str(PACKAGE.parent)})
    assert re.search(r'Revealed type is "tuple\[(builtins\.)?str, \.\.\.\]"', done.stdout), done.stdout + done.stderr
    assert 'Argument "seconds" to "tune" of "Program" has incompatible type "str"' in done.stdout
