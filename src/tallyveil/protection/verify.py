"""Verify a release folder from its own content alone, and sign a folder that passes.

The certificate and its list of files come first: a file whose SHA-256 differs from the list is never parsed. Then the
content is checked: files, columns and types; sums, bounds, invariants and budget; measurements; and what is declared.
On the versions and the platform that made the release, the page is rendered and, where all measurements are saved,
TopDown is run again; both must give the same result. Each check ends in a finding, whatever the files contain. A check
that cannot be made is reported as unchecked.

Verification cannot show that the files of an unsigned folder were not all changed together, nor that the noise was
drawn as declared.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tallyveil.engine.exact_values import exact_values
from tallyveil.engine.run_limits import run_limits
from tallyveil.engine.topdown import topdown
from tallyveil.errors import InputError
from tallyveil.files.atomic import replacing
from tallyveil.files.release_folder.certificate_checks import (
    check_declared,
    check_observed,
    check_page,
    check_rendering,
    check_signature,
    check_stamps,
)
from tallyveil.files.release_folder.constraint_checks import NUMBERS
from tallyveil.files.release_folder.findings import BrokenError, Finding, Findings, UncheckedError
from tallyveil.files.release_folder.layout import CERTIFICATE, SIGNATURE
from tallyveil.files.release_folder.level_checks import check_children, check_level_tables, read_levels
from tallyveil.files.release_folder.manifest import Sealed, listed_files, sealed
from tallyveil.files.release_folder.mdf_files import check_mdf_files
from tallyveil.files.release_folder.measurement_checks import all_saved, check_measurements, saved_again
from tallyveil.files.release_folder.signing import read_public_key, read_signing_key
from tallyveil.files.release_folder.strict import (
    ReadRelease,
    check_codebook,
    check_names,
    check_strategy,
    leave_spelling_unchecked,
    other_versions,
    read_codebook_strictly,
    read_facilities_strictly,
    read_measured_spine_strictly,
    read_people_strictly,
    read_source_strictly,
    read_spine_strictly,
    read_strategy_strictly,
)
from tallyveil.mechanisms.measure import exact_answers
from tallyveil.privacy.guarantee import ExactCounts
from tallyveil.protection.estimate_checks import check_estimates
from tallyveil.release.canonical import canonical_bytes
from tallyveil.release.certificate import Observed


def verify_release(folder: str | PathLike[str], public_key: str | PathLike[str] | None = None) -> list[Finding]:
    """Verify a release folder, and with a public key its signature. It holds if no finding's ``holds`` is False."""
    place = _folder(folder)
    key = None if public_key is None else read_public_key(public_key)
    with sealed(place) as opened:
        return _findings(opened, key)


def sign_release(folder: str | PathLike[str], key: str | PathLike[str]) -> Path:
    """Verify a release folder and sign it: write ``certificate.sig`` into it."""
    place = _folder(folder)
    private = read_signing_key(key)
    target = place / SIGNATURE
    if os.path.lexists(target):
        raise InputError(f"{target} exists: the folder is signed. Remove it to sign again; nothing is overwritten.")
    with sealed(place) as opened:
        failing = [finding for finding in _findings(opened, None) if finding.holds is False]
        certificate = opened.certificate
    if failing or not isinstance(certificate, bytes):
        words = "; ".join(f"{finding.name}: {finding.words}" for finding in failing[:2])
        raise InputError(f"{place} does not hold, so it is not signed ({words}). See: tallyveil verify {place}")
    with replacing(target) as temporary:
        temporary.write_bytes(private.sign(certificate))
    return target


def _folder(folder: str | PathLike[str]) -> Path:
    place = Path(folder)
    if not place.is_dir():
        what = "not a folder" if place.exists() else "no such folder"
        raise InputError(f"{place}: {what}. Give the folder of a release.")
    return place


