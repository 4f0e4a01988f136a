"""Spaces beyond the real box: what is accepted, and the three forms of a point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds
from scipy.stats import uniform
from sklearn.tree import DecisionTreeRegressor

from tests.support.messages import says
from treeopt import InputError
from treeopt.problem.dimensions import (
    Choice,
    Dimensions,
    Integer,
    Real,
    as_text,
    from_text,
    read_dimension,
    read_dimensions,
    real_dimensions,
)

finite = st.floats(-1e6, 1e6)
positive = st.floats(1e-6, 1e6)
names = st.text(max_size=3)
values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), names)


@st.composite
def dimensions(draw, largest: int = 10**6):
    """Draw a dimension; a discrete one has at most about so many values."""
    kind = draw(st.sampled_from(["line", "log", "step", "integer", "whole log", "choice"]))
    if kind == "line":
        return Real(*sorted(draw(st.tuples(finite, finite))))
    if kind == "log":
        return Real(*sorted(draw(st.tuples(positive, positive))), log=True)
    if kind == "choice":
        options = draw(st.lists(values, min_size=1, max_size=min(largest, 6)))
        return Choice(list({(type(o), repr(o)): o for o in options if o != 0}.values()) or [0])
    width, step = draw(st.integers(0, largest - 1)), draw(st.integers(1, 5))
    if kind == "whole log":
        low = draw(st.integers(1, 1000))
        return Integer(low, low + width, log=True)
    low = draw(st.integers(-1000, 1000))
    if kind == "integer":
        return Integer(low, low + width * step, step=step)
    low, step = low / 8, step / draw(st.sampled_from([8, 10, 3]))
    return Real(low, low + (width + draw(st.sampled_from([0, 0.25, 0.9]))) * step, step=step)


places = st.lists(st.floats(0, 1), min_size=1, max_size=20).map(np.array)

# The three forms of a point.


@given(dimensions(), places)
def test_places_codes_and_values_belong_together(d, u):
    codes = d.codes(u) + 0.0
    for code in codes:
        value = d.value(code)
        assert np.float64(d.code(value)).tobytes() == code.tobytes()
        if not isinstance(d, Choice):
            assert d.low <= value <= d.high
            assert type(value) is (int if isinstance(d, Integer) else float)
    if d.n != 1:
        again = d.positions(codes)
        assert ((again >= 0) & (again <= 1)).all()
        if d.n is None:
            np.testing.assert_allclose(d.codes(again), codes, rtol=1e-12, atol=1e-9)
        else:
            assert (d.codes(again) == codes).all()


@given(dimensions(largest=50))
def test_a_discrete_dimension_has_n_values(d):
    if d.n is None:
        return
    codes = d.nth(np.arange(d.n))
    assert len(np.unique(codes)) == d.n
    assert [d.nth(k) for k in range(d.n)] == codes.tolist()
    assert [d.code(d.value(code)) for code in codes] == codes.tolist()
    reached = set(d.codes(np.linspace(0, 1, 2001)))
    assert reached <= set(codes)
    assert reached == set(codes) or getattr(d, "log", False)


@given(st.lists(dimensions(), min_size=1, max_size=6), st.integers(0, 9))
def test_a_space_is_its_dimensions(found, seed):
    space = Dimensions(found, [f"x{k}" for k in range(len(found))])
    U = np.random.default_rng(seed).random((7, space.free.size))
    codes = space.codes(U)
    for column, k in enumerate(space.free):
        assert codes[:, k].tobytes() == (found[k].codes(U[:, column]) + 0.0).tobytes()
    assert space.codes_of(space.points(codes)).tobytes() == codes.tobytes()
    assert not np.signbit(codes[codes == 0]).any()


@given(st.lists(dimensions().filter(lambda d: d.kind != "choice"), min_size=1), st.integers(0, 9))
def test_values_are_a_matrix_of_numbers(found, seed):
    """For decisions: without names, and a choice of numbers is the number, NaN too."""
    space = Dimensions([*found, Choice([3.5, -1, 7]), Choice([math.nan])])
    codes = space.codes(np.random.default_rng(seed).random((7, space.free.size)))
    before, values = codes.copy(), space.values(codes)
    for row, point in zip(codes, values, strict=True):
        own = [d.value(code) for d, code in zip(space.all, row, strict=True)]
        assert np.array_equal(own, point, equal_nan=True)
    assert np.array_equal(codes, before) and np.isnan(values[:, -1]).all()


def test_a_real_box():
    lower, upper = np.array([0.0, 2.0, -1.0]), np.array([1.0, 2.0, 5.0])
    space = real_dimensions(lower, upper)
    assert space.names is None and space.free.tolist() == [0, 2]
    free, low, high = space.box
    assert free.tolist() == [0, 2] and (low == lower).all() and (high == upper).all()
    assert read_dimensions(space) is space
    for other in (Real(1, 2, log=True), Real(0, 1, step=0.1), Integer(0, 3), Choice([1, 2])):
        assert Dimensions([Real(0, 1), other]).box is None


@given(st.lists(dimensions(largest=4), min_size=1, max_size=4))
def test_a_discrete_space_is_numbered(found):
    space = Dimensions(found, [f"x{k}" for k in range(len(found))])
    if space.size is None:
        assert None in [d.n for d in found]
        return
    codes = space.nth(np.arange(space.size))
    assert len(np.unique(codes, axis=0)) == space.size == math.prod(d.n for d in found)
    assert space.codes_of(space.points(codes)).tobytes() == codes.tobytes()


def test_scales():
    u = np.array([0, 0.25, 0.5, 1])
    assert Real(-1, 3).codes(u).tolist() == [-1, 0, 1, 3]
    np.testing.assert_allclose(Real(1e-4, 1, log=True).codes(u), [1e-4, 1e-3, 1e-2, 1])
    assert Real(0, 1, step=0.25).codes(u).tolist() == [0, 0.25, 0.5, 1]
    assert Integer(0, 3).codes(u).tolist() == [0, 1, 2, 3]
    assert Integer(1, 1000, log=True).codes(u).tolist() == [1, 3, 22, 1000]
    assert Choice(["a", "b", "c", "d"]).codes(u).tolist() == [0, 1, 2, 3]


def test_a_step_ends_where_it_ends():
    assert Real(0, 0.3, step=0.1).n == 4
    d = Real(0, 0.9, step=0.5)
    assert d.n == 2 and d.codes(np.ones(1)) == 0.5
    with pytest.raises(ValueError, match="not a multiple of the step"):
        d.code(0.9)
    assert Real(0, 0.3, step=0.1).code(0.1 + 0.2) == 0.3  # a rounding error away
    assert Real(0, 1, step=5).n == 1


def test_huge_whole_numbers_are_exact():
    for d in (Integer(0, 2**53), Integer(-(2**53), 0, step=3), Integer(1, 2**53, log=True)):
        for u in np.linspace(0, 1, 101):
            code = d.codes(np.array([u]))[0]
            assert d.code(d.value(code)) == code
    with pytest.raises(ValueError, match="outside"):
        Integer(0, 2**53).code(2**53 + 1)


def test_negative_zero_is_zero():
    space = read_dimensions({"x": (-0.0, 1.0), "y": (-1.0, -0.0), "z": (-0.0, -0.0)})
    codes = [*space.codes(np.array([[0.0, 1.0]])), *space.codes_of({"x": -0.0, "y": 0.0, "z": 0})]
    assert codes[0].tobytes() == codes[1].tobytes() == bytes(24)


class Odd:
    """Something whose ``repr`` names its place in memory, and that no one can compare."""

    def __eq__(self, other):
        raise TypeError

    __hash__ = None


def test_choices_of_any_kind():
    tree, array, odd = DecisionTreeRegressor(), np.arange(3), Odd()
    options = [None, True, 1, 1.0, "1", math.nan, [1], (1,), {"a": 1}, tree, array, odd, Odd(), len]
    d = Choice(options)
    assert [d.code(option) for option in options] == list(range(len(options)))
    assert d.code([1]) == 6 and d.code(np.arange(3)) == 10 and d.code(np.nan) == 5
    assert d.code(np.float64(1)) == 1  # the first that is equal
    for value in (False, 2, "", [1.5], Odd(), np.arange(4), DecisionTreeRegressor()):
        with pytest.raises(ValueError, match="none of the choices"):
            d.code(value)
    assert d.value(np.float64(9)) is tree


# What may be written.


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ((0, 1), Integer(0, 1)),
        ((np.int64(2), np.int8(9)), Integer(2, 9)),
        ((0, 1.0), Real(0, 1)),
        ((np.float32(0.5), np.float64(2)), Real(0.5, 2)),
        ((1, 100, "log"), Integer(1, 100, log=True)),
        ((0.1, 100, "log"), Real(0.1, 100, log=True)),
        (range(2, 9, 3), Integer(2, 8, step=3)),
        (range(5, 0, -2), Integer(1, 5, step=2)),
        (range(4, 5), Integer(4, 4)),
        ([0, 1], Choice([0, 1])),
        ([False, True], Choice([False, True])),
        (np.array([0.5, 2]), Choice([0.5, 2.0])),
        (Real(0, 1, step=0.5), Real(0, 1, step=0.5)),
    ],
    ids=str,
)
def test_what_a_dimension_may_be(spec, expected):
    assert repr(read_dimension(spec, "x")) == repr(expected)


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ((0, 1.0, "log"), ["low is 0.0", "no logarithm", "above 0"]),
        ((0, 10, "log"), ["low is 0", "no logarithm", "above 0"]),
        ((-1.0, 1.0, "log"), ["low is -1.0", "no logarithm"]),
        ((2, 1), ["low is 2 and high is 1", "Swap"]),
        ((0.0, math.inf), ["high is inf", "finite"]),
        ((math.nan, 1.0), ["low is nan", "finite"]),
        ((0.0, 10**400), ["high is 1000", "finite"]),
        ((-1e308, 1e308), ["low..high is -1e+308..1e+308", "Narrow"]),
        ((0, 2**53 + 1), ["high is 9007199254740993", "2**53"]),
        ((-(2**53), 2**53), ["too wide", "Narrow"]),
        ((0,), ["pass (low, high)"]),
        ((0, 1, "linear"), ["pass (low, high)"]),
        ((0, 1, 2, 3), ["pass (low, high)"]),
        ((False, True), ["a list of choices"]),
        (("a", "b"), ["a list of choices"]),
        ((None, 1), ["pass (low, high)"]),
        ([], ["options is empty", "at least one"]),
        (np.array([]), ["options is empty"]),
        (["a", "b", "a"], ["'a' is listed twice", "Drop"]),
        ([math.nan, math.nan], ["nan is listed twice"]),
        ([np.arange(2), np.arange(2)], ["listed twice"]),
        (range(3, 3), ["empty", "Widen"]),
        ("abc", ["'abc'", "pass (low, high)"]),
        (3, ["3: pass (low, high)"]),
        (None, ["None", "pass (low, high)"]),
        ({"a"}, ["a list of choices"]),
        (uniform(), ["distributions are not searched", "pass (low, high)"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_wrong_dimensions(spec, parts):
    with pytest.raises(InputError, match=says("space['x'] is ", *parts)):
        read_dimensions({"y": (0, 1), "x": spec})


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: Real(0, 1, step=0), ["step is 0.0", "above 0"]),
        (lambda: Real(0, 1, step="a"), ["step is 'a'", "finite"]),
        (lambda: Real(1, 2, log=True, step=0.1), ["log is True and step", "one of the two"]),
        (lambda: Real(1e16, 2e16, step=1.0), ["step is 1.0, too small", "larger"]),
        (lambda: Real(0, 1e308, step=1e-10), ["step is 1e-10, too small", "larger"]),
        (lambda: Integer(0, 1.5), ["high is 1.5", "integer"]),
        (lambda: Integer(0, True), ["high is True", "integer"]),
        (lambda: Integer(0, 5, step=0), ["step is 0", "above 0"]),
        (lambda: Integer(1, 5, log=True, step=2), ["log is True and step is 2", "one of the two"]),
        (lambda: Choice("abc"), ["options is 'abc'", "list"]),
        (lambda: Choice({"a", "b"}), ["options is {", "list"]),
        (lambda: Choice({"a": 1}), ["options is {", "list"]),
        (lambda: Choice(3), ["options is 3", "list"]),
    ],
)
def test_wrong_arguments_of_dimensions(make, parts):
    with pytest.raises(InputError, match=says(*parts)):
        make()


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        ({}, ["space is empty", "at least one"]),
        ({1: (0, 1)}, ["key 1", "strings"]),
        ([Real(0, 1)], ["without names", "mapping"]),
        ([range(3)], ["without names", "mapping"]),
        ([(1, 0)], ["(1.0, 0.0)", "Swap"]),
        ([], ["shape (0,)", "pair"]),
        (None, ["None", "Pass"]),
    ],
    ids=str,
)
def test_wrong_spaces(space, parts):
    with pytest.raises(InputError, match=says(*parts)):
        read_dimensions(space)


@pytest.mark.parametrize(
    "space", [[(-2, 1), (3, 3)], np.array([[-2, 1], [3, 3]]), Bounds([-2, 3], [1, 3])]
)
def test_a_box_has_no_names_and_is_real(space):
    found = read_dimensions(space)
    assert found.names is None and found.free.tolist() == [0]
    assert found.all == (Real(-2, 1), Real(3, 3)) and found.size is None


POINTS = {"n": (1, 9), "r": (0.0, 1.0), "c": ["a", None], "s": Real(0, 1, step=0.25)}
POINT = {"n": 2, "r": 0.5, "c": None, "s": 0.75}


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"n": 2.5}, ["points[1] has 2.5 for 'n', which is not an integer", "Pass"]),
        ({"n": 0}, ["points[1] has 0 for 'n', which is outside 1..9"]),
        ({"n": math.inf}, ["has inf for 'n', which is outside"]),
        ({"n": math.nan}, ["has nan for 'n', which is outside"]),
        ({"n": True}, ["has True for 'n', which is not a number"]),
        ({"n": 10**400}, ["for 'n', which is too large"]),
        ({"r": "x"}, ["has 'x' for 'r', which is not a number"]),
        ({"r": math.nan}, ["has nan for 'r', which is outside 0..1"]),
        ({"c": "b"}, ["has 'b' for 'c', which is none of the choices"]),
        ({"s": 0.3}, ["has 0.3 for 's', which is not a multiple of the step 0.25 above 0"]),
        ({"q": 1}, ["points[1] has 'q'", "Pass n, r, c, s"]),
    ],
    ids=str,
)
def test_points_outside_the_space(wrong, parts):
    space = read_dimensions(POINTS)
    with pytest.raises(InputError, match=says(*parts)):
        space.codes_of([POINT, {**POINT, **wrong}])


def test_points_that_are_none():
    space, box = read_dimensions(POINTS), read_dimensions([(0, 1), (0, 2)])
    with pytest.raises(InputError, match=says("points[0] lacks 's'", "Pass n, r, c, s")):
        space.codes_of({k: v for k, v in POINT.items() if k != "s"})
    with pytest.raises(InputError, match=says("points[0] is 3", "mapping")):
        space.codes_of([3])
    for points in ("abc", 3, None):
        with pytest.raises(InputError, match=says("points is", "Pass mappings")):
            space.codes_of(points)
    with pytest.raises(InputError, match=says("points is 'abc'", "row of numbers")):
        box.codes_of("abc")
    with pytest.raises(InputError, match=says("points has shape (1, 3)", "rows of 2")):
        box.codes_of([1, 2, 3])
    with pytest.raises(InputError, match=says("points[1] has 3.0 for coordinate 1", "0..2")):
        box.codes_of([[0, 1], [0, 3]])
    assert box.codes_of([]).shape == (0, 2) and space.codes_of([]).shape == (0, 4)


# As text.


@given(st.lists(dimensions(), min_size=1, max_size=4), st.booleans())
def test_text_gives_the_space_back(found, named):
    space = Dimensions(found, [f"x{k}" for k in range(len(found))] if named else None)
    again = from_text(as_text(space))
    assert repr(again.all) == repr(space.all) and again.names == space.names


def test_text_of_other_choices_names_no_place_in_memory():
    texts = [as_text(read_dimensions({"x": [Odd(), len, (1, 2)]})) for _ in range(2)]
    assert texts[0] == texts[1] and "0x" not in str(texts)
    with pytest.raises(InputError, match=says("Odd object", "'x'", "Pass the space")):
        from_text(texts[0])
