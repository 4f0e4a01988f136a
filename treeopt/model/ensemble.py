"""`Ensemble`: any supported model as flat arrays. Everything else in treeopt reads only this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from treeopt.arguments import read_n_jobs
from treeopt.errors import InputError, ModelFormatError
from treeopt.model.categories import Categories
from treeopt.model.inputs import NamedPoint, as_matrix, listed, spelled
from treeopt.model.link import IDENTITY, LINKS, Link
from treeopt.types import Array

if TYPE_CHECKING:
    from treeopt.model.compiled import Compiled
    from treeopt.model.leaf_boxes import LeafBoxes
    from treeopt.model.walker import Line, Walker

_DTYPES = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "value": None,
    "default_left": np.bool_,
    "zero_missing": np.bool_,
    "category_set": np.int32,
    "set_start": np.int64,
    "set_member": np.int32,
    "tree_start": np.int64,
    "importances": np.float64,
}
"""The arrays of an ensemble; values keep the precision in which they are added."""

MAX_FEATURES = 10_000_000
"""More columns than this are taken for a damaged model."""

_FAST = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Ensemble:
    """A sum of piecewise-constant trees, bit-equal to the model it was made from.

    The prediction is ``link((base + value[leaf_0] + value[leaf_1] + ...) / divisor)``, added from
    left to right in the dtype of ``value``. A node sends an input, after the cast to
    ``input_dtype``, to the right child if and only if ``x > threshold``; one with a set of
    categories, if and only if the input's category is not in the set.

    Use `treeopt.from_model` to make one.

    Attributes
    ----------
    feature, threshold, left, right, value : arrays, one entry per node
        Split feature, canonical cut, children (indices into these arrays) and contribution.
        Leaves have ``left == right == feature == -1``. Children come after their parent.
    default_left : bool array
        Whether a missing value goes to the left child.
    zero_missing : bool array
        Whether zero (within LightGBM's limit) counts as missing at this node.
    category_set : int32 array
        The set of categories that go to the left child; -1 where the split is by threshold.
    set_start, set_member : int64 and int32 arrays
        Where each set begins in ``set_member``, and their members: indices into the categories of
        the feature, and -1 for all inputs that are of no known category.
    tree_start : int64 array
        First node of each tree, its root, and the number of nodes at the end.
    n_features : int
        Number of input columns.
    feature_names : tuple of str or None
        Their names where the model has them.
    importances : float64 array
        Importance of each feature; sums to 1.
    input_dtype : dtype
        Inputs are cast to this before any comparison.
    array_dtype : dtype
        Arrays that are neither float32 nor float64 become this first.
    base, divisor : float
        Start and divisor of the sum. They and the values of leaves are finite, and the divisor is
        positive, in the dtype of ``value``.
    link : Link
        How the sum becomes the prediction.
    categories : mapping from int to Categories
        The categories of the features that have them.
    frame_labels : tuple of tuples or None
        LightGBM's rule for frames: the labels of the ``category`` columns, in their order, whatever
        they are called; None if there is no such rule.
    cast_apart : {"never", "nullable", "always"}
        When the library casts each column of a frame to ``input_dtype`` by itself, rather than all
        of them to one type first: always (XGBoost), or if some are nullable or Boolean (trees and
        forests of scikit-learn).
    accepts_nan, accepts_inf : bool
        Whether the model's own ``predict`` accepts missing and infinite values.
    missing_value : float
        One more value that means missing (NaN: none), as XGBoost's ``missing=``.
    source : str
        The class of the model, for messages.
    """

    feature: Array
    threshold: Array
    left: Array
    right: Array
    value: Array
    default_left: Array
    zero_missing: Array
    tree_start: Array
    category_set: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    set_start: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    set_member: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    n_features: int
    feature_names: tuple[str, ...] | None
    importances: Array
    input_dtype: np.dtype[Any]
    array_dtype: np.dtype[Any] = _FAST[0]
    base: float = 0.0
    divisor: float = 1.0
    link: Link = IDENTITY
    categories: Mapping[int, Categories] = field(default_factory=dict)
    frame_labels: tuple[tuple[Any, ...], ...] | None = None
    cast_apart: str = "never"
    accepts_nan: bool = True
    accepts_inf: bool = True
    missing_value: float = np.nan
    source: str = "Ensemble"

    def __post_init__(self) -> None:
        if not len(self.category_set):
            object.__setattr__(self, "category_set", np.full(len(self.left), -1, np.int32))
        object.__setattr__(self, "categories", MappingProxyType(dict(self.categories)))
        for name, dtype in _DTYPES.items():
            # A view: the caller's own array stays as it is.
            array = np.ascontiguousarray(getattr(self, name), dtype).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        _validate(self)

    def __getstate__(self) -> dict[str, Any]:
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**state, "categories": dict(self.categories)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __repr__(self) -> str:
        return (
            f"<Ensemble of {self.source}: {self.n_trees} trees, {self.n_leaves} leaves, "
            f"{self.n_features} features>"
        )

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.tree_start.size - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return int(self.left.size)

    @cached_property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(np.count_nonzero(self.left < 0))

    @cached_property
    def compiled(self) -> Compiled:
        """The arrays that the kernels run on, built when first needed."""
        from treeopt.model.compiled import Compiled

        return Compiled(self)

    def predict(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Predict as the model's own ``predict`` does, bit for bit.

        Parameters
        ----------
        X : array-like of shape (n, n_features) or data frame
            The columns of a frame are matched by name.
        n_jobs : int
            Number of threads; -1 for one per processor.

        Returns
        -------
        array of shape (n,)
            In the dtype of the model's own prediction.

        Examples
        --------
        >>> import numpy as np, treeopt
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 3.0])
        >>> treeopt.from_model(model).predict(np.array([[0.2], [0.9]]))
        array([2., 3.])
        """
        out = self.margin(X, n_jobs=n_jobs)
        return out if self._is_plain else self.link(out)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the link changes nothing; asked first, since a call costs time."""
        return self.link == IDENTITY

    def margin(self, X: Any, *, n_jobs: int | None = 1) -> Array:
        """Return what the link is applied to, as `predict` takes its arguments.

        It is the sum of the trees, or their mean where the model takes one.

        Examples
        --------
        >>> import treeopt
        >>> from sklearn.ensemble import GradientBoostingClassifier
        >>> X, y = [[0.0], [1.0]], [0, 1]
        >>> model = GradientBoostingClassifier(n_estimators=5).fit(X, y)
        >>> treeopt.from_model(model).margin(X) == model.decision_function(X)
        array([ True,  True])
        """
        matrix = self._matrix(X)
        out, refused = self.compiled.predict(matrix, 1 if n_jobs == 1 else read_n_jobs(n_jobs))
        if refused >= 0:
            self._reject(matrix, refused)
        return out

    def own_sum(self, leaf: Array) -> Array:
        """Return the base and the sum after each tree, added as the model adds them.

        ``leaf`` is one leaf of each tree. The last entry is the total, not yet divided.
        """
        values = self.compiled.leaf_value[leaf]
        sums: Array = np.add.accumulate(np.append(values.dtype.type(self.base), values))
        return sums

    def walker(self, x: Any) -> Walker:
        """Return an evaluator that follows a point as it moves one coordinate at a time.

        Examples
        --------
        >>> import treeopt
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor().fit([[0.0, 0.0], [1.0, 0.0]], [2.0, 3.0])
        >>> walker = treeopt.from_model(model).walker([0.2, 0.0])
        >>> walker.value, walker.move(0, 0.9)
        (2.0, 3.0)
        """
        from treeopt.model.walker import Walker

        return Walker(self, x)

    def line(self, x: Any, feature: int | str) -> Line:
        """Return the whole piecewise-constant function along one coordinate through ``x``.

        Examples
        --------
        >>> import treeopt
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 3.0])
        >>> line = treeopt.from_model(model).line([0.2], 0)
        >>> line.upper, line.value
        (array([0.5, inf]), array([2., 3.]))
        """
        from treeopt.model.walker import line

        return line(self, x, feature)

    def leaf_boxes(self) -> LeafBoxes:
        """Return the boxes of all leaves: the inputs, after the cast, that reach each of them.

        Examples
        --------
        >>> import treeopt
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 3.0])
        >>> boxes = treeopt.from_model(model).leaf_boxes()
        >>> boxes.lower.ravel(), boxes.upper.ravel(), boxes.value
        (array([-inf,  0.5]), array([0.5, inf]), array([2., 3.]))
        """
        from treeopt.model.leaf_boxes import leaf_boxes

        return leaf_boxes(self)

    def feature_index(self, feature: int | str) -> int:
        """Return the column of a feature given by name or index."""
        if isinstance(feature, str):
            names: Sequence[str] = self.feature_names or ()
            if spelled(feature, names) in names:
                return names.index(spelled(feature, names))
            known = listed(names) if names else "none, the model was trained without"
            meant = "".join(f" Did you mean {n!r}?" for n in get_close_matches(feature, names, 1))
            raise InputError(f"feature {feature!r} is unknown.{meant} Known names: {known}.")
        whole = isinstance(feature, int | np.integer) and not isinstance(feature, bool)
        if not whole or not 0 <= feature < self.n_features:
            raise InputError(
                f"feature is {feature!r}: pass a name, or a number in 0..{self.n_features - 1}."
            )
        return int(feature)

    def _point(self, x: Any, name: str = "x") -> Array:
        """Return one point as a new float64 vector.

        ``x`` is a vector, a series, a mapping from names to values, or a frame or matrix of one
        row.
        """
        if isinstance(x, Mapping):
            if self.feature_names is None:
                raise InputError(f"{name} is a mapping, but the model has no names. Pass a vector.")
            x = NamedPoint(x)
        elif hasattr(x, "to_frame") and self.feature_names is not None:
            labelled = self.categories or self.frame_labels
            x = NamedPoint(x) if labelled else x.to_frame().T.infer_objects()
        elif np.ndim(x) == 1:
            x = np.asarray(x)[None, :]
        matrix = self._matrix(x, name)
        if matrix.shape[0] != 1:
            raise InputError(f"{name} has {matrix.shape[0]} rows: pass one point.")
        point: Array = matrix[0].astype(np.float64)
        return point

    def _matrix(self, X: Any, name: str = "X") -> Array:
        """Return ``X`` as the kernels want it; quick when it already is.

        ``name`` is how messages call it.
        """
        if (
            type(X) is not np.ndarray
            or X.dtype not in _FAST
            or X.ndim != 2
            or X.shape[1] != self.n_features
            or not X.flags.carray
            or not X.shape[0]
        ):
            with np.errstate(all="ignore"):
                X = as_matrix(X, self, name)
        matrix: Array = X
        for first_refused, columns, numbers in self._strict:
            bad = first_refused(matrix, columns, numbers)
            if bad >= 0:
                self._reject(matrix, int(bad), name, columns)
        return matrix

    @property
    def unsure_of_labels(self) -> bool:
        """Whether the labels of categories are known, but not which columns have them."""
        return bool(self.frame_labels) and not self.labelled_columns

    @cached_property
    def labelled_columns(self) -> list[int]:
        """The features whose categories have labels."""
        return [j for j, known in self.categories.items() if known.labels]

    @cached_property
    def finite_columns(self) -> Array:
        """The features with categories in which the library refuses infinity."""
        return np.array([j for j, known in self.categories.items() if known.finite], np.int64)

    @cached_property
    def _strict(self) -> list[tuple[Callable[..., Any], Array, Array]]:
        """Columns whose values the library checks where the kernels do not, and by which rule."""
        from treeopt.kernels import encode

        strict = []
        if not (self.accepts_nan and self.accepts_inf):
            unread = np.setdiff1d(np.arange(self.n_features), self.compiled.cells.columns)
            strict.append((encode.acceptable, unread, self.compiled.numbers))
        if self.finite_columns.size:
            numbers = self.compiled.numbers.copy()
            numbers[encode.REJECTS_INF] = 1.0
            strict.append((encode.acceptable, self.finite_columns, numbers))
        return [rule for rule in strict if rule[1].size]

    def _reject(
        self, X: Array, row: int, name: str = "X", columns: Array | None = None
    ) -> NoReturn:
        """Raise the error for a row that the model's library would not accept.

        ``columns`` are those that it was refused for, if they are known.
        """
        with np.errstate(all="ignore"):
            x = X[row].astype(self.input_dtype)
        too_large = " or too large for float32" if self.input_dtype == np.float32 else ""
        what = f"infinite{too_large}" if self.accepts_nan else "not finite"
        bad = np.isinf(x) if self.accepts_nan else ~np.isfinite(x)
        bad_columns = np.flatnonzero(bad)
        if columns is not None:
            bad_columns = bad_columns[np.isin(bad_columns, columns)]
        column = int(bad_columns[0])
        label = self.feature_names[column] if self.feature_names else column
        raise InputError(
            f"{name}[{row}, {column}] (feature {label!r}) is {X[row, column]}, {what}: "
            f"{self.source} refuses such values, so its prediction is not defined. Remove or "
            "replace them."
        )


def _validate(e: Ensemble) -> None:
    """Check that the arrays describe proper trees; kernels index them without looking."""
    _require(e, e.link.name in LINKS, f"the link {e.link.name!r} is not one of {listed(LINKS)}")
    is_float = e.value.dtype in _FAST and e.input_dtype in _FAST
    _require(e, is_float, "values and inputs must be float32 or float64")
    _require(e, 0 <= e.n_features <= MAX_FEATURES, f"it claims {e.n_features} features")
    _require(e, e.importances.shape == (e.n_features,), "there must be one importance per feature")
    named = e.feature_names is None or len(e.feature_names) == e.n_features
    _require(e, named, "there must be one name per feature")
    n = e.left.size
    per_node = (e.feature, e.threshold, e.right, e.value, e.default_left, e.zero_missing)
    same = all(a.shape == (n,) for a in (*per_node, e.category_set))
    _require(e, same, "the node arrays differ in length")
    start = e.tree_start
    whole = (
        start.size >= 2 and start[0] == 0 and start[-1] == n and bool((np.diff(start) > 0).all())
    )
    _require(e, whole, "there are no trees, or a tree has no nodes")
    inner = np.flatnonzero(e.left >= 0)
    children = np.concatenate([e.left[inner], e.right[inner]]).astype(np.int64)
    parents = np.concatenate([inner, inner])
    tree = np.repeat(np.arange(start.size - 1), np.diff(start))
    in_order = (
        bool(((children > parents) & (children < n)).all())
        and children.size == n - (start.size - 1)
        and np.bincount(children, minlength=n).max(initial=0) <= 1
        and bool((tree[children] == tree[parents]).all())
    )
    _require(e, in_order, "the children of a node are not a tree in order")
    feature, threshold = e.feature[inner], e.threshold[inner]
    known = bool(((feature >= 0) & (feature < e.n_features)).all())
    _require(e, known, "a split reads a feature that is not there")
    by_set = e.category_set[inner] >= 0
    ordered = ~(np.isnan(threshold) | np.isneginf(threshold))
    _require(e, bool((ordered | by_set).all()), "a threshold is NaN or -inf")
    _validate_numbers(e)
    _validate_sets(e, inner[by_set], np.unique(feature[~by_set]))


def _validate_numbers(e: Ensemble) -> None:
    """Check that all numbers which are added are finite in the precision of the sum.

    Values of nodes that are no leaves are never read, so they may be anything.
    """
    remedy = "Train the model on a scaled target, such as y / 1e10"
    leaf_value = e.value[e.left < 0]
    bad = leaf_value[~np.isfinite(leaf_value)].tolist()
    share = f"{len(bad)} of {leaf_value.size} leaf values are not finite, the first is"
    _require(e, not bad, f"{share} {[*bad, 0][0]}. {remedy}")
    with np.errstate(all="ignore"):
        base, divisor = np.array([e.base, e.divisor]).astype(e.value.dtype)
    start = f"base is {base} as {base.dtype}, not finite. {remedy}"
    is_finite = bool(np.isfinite(base))
    _require(e, is_finite, f"{start}; if it has a base_score, with one that is positive")
    positive = bool(0 < divisor < np.inf)
    _require(e, positive, f"the divisor is {divisor} as {divisor.dtype}. Pass a positive number")


def _validate_sets(e: Ensemble, nodes: Array, ordered: Array) -> None:
    """Check the sets of categories; ``nodes`` split by them, ``ordered`` are other features."""
    start, member = e.set_start, e.set_member
    whole = start.size >= 1 and start[0] == 0 and start[-1] == member.size
    _require(e, whole and bool((np.diff(start) >= 0).all()), "the sets of categories are damaged")
    used = np.unique(e.feature[nodes])
    apart = not np.isin(used, ordered).any()
    _require(e, apart, "a feature is split both by threshold and by category")
    listed_all = all(int(j) in e.categories for j in used)
    _require(e, listed_all, "a feature is split by categories that are not given")
    _require(e, not e.zero_missing[nodes].any(), "zero cannot be missing among categories")
    n_sets = start.size - 1
    _require(e, bool((e.category_set < n_sets).all()), "a split reads a set that is not there")
    largest = np.full(n_sets, np.iinfo(np.int32).max)
    for j in used:
        sets = e.category_set[nodes[e.feature[nodes] == j]]
        np.minimum.at(largest, sets, len(e.categories[int(j)]) - 1)
    within = (member >= -1) & (member <= np.repeat(largest, np.diff(start)))
    _require(e, bool(within.all()), "a set holds a category that is not there")
    for j, categories in e.categories.items():
        _require(e, 0 <= j < e.n_features, f"feature {j}, which has categories, is not there")
        shapes = {a.shape for a in (categories.value, categories.lower, categories.upper)}
        _require(e, shapes == {(len(categories),)}, "categories differ in length")
        ends = np.column_stack([categories.lower, categories.upper]).ravel()
        rising = bool((np.diff(ends) >= 0).all() and (categories.lower < categories.upper).all())
        _require(e, rising and not np.isnan(ends).any(), "categories overlap or are out of order")


def _require(e: Ensemble, holds: bool, otherwise: str) -> None:
    if not holds:
        raise ModelFormatError(f"{e.source}: {otherwise}.")
