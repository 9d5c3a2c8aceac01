"""Files in and files out: tables, side tables, and the formats of the Census Bureau and IPUMS."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyveil.files.formats.by_name import read_format, recognise_format
    from tallyveil.files.formats.census import Census1940, Census2020
    from tallyveil.files.formats.ipums_read import read_ipums_1940
    from tallyveil.files.formats.mdf_1940 import read_mdf_1940, write_mdf_1940
    from tallyveil.files.formats.mdf_2020 import read_mdf_2020, write_mdf_2020
    from tallyveil.files.formats.ppmf_2010 import read_ppmf_2010
    from tallyveil.files.published.write_tables import write_tables
    from tallyveil.files.release_folder.findings import Finding
    from tallyveil.files.release_folder.margin_columns import write_margins
    from tallyveil.files.release_folder.read_folder import read_release
    from tallyveil.files.release_folder.write_folder import write_release
    from tallyveil.files.tables.codebook import Codebook
    from tallyveil.files.tables.codebook_toml import codebook_from_toml, codebook_to_toml, read_codebook
    from tallyveil.files.tables.draft import Draft, draft_codebook, draft_table, read_dictionary
    from tallyveil.files.tables.geography import read_units
    from tallyveil.files.tables.read import read_counts
    from tallyveil.files.tables.side import read_areas, read_facilities, read_housing
    from tallyveil.files.tables.write import write_counts
    from tallyveil.privacy.sentences import LABELS_FROM_DATA, UNITS_FROM_DATA

_HOME = {
    "LABELS_FROM_DATA": "tables.read",
    "UNITS_FROM_DATA": "tables.read",
    "Census1940": "formats.census",
    "Census2020": "formats.census",
    "Codebook": "tables.codebook",
    "Draft": "tables.draft",
    "Finding": "release_folder.findings",
    "codebook_from_toml": "tables.codebook_toml",
    "codebook_to_toml": "tables.codebook_toml",
    "draft_codebook": "tables.draft",
    "draft_table": "tables.draft",
    "read_areas": "tables.side",
    "read_codebook": "tables.codebook_toml",
    "read_counts": "tables.read",
    "read_dictionary": "tables.draft",
    "read_facilities": "tables.side",
    "read_format": "formats.by_name",
    "read_housing": "tables.side",
    "read_ipums_1940": "formats.ipums_read",
    "read_mdf_1940": "formats.mdf_1940",
    "read_mdf_2020": "formats.mdf_2020",
    "read_ppmf_2010": "formats.ppmf_2010",
    "read_release": "release_folder.read_folder",
    "read_units": "tables.geography",
    "recognise_format": "formats.by_name",
    "write_counts": "tables.write",
    "write_margins": "release_folder.margin_columns",
    "write_mdf_1940": "formats.mdf_1940",
    "write_mdf_2020": "formats.mdf_2020",
    "write_release": "release_folder.write_folder",
    "write_tables": "published.write_tables",
}
__all__ = [
    "LABELS_FROM_DATA",
    "UNITS_FROM_DATA",
    "Census1940",
    "Census2020",
    "Codebook",
    "Draft",
    "Finding",
    "codebook_from_toml",
    "codebook_to_toml",
    "draft_codebook",
    "draft_table",
    "read_areas",
    "read_codebook",
    "read_counts",
    "read_dictionary",
    "read_facilities",
    "read_format",
    "read_housing",
    "read_ipums_1940",
    "read_mdf_1940",
    "read_mdf_2020",
    "read_ppmf_2010",
    "read_release",
    "read_units",
    "recognise_format",
    "write_counts",
    "write_margins",
    "write_mdf_1940",
    "write_mdf_2020",
    "write_release",
    "write_tables",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"tallyveil.files.{_HOME[name]}"), name)
    raise AttributeError(f"module 'tallyveil.files' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
