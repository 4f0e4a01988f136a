"""Reading UBJSON, the binary form in which XGBoost saves its models.

Only what XGBoost writes is read, and nothing is believed: every length is compared with what is
left of the data before anything of that size is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeopt.errors import ModelFormatError

INTEGERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8"}
NUMBERS = {**INTEGERS, b"d": ">f4", b"D": ">f8"}
CONSTANTS = {b"Z": None, b"T": True, b"F": False}

MAX_DEPTH = 64
"""Maximum depth of nesting."""


def loads(data: bytes) -> Any:
    """Return the value that UBJSON data hold."""
    reader = _Reader(data)
    value = reader.value(reader.take(1), 0)
    if reader.at != len(data):
        raise ModelFormatError(f"{len(data) - reader.at} bytes follow the end of the model.")
    return value


class _Reader:
    """The data, and a position that moves on as values are read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        """Return the next ``n`` bytes."""
        if not 0 <= n <= len(self.data) - self.at:
            raise ModelFormatError(f"the data end after {len(self.data)} bytes, in a value.")
        self.at += n
        return self.data[self.at - n : self.at]

    def length(self) -> int:
        """Return a length: a marked integer that is not negative."""
        marker = self.take(1)
        if marker not in INTEGERS:
            raise ModelFormatError(f"byte {self.at - 1} is {marker!r}, no integer.")
        n = int(self._number(marker))
        if n < 0:
            raise ModelFormatError(f"a length before byte {self.at} is {n}.")
        return n

    def value(self, marker: bytes, depth: int) -> Any:
        """Return the value that a marker announces."""
        if depth > MAX_DEPTH:
            raise ModelFormatError(f"values are nested more than {MAX_DEPTH} deep.")
        if marker in NUMBERS:
            return self._number(marker)
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"S":
            return self._text()
        if marker == b"{":
            return self._object(depth)
        if marker == b"[":
            return self._array(depth)
        raise ModelFormatError(f"byte {self.at - 1} is {marker!r}, which announces no value.")

    def _number(self, marker: bytes) -> Any:
        dtype = np.dtype(NUMBERS[marker])
        return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()

    def _text(self) -> str:
        return self.take(self.length()).decode("utf-8", "replace")

    def _object(self, depth: int) -> dict[str, Any]:
        result = {}
        while self.data[self.at : self.at + 1] != b"}":
            key = self._text()
            result[key] = self.value(self.take(1), depth + 1)
        self.take(1)
        return result

    def _array(self, depth: int) -> Any:
        kind = self.data[self.at : self.at + 1]
        if kind == b"$":
            self.take(1)
            marker = self.take(1)
            if marker not in NUMBERS or self.take(1) != b"#":
                raise ModelFormatError(f"the array before byte {self.at} is not one of numbers.")
            dtype = np.dtype(NUMBERS[marker])
            return np.frombuffer(self.take(self.length() * dtype.itemsize), dtype).tolist()
        if kind == b"#":
            self.take(1)
            # Each item takes at least a byte, so `take` fails before a false length does harm.
            return [self.value(self.take(1), depth + 1) for _ in range(self.length())]
        items = []
        while self.data[self.at : self.at + 1] != b"]":
            items.append(self.value(self.take(1), depth + 1))
        self.take(1)
        return items
