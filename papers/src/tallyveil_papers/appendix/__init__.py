"""Items of petti2020's Supplementary Methods Appendix: how the empirical privacy loss was designed and validated."""

from tallyveil_papers.appendix.items import ITEMS

__all__ = ["ITEMS"]
