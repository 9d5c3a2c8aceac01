"""Checks on the certificate and its page: they agree with each other and with the other files."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tallyveil import __version__
from tallyveil.errors import FolderError, InputError
from tallyveil.files.release_folder.certificate_file import shaped_by_of, stamps_of
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import CERTIFICATE, CODEBOOK, PAGE, SIGNATURE, SOURCE
from tallyveil.files.release_folder.manifest import Sealed, regular_file
from tallyveil.files.release_folder.signing import SIGNATURE_SIZE, signature_holds
from tallyveil.files.release_folder.strict import ReadRelease, other_versions
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.read import codebook_stamps
from tallyveil.privacy.guarantee import ExactCounts
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.about import About
from tallyveil.release.canonical import canonical_bytes, certificate_digest, parse_json
from tallyveil.release.certificate import Observed
from tallyveil.release.certificate_page import certificate_html, digest_tag
from tallyveil.release.declare import declared_of, stamps_of_run

SENTENCES = {"words", "holds_for", "neighbours_in_words", "source_in_words", "expected_error"}
_TAG = re.compile('<meta name="certificate-sha256"[^>]*>')


def check_page(folder: Sealed, certificate: Mapping[str, Any]) -> str:
    """The page carries the digest of this certificate, shows its stamps, and hides and runs nothing."""
    page = folder.text(PAGE)
    if _TAG.findall(page) != [digest_tag(certificate_digest(certificate))]:
        raise BrokenError(f"{PAGE} does not carry the SHA-256 of this {CERTIFICATE}: one of them was changed")
    hidden = next((mark for mark in ("<!--", "<script") if mark in page.lower()), None)
    if hidden is not None:
        raise BrokenError(f"{PAGE} has a {'comment' if hidden == '<!--' else 'script'}, which no certificate has")
    missing = [stamp for stamp in stamps_of(certificate) if html.escape(stamp) not in page]
    if missing:
        raise BrokenError(f"{PAGE} does not show the stamp: {missing[0]}")
    return f"carries the SHA-256 of {CERTIFICATE} and shows its stamps"


def check_rendering(
    folder: Sealed, certificate: Mapping[str, Any], strategy: Strategy | None, *, other: str | None
) -> str:
    """The page can be rendered again unchanged; not checked where ``other`` versions made it."""
    if other is not None:
        raise UncheckedError(f"{other}: the page is only rendered again with the same versions")
    if strategy is None:
        raise UncheckedError("the strategy cannot be read")
    if certificate_html(certificate, strategy) != folder.text(PAGE):
        raise BrokenError(f"{PAGE} is not the page of this certificate")
    return "rendered again, the page is the same"


def check_declared(release: ReadRelease, exact_values: Callable[[], Sequence[ExactCounts]]) -> str:
    """The declared part follows from the strategy, the spine and the schema, except for the versions.

    Another version of tallyveil has other sentences and other expected errors; its figures are compared.
    """
    if "measured_on" in release.declared and release.optimised is None:
        raise UncheckedError("the spine that was measured cannot be read")
    seeded = release.declared.get("seeded")
    right = declared_of(
        release.strategy,
        release.spine,
        release.schema,
        facilities=release.facilities is not None or "facilities" in shaped_by_of(release.certificate),
        stamps=stamps_of(release.certificate),
        seeded=seeded if isinstance(seeded, bool) else None,
        optimised=release.optimised,
        filter=release.people.filter,
        rows_per_person=release.people.rows_per_person,
        about=_about(release.declared),
        exact_values=exact_values(),
    )
    versions = release.declared.get("versions")
    theirs = versions.get("tallyveil") if isinstance(versions, Mapping) else None
    skip = {"versions"} if theirs == __version__ else {"versions", *SENTENCES}
    if theirs != __version__:  # 0.1.0 listed what is exact in measured units, and no counts with a single value
        skip |= {"exact"} if "measured_on" in release.declared else set()
        skip |= set() if "exact_values" in release.declared else {"exact_values"}
    place = next(
        _differences(release.declared, parse_json(canonical_bytes(right.to_json())), skip=frozenset(skip)), None
    )
    if place is not None:
        raise BrokenError(f"{CERTIFICATE}, {place}")
    if not isinstance(versions, Mapping) or not all(isinstance(name, str) for name in versions.values()):
        raise BrokenError(f"{CERTIFICATE}, declared versions: {_short(versions)} is not a table of versions")
    return "what strategy, spine and schema give" + (", sentences and expected errors apart" if len(skip) > 1 else "")


def _about(declared: Mapping[str, Any]) -> About:
    """The words about a release that a certificate declares."""
    try:
        return About(**{field.name: declared.get(field.name) for field in fields(About)})
    except InputError as problem:
        raise BrokenError(f"{CERTIFICATE}, declared: {problem}") from None


def check_observed(certificate: Mapping[str, Any]) -> str:
    """The observed part has the figures of each level, their sums and maxima, and nothing else."""
    observed = certificate["observed"]
    try:
        right = Observed.from_json(observed).to_json()
    except (KeyError, TypeError, FolderError) as problem:
        raise BrokenError(f"{CERTIFICATE}, observed: not the figures of levels ({problem})") from None
    place = next(_differences(observed, right, place="observed", giver="the levels give"), None)
    if place is not None:
        raise BrokenError(f"{CERTIFICATE}, {place}")
    return "the figures of the levels add up"


def check_stamps(release: ReadRelease, source: Codebook | None) -> str:
    """The stamps are those of the codebook, and include every stamp that filters, labels or units require."""
    stamps = stamps_of(release.certificate)
    if release.declared.get("stamps") != list(release.people.stamps):
        raise BrokenError(f"{CERTIFICATE}, declared stamps: not those of {CODEBOOK}")
    of_source = () if source is None else codebook_stamps(source, listed=True)
    seeded = release.declared.get("seeded") is True
    needed = [*stamps_of_run(release.people, release.strategy, seeded=seeded), *of_source]
    missing = [stamp for stamp in needed if stamp not in stamps]
    if missing:
        raise BrokenError(f"{CERTIFICATE}, declared stamps: {missing[0]!r} is missing")
    known, stated = None if source is None else source.filter, release.people.filter
    if known is not None and (stated is None or not stated.others) and other_versions(release.certificate):
        known = replace(known, others=()) if known.where else None  # earlier versions declared only what where leaves
    if source is not None and known != stated:
        raise BrokenError(f"{SOURCE} and {CODEBOOK} differ in which rows were counted")
    if source is not None and source.rows_of_person != release.people.rows_per_person:
        raise BrokenError(f"{SOURCE} and {CODEBOOK} differ in how many records a person has")
    return "; ".join(stamps) or "none"


def check_signature(folder: Sealed, key: Ed25519PublicKey | None) -> str:
    """The certificate is signed with the private half of a public key."""
    if SIGNATURE not in folder.files:
        if key is not None:
            raise BrokenError(f"not signed: there is no {SIGNATURE}")
        raise UncheckedError("not signed, so nobody can notice if all files were changed together")
    with regular_file(folder.place / SIGNATURE) as file:
        signature = file.read(SIGNATURE_SIZE + 1)
    if len(signature) != SIGNATURE_SIZE:
        raise BrokenError(f"{SIGNATURE} is not a signature: it does not have {SIGNATURE_SIZE} bytes")
    if key is None:
        raise UncheckedError(f"{SIGNATURE} exists; checking whose it is needs the signer's public key (--public-key)")
    if not isinstance(folder.certificate, bytes) or not signature_holds(key, signature, folder.certificate):
        raise BrokenError(f"{SIGNATURE} is not the signature of this {CERTIFICATE} by this key")
    return f"{CERTIFICATE}, and with it every file it lists, is signed with this key"


def _differences(
    stated: Any,
    right: Any,
    *,
    skip: frozenset[str] = frozenset(),
    place: str = "declared",
    giver: str = "the strategy gives",
) -> Iterator[str]:
    """Where two JSON values differ; floats may differ in their last digits, as they do between platforms."""
    if isinstance(stated, Mapping) and isinstance(right, Mapping):
        for key in [*right, *(key for key in stated if key not in right)]:
            if key not in skip and (key in stated) != (key in right):
                yield f"{place} {key}: {_short(stated.get(key))}, but {giver} {_short(right.get(key))}"
            elif key not in skip:
                yield from _differences(stated.get(key), right.get(key), skip=skip, place=f"{place} {key}", giver=giver)
    elif isinstance(stated, list) and isinstance(right, list) and len(stated) == len(right):
        for i, (stated_item, right_item) in enumerate(zip(stated, right, strict=True)):
            yield from _differences(stated_item, right_item, skip=skip, place=f"{place} {i + 1}", giver=giver)
    elif isinstance(right, float) and isinstance(stated, float | int) and not isinstance(stated, bool):
        if not math.isclose(stated, right, rel_tol=1e-9):
            yield f"{place}: {_short(stated)}, but {giver} {right}"
    elif type(stated) is not type(right) or stated != right:
        yield f"{place}: {_short(stated)}, but {giver} {_short(right)}"


def _short(value: Any, size: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= size else f"{text[:size]}..."
