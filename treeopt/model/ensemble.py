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
