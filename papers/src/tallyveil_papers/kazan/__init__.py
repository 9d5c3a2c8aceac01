"""kazan2022: disclosure risk of the 2020 redistricting file, on one level and on two.

Ours are sums computed by the library. Each figure that nothing published confirms is confirmed by a sum written out
(``plain_sums``) or by what the errata give.
"""
