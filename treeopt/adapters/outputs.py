"""Choosing a sum of the model and the link from it to the prediction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeopt.adapters.base import Output, refuse
from treeopt.errors import InputError
from treeopt.model.link import IDENTITY, Link
from treeopt.types import Array


class Refusal(NamedTuple):
    """Reason why an output is not available, and what to do instead."""

    why: str
    remedy: str


class SoftmaxOf(NamedTuple):
    """The softmax of all sums, as the link of each class; the arithmetic is as in `Softmax`."""

    arithmetic: str


class Task(NamedTuple):
    """Description of a model's own prediction.

    Attributes
    ----------
    source : str
        Name of the model in messages.
    link : Link, SoftmaxOf or Refusal
        Function from the sum to the prediction, or to the probability if the prediction is a label;
        or the reason why there is none.
    n_sums : int
        Number of sums: outputs, or classes if each has its own.
    n_classes : int
        Number of classes; 0 if the model is not a classifier.
    labels : bool
        Whether ``predict`` returns labels of classes.
    proba : Link, SoftmaxOf or Refusal, optional
        Function from the sum to the probability, if it is not ``link``.
    """

    source: str
    link: Link | SoftmaxOf | Refusal
    n_sums: int = 1
    n_classes: int = 0
    labels: bool = False
    proba: Link | SoftmaxOf | Refusal | None = None


def boosted_task(
    source: str,
    link: Link | SoftmaxOf | Refusal,
    n_sums: int,
    n_classes: int,
    is_classifier: bool,
    raw: str,
    labels: bool = False,
) -> Task:
    """Return what a boosted model predicts; ``raw`` says how the sum itself is asked for."""
    proba = link
    if isinstance(link, Link) and link.name != "logistic":
        proba = Refusal("its prediction is not a probability", raw)
    if is_classifier and n_classes == 0:
        n_classes = n_sums if n_sums > 1 else 2
    labels = labels or is_classifier
    return Task(source, proba if is_classifier else link, n_sums, n_classes, labels, proba)


def choose(task: Task, output: str, class_index: Any) -> Output:
    """Return the sum and the link that a user asks for; see `treeopt.from_model`."""
    if output == "predict" and task.labels:
        remedy = "Pass output='proba' for a probability or output='raw' for the margin."
        if isinstance(task.link, Refusal):
            remedy = task.link.remedy
        raise InputError(
            f"output is 'predict', but {task.source} predicts labels, not numbers. {remedy}"
        )
    if output == "proba" and not task.n_classes:
        raise InputError(
            f"output is 'proba', but {task.source} is not a classifier: it has no probabilities. "
            "Pass output='auto'."
        )
    wanted = task.link if output != "proba" or task.proba is None else task.proba
    if output == "raw":
        wanted = IDENTITY
    elif isinstance(wanted, Refusal):
        refuse(f"{task.source} with output={output!r}", *wanted)
    if isinstance(class_index, tuple | list):
        return _difference(task, output, class_index)
    if isinstance(wanted, SoftmaxOf):
        k = _checked(task.n_sums - 1 if class_index is None else class_index, task)
        return Output(k, softmax=wanted.arithmetic, n_sums=task.n_sums)
    if task.n_classes == 2 and task.n_sums == 1:
        return _one_of_two(task, class_index, wanted)
    if class_index is None and task.n_classes and isinstance(task.link, Link):
        class_index = task.n_sums - 1
    return Output(_checked(class_index, task), None, wanted)


def pick(prediction: Array, class_index: Any, of_two: bool = False) -> Array:
    """Return what `choose` chose from the prediction of the model's own library.

    ``of_two`` says that a vector holds the probability of the second of two classes.
    """
    if isinstance(class_index, tuple | list):
        a, b = class_index
        difference: Array = prediction[:, a] - prediction[:, b]
        return difference
    if prediction.ndim == 1:
        return 1 - prediction if of_two and class_index == 0 else prediction
    return np.ascontiguousarray(prediction[:, -1 if class_index is None else class_index])


def _one_of_two(task: Task, class_index: Any, link: Link) -> Output:
    """Choose one of two classes, whose probabilities come from the same sum."""
    k = _checked(1 if class_index is None else class_index, task._replace(n_sums=2))
    if link == IDENTITY and k == 0:
        raise InputError(
            f"class_index is 0, but the one margin of {task.source} is that of class 1. Leave "
            "class_index out; what minimizes it is best for class 0."
        )
    return Output(0, None, link._replace(complement=k == 0))


def _difference(task: Task, output: str, classes: Any) -> Output:
    """Choose the difference of two classes' margins."""
    boosted = task.n_sums == task.n_classes > 2 and task.link != IDENTITY
    if output != "raw" or not boosted or len(classes) != 2:
        raise InputError(
            f"class_index is {classes!r}: a pair of classes means the difference of their margins, "
            "which boosted models of three or more classes have under output='raw'. Pass one class."
        )
    a, b = (_checked(k, task) for k in classes)
    if a == b:
        raise InputError(f"class_index is {classes!r}: pass two different classes.")
    return Output(a, b)


def _checked(class_index: Any, task: Task) -> int:
    """Return the output to use; with several, the user has to say which."""
    source, n = task.source, task.n_sums
    what = "classes" if task.n_classes else "outputs"
    if class_index is None:
        if n > 1:
            raise InputError(
                f"{source} has {n} {what} and one is needed. Pass class_index=0..{n - 1}."
            )
        return 0
    whole = isinstance(class_index, int | np.integer) and not isinstance(class_index, bool)
    if not whole or not 0 <= class_index < n:
        given = f"class_index is {class_index!r}, but {source} has"
        if n == 1:
            raise InputError(f"{given} one output. Leave class_index out.")
        raise InputError(f"{given} {n} {what}. Pass a number in 0..{n - 1}.")
    return int(class_index)
