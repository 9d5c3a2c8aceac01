"""Synthetic censuses in the shapes that the papers study. Nobody in them exists, so they need no protection."""

from tallyveil.nouns.population import Population
from tallyveil.populations.census_1940 import census_1940
from tallyveil.populations.census_2020 import census_2020
from tallyveil.populations.uniform import uniform_tree

__all__ = ["Population", "census_1940", "census_2020", "uniform_tree"]
