"""The Supplementary Methods Appendix of petti2020: how the empirical privacy loss was designed and validated."""
