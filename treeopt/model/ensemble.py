"""`Ensemble`: any supported model as flat arrays. Everything else in treeopt reads only this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treeopt.model.predictor import Predictor

if TYPE_CHECKING:
    from treeopt.model.leaf_boxes import LeafBoxes
    from treeopt.model.walker import Line, Walker


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Ensemble(Predictor):
    """A sum of piecewise-constant trees, bit-equal to the model it was made from.

    The prediction is ``link((base + value[leaf_0] + value[leaf_1] + ...) / divisor)``, added from
    left to right in the dtype of ``value``. A node sends an input, after the cast to
    ``input_dtype``, to the right child if and only if ``x > threshold``; one with a set of
    categories, if and only if the input's category is not in the set.

    Use `treeopt.from_model` to make one.

    Attributes
    ----------
    feature, threshold, left, right, value : arrays, one entry per node
        Feature and cut of the split, children (indices into these arrays), contribution to the sum.
        Leaves have ``left == right == feature == -1``. Children come after their parent.
    default_left : bool array
        Whether a missing value goes to the left child.
    zero_missing : bool array
        Whether zero (within LightGBM's limit) counts as missing at this node.
    category_set : int32 array
        Set of categories that go to the left child; -1 if the split is by threshold.
    set_start, set_member : int64 and int32 arrays
        Start of each set in ``set_member``, and the members: indices into the categories of the
        feature; -1 stands for all inputs of unknown category.
    tree_start : int64 array
        First node of each tree, its root, and the number of nodes at the end.
    n_features : int
        Number of input columns.
    feature_names : tuple of str or None
        Names of the columns; None if the model has none.
    importances : float64 array
        Importance of each feature; sums to 1.
    input_dtype : dtype
        Inputs are cast to this before any comparison.
    array_dtype : dtype
        Arrays that are neither float32 nor float64 become this first.
    base, divisor : float
        Start and divisor of the sum. Base, divisor and leaf values are finite in the dtype of
        ``value``; the divisor is positive.
    link : Link
        Function from the sum to the prediction.
    categories : mapping from int to Categories
        Categories of each categorical feature.
    frame_labels : tuple of tuples or None
        For LightGBM: labels of the ``category`` columns of a frame, in the order of these columns.
        None for other libraries.
    cast_apart : {"never", "nullable", "always"}
        When the library casts each column of a frame to ``input_dtype`` separately, instead of
        converting all columns to a common type first: always (XGBoost), or if some columns are
        nullable or Boolean (trees and forests of scikit-learn).
    accepts_nan, accepts_inf : bool
        Whether the model's own ``predict`` accepts missing and infinite values.
    missing_value : float
        Additional value that means missing, as XGBoost's ``missing=``; NaN if there is none.
    source : str
        Class of the model, for messages.
    """

    def __repr__(self) -> str:
        return (
            f"<Ensemble of {self.source}: {self.n_trees} trees, {self.n_leaves} leaves, "
            f"{self.n_features} features>"
        )

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
        """Return the piecewise-constant function along one coordinate through ``x``.

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
        """Return the boxes of all leaves, in terms of inputs after the cast.

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
