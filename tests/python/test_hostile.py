"""What no caller should do and some will: each call ends in an error of Python's or in the right result, never in a fault,
and leaves nothing behind. What could end the process runs in one of its own."""
import ctypes
import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import tilejit as tile

MATMUL = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"
TWICE = "function (A) -> (O) { O = A * 2; }"
GAIN = """@param_i32 gain(SLIDER, label="Gain", min=1, max=8, init=2)
@bounds(input_f32.extent(0), input_f32.extent(1))
def result |x, y| { input_f32(x, y) * f32(gain) }
"""


@pytest.fixture
def mm():
    return tile.program(MATMUL)


@pytest.fixture
def twice():
    return tile.program(TWICE)


def ones(*shape):
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("make", ["tile.Program.__new__(tile.Program)(1)", "tile.Executable.__new__(tile.Executable)(1)",
                                  "Bare()(1)", "Bare().text"])
def test_objects_without_init(make):
    code = f"""
import gc, tilejit as tile
class Bare(tile.Program):
    def __init__(self): pass
try:
    {make}
except TypeError:
    gc.collect()
    print("refused")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (result.returncode, result.stdout) == (0, "refused\n"), result.stderr


def test_integers_of_more_than_64_bits():
    scale, a = tile.program("function (A[N], S[]) -> (O) { O = A * S; }"), np.arange(3)
    for number in (2**63, -2**63 - 1, 10**400):
        with pytest.raises(ValueError, match="64 bits"):
            scale(a, number)
    assert scale(a, -2**63).tolist() == [0, -2**63, 0]
    gain = tile.program(GAIN, "mfg")
    for number in (2**40, 2**70, [2**70]):
        with pytest.raises(ValueError):
            gain(ones(2, 2), gain=number)
    with pytest.raises(OverflowError):
        tile.program(GAIN.replace("param_i32", "param_f32").replace("f32(gain)", "gain"), "mfg")(ones(2, 2), gain=10**400)


@pytest.mark.parametrize("value", [np.array(1j), np.array(np.longdouble(3))], ids=["complex", "long double"])
def test_parameters_wider_than_any_type(value):
    # A parameter's value is part of what a call is known by; these are wider than the place for it.
    with pytest.raises((tile.Error, TypeError)):
        tile.program(GAIN, "mfg")(ones(2, 2), gain=value)


@pytest.mark.parametrize("stream", ["x", 1.5, 2**70, []])
def test_streams_that_are_none(twice, stream):
    with pytest.raises((TypeError, OverflowError)):
        twice(ones(2), stream=stream)
    assert twice(ones(2), stream=None).tolist() == [2, 2]


def test_masks_are_not_lost(twice):
    with pytest.raises(TypeError, match="mask"):
        twice(np.ma.array([1.0, 2.0], mask=[0, 1]))


def test_elements_that_lie_oddly(twice):
    line = np.arange(64, dtype=np.float32)
    strided = np.lib.stride_tricks.as_strided
    for a in (strided(line, (5, 5), (4, 4)), strided(line, (5, 5), (0, 4)), line.reshape(8, 8)[::-1, ::-2], line[:0],
              np.broadcast_to(np.float32(1), (3, 0, 2)), np.array(3.0), ones(*(2,) * 8), ones(*(1, 2) * 6),
              np.matrix([[1.0, 2.0]]), np.frombuffer(bytes(17), np.uint8)[1:].view(np.float32)):
        np.testing.assert_array_equal(twice(a), 2 * a)
    for a in (line.astype(">f4"), np.zeros(3, [("a", "f4")]), np.array(["x"]), np.array([None]),
              np.array(["2020"], "M8[s]"), np.zeros(2, complex), np.zeros(2, np.longdouble)):
        with pytest.raises((TypeError, tile.Error)):
            twice(a)


def test_results_that_lie_oddly(twice):
    line = np.zeros(64, np.float32)
    strided = np.lib.stride_tricks.as_strided
    for out in (strided(line, (4, 4), (4, 4)), strided(line, (4, 4), (0, 4))):
        with pytest.raises(tile.Error):
            twice(ones(4, 4), out=out)
    backwards = np.zeros((4, 4), np.float32)
    twice(ones(4, 4), out=backwards[::-1, ::-1])
    assert (backwards == 2).all()
    for out in (3, "abc", b"abcd", object(), [], [ones(4, 4), ones(4, 4)]):
        with pytest.raises((TypeError, ValueError)):
            twice(ones(4, 4), out=out)


@pytest.mark.parametrize("shape", [(2**62, 2**62), (-1, 3), (2**64, 1), (None, 2), "ab", (1,) * 100])
def test_shapes_that_nothing_has(mm, shape):
    for method in (mm.infer, mm.compile):
        with pytest.raises((tile.Error, TypeError, ValueError, OverflowError)):
            method(tile.Spec(shape, "f32"), tile.Spec((3, 2), "f32"))


# What `__dlpack__` gives.
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), *Tensor._fields_[:-2]]


MEMORY = (ctypes.c_float * 64)(*range(64))
SHAPE = (ctypes.c_int64 * 64)(4, *[1] * 63)
HELD = []
READ_ONLY = 1


def capsule(name=b"dltensor", shape=SHAPE, **fields):
    versioned = {} if not name.endswith(b"versioned") else {"major": 1, "minor": 1}
    made = (Versioned if versioned else Tensor)(data=ctypes.addressof(MEMORY), device_type=1, ndim=1, code=2, bits=32,
                                                lanes=1, **versioned)
    if shape is not None:
        made.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    for field, value in fields.items():
        setattr(made, field, value)
    HELD.append(made)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(made), name, None)


class Speaks:
    def __init__(self, given):
        self.given = given

    def __dlpack__(self, **_):
        return self.given()

    def __dlpack_device__(self):
        return 1, 0


FORMS = [b"dltensor", b"dltensor_versioned"]


@pytest.mark.parametrize("name", FORMS)
def test_capsules_are_taken_once(twice, name):
    given = capsule(name)
    assert twice(given).tolist() == [0, 2, 4, 6]
    with pytest.raises(TypeError):
        twice(given)


@pytest.mark.parametrize("form, name", [(Tensor, FORMS[0]), (Versioned, FORMS[1])], ids=["plain", "versioned"])
def test_capsules_are_given_back_once(twice, form, name):
    given_back = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(given_back.append)
    giving = Speaks(lambda: capsule(name, deleter=ctypes.cast(deleter, ctypes.c_void_p).value))
    assert twice(giving).tolist() == [0, 2, 4, 6]
    assert given_back == [ctypes.addressof(HELD[-1])] and isinstance(HELD[-1], form)


def test_what_may_only_be_read_is_not_written(twice):
    read_only = Speaks(lambda: capsule(FORMS[1], flags=READ_ONLY))
    assert twice(read_only).tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError, match="read-only"):
        twice(ones(4), out=read_only)


def test_the_second_answer_is_not_asked_for(twice):
    """An object that answers well once, and with nonsense later, is asked once."""
    answers = [capsule(), capsule(shape=None), capsule(shape=None)]
    assert twice(Speaks(lambda: answers.pop(0))).tolist() == [0, 2, 4, 6] and len(answers) == 2


def test_a_refusal_is_not_followed_by_nonsense(twice):
    answers = [None, capsule(shape=None)]
    with pytest.raises(TypeError):
        twice(Speaks(lambda: answers.pop(0)))
    assert len(answers) == 1


NEGATIVE, HUGE = (ctypes.c_int64 * 1)(-4), (ctypes.c_int64 * 1)(2**62)


@pytest.mark.parametrize("fields", [dict(name=b"used_dltensor"), dict(name=b"nonsense"), dict(lanes=4), dict(lanes=0),
                                    dict(bits=7), dict(bits=0), dict(code=99), dict(device_type=2), dict(device_type=99),
                                    dict(data=None), dict(ndim=-1), dict(ndim=65), dict(ndim=2**31 - 1), dict(shape=None),
                                    dict(shape=None, ndim=3), dict(shape=NEGATIVE), dict(shape=HUGE, data=None),
                                    dict(name=FORMS[1], major=2), dict(name=FORMS[1], shape=None)],
                         ids=str)
def test_capsules_of_nonsense(twice, fields):
    for given in (Speaks(lambda: capsule(**fields)), capsule(**fields)):
        with pytest.raises((TypeError, ValueError, tile.Error)):
            twice(given)
        with pytest.raises((TypeError, ValueError, tile.Error)):
            twice(ones(4), out=Speaks(lambda: capsule(**fields)))


@pytest.mark.parametrize("given", [3, None, "dltensor"])
def test_what_is_no_capsule(twice, given):
    with pytest.raises(TypeError):
        twice(Speaks(lambda: given))


def test_callbacks_of_arrays_may_raise_and_call(twice):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, TypeError)):
        twice(Speaks(interrupt))
    assert twice(Speaks(lambda: twice(ones(3)).__dlpack__())).tolist() == [4, 4, 4]


def test_lists_of_results_that_change_meanwhile(mm):
    torch = pytest.importorskip("torch")
    a, outs, stop = torch.ones(200, 200), [torch.zeros(200, 200)], threading.Event()

    def change():
        while not stop.is_set():
            outs.clear()
            outs.append(torch.zeros(200, 200))

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(200):
            try:
                mm(a, a, out=outs)
            except TypeError:  # empty at that moment
                pass
    finally:
        stop.set()
        other.join()


def test_tensors_that_only_look_like_memory(twice):
    torch = pytest.importorskip("torch")
    number = torch.complex(torch.ones(3), torch.arange(3.0)).conj()
    with pytest.raises(ValueError, match="resolve_neg"):  # its elements are stored with the other sign
        twice(number.imag)
    with pytest.raises(ValueError, match="resolve_neg"):
        twice(torch.ones(3), out=number.imag)
    assert twice(number.imag.resolve_neg()).tolist() == (2 * number.imag).tolist()
    assert twice(number.real).tolist() == [2, 2, 2]
    for make in (lambda: torch.ones(3, device="meta"), lambda: torch.eye(3).to_sparse(),
                 lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)):
        with pytest.raises((TypeError, ValueError, RuntimeError, BufferError, NotImplementedError, tile.Error)):
            twice(make())


def test_results_in_tensors_that_gradients_read(twice):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="requires grad"):
        twice(torch.ones(3), out=torch.zeros(3, requires_grad=True))
    x, factor = torch.ones(3, requires_grad=True), torch.ones(3)
    product = x * factor
    twice(torch.ones(3), out=factor)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        assert twice(torch.ones(3), out=torch.zeros(3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("wrong", [lambda: tile.Engine(device_memory=3), lambda: tile.Engine(device_memory=(1,)),
                                   lambda: tile.program(TWICE, engine=3), lambda: tile.program(TWICE).with_outputs(3),
                                   lambda: tile.program(TWICE).infer(tile.Spec((1.5,), "f32"))],
                         ids=["number for functions", "one function", "engine", "name", "extent"])
def test_arguments_of_other_types(wrong):
    with pytest.raises(TypeError):
        wrong()


NUL = "a\0b"


@pytest.mark.parametrize("wrong", [lambda: tile.Engine(cache_dir=NUL), lambda: tile.Engine("cpu\0"), lambda: tile.Engine(features=NUL),
                                   lambda: tile.Engine(cache_mode="off\0"), lambda: tile.Engine(precision=NUL),
                                   lambda: tile.program(TWICE, "tile\0"), lambda: tile.program(TWICE, name=NUL),
                                   lambda: tile.program(TWICE).grad("O\0"), lambda: tile.program(TWICE).grad("O", ["A\0"]),
                                   lambda: tile.program(TWICE).with_outputs("O\0"),
                                   lambda: tile.program(TWICE).emit("bound\0", ones(3))],
                         ids=["folder", "backend", "features", "mode", "precision", "language", "name", "of", "wrt", "output", "stage"])
def test_texts_are_not_cut(wrong):
    with pytest.raises(ValueError, match="NUL character at"):
        wrong()


class Watched(np.ndarray):
    pass


def test_cycles_through_constants_are_collected(mm):
    b = ones(4, 3).view(Watched)
    held = mm.bind(B=b)
    b.program, b.executable = held, held.compile(ones(3, 4))
    held(ones(3, 4))
    seen = weakref.ref(b)
    del b, held
    gc.collect()
    assert seen() is None


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def refused(call):
    try:
        call()
    except (tile.Error, TypeError):
        return
    raise AssertionError("taken")


@pytest.mark.parametrize("kind", ["results", "out", "bound", "numbers", "wrong shapes", "wrong types", "wrong texts"])
def test_a_hundred_thousand_calls_keep_nothing(mm, twice, kind):
    a, b, out = ones(3, 4), ones(4, 3), ones(3, 3)
    held = mm.bind(B=b)
    call, times = {"results": (lambda: mm(a, b), 100000), "out": (lambda: mm(a, b, out=out), 100000),
                   "bound": (lambda: held(a), 100000), "numbers": (lambda: twice(2.5), 100000),
                   "wrong shapes": (lambda: refused(lambda: mm(a, a)), 10000),
                   "wrong types": (lambda: refused(lambda: mm(a, None)), 100000),
                   "wrong texts": (lambda: refused(lambda: tile.program("function (A")), 3000)}[kind]
    for _ in range(times // 10):
        call()
    gc.collect()
    before = resident()
    for _ in range(times):
        call()
    gc.collect()
    assert resident() - before < 2 << 20  # 20 bytes a call
