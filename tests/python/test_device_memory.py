"""Memory of a GPU from functions of Python's, on the tests' emulated GPU (TILE_TEST_CUDA and TILE_TEST_NVRTC name it)."""
import ctypes
import os

import numpy as np
import pytest

if "TILE_TEST_CUDA" not in os.environ:
    pytest.skip("no emulated GPU in this build", allow_module_level=True)
os.environ["TILE_CUDA_DRIVER"] = os.environ["TILE_TEST_CUDA"]
os.environ["TILE_NVRTC"] = os.environ["TILE_TEST_NVRTC"]

import tilejit as tile  # noqa: E402

# Two kernels with a temporary between them.
COLUMNS = "function (A[M, N]) -> (T) { S[j: N] = +(A[i, j]); T[i: M] = +(A[i, j] * S[j]); }"
libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


class Memory:
    def __init__(self):
        self.taken, self.held = [], set()

    def take(self, size, stream):
        assert size > 0 and stream != 0
        address = libc.aligned_alloc(256, (size + 255) // 256 * 256)
        self.taken.append(size)
        self.held.add(address)
        return address

    def give(self, address):
        self.held.remove(address)
        libc.free(address)


def test_all_memory_is_the_caller_s():
    memory = Memory()
    program = tile.program(COLUMNS, engine=tile.Engine("cuda", device_memory=(memory.take, memory.give)))
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for turn in range(4):
        np.testing.assert_array_equal(program(a + turn), ((a + turn) * (a + turn).sum(0)).sum(1))
    assert {a.nbytes, 12} <= set(memory.taken)  # the input, the result; and what lies between
    assert len(memory.taken) > 2 * 4
    bound = program.bind(A=a)
    np.testing.assert_array_equal(bound(), (a * a.sum(0)).sum(1))
    del program, bound
    assert not memory.held


def test_none_left_is_an_error():
    def take(size, stream):
        raise MemoryError("none left")

    program = tile.program(COLUMNS, engine=tile.Engine("cuda", device_memory=(take, lambda address: None)))
    with pytest.raises(tile.Error, match="memory"):
        program(np.ones((3, 4), np.float32))
