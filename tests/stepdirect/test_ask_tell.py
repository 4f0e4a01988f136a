"""`StepDirect`: asking for points, telling their values, saving and going on."""

from __future__ import annotations

import copy
import os
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from tests.problem.test_dimensions import dimensions
from tests.support.messages import says
from tests.support.searches import BOX, PRESETS, every_preset, steps
from treeopt import InputError, StepDirect, StepDirectSettings, stepdirect
from treeopt.tuning import Real

MIXED = {
    "rate": (1e-3, 1.0, "log"),
    "depth": (1, 12),
    "leaves": (2, 5000, "log"),
    "share": Real(0.1, 1, step=0.1),
    "kind": ["a", "b", None],
    "shrink": [False, True],
    "seed": (3, 3),
}
FEW = {"n": range(0, 9, 4), "kind": ["a", "b"], "share": Real(0, 1, step=0.5), "one": [None]}
SPACES = {"box": BOX, "mixed": MIXED, "few": FEW}
presets = st.sampled_from(sorted(PRESETS))
seeds = st.integers(0, 2**32 - 1)
spaces = st.lists(dimensions(largest=4), min_size=1, max_size=3).map(
    lambda found: {f"x{k}": d for k, d in enumerate(found)}
)


def value_of(point, failures: int = 0) -> float:
    """Return one of a few values, or NaN for one in ``failures`` points."""
    number = zlib.crc32(repr(point.tolist() if hasattr(point, "tolist") else point).encode())
    return np.nan if failures and number % failures == 0 else float(number % 97 % 13)


def tell(search: StepDirect, points, failures: int = 0) -> None:
    search.tell(points, [value_of(x, failures) for x in points])


def run(search: StepDirect, n: int, at_once: int | None = 1, failures: int = 0) -> list:
    """Ask and tell until so many points are known, or there are no more; return them."""
    while search.nfev < n and len(points := search.ask(at_once)):
        tell(search, points, failures)
    return as_list(search.points)


def as_list(points) -> list:
    return points.tolist() if isinstance(points, np.ndarray) else points


def written(search: StepDirect, folder: Path) -> bytes:
    search.save(folder / "written.npz")
    return (folder / "written.npz").read_bytes()


def resumed(search: StepDirect, folder: Path, space=None) -> StepDirect:
    search.save(folder / "resumed.npz")
    return StepDirect.load(folder / "resumed.npz", space)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("searches")


# The points are those of `stepdirect`.


@every_preset
@pytest.mark.parametrize("n", [9, 34, 35, 400])
def test_one_at_a_time_it_is_the_same_search(settings, n):
    """But for points that `stepdirect` evaluates again: here they are not asked for twice."""
    expected = stepdirect(steps, BOX, max_evals=n, settings=settings, rng=4).points
    _, first = np.unique(expected, axis=0, return_index=True)
    expected = expected[np.sort(first)]
    search = StepDirect(BOX, max_evals=n, settings=settings, rng=4)
    for x in expected:
        (asked,) = search.ask(1)
        assert np.array_equal(asked, x)
        search.tell(asked, steps(asked))
    assert np.array_equal(search.points, expected)


@every_preset
def test_failures_and_fixed_coordinates_too(settings):
    def fun(x):
        return np.nan if x[0] > 0.2 else steps(x)

    box, how = [(-2, 1), (0.7, 0.7), (-1, 1)], {"settings": settings, "weights": [3, 1, 1]}
    res = stepdirect(fun, box, max_evals=150, rng=1, **how)
    search = StepDirect(box, max_evals=150, rng=1, **how)
    while search.nfev < 150:
        points = search.ask()
        search.tell(points, [fun(x) for x in points])
    n = min(150, len(np.unique(res.points, axis=0)))
    _, first = np.unique(res.points, axis=0, return_index=True)
    assert np.array_equal(search.points[:n], res.points[np.sort(first)])
    assert search.nfailed == np.isnan(search.values).sum() > 0
    assert search.best.fun == np.nanmin(search.values) == fun(search.best.x)


