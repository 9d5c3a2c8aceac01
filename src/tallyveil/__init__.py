"""Differential privacy for counts of people that nest in geography.

``import tallyveil as tv`` loads nothing heavy: a part is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyveil import errors, evaluate, files, mechanisms, populations, privacy, risk, scale
    from tallyveil.allocation.allocate import allocate
    from tallyveil.blue.estimate import estimate
    from tallyveil.engine.topdown import topdown
    from tallyveil.files.release_folder.read_folder import read_release
    from tallyveil.files.release_folder.write_folder import write_release
    from tallyveil.files.tables.read import read_counts
    from tallyveil.mechanisms.measure import measure
    from tallyveil.nouns import census_schemas as schemas
    from tallyveil.nouns.areas import Areas
    from tallyveil.nouns.counts import Counts
    from tallyveil.nouns.estimates import Estimates, Sample
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Filter, Histogram
    from tallyveil.nouns.optimised_spine import OptimisedSpine
    from tallyveil.nouns.population import Population
    from tallyveil.nouns.schema import Grouping, Query, Schema
    from tallyveil.nouns.spine import Spine
    from tallyveil.privacy.strategy import Strategy
    from tallyveil.protection.protect import protect, protect_to_folder
    from tallyveil.protection.verify import sign_release, verify_release
    from tallyveil.release.about import About
    from tallyveil.release.certificate import Certificate
    from tallyveil.release.measurements import Measurements
    from tallyveil.release.release import Release
    from tallyveil.report.page import write_report

__version__ = "0.2.0"

# Where each public name lives: nouns first, then the verbs people need, then the parts of the package.
_HOME = {
    "About": "release.about",
    "Areas": "nouns.areas",
    "Certificate": "release.certificate",
    "Counts": "nouns.counts",
    "Estimates": "nouns.estimates",
    "Facilities": "nouns.facilities",
    "Filter": "nouns.histogram",
    "Grouping": "nouns.schema",
    "Histogram": "nouns.histogram",
    "Measurements": "release.measurements",
    "OptimisedSpine": "nouns.optimised_spine",
    "Population": "nouns.population",
    "Query": "nouns.schema",
    "Release": "release.release",
    "Sample": "nouns.estimates",
    "Schema": "nouns.schema",
    "Spine": "nouns.spine",
    "Strategy": "privacy.strategy",
    "allocate": "allocation.allocate",
    "estimate": "blue.estimate",
    "measure": "mechanisms.measure",
    "protect": "protection.protect",
    "protect_to_folder": "protection.protect",
    "read_counts": "files.tables.read",
    "read_release": "files.release_folder.read_folder",
    "sign_release": "protection.verify",
    "topdown": "engine.topdown",
    "verify_release": "protection.verify",
    "write_release": "files.release_folder.write_folder",
    "write_report": "report.page",
}
_PARTS = {
    "errors": "errors",
    "evaluate": "evaluate",
    "files": "files",
    "mechanisms": "mechanisms",
    "populations": "populations",
    "privacy": "privacy",
    "risk": "risk",
    "scale": "scale",
    "schemas": "nouns.census_schemas",
}
__all__ = [
    "About",
    "Areas",
    "Certificate",
    "Counts",
    "Estimates",
    "Facilities",
    "Filter",
    "Grouping",
    "Histogram",
    "Measurements",
    "OptimisedSpine",
    "Population",
    "Query",
    "Release",
    "Sample",
    "Schema",
    "Spine",
    "Strategy",
    "allocate",
    "errors",
    "estimate",
    "evaluate",
    "files",
    "measure",
    "mechanisms",
    "populations",
    "privacy",
    "protect",
    "protect_to_folder",
    "read_counts",
    "read_release",
    "risk",
    "scale",
    "schemas",
    "sign_release",
    "topdown",
    "verify_release",
    "write_release",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"tallyveil.{_HOME[name]}"), name)
    if name in _PARTS:
        return import_module(f"tallyveil.{_PARTS[name]}")
    raise AttributeError(f"module 'tallyveil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
