"""flaxman2019: residuals and loss of three mechanisms, direct estimates, the sweep, and what a move costs."""