def test_scarce_evaluations_begin_on_the_diagonal():
    search = StepDirect([(-1, 3)] * 4, max_evals=44, rng=0)
    points = search.ask()
    assert len(points) == 7 and (points == points[:, :1]).all() and (points[0] == 1).all()
    assert len(StepDirect([(-1, 3)] * 4).ask()) == 9
    assert len(StepDirect([(-1, 3)] * 4, max_evals=45).ask()) == 9
    for change in ({"scarce": 0}, {"refine": 0}):
        settings = StepDirectSettings(**change)
        assert len(StepDirect([(-1, 3)] * 4, max_evals=44, settings=settings).ask()) == 9


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_a_seed_repeats_the_search(space):
    first, second, other = (run(StepDirect(space, rng=k), 60) for k in (1, 1, 2))
    assert first == second and (first != other or len(first) == 18)


# Order, parts, and several points at a time.


@every_preset
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("at_once", [None, 1, 5])
def test_the_order_within_a_batch_does_not_matter(settings, space, at_once):
    def asked(order: Callable) -> list:
        search, found = StepDirect(space, settings=settings, rng=7), []
        while search.nfev < 80 and len(points := search.ask(at_once)):
            found += as_list(points)
            for k in order(range(len(points))):
                search.tell(points[k], value_of(points[k], 9))
        return found

    shuffle = np.random.default_rng(0).permutation
    assert asked(list) == asked(reversed) == asked(shuffle)


def test_parts_are_waited_for():
    search, whole = StepDirect(BOX, rng=0), StepDirect(BOX, rng=0)
    points = search.ask()
    assert len(points) == 7 and np.array_equal(points, whole.ask())
    tell(search, points[4:])
    assert np.array_equal(search.pending, points[:4]) and search.nfev == 3
    tell(search, points[:4])
    tell(whole, points)
    assert len(search.pending) == 0
    assert run(search, 60)[7:] == run(whole, 60)[7:]


@every_preset
@pytest.mark.parametrize("space", [BOX, MIXED], ids=["box", "mixed"])
def test_points_that_never_come_do_not_hold_the_search_up(settings, space):
    search = StepDirect(space, settings=settings, rng=0)
    lost, asked = as_list(search.ask(2)), []
    for _ in range(150):
        points = search.ask(1)
        assert len(points) == 1
        asked += as_list(points)
        tell(search, points)
    assert as_list(search.pending) == lost and not [x for x in asked if x in lost]
    assert search.best.fun == min(map(value_of, search.points))
    tell(search, search.pending)  # late
    assert search.nfev == 152 and len(search.pending) == 0
    run(search, 200)


def test_what_nobody_was_asked_for_is_not_overdue():
    """Points from elsewhere do not replace those that the search begins with."""
    search = StepDirect(BOX, rng=0)
    elsewhere = np.random.default_rng(0).random((40, 3)) * [3, 3, 2] - [2, 0, 1]
    tell(search, elsewhere)
    assert np.array_equal(search.ask(), StepDirect(BOX, rng=0).ask())


def test_points_from_elsewhere_are_used():
    search = StepDirect(BOX, rng=0)
    search.tell([0.3, 0.3, 0.3], -5.0)
    assert search.best.fun == -5 and search.knows([0.3, 0.3, 0.3])
    run(search, 40)
    near = np.isclose(search.points[8:], 0.3).sum(axis=1)
    assert (near == 2).sum() > 5  # moves of one coordinate of the best point


def test_reserved_points_are_not_asked_for_and_released_ones_are():
    search, other = StepDirect(FEW, rng=0), StepDirect(FEW, rng=1)
    taken = other.ask(7)
    search.reserve(taken)
    search.reserve(taken[:2])
    mine = run(search, 18)
    assert len(mine) == 11 and not [x for x in mine if x in taken]
    search.release(taken[:3])
    assert run(search, 18)[11:] and search.nfev == 14
    tell(search, taken[3:])
    assert search.nfev == 18 and len(search.pending) == 0 and search.ask() == []
    search.reserve(taken)
    assert search.pending == []  # they are known
    search.release(taken)
    assert search.nfev == 18


