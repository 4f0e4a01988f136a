"""Compiled loops: NumPy arrays in, NumPy arrays out, no Python objects.

Every split by threshold, of every supported model, is reduced to one test, ``key[slot] > rank``,
and every split by categories to one bit of a key:

``cell``
    the index of the interval (or category, or "missing") that an input value falls into,
    found by `encode`;
``slot``
    one way of turning the cells of one feature into ordered integer keys. Most features have one
    slot, the identity; a second one sends missing values to the other side, and so on. The key of
    a category has one bit for each set of categories;
``rank``
    the index of the split's threshold among all thresholds of its feature.

`arrays` names the arrays that travel together. `pack` builds the two forms that are evaluated:
`walk` follows packed nodes, `masks` intersects bit masks of leaves. `incremental` and `line`
evaluate after a change of one coordinate and along a whole coordinate. `reach` lists the inputs of
each leaf, `link_functions` turns sums into predictions.
"""
