"""Signatures that several functions share: shown, checked, with a remedy in every error."""

from __future__ import annotations

import inspect

import pytest

import treeopt
from treeopt.arguments import method_takes_arguments_of, takes_arguments_of


def original(stripped, first, *, weight=1.0, **options):
    """Its first argument is left out."""


def read_options(*, method="auto", limit=None):
    """Its parameters replace ``**options``."""


@takes_arguments_of(original, read_options)
def function(*args, **kwargs):
    """Return the arguments."""
    return args, kwargs


class Class:
    @method_takes_arguments_of(original, read_options)
    def __init__(self, *args, **kwargs):
        self.given = args, kwargs

    @method_takes_arguments_of(original, read_options)
    def ask(self, *args, **kwargs):
        """Return the arguments."""
        return args, kwargs


ALL = [function, Class, Class(0).ask]
NAMES = ["function()", "Class()", "Class.ask()"]


@pytest.mark.parametrize("shared", ALL, ids=NAMES)
def test_the_signature_is_shown(shared):
    parameters = inspect.signature(shared).parameters
    assert list(parameters) == ["first", "weight", "method", "limit"]
    assert parameters["weight"].default == 1.0 and parameters["method"].default == "auto"
    assert parameters["limit"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("shared", ALL, ids=NAMES)
def test_what_fits_is_passed_on(shared):
    for args, kwargs in [((3,), {}), ((), {"first": 3}), ((3,), {"weight": 2, "method": "x"})]:
        result = shared(*args, **kwargs)
        assert getattr(result, "given", result) == (args, kwargs)


@pytest.mark.parametrize(("shared", "name"), list(zip(ALL, NAMES, strict=True)), ids=NAMES)
@pytest.mark.parametrize(
    ("args", "kwargs", "parts"),
    [
        ((), {}, ["missing a required argument: 'first'"]),
        ((1, 2), {}, ["too many positional arguments", "Pass all arguments after first by name"]),
        ((1,), {"first": 1}, ["multiple values for argument 'first'"]),
        ((1,), {"wieght": 1}, ["'wieght'", "Did you mean 'weight'?", "first, weight, method"]),
        ((1,), {"stripped": 1}, ["unexpected keyword argument 'stripped'", "The arguments are"]),
        ((1,), {"options": {}}, ["unexpected keyword argument 'options'"]),
    ],
)
def test_what_does_not_fit_is_refused_with_a_remedy(shared, name, args, kwargs, parts):
    with pytest.raises(TypeError) as error:
        shared(*args, **kwargs)
    text = str(error.value).replace("Class.Class", "Class")
    assert name in text and all(part in text for part in parts)
    assert "self" not in text and ".." not in text


def test_users_see_the_names_of_public_functions():
    with pytest.raises(TypeError, match=r"minimize\(\) got an unexpected .*'fixd'.*'fixed'"):
        treeopt.minimize(None, None, fixd={})
    with pytest.raises(TypeError, match=r"Problem\(\) missing a required argument: 'bounds'"):
        treeopt.Problem(None)
