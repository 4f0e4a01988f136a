"""Time lleaves in a separate environment: read JSON commands, one per line, and write answers.

The argument is a LightGBM model file. The first answer, without a command, is lleaves' version.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import lleaves
import numpy as np


class Worker:
    """The commands are the methods' names."""

    def __init__(self, model_file: str) -> None:
        self.model = lleaves.Model(model_file=model_file)
        self.model.compile()
        self.n_jobs = 1
        self.batches: list[Any] = []

    def threads(self, n: int) -> None:
        self.n_jobs = n

    def inputs(self, path: str, n_batches: int) -> None:
        parts = np.split(np.load(path), n_batches)
        self.batches = [np.ascontiguousarray(part) for part in parts]

    def predict(self, path: str) -> str:
        result = self.model.predict(np.load(path), n_jobs=self.n_jobs)
        out = Path(path).with_name("outputs.npy")
        np.save(out, result)
        return str(out)

    def time(self, start: int, calls: int) -> float:
        inputs = [self.batches[(start + k) % len(self.batches)] for k in range(calls)]
        predict, n_jobs = self.model.predict, self.n_jobs
        begin = perf_counter()
        for X in inputs:
            predict(X, n_jobs=n_jobs)
        return perf_counter() - begin


def main() -> None:
    worker = Worker(sys.argv[1])
    print(json.dumps(version("lleaves")), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, name)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
