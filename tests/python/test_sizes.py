"""The sizes that signatures state are those that inference finds, on every program of the conformance cases."""
import json
import pathlib

import pytest

import tilejit as tile
from tilejit._sizes import evaluate, names_of

CASES = pathlib.Path(__file__).parents[1] / "conformance"


def same(a, b, name):
    assert a == b, name


def test_expressions():
    names = {"M": 7, "X.1": 3}
    for size, value in ((4, 4), ("M", 7), (["+", "M", 1, "X.1"], 11), (["-", "M", 2], 5), (["-", "M"], -7),
                        (["*", 2, "M", 3], 42), (["/", "M", 2], 3), (["/", ["-", "M"], 2], -3), (["%", "M", 2], 1),
                        (["%", ["-", "M"], 2], -1), (["floordiv", ["-", "M"], 2], -4), (["min", "M", 5], 5),
                        (["max", "M", 5], 7), (["?:", ["<", "M", 8], 1, 2], 1), (["==", "M", 8], 0)):
        assert evaluate(size, names) == value
    with pytest.raises(KeyError):
        evaluate("N", names)


def cases():
    for path in sorted(CASES.glob("*.json")):
        for case in json.loads(path.read_text()).get("cases", []):
            yield path.stem, case


def given(case):
    values = {name: tile.Spec(tuple(t["shape"]), t.get("dtype", "f32")) for name, t in case["inputs"].items()}
    for name, value in case.get("params", {}).items():
        values[name] = value
    return values


def check(program, values, shapes):
    """Whether the signature states the outputs' sizes; where it does, they are `shapes`."""
    inferred = [spec.shape for spec in program.infer(**values)]
    assert inferred == [tuple(s) for s in shapes]
    signature = program.signature
    dims = [output["dims"] for output in signature["outputs"]]
    if None in dims:
        return False
    names = names_of(signature, [getattr(values.get(i["name"]), "shape", ()) for i in signature["inputs"]], same)
    assert [tuple(evaluate(d, names) for d in output) for output in dims] == inferred
    return True


def test_conformance_cases():
    known = total = 0
    for stem, case in cases():
        if "error" in case:
            continue
        program = tile.program(case["program"], case["lang"]).with_outputs(*case["outputs"])
        try:
            known += check(program, given(case), [o["shape"] for o in case["outputs"].values()])
        except AssertionError as error:
            raise AssertionError(f"{stem}: {case['name']}\n{case['program']}") from error
        total += 1
    assert total > 500 and known > 0.8 * total, (known, total)


def test_gradients():
    known = total = 0
    for stem, case in cases():
        gradient = case.get("gradient")
        if "error" in case or gradient is None:
            continue
        program = tile.program(case["program"], case["lang"])
        wrt = list(gradient["wrt"])
        made = program.grad(gradient["of"], wrt)
        made = made.with_outputs(*made.outputs[-len(wrt):])
        values = given(case)
        seed = next(i for i in made.inputs if i not in program.inputs)
        values[seed] = tile.Spec(tuple(gradient["seed"]["shape"]), gradient["seed"].get("dtype", "f32"))
        try:
            known += check(made, values, [values[name].shape for name in wrt])
        except AssertionError as error:
            raise AssertionError(f"{stem}: {case['name']}\n{made.text}") from error
        total += 1
    assert total > 100 and known > 0.7 * total, (known, total)
