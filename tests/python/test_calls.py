"""Calls: whatever speaks DLPack or the buffer protocol goes in, results are of the caller's kind, nothing is copied."""
import array
import gc
import pickle
import re
import weakref

import numpy as np
import pytest

import tilejit as tile

MATMUL = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"
TWICE = "function (A) -> (O) { O = A * 2; }"


@pytest.fixture
def mm():
    return tile.program(MATMUL)


def numbers(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape) + 1).standard_normal(shape).astype(dtype)


def test_numpy(mm):
    a, b = numbers(5, 7), numbers(7, 3)
    result = mm(a, b)
    assert type(result) is np.ndarray and result.dtype == np.float32
    np.testing.assert_allclose(result, a @ b, rtol=1e-5)
    np.testing.assert_array_equal(mm(B=b, A=a), result)
    np.testing.assert_array_equal(mm(a, B=b), result)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
                                   "uint16", "uint32", "uint64"])
def test_element_types(dtype):
    a = np.arange(12, dtype=dtype).reshape(3, 4)
    result = tile.program("function (A) -> (O) { O = A + A; }")(a)
    assert result.dtype == a.dtype
    np.testing.assert_array_equal(result, a + a)


def test_bool():
    a = np.array([True, False])
    result = tile.program("function (A) -> (O) { O = A == 0; }")(a)
    assert result.dtype == np.bool_ and result.tolist() == [False, True]


def test_bf16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.arange(6).astype(ml_dtypes.bfloat16)
    twice = tile.program(TWICE)
    result = twice(a)
    assert result.dtype == a.dtype and result.astype(float).tolist() == [0, 2, 4, 6, 8, 10]
    out = np.zeros(6, ml_dtypes.bfloat16)
    assert twice(a, out=out) is out and out.astype(float).tolist() == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("cast, name", [("as_f8e4m3", "float8_e4m3fn"), ("as_f8e5m2", "float8_e5m2")])