def test_a_single_point_and_other_forms_of_values():
    search = StepDirect(MIXED, rng=0)
    points = search.ask(5)
    search.tell(points[0], 2)
    search.tell(points[1], np.array(3.0))
    search.tell(points[2:4], pd.Series([1, None], index=[7, 8]))
    search.tell(iter(points[4:]), (x for x in [np.float32(0.5)]))
    assert search.values[:3].tolist() == [2, 3, 1] and search.values[4] == 0.5
    assert search.nfailed == 1 and search.best == (points[4], 0.5)
    box = StepDirect(BOX, rng=0)
    points = box.ask()
    box.tell(pd.DataFrame(points[:2]), [1, 2])
    box.tell(points[2].tolist(), [0])
    box.tell([], [])
    box.tell(points[:0], [])
    assert box.nfev == 3 and np.array_equal(box.best.x, points[2])


def test_a_point_may_be_told_again_with_the_same_value():
    search = StepDirect(BOX, rng=0)
    points = search.ask()
    search.tell(points[[0, 1, 0]], [1, np.nan, 1])
    search.tell(points[:2], [1, None])
    assert search.nfev == 2 and search.nfailed == 1
    assert np.array_equal(search.points, points[:2])


def test_a_wrong_tell_changes_nothing(folder):
    search = StepDirect(BOX, rng=0)
    points = search.ask()
    before = written(search, folder)
    for values in ([1, 2, "x"], [1, 2]):
        with pytest.raises(InputError):
            search.tell(points[:3], values)
    with pytest.raises(InputError):
        search.tell([*points[:2], [9, 9, 9]], [1, 2, 3])
    with pytest.raises(InputError):
        search.tell(points[[0, 1, 0]], [1, 2, 3])
    assert written(search, folder) == before


# Failed evaluations.


@every_preset
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_all_points_may_fail(settings, space):
    search = StepDirect(space, settings=settings, rng=0)
    assert search.best == (None, pytest.approx(np.nan, nan_ok=True))
    found = run(search, 60, failures=1)
    assert search.nfailed == search.nfev == len(found) == min(60, search._dimensions.size or 60)
    assert search.best.x is None and np.isnan(search.best.fun)
    assert f"({len(found)} failed)" in repr(search)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, None, float("-inf"), np.float32("nan")])
def test_what_is_a_failure(value):
    search = StepDirect(BOX, rng=0)
    points = search.ask()
    search.tell(points, [3.0, value, *range(1, 6)])
    assert search.nfailed == 1 and search.best.fun == 1 and np.isnan(search.values[1])
    search.tell(points[1], value)


# Discrete spaces.


@hypothesis_settings(max_examples=40)
@given(spaces, presets, seeds, st.sampled_from([None, 1, 3, 100]), st.sampled_from([0, 3]))
def test_a_discrete_space_is_gone_through_without_a_repeat(space, name, seed, at_once, failures):
    search = StepDirect(space, settings=PRESETS[name], rng=seed)
    size = search._dimensions.size
    found = run(search, 70 if size is None else size + 1, at_once, failures)
    assert len({repr(x) for x in found}) == len(found)
    if size is not None:
        assert len(found) == size and len(search.ask()) == len(search.ask(2)) == 0


@pytest.mark.parametrize("name", ["default", "paper", "direct"])
def test_few_points_in_many_dimensions(name):
    """The algorithm's steps, which repeat what is known, stay within bounds."""
    search = StepDirect({f"x{k}": [False, True] for k in range(8)}, settings=PRESETS[name], rng=0)
    found = run(search, 300)
    assert len({repr(x) for x in found}) == len(found) == 256
    assert len(search._driver.state.sample) < 256 * 50


