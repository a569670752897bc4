"""Programs: gradients, what the compiler tells, errors, logging, inference."""
import logging
import subprocess
import sys

import numpy as np
import pytest

import tilejit as tile

MATMUL = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"


@pytest.fixture
def mm():
    return tile.program(MATMUL)


def test_names_and_text(mm):
    assert (mm.inputs, mm.outputs, mm.language, mm.name) == (("A", "B"), ("O",), "tile", "<text>")
    assert tile.program(mm.text).text == mm.text
    assert repr(mm) == "<tilejit.Program <text> (tile): (A, B) -> (O)>"
    assert mm.engine is tile.default_engine()


def test_gradient_and_gradient_of_it():
    cube = tile.program("function (X[N]) -> (Y) { Y = X * X * X; }")
    x, seed = np.array([1.0, 2.0, -3.0]), np.array([1.0, 1.0, 2.0])
    first = cube.grad()
    assert (first.inputs, first.outputs) == (("X", "DY"), ("Y", "DX"))
    np.testing.assert_allclose(first(x, seed)[1], 3 * x * x * seed)
    second = first.grad("DX", ["X"])
    second = second.with_outputs(second.outputs[-1])
    np.testing.assert_allclose(second(x, seed, np.ones(3)), 6 * x * seed)
    with pytest.raises(tile.Error, match="no"):
        cube.grad("Z")


def one_line(call, *words):
    """The call is refused in one line that has these words."""
    with pytest.raises(TypeError) as refused:
        call()
    text = str(refused.value)
    assert "\n" not in text and all(word in text for word in words), text


def test_wrong_types_are_refused_in_one_line(mm):
    one_line(lambda: mm.grad("O", "A"), "grad: wrt is the text 'A'", "['A']")
    one_line(lambda: mm.grad(["O"], ["A"]), "grad: of is a list: expected text")
    one_line(lambda: mm.grad("O", [1]), "grad: wrt, entry 0, is a int")
    one_line(lambda: mm.grad("O", 1), "grad: wrt is a int: expected a list of names")
    one_line(lambda: mm.with_gradient("O", MATMUL), "gradient is the text", "expected a tilejit.Program")
    one_line(lambda: mm.with_gradient(1, mm), "of is a int")
    one_line(lambda: mm.with_outputs(1), "entry 0, is a int: expected text")
    one_line(lambda: mm.emit(1, np.ones((2, 2)), np.ones((2, 2))), "emit: the stage is a int")
    one_line(lambda: mm.compile(np.ones((2, 2)), np.ones((2, 2))).emit(None), "emit: the stage is a NoneType")
    one_line(lambda: mm.tune(np.ones((2, 2)), np.ones((2, 2)), seconds="1"), "tune: seconds is the text '1': expected a number")
    one_line(lambda: mm.compile(np.ones((2, 2)), np.ones((2, 2))).tune(None), "tune: seconds is a NoneType")
    one_line(lambda: mm.infer(tile.Spec((2, 3), "float"), tile.Spec((3, 2), "f32")), "of float", "bf16, f32, f64")


def test_a_file_is_not_its_text(tmp_path):
    one_line(lambda: tile.program("mm.tile"), "not a file", "program(pathlib.Path('mm.tile').read_text())")
    one_line(lambda: tile.program(tmp_path / "blur.mfg"), "blur.mfg').read_text(), 'mfg')")
    one_line(lambda: tile.program(b"function"), "the program is a bytes: expected text")
    one_line(lambda: tile.program(MATMUL, 1), "the language is a int")
    one_line(lambda: tile.program(MATMUL, engine="cpu"), "the engine is a str: expected a tilejit.Engine")


def test_own_gradient():
    f = tile.program("function (X[N]) -> (Y) { Y = exp(X); }")
    wrong = tile.program("function (X[N], DY[N]) -> (DX) { DX = DY * 10; }")
    changed = f.with_gradient("Y", wrong).grad("Y", ["X"])
    np.testing.assert_array_equal(changed(np.ones(2), np.ones(2))[1], [10, 10])
    with pytest.raises(TypeError, match="pickle"):
        f.with_gradient("Y", wrong).__reduce__()


