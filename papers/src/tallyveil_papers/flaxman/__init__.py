"""Items of flaxman2019: residuals and loss of three mechanisms, direct estimates, the sweep, and what a move costs."""

from tallyveil_papers.flaxman.items import ITEMS

__all__ = ["ITEMS"]