@pytest.mark.parametrize("space", [[(1, 1), (2, 2)], {"a": (3, 3), "b": ["x"]}, {"r": (-0.0, 0.0)}])
def test_a_space_of_one_point(space, folder):
    search = resumed(StepDirect(space, rng=0), folder)
    (point,) = search.ask(5)
    search = resumed(search, folder)
    assert len(search.ask()) == 0 and len(search.pending) == 1
    search.tell(point, 2.5)
    search = resumed(search, folder)
    assert len(search.ask()) == len(search.ask(2)) == 0 and search.best.fun == 2.5
    assert np.array_equal(search.best.x, point)


def test_huge_spaces():
    space = {f"x{k}": (-(2**52), 2**52) for k in range(9)}
    search = StepDirect({**space, "n": (0, 2**53), "log": (1, 2**53, "log")}, rng=0)
    assert len(run(search, 80, 7)) >= 80


def test_points_have_the_types_of_the_space():
    for x in StepDirect(MIXED, rng=0).ask():
        kinds = [float, int, int, float, (str, type(None)), bool, int]
        assert all(isinstance(v, kind) for v, kind in zip(x.values(), kinds, strict=True))
        assert list(x) == list(MIXED) and x["seed"] == 3


def test_choices_of_any_kind_come_back_as_they_are():
    options = [DecisionTreeRegressor(), [1, 2], None, np.arange(3), len]
    search = StepDirect({"x": options}, rng=0)
    found = [point["x"] for point in run(search, 9)]
    assert len(found) == 5 and {id(x) for x in found} == {id(x) for x in options}


# Going on.


def act(search: StepDirect, seed: int) -> list:
    """Do something at random; return what is seen of it."""
    rng = np.random.default_rng(seed)
    pending = search.pending
    some = rng.permutation(len(pending))[: rng.integers(0, 6)]
    points = [pending[k] for k in some]
    what = rng.integers(10)
    failed = np.flatnonzero(np.isnan(search.values))
    if what == 9 and failed.size:  # try again what has failed
        search.tell(search.points[rng.choice(failed)], rng.normal())
    if what < 4:
        return as_list(search.ask(None if what == 0 else int(rng.integers(1, 5))))
    if what < 6:
        tell(search, points, 5)
    elif what == 6:
        search.release(points[:2])
    elif what < 9:
        U = rng.random((2, search._dimensions.free.size))
        elsewhere = search._dimensions.points(search._dimensions.codes(U))
        if what == 7:
            search.reserve(elsewhere)
        else:
            tell(search, [x for x in elsewhere if not search.knows(x)], 5)
    if rng.random() < 0.05:
        search.reseed(seed)
    return as_list(search.pending)


@hypothesis_settings(max_examples=40)
@given(st.one_of(spaces, st.sampled_from([BOX, MIXED])), presets, seeds, st.sampled_from([None, 9]))
def test_a_search_goes_on_as_if_never_stopped(folder, space, name, seed, max_evals):
    how = {"settings": PRESETS[name], "rng": seed, "max_evals": max_evals}
    search, stopped = StepDirect(space, **how), StepDirect(space, **how)
    rng = np.random.default_rng(seed)
    for _ in range(60):
        if rng.random() < 0.2:
            stopped = resumed(stopped, folder, space if rng.random() < 0.5 else None)
        action = int(rng.integers(2**32))
        assert repr(act(search, action)) == repr(act(stopped, action))
        assert repr(search.best) == repr(stopped.best) and repr(search) == repr(stopped)
    assert repr(search.points) == repr(stopped.points)
    assert search.values.tobytes() == stopped.values.tobytes()
    assert written(search, folder) == written(stopped, folder)


@pytest.mark.parametrize("name", ["default", "paper", "direct"])
def test_a_search_goes_on_when_its_tables_have_grown(folder, name):
    search = StepDirect(BOX, settings=PRESETS[name], rng=0)
    stopped = resumed(search, folder)
    for n in (900, 1022, 1030, 1300, 2100):
        run(search, n, None)
        stopped = resumed(stopped, folder)
        run(stopped, n, None)
        assert written(search, folder) == written(stopped, folder)