def test_f8(cast, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    numbers = np.array([1, 2.5, -3.3, 1e9, 0.001], np.float32)
    made = tile.program(f"function (A) -> (O) {{ O = {cast}(A); }}")(numbers)
    assert made.dtype == dtype
    np.testing.assert_array_equal(made.astype(np.float32), numbers.astype(dtype).astype(np.float32))
    assert tile.program(TWICE)(made).dtype == np.float32
    torch = pytest.importorskip("torch")
    made = tile.program(f"function (A) -> (O) {{ O = {cast}(A); }}")(torch.from_numpy(numbers[:3]))
    assert made.dtype == getattr(torch, name)
    assert torch.equal(tile.program(TWICE)(made), 2 * torch.from_numpy(numbers[:3]).to(made.dtype).float())


def test_layouts():
    twice = tile.program(TWICE)
    base = numbers(6, 8)
    for a in (base.T, base[::2, 1::3], base[::-1, ::-1], np.broadcast_to(base[0], (5, 8)), base[:0], base[0, 0],
              np.asfortranarray(base), np.float32(3)):
        np.testing.assert_array_equal(twice(a), a * 2)
    frozen = base.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(twice(frozen), frozen * 2)


def test_inputs_are_used_where_they_are():
    # Memory of the process that is not copied shows what is written to it later; a bound constant does not.
    add, a, b = tile.program("function (A[N], B[N]) -> (O) { O = A + B; }"), numbers(4), numbers(4)
    held = add.bind(B=b)
    first = held(a)
    b += 1
    np.testing.assert_array_equal(held(a), first)
    np.testing.assert_array_equal(add(a, b), a + b)


def test_out(mm):
    a, b, out = numbers(4, 4), numbers(4, 4), np.full((4, 4), 7, np.float32)
    assert mm(a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)
    wide = np.zeros((4, 8), np.float32)
    mm(a, b, out=wide[:, ::2])
    np.testing.assert_allclose(wide[:, ::2], a @ b, rtol=1e-5)
    assert not wide[:, 1::2].any()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        mm(a, b, out=out)
    with pytest.raises(tile.Error, match="overlap"):
        mm(a, b, out=a)
    with pytest.raises(tile.Error):
        mm(a, b, out=np.zeros((3, 4), np.float32))


def test_several_outputs():
    both = tile.program("function (A[N]) -> (S, P) { S[] = +(A[n]); P = A * 3; }")
    s, p = both(np.arange(4, dtype=np.float32))
    assert s.shape == () and s == 6
    np.testing.assert_array_equal(p, [0, 3, 6, 9])
    outs = (np.zeros((), np.float32), np.zeros(4, np.float32))
    assert both(np.arange(4, dtype=np.float32), out=outs) is outs
    np.testing.assert_array_equal(outs[1], p)
    with pytest.raises(TypeError, match="2 outputs"):
        both(np.arange(4, dtype=np.float32), out=outs[0])


def test_buffers():
    twice = tile.program(TWICE)
    for a in (array.array("f", [1, 2]), memoryview(np.array([1, 2], np.float32)), bytearray(b"\1\2"), b"\1\2"):
        assert twice(a).tolist() == [2, 4]
    out = array.array("f", [0, 0])
    twice(array.array("f", [1, 2]), out=out)
    assert list(out) == [2, 4]


def test_numbers():
    scale = tile.program("function (A[N], S[]) -> (O) { O = A * S; }")
    a = np.arange(3, dtype=np.float32)
    assert scale(a, 2.5).dtype == np.float32  # a float is f32, as its neighbours most often are
    assert scale(a, 2).tolist() == [0, 2, 4]
    assert scale(np.arange(3), 2).dtype == np.int64
    assert scale(np.arange(3), 2**40).tolist() == [0, 2**40, 2**41]
    with pytest.raises(TypeError, match=r"input S \(1\) is a str"):
        scale(a, "2")


def test_arguments(mm):
    a, b = numbers(2, 2), numbers(2, 2)
    for call, what in ((lambda: mm(a), "input B (1) is missing: the program takes 2: A, B"),
                       (lambda: mm(a, b, a), "3 inputs given, but the program takes 2: A, B"),
                       (lambda: mm(a, b, C=a), "no input C; it takes 2: A, B"), (lambda: mm(a, b, B=b), "input B (1) is given twice"),
                       (lambda: mm(a, object()), "input B (1) is a object"), (lambda: mm(a, None), "NoneType"),
                       (lambda: mm(a, np.array([["x"]])), "gives its elements neither")):
        with pytest.raises(TypeError, match=re.escape(what)) as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(tile.Error, match="not supported"):
        mm(a, b.astype(complex))


def test_executables_say_what_they_were_compiled_for(mm):
    a, b = numbers(2, 3), numbers(3, 4)
    executable = mm.compile(a, b)
    for call, what in ((lambda: executable(numbers(2, 5), b), "input A (0) is f32[2, 5], expected f32[2, 3]: L=3 from input B (1)"),
                       (lambda: executable(a, b.astype(np.float64)), "input B (1) is f64[3, 4], expected f32[3, 4]"),
                       (lambda: mm(a, b, out=np.zeros((4, 2), np.float32)),
                        "output O (0) is f32[4, 2], expected f32[2, 4], which follows from the inputs")):
        with pytest.raises(tile.Error, match=re.escape(what)) as caught:
            call()
        assert "hint: " in str(caught.value)


@pytest.mark.parametrize("options, what", [
    (dict(backend=3), "backend is a int: expected text"), (dict(threads="two"), "threads is the text 'two': expected a whole number"),
    (dict(threads=1.5), "threads is a float: expected a whole number"), (dict(cache_dir=5), "cache_dir is a int: expected text"),
    (dict(deterministic="yes"), "deterministic is the text 'yes': expected True or False"),
    (dict(memory_limit=[]), "memory_limit is a list: expected a whole number"),
    (dict(thread=2), "Engine() got an unexpected keyword argument 'thread'")])
def test_engines_refuse_other_types_in_one_line(options, what):
    with pytest.raises(TypeError, match=re.escape(what)) as caught:
        tile.Engine(**options)
    assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match=r"Engine\(\) takes"):
        tile.Engine("cpu", 2)
    with pytest.raises(ValueError, match="memory_limit is -1"):
        tile.Engine(memory_limit=-1)


def test_bind(mm):
    a, b = numbers(3, 4), numbers(4, 5)
    held = mm.bind(B=b)
    assert held.inputs == ("A",) and mm.inputs == ("A", "B") and list(held.constants) == ["B"]
    np.testing.assert_allclose(held(a), a @ b, rtol=1e-5)
    np.testing.assert_allclose(held(a[:2]), a[:2] @ b, rtol=1e-5)
    np.testing.assert_allclose(held(np.asfortranarray(a)), a @ b, rtol=1e-5)
    out = np.zeros((3, 5), np.float32)
    held(a, out=out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)
    with pytest.raises(TypeError, match="no input C"):
        mm.bind(C=b)
    with pytest.raises(TypeError, match="is bound"):
        held(a, B=b)
    gradient = held.grad("O", ["A"])
    assert gradient.inputs == ("A", "DO")
    np.testing.assert_allclose(gradient(a, np.ones((3, 5), np.float32))[1], np.ones((3, 5)) @ b.T, rtol=1e-5)


