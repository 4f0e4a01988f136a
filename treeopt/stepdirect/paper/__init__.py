"""StepDIRECT as published, one module per section of the paper.

D. T. Phan, H. Liu and L. M. Nguyen, "StepDIRECT - A Derivative-Free Optimization Method for
Stepwise Functions". `algorithm` is Algorithm 1.
"""