def test_a_copy_is_a_search_of_its_own():
    search = StepDirect(MIXED, rng=0)
    run(search, 30)
    copies = copy.deepcopy(search), pickle.loads(pickle.dumps(search))
    expected = run(search, 60)
    assert [run(each, 60) for each in copies] == [expected] * 2


def test_settings_and_weights_go_on(folder):
    settings = StepDirectSettings.paper(n_directions=np.int64(3), grow_on_tie=np.bool_(True), tau=2)
    search = StepDirect(BOX, settings=settings, weights=[1, 0, 2], rng=0)
    run(search, 30)
    assert run(resumed(search, folder), 99) == run(search, 99)


def test_weights_by_name():
    space = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (2, 2)}
    expected = run(StepDirect(space, weights=[1, 5, 9], rng=0), 60)
    by_name = {"c": 9, "b": 5, "a": 1}
    for weights in (by_name, pd.Series(by_name)):
        assert run(StepDirect(space, weights=weights, rng=0), 60) == expected
    assert run(StepDirect(space, rng=0), 60) != expected


class Odd:
    pass


def test_choices_that_no_file_can_hold_are_passed_again(folder):
    def space():
        return {"x": [Odd(), len, (1, 2), "text", np.nan], "r": (0.0, 1.0)}

    search = StepDirect(space(), rng=0)
    for k in range(20):
        search.tell(search.ask(1)[0], k % 5)
    with pytest.raises(InputError, match=says("choice", "Odd", "'x'", "Pass the space")):
        resumed(search, folder)
    again = resumed(search, folder, space())
    for _ in range(20):
        a, b = search.ask(1)[0], again.ask(1)[0]
        assert a["r"] == b["r"] and type(a["x"]) is type(b["x"])
        search.tell(a, 1)
        again.tell(b, 1)


# Files.


@pytest.fixture(scope="module", params=["default", "paper"])
def saved(request, folder) -> Path:
    """Return a file of a search with known, failed, pending, reserved and foreign points."""
    search = StepDirect(MIXED, settings=PRESETS[request.param], rng=0)
    run(search, 40, failures=5)
    reserved, *foreign = StepDirect(MIXED, rng=5).ask(20)[14:]
    search.reserve([reserved])
    tell(search, foreign)
    tell(search, search.ask(9)[::2])
    path = folder / f"{request.param}.npz"
    search.save(path)
    return path


def arrays_in(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def test_a_file_holds_numbers_and_text_only(saved):
    arrays = arrays_in(saved)
    kinds = {array.dtype.kind for array in arrays.values()}
    assert kinds <= set("fiuUV") and not any(a.dtype.hasobject for a in arrays.values())
    assert len(arrays["pending"]) > 1 and len(arrays["beside"]) and np.isnan(arrays["values"]).any()


OLD_SPACE = {"depth": (1, 12), "rate": (1e-3, 1.0, "log"), "kind": ["a", "b", None]}


def old_value(x) -> float:
    return abs(x["depth"] - 5) + abs(np.log10(x["rate"]) + 1) + (x["kind"] == "b")


def old_rounds(search, n: int) -> list[dict]:
    """Ask for some points, and tell all but the last of each batch."""
    asked = []
    for k in range(n):
        points = search.ask(3 if k % 4 == 1 else None)
        told = points[: max(1, len(points) - 1)]
        search.tell(told, [old_value(x) for x in told])
        asked += points
    return asked


@pytest.mark.parametrize("name", ["default", "paper"])
def test_files_of_the_first_version_can_be_read(name):
    """They were written before counters had names; the search continues as it did then."""
    old = StepDirect.load(Path(__file__).parent / "files" / f"first_format_{name}.npz")
    new = StepDirect(OLD_SPACE, rng=1, settings=PRESETS[name])
    old_rounds(new, 12)
    assert old.nfev == new.nfev and len(old.pending) == len(new.pending)
    for a, b in zip(old_rounds(old, 8), old_rounds(new, 8), strict=True):
        assert (a["depth"], a["kind"]) == (b["depth"], b["kind"])
        assert a["rate"] == pytest.approx(b["rate"], rel=1e-12)


def test_the_same_search_is_the_same_file(saved, folder):
    assert written(StepDirect.load(saved), folder) == saved.read_bytes()


def test_files_that_are_cut_off(saved, folder):
    path, content = folder / "cut.npz", saved.read_bytes()
    for n in [*range(0, len(content), 41), *range(len(content) - 25, len(content))]:
        path.write_bytes(content[:n])
        with pytest.raises(InputError, match=says("path is", "cut.npz", "damaged", "new search")):
            StepDirect.load(path)


@hypothesis_settings(max_examples=150)
@given(st.data())
def test_files_with_a_wrong_byte(saved, folder, data):
    """Either an error, or the byte is one that says nothing."""
    path, content = folder / "byte.npz", saved.read_bytes()
    k = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.integers(0, 255))
    path.write_bytes(content[:k] + bytes([byte]) + content[k + 1 :])
    try:
        search = StepDirect.load(path)
    except InputError as error:
        assert "byte.npz" in str(error)
    else:
        assert written(search, folder) == content


