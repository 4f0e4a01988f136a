"""Plots of results. Each module has a function that computes what to draw and one that draws it."""

from __future__ import annotations

from treeopt.plots.convergence import Convergence, convergence_of, plot_convergence

__all__ = ["Convergence", "convergence_of", "plot_convergence"]
