"""The kernel stages that this repository gates, and the problems that they solve."""