EXTREMES = (-(2**31), -3, -1, 0, 1, 7, 50, 2**31)


@hypothesis_settings(max_examples=200)
@given(st.data())
def test_files_with_a_wrong_number(saved, folder, data):
    """Either an error, or a search that goes on; never a kernel out of its arrays."""
    arrays = arrays_in(saved)
    array = arrays[data.draw(st.sampled_from(sorted(set(arrays) - {"about"})))]
    if array.dtype.names:
        array = array[data.draw(st.sampled_from(array.dtype.names))]
    if array.size:
        extremes = EXTREMES if array.dtype.kind in "iu" else (*EXTREMES, np.nan, np.inf)
        value = data.draw(st.sampled_from(extremes))
        at = data.draw(st.integers(0, array.size - 1))
        array[np.unravel_index(at, array.shape)] = np.array(value).astype(array.dtype)
    path = folder / "number.npz"
    np.savez(path, **arrays)
    try:
        search = StepDirect.load(path)
    except InputError as error:
        assert "number.npz" in str(error)
    else:
        for _ in range(40):
            tell(search, search.ask(1))


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda about: about.replace('"format": 1', '"format": 2'), ["format 2", "reads format 1"]),
        (lambda about: about.replace('"tau": 1.5', '"tau": 0.5'), ["damaged", "tau is 0.5"]),
        (lambda about: about.replace('"tau"', '"tao"'), ["damaged", "tao"]),
        (lambda about: about.replace('"kind": "real"', '"kind": "unreal"'), ["damaged", "unreal"]),
        (lambda about: about.replace('"max_evals": null', '"max_evals": 0'), ["max_evals is 0"]),
        (lambda about: "[]", ["damaged"]),
        (lambda about: "{}", ["damaged", "format"]),
        (lambda about: about[:-1], ["damaged"]),
    ],
)
def test_files_about_something_else(saved, folder, change, parts):
    arrays, path = arrays_in(saved), folder / "about.npz"
    arrays["about"] = np.array(change(str(arrays["about"])))
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=says("path is", "about.npz", *parts)):
        StepDirect.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"hello", pickle.dumps([1]), "npy", "npz"], ids=str
)
def test_files_of_another_kind(folder, content):
    path = folder / "other.npz"
    if content == "npy":
        with path.open("wb") as file:
            np.save(file, np.arange(3))
    elif content == "npz":
        np.savez(path, x=np.arange(3))
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=says("other.npz", "StepDirect.save", "Pass another")):
        StepDirect.load(path)


def test_no_file(folder):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        StepDirect.load(folder / "nowhere.npz")
    with pytest.raises(IsADirectoryError):
        StepDirect.load(folder)
    with pytest.raises(FileNotFoundError):
        StepDirect(BOX).save(folder / "nowhere" / "file.npz")


def test_another_space_is_refused(saved):
    with pytest.raises(InputError, match=says("space is", "(1, 13)", "not that of", "same")):
        StepDirect.load(saved, {**MIXED, "depth": (1, 13)})
    assert StepDirect.load(saved, MIXED).nfev > 40


