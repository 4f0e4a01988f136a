"""How kernels are compiled, and the three operations that NumPy lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from llvmlite import ir
from numba import njit, types
from numba.core import event
from numba.core.options import DefaultOptions
from numba.extending import intrinsic

__all__ = ["count_ones", "inlined", "is_set", "kernel", "lean", "trailing_zeros"]


P = ParamSpec("P")
R = TypeVar("R")


class _Notice(event.Listener):
    """Tells the user that the first call has to wait for the compiler.

    Once per process for the evaluation of models and their decisions, and once each for what takes
    longer and is not always needed.
    """

    kept = "once for each kind of model; the result is kept on disk"

    def __init__(self) -> None:
        self.said: set[str] = set()

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__ or ""
        what = "kernels"
        if module.startswith("treeopt.stepdirect."):
            what = "the search, which may take a minute"
        elif module.startswith("treeopt.exact.dual"):
            what = "the proof for hard problems"
        if module.startswith("treeopt.") and what not in self.said:
            self.said.add(what)
            print(f"treeopt: compiling {what} ({self.kept})", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Notice())  # type: ignore[no-untyped-call]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on first use, keep the result on disk, release the GIL while it runs.

    Never with ``fastmath``: sums must be added in the order that the model's library uses.
    """
    return _cached(function)


def lean(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that creates no arrays, without counting references to those it gets.

    By default, every call of a kernel counts references to each array of its arguments, which costs
    more than a small function does. The caller holds the arrays as long as the kernel runs.
    """
    return _cached(function, counted=False)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small function into every kernel that calls it.

    Left alone, the compiler passes arrays by their dozens of fields, which costs more than such a
    function does.
    """
    return _cached(function, inline="always")


def _cached(function: Callable[P, R], counted: bool = True, **options: Any) -> Callable[P, R]:
    """Compile with a cache on disk that is stale as soon as any kernel's source has changed.

    By itself numba looks only at the file of the function, not at those of the functions that are
    compiled into it. Where numba finds no folder to write to, nothing is kept.
    """
    # Not public: where numba has it no more, references are counted everywhere. Kernels that say
    # nothing take after their caller.
    if hasattr(DefaultOptions, "_nrt"):
        options["_nrt"] = counted
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}
    try:
        compiled: Any = njit(cache=True, **options)(function)
    except RuntimeError:
        _Notice.kept = "no writable folder to keep the result: set NUMBA_CACHE_DIR to one"
        compiled = njit(**options)(function)
    else:
        # Not public: where numba has it no more, its own rule holds, and a test says so.
        file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
        if file is not None:
            stamp = _stamp(_room(Path(function.__code__.co_filename)))
            file._source_stamp = stamp
            # Compared before the rest is read: an older index may name modules that are gone.
            file._version = f"{file._version} {stamp}"
    result: Callable[P, R] = compiled
    return result


def _room(file: Path) -> Path:
    """Return the folder of the package, right below its root, that a file lies in."""
    package = Path(__file__).parents[1]
    inside = package in file.parents[1:]
    return package / file.relative_to(package).parts[0] if inside else file.parent


@cache
def _stamp(folder: Path) -> tuple[int, int]:
    """Return the time of the last change, and the size, of a folder's sources and the kernels'."""
    folders = {folder, Path(__file__).parent}
    files = [path.stat() for each in folders for path in each.rglob("*.py")]
    return max(f.st_mtime_ns for f in files), sum(f.st_size for f in files)


@intrinsic
def _trailing_zeros(typingctx, bits):  # type: ignore[no-untyped-def]
    """Return the number of zero bits below the lowest set bit; ``bits`` must not be zero."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return bits(bits), codegen


@intrinsic
def _count_ones(typingctx, bits):  # type: ignore[no-untyped-def]
    """Return the number of set bits."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.ctpop(args[0])

    return bits(bits), codegen


@intrinsic
def _is_set(typingctx, flag):  # type: ignore[no-untyped-def]
    """Tell whether the first number of an int64 array is not 0; read anew at every call.

    Another thread may write it: the compiler must not move the read out of a loop.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        array = context.make_array(signature.args[0])(context, builder, args[0])
        number = builder.load_atomic(array.data, "monotonic", 8)
        return builder.icmp_signed("!=", number, ir.Constant(number.type, 0))

    return types.boolean(flag), codegen


# Called from kernels, where numba supplies the typing context.
trailing_zeros: Any = _trailing_zeros
count_ones: Any = _count_ones
is_set: Any = _is_set
