"""Run tools and kernels, and keep their raw output. Imports none of parse, judge, render."""