@pytest.mark.parametrize("where", ["savez", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch, where, error):
    def fail(*args, **kwargs):
        if where == "savez":
            args[0].write(b"half")
        raise error

    path = tmp_path / "search.npz"
    search = StepDirect(BOX, rng=0)
    search.save(path)
    before = path.read_bytes()
    run(search, 20)
    target, name = {
        "savez": (np, "savez_compressed"),
        "fsync": (os, "fsync"),
        "replace": (Path, "replace"),
    }[where]
    monkeypatch.setattr(target, name, fail)
    with pytest.raises(type(error)):
        search.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    search.save(path)
    assert StepDirect.load(path).nfev == search.nfev


def test_what_a_killed_process_leaves_is_no_hindrance(tmp_path):
    path = tmp_path / "search.npz"
    search = StepDirect(BOX, rng=0)
    search.save(path)
    (tmp_path / "search.npz.tmp").write_bytes(b"half")
    assert StepDirect.load(path).nfev == 0
    search.save(path)
    assert list(tmp_path.iterdir()) == [path]


# What is seen.


def test_the_frame():
    search = StepDirect({**MIXED, "value": (1, 2)}, rng=0)
    assert list(search.frame) == [*MIXED, "value", "value_"] and search.frame.empty
    run(search, 20)
    assert len(search.frame) == 20 and search.frame["value_"].tolist() == search.values.tolist()
    assert search.frame.to_dict("records")[3] == {**search.points[3], "value_": search.values[3]}
    box = StepDirect(BOX, rng=0)
    run(box, 10)
    assert list(box.frame) == ["x0", "x1", "x2", "value"]


def test_it_reads_like_a_sentence():
    search = StepDirect(BOX, rng=0)
    assert repr(search) == "StepDirect: no value yet after 0 points"
    points = search.ask()
    search.tell(points[:1], [2.5])
    assert repr(search) == "StepDirect: fun = 2.5 after 1 point, 6 pending"
    search.tell(points[1:3], [None, 4])
    assert repr(search) == "StepDirect: fun = 2.5 after 3 points (1 failed), 4 pending"


def test_what_is_returned_is_not_the_state():
    search, other = StepDirect(BOX, rng=0), StepDirect(BOX, rng=0)
    points = search.ask()
    tell(search, points)
    points[:] = search.points[:] = search.values[:] = 0
    tell(other, other.ask())
    assert run(search, 30) == run(other, 30)


# Wrong arguments.


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"space": {"x": (0.0, 1.0, "log")}}, ["space['x'] is (0.0, 1.0", "low is 0.0", "above 0"]),
        ({"space": {"x": []}}, ["space['x'] is []", "at least one"]),
        ({"space": [(1, 0)]}, ["bounds[0] is (1.0, 0.0)", "Swap"]),
        ({"settings": "paper"}, ["settings is 'paper'", "StepDirectSettings"]),
        ({"max_evals": 0}, ["max_evals is 0", "above 0"]),
        ({"max_evals": 1e3}, ["max_evals is 1000.0", "integer"]),
        ({"weights": [1, 2]}, ["weights has shape (2,)", "3"]),
        ({"weights": [1, -1, 0]}, ["weights[1] is -1", "at least 0"]),
        ({"weights": {"a": 1}}, ["weights is {'a': 1}", "Pass"]),
        ({"space": {"a": (0, 1), "b": (0, 1)}, "weights": {"a": 1}}, ["weights is {", "each"]),
        ({"rng": "seed"}, ["rng is 'seed'", "Pass"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_wrong_arguments(wrong, parts):
    with pytest.raises(InputError, match=says(*parts)):
        StepDirect(**{"space": BOX, **wrong})


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda s, x: s.ask(0), ["n is 0", "above 0"]),
        (lambda s, x: s.ask(2.0), ["n is 2.0", "integer"]),
        (lambda s, x: s.ask(True), ["n is True", "integer"]),
        (lambda s, x: s.tell(x, [1, 2]), ["values has 2 numbers for 7 points", "each"]),
        (lambda s, x: s.tell(x, 1), ["values has 1 numbers for 7 points", "each"]),
        (lambda s, x: s.tell(x[:2], [1, "2"]), ["values[1] is '2'", "number, or None"]),
        (lambda s, x: s.tell(x[:2], [1, [2]]), ["values[1] is [2]", "number, or None"]),
        (lambda s, x: s.tell(x[:2], np.ones((2, 1))), ["values[0] is array", "number, or None"]),
        (lambda s, x: s.tell(x[:2], [1, 2j]), ["values[1] is 2j", "number, or None"]),
        (lambda s, x: s.tell(x[0], 10**400), ["values[0] is 1000", "number, or None"]),
        (lambda s, x: s.tell(x[0], "1"), ["values[0] is '1'", "number, or None"]),
        (lambda s, x: s.tell(x[[1, 1]], [1, 2]), ["points[1] was told before, with 1.0", "is 2.0"]),
        (lambda s, x: s.tell([x[0, :2]], [1]), ["points has shape (1, 2)", "rows of 3"]),
        (lambda s, x: s.tell([9] * 3, 1), ["points[0] has 9.0 for coordinate 0", "outside -2..1"]),
        (lambda s, x: s.tell([np.nan] * 3, 1), ["points[0] has nan for coordinate 0", "outside"]),
        (lambda s, x: s.reserve("abc"), ["points is 'abc'", "row of numbers"]),
        (lambda s, x: s.release([[5, 0, 0]]), ["points[0] has 5.0", "Pass a point"]),
        (lambda s, x: s.knows([5, 0, 0]), ["points[0] has 5.0", "Pass a point"]),
        (lambda s, x: s.reseed("x"), ["rng is 'x'", "Pass"]),
    ],
)
def test_wrong_calls(call, parts):
    search = StepDirect(BOX, rng=0)
    points = search.ask()
    with pytest.raises(InputError, match=says(*parts)):
        call(search, points)


