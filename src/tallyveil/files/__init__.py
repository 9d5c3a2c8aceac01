"""Files in and files out: tables, side tables, and the formats of the Census Bureau and IPUMS."""

from tallyveil.files.codebook import Codebook, codebook_from_toml, codebook_to_toml, read_codebook
from tallyveil.files.draft import draft_codebook
from tallyveil.files.geography import read_units
from tallyveil.files.nhgis import write_nhgis
from tallyveil.files.side import read_areas, read_facilities, read_housing
from tallyveil.files.tables import FROM_DATA, read_counts
from tallyveil.files.write import write_counts

__all__ = [
    "FROM_DATA",
    "Codebook",
    "codebook_from_toml",
    "codebook_to_toml",
    "draft_codebook",
    "read_areas",
    "read_codebook",
    "read_counts",
    "read_facilities",
    "read_housing",
    "read_units",
    "write_counts",
    "write_nhgis",
]