def _findings(folder: Sealed, key: Ed25519PublicKey | None) -> list[Finding]:
    findings = Findings(str(folder.place))
    certificate = findings.check("certificate", lambda: ("canonical, and can be read", folder.parsed()))
    findings.check("signature", lambda: (check_signature(folder, key), None))
    if certificate is None:
        findings.check("files", lambda: check_names(folder, None, None))
        return findings.found
    findings.check("manifest", lambda: (folder.match(listed_files(certificate)), None))
    strategy = findings.check("shares", lambda: read_strategy_strictly(folder))
    book = findings.check("labels", lambda: read_codebook_strictly(folder))
    findings.check("files", lambda: check_names(folder, strategy, book))
    findings.check("page", lambda: (check_page(folder, certificate), None))
    other = other_versions(certificate)
    findings.check("rendering", lambda: (check_rendering(folder, certificate, strategy, other=other), None))
    findings.check("observed", lambda: (check_observed(certificate), None))
    spine = findings.check("spine", lambda: read_spine_strictly(folder, book))
    people = findings.check("counts", lambda: read_people_strictly(folder, book, spine))
    if strategy is None or book is None or people is None:
        return findings.found
    strictly = other is None
    if findings.check("strategy", lambda: check_strategy(folder, strategy, people, strictly=strictly)) is None:
        return findings.found
    findings.check("codebook", lambda: (check_codebook(folder, book, people, strictly=strictly), None))
    if other is not None:
        findings.check("spelling", lambda: leave_spelling_unchecked(folder, other))
    source = findings.check("source", lambda: read_source_strictly(folder, people, strictly=strictly))
    release = ReadRelease(
        folder=folder,
        certificate=certificate,
        strategy=strategy,
        people=people,
        facilities=findings.check("facilities", lambda: read_facilities_strictly(folder, strategy, people)),
        optimised=findings.check(
            "measured spine", lambda: read_measured_spine_strictly(folder, certificate, people.spine)
        ),
    )
    findings.check("stamps", lambda: (check_stamps(release, source), None))
    _check_content(findings, release, other)
    return findings.found


def _check_content(findings: Findings, release: ReadRelease, other: str | None) -> None:
    """The checks that need everything that was read."""
    tables = read_levels(release)
    findings.check("levels", lambda: (check_level_tables(tables), None))
    findings.check("children", lambda: (check_children(tables), None))
    for name, check in NUMBERS.items():
        findings.check(name, lambda check=check: (check(release), None))  # type: ignore[misc]
    findings.check("microdata", lambda: (check_mdf_files(release), None))
    findings.check("measurements", lambda: (check_measurements(release), None))
    findings.check("estimates", lambda: (check_estimates(release), None))
    findings.check("declared", lambda: (check_declared(release, lambda: _exact_values(release)), None))
    findings.check("post-processing", lambda: (_check_again(findings, release, other), None))


def _exact_values(release: ReadRelease) -> tuple[ExactCounts, ...]:
    """The counts that constraints fix, by the release's own answers to invariants."""
    strategy, exact = release.strategy, exact_answers(release.people, release.strategy)
    built, optimised = release.facilities, release.optimised
    limits = run_limits(release.spine, release.schema, strategy, exact=exact, facilities=built, optimised=optimised)
    return exact_values(limits, strategy)


def _check_again(findings: Findings, release: ReadRelease, other: str | None) -> str:
    """Check that TopDown, run again on the saved measurements, gives the release and the observed figures."""
    saved, all_of_them = all_saved(release)
    if saved < all_of_them:
        raise UncheckedError(f"{saved} of {all_of_them} measured queries are saved: TopDown needs all of them")
    if other is not None:
        raise UncheckedError(f"{other}: TopDown is run again on the same versions only")
    needed = ("manifest", "files", "facilities", "measured spine", "invariants", "measurements")
    wrong = [name for name in needed if not findings.holds(name)]
    if wrong:
        raise UncheckedError(f"{', '.join(wrong)} must hold first")
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        people, solved = topdown(saved_again(release), facilities=release.facilities, run=workers.map)
    people = people if release.optimised is None else release.optimised.restored(people)
    if people != release.people:
        raise BrokenError("TopDown, run again on the measurements, gives other counts than release.parquet")
    if canonical_bytes(Observed(levels=tuple(solved)).to_json()) != canonical_bytes(release.certificate["observed"]):
        raise BrokenError(f"TopDown, run again on the measurements, observes other figures than {CERTIFICATE}")
    return "TopDown, run again on the measurements, gives this release and what was observed"