def test_a_failed_point_may_be_told_a_value_later():
    search = StepDirect(BOX, rng=0)
    points = search.ask()
    search.tell(points, [None, *range(1, len(points))])
    assert search.nfailed == 1 and search.best.fun == 1 and not search.knows(points[0])
    search.tell(search.ask(), 5)
    search.tell(points[0], -3)
    assert search.nfailed == 0 and search.nfev == len(points) + 1 and search.knows(points[0])
    assert search.best.fun == -3 and np.array_equal(search.best.x, points[0])
    for _ in range(60):
        point = search.ask(1)
        search.tell(point, np.abs(point - points[0]).sum() - 4)
    assert search.best.fun < -3.5, "the search goes on from there"


@pytest.mark.parametrize("k", [0, 3])
def test_a_search_goes_on_when_a_failed_point_was_tried_again(k, tmp_path):
    def run(saved: bool) -> StepDirect:
        search = StepDirect(BOX, rng=0)
        points = search.ask()
        search.tell(points[k], None)
        search.tell(points[k], steps(points[k]))
        if saved:
            search.save(tmp_path / "search.npz")
            search = StepDirect.load(tmp_path / "search.npz")
        rest = np.delete(points, k, axis=0)
        search.tell(rest, [steps(x) for x in rest])
        for _ in range(40):
            (point,) = search.ask(1)
            search.tell(point, steps(point))
        return search

    kept, loaded = run(False), run(True)
    assert kept.points.tobytes() == loaded.points.tobytes()
    assert np.array_equal(kept.best.x, loaded.best.x)


@pytest.mark.parametrize(("first", "second"), [(1, 2), (1, np.nan)])
def test_a_value_is_not_taken_back(first, second):
    search = StepDirect(FEW, rng=0)
    point = search.ask(1)
    search.tell(point, [first])
    with pytest.raises(InputError, match=says("points[0] was told before", "values[0] is", "one")):
        search.tell(point, [second])
