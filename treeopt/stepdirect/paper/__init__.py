"""StepDIRECT as published, and nothing else: one module per section of the paper.

D. T. Phan, H. Liu and L. M. Nguyen, "StepDIRECT - A Derivative-Free Optimization Method for
Stepwise Functions". Start at `algorithm`, which is Algorithm 1. Numbers of sections, equations,
definitions and steps are those of the paper. A `Choice:` line marks each place where the paper
leaves something open, or where we deviate from it, with the reason.
"""