def test_parameters_of_filters():
    # The size sets the extent of a tensor: another value is another result, also through the memory of layouts.
    text = """@param_i32 size(SLIDER, label="Size", min=1, max=9, init=3)
let [W, H] = input_u8.extent()
@bounds(W / size, H / size)
def small |x, y| { input_u8(x*size, y*size) }
def result_u8 |x, y| { small(x/size, y/size) }
"""
    mosaic = tile.program(text, "mfg")
    photo = np.random.default_rng(1).integers(0, 255, (12, 12, 4), np.uint8)
    assert mosaic.inputs == ("input_u8", "size")
    for size in (3, 2, 4, 3):
        np.testing.assert_array_equal(mosaic(photo, size=size), photo[::size, ::size].repeat(size, 0).repeat(size, 1))
    np.testing.assert_array_equal(mosaic(photo), mosaic(photo, 3))
    small = mosaic.with_outputs("small")
    assert [small(photo, size=s).shape for s in (2, 3, 2)] == [(6, 6, 4), (4, 4, 4), (6, 6, 4)]
    with pytest.raises(TypeError, match="a float is given"):
        mosaic(photo, size=2.5)


def test_lift():
    sum3 = tile.program("""val sum3 = fun(ArrayType(Float, N), input =>
  Map(Reduce(add, 0.0f)) o Slide(3, 1) o Pad(1, 1, Clamp) $ input)""", "lift")
    assert sum3(np.arange(4, dtype=np.float32)).ravel().tolist() == [1, 3, 6, 8]


def test_other_frameworks(mm):
    a, b = numbers(4, 4), numbers(4, 4)
    torch = pytest.importorskip("torch")
    result = mm(torch.from_numpy(a), torch.from_numpy(b))
    assert type(result) is torch.Tensor
    np.testing.assert_allclose(result.numpy(), a @ b, rtol=1e-5)
    out = torch.empty(4, 4)
    assert mm(torch.from_numpy(a).T, torch.from_numpy(b), out=out) is out
    np.testing.assert_allclose(out.numpy(), a.T @ b, rtol=1e-5)
    bf16 = tile.program(TWICE)(torch.ones(3, dtype=torch.bfloat16))
    assert bf16.dtype == torch.bfloat16 and bf16.tolist() == [2, 2, 2]
    # The first array decides.
    assert type(mm(a, torch.from_numpy(b))) is np.ndarray
    wanted = torch.ones(4, 4, requires_grad=True)
    with pytest.raises(ValueError, match="requires grad"):
        mm(wanted, wanted)
    with torch.no_grad():
        assert mm(wanted, wanted)[0, 0] == 4


def test_jax(mm):
    jax = pytest.importorskip("jax")
    a, b = numbers(4, 4), numbers(4, 4)
    result = mm(jax.numpy.asarray(a), jax.numpy.asarray(b))
    assert isinstance(result, jax.Array)
    np.testing.assert_allclose(result, a @ b, rtol=1e-5)
    doubled = tile.program(TWICE)(jax.numpy.ones(3, jax.numpy.bfloat16))
    assert doubled.dtype == jax.numpy.bfloat16 and doubled.tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match="nothing may write"):
        mm(a, b, out=result)
    with pytest.raises(ValueError, match="tilejit.jax.op"):
        jax.jit(lambda x: mm(x, x))(jax.numpy.asarray(a))


def test_nothing_is_kept(mm):
    class Watched(np.ndarray):
        pass

    a = numbers(3, 3).view(Watched)
    seen = weakref.ref(a)
    mm(a, a)
    mm(a, a, out=np.zeros((3, 3), np.float32))
    with pytest.raises(tile.Error):
        mm(a, numbers(4, 3))
    del a
    gc.collect()
    assert seen() is None


def test_pickle(mm):
    a, b = numbers(3, 3), numbers(3, 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mm))(a, b), mm(a, b))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mm.bind(B=b)))(a), mm(a, b))
