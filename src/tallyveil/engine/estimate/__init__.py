"""The estimate of a parent's children: a least-squares problem, its reductions and its solvers."""