def test_compile_emit_explain_tune(mm):
    a = np.ones((32, 32), np.float32)
    e = mm.compile(a, a)
    assert e.outputs == (tile.Spec((32, 32), "f32"),) and e.program is mm
    np.testing.assert_array_equal(e(a, a), a @ a)
    out = np.zeros((32, 32), np.float32)
    assert e(a, a, out=out) is out and out[0, 0] == 32
    with pytest.raises(tile.Error):
        e(a[:16], a)
    assert "kernel O" in e.explain() and "<pre>" in mm.explain(a, a)._repr_html_()
    assert "nest O" in mm.emit("nest", a, a) and e.emit("nest") == mm.emit("nest", a, a)
    assert "32" in mm.emit("bound", tile.Spec((32, 8), "f32"), tile.Spec((8, 4), "f32"))
    with pytest.raises(tile.Error, match="stage"):
        e.emit("nothing")
    assert e.tune(0.05) is e
    np.testing.assert_array_equal(mm.tune(a, a, seconds=0.05)(a, a), a @ a)
    with pytest.raises(tile.ArgumentError):
        e.tune(-1)


def test_infer(mm):
    before = mm.engine.statistics["kernels_compiled"]
    assert mm.infer(tile.Spec((2, 3), "f32"), tile.Spec((3, 5), "f64")) == (tile.Spec((2, 5), "f64"),)
    assert mm.infer(np.ones((2, 3)), np.ones((3, 5), np.float32)) == (tile.Spec((2, 5), "f64"),)
    assert mm.engine.statistics["kernels_compiled"] == before
    with pytest.raises(tile.BindError):
        mm.infer(tile.Spec((2, 3), "f32"), tile.Spec((4, 5), "f32"))


def test_errors():
    with pytest.raises(tile.ParseError) as caught:
        tile.program("function (A[N]) -> (O) {\n  O[i: N] = +(A[i * i]);\n}", name="bad.tile")
    error = caught.value
    assert (error.stage, error.code, error.line, error.column) == ("parse", "linearity", 2, 17)
    assert str(error).startswith("bad.tile:2:17: parse error [linearity]") and "^~~~~" in str(error)
    assert '"line"' in error.json or '"code"' in error.json
    with pytest.raises(tile.BindError) as caught:
        tile.program(MATMUL)(np.ones((2, 3)), np.ones((4, 5)))
    assert caught.value.code == "dimension" and caught.value.line == 1
    with pytest.raises(ValueError, match="unknown language"):
        tile.program("", "cobol")
    with pytest.raises(tile.Error, match="backend"):
        tile.Engine("abacus")
    with pytest.raises(tile.CompileError):
        tile.program("function (A[N]) -> (O) { O[0: N] = =(A[i]); }")(np.ones(3))


def test_log(caplog, tmp_path):
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    with caplog.at_level(logging.INFO, "tilejit"):
        engine = tile.Engine("cpu", cache_dir=str(directory), cache_mode="rw")
        tile.program(MATMUL, engine=engine)(np.ones((2, 2)), np.ones((2, 2)))
    assert any(str(directory) in record.message for record in caplog.records), caplog.records


MISTAKEN = "function (A[N, M], B[K]) -> (O) { S[i: N] = +(A[i, j]); O = A / S * (1 / N); }"


def test_warnings():
    program = tile.program(MISTAKEN)
    assert [w["code"] for w in program.warnings] == ["unread", "truncated"]
    assert program.warnings[1]["severity"] == "warning" and "1.0" in program.warnings[1]["hint"]
    executable = program.compile(tile.Spec((3, 3), "f32"), tile.Spec((2,), "f32"))
    assert {w["code"] for w in executable.warnings} == {"unread", "truncated", "aligned"}
    assert tile.program(MATMUL).warnings == []


def test_values_outside_of_a_parameters_range_are_told_once(caplog):
    gain = tile.program("@param_f32 gain(SLIDER, min=0.0, max=4.0, init=2.0)\n"
                        "def result_f32 |x, y| { input_f32(x, y)*gain }\n", language="mfg")
    picture = np.ones((1, 2), np.float32)
    with caplog.at_level(logging.WARNING, logger="tilejit"):
        np.testing.assert_array_equal(gain(picture, gain=3.0), 3 * picture)
        assert not caplog.messages
        for given, used in ((7.5, 4), (-1.0, 0), (9.0, 4)):
            np.testing.assert_array_equal(gain(picture, gain=given), used * picture)
    (message,) = caplog.messages
    assert "gain is 7.5, outside of its range, 0 to 4: 4 is used" in message
    compiled = gain.compile(picture, gain=8.0)
    compiled(picture, gain=8.0)
    assert [w["code"] for w in compiled.warnings] == ["range"]


