"""One model, bit for bit: its trees as flat arrays, and the ways to evaluate them."""
