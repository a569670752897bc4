"""The programs `tile` and `tile-bench` of the wheel: they are functions of its libtile, so that LLVM is there once."""
import ctypes
import glob
import os
import signal
import sys


def _library():
    """The shared library beside the package's module."""
    found = sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtile.so*")))
    return ctypes.CDLL(found[0]) if found else None


def _run(name, symbol):
    library = _library()
    if library is None or not hasattr(library, symbol):
        print(f"{name}: this build of tilejit has no programs; wheels of `build.sh --static` have them", file=sys.stderr)
        return 2
    arguments = [os.fsencode(argument) for argument in [name, *sys.argv[1:]]]
    values = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    # Ctrl-C ends the program as it ends any other: Python's handler would wait for the call to return.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return getattr(library, symbol)(len(arguments), values)


def tile():
    """Runs `tile` with this process's arguments; returns its exit status."""
    return _run("tile", "private_tile_main")


def tile_bench():
    """Runs `tile-bench` with this process's arguments; returns its exit status."""
    return _run("tile-bench", "private_tile_bench_main")