def test_warnings_are_seen_where_logging_is_not_set_up():
    text = ("import tilejit\n"
            f"tilejit.program({MISTAKEN!r}).compile(tilejit.Spec((3, 3), 'f32'), tilejit.Spec((2,), 'f32'))\n")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=True)
    assert "[truncated]" in done.stderr and "[aligned]" in done.stderr, done.stderr
    quiet = "import logging\nlogging.getLogger('tilejit').setLevel('ERROR')\n" + text
    done = subprocess.run([sys.executable, "-c", quiet], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""


def test_engines(mm):
    a = np.ones((3, 3))
    reference = tile.Engine("reference")
    assert reference.device.startswith("reference") and "reference" in repr(reference)
    np.testing.assert_array_equal(tile.program(MATMUL, engine=reference)(a, a), mm(a, a))
    assert tile.Engine("cpu", threads=1, deterministic=True, cache_mode="off").backend == "cpu"


def test_einsum():
    rng = np.random.default_rng(0)
    for subscripts, *shapes in (("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("ii->i", (4, 4)),
                                ("ij->", (3, 4)), ("ij->ji", (3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
                                ("i,j->ij", (3,), (4,)), ("aB,Bc->ac", (2, 3), (3, 2)), ("ij,ij,ij->i", *[(3, 4)] * 3)):
        operands = [rng.standard_normal(s) for s in shapes]
        np.testing.assert_allclose(tile.einsum(subscripts, *operands), np.einsum(subscripts, *operands), rtol=1e-12,
                                   err_msg=subscripts)
    out = np.zeros((3, 3))
    assert tile.einsum("ij,jk->ik", np.ones((3, 3)), np.ones((3, 3)), out=out) is out and out[0, 0] == 3
    for bad in ("ij,jk->il", "i...->i", "ij->ii", "i j!"):
        with pytest.raises(ValueError, match="einsum"):
            tile.einsum(bad, np.ones((2, 2)), np.ones((2, 2)))
    with pytest.raises(tile.BindError, match="J is 3 in X0, but dimension 0 of X1 is 4"):
        tile.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((4, 2)))
    with pytest.raises(TypeError, match="is of 2 operands, and 1 are given"):
        tile.einsum("ij,jk->ik", np.ones((2, 3)))
    with pytest.raises(TypeError, match="the first argument is a ndarray: expected text"):
        tile.einsum(np.ones((2, 3)), "ij->ji")


def test_contract():
    a, b = np.random.default_rng(0).standard_normal((2, 5, 5))
    np.testing.assert_allclose(tile.contract("O[i, j: M, N] = +(A[i, k] * B[k, j])", A=a, B=b), a @ b)
    np.testing.assert_allclose(tile.contract("O[i: A.0] = >(A[i, k]);", A=a), a.max(1))
    x, w = np.arange(10.0), np.array([1.0, 2.0, 1.0])
    np.testing.assert_allclose(tile.contract("O[i: X.0 - 2] = +(X[i + k] * W[k])", X=x, W=w),
                               np.convolve(x, w, "valid"))
    with pytest.raises(tile.BindError, match="is 4"):  # the k of both is one size
        tile.contract("O[i, j: M, N] = +(A[i, k] * B[k, j])", A=np.ones((2, 3)), B=np.ones((4, 5)))
    with pytest.raises(ValueError, match="contract"):
        tile.contract("+(A[i])", A=a)
    with pytest.raises(TypeError, match="the statement reads no B; it reads A$"):
        tile.contract("O[i: M] = >(A[i, k])", A=a, B=b)
    with pytest.raises(TypeError, match="expected text"):
        tile.contract(a, A=a)
    with pytest.raises(tile.ParseError):
        tile.contract("O[i: M] = +(A[i, ])", A=a)
