"""A release's folder as an entry of a ledger: its cost is computed again from its strategy and its spine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet

from tallyveil.errors import FolderError
from tallyveil.files.ledger.programme import Entry
from tallyveil.files.release_folder.certificate_checks import check_page
from tallyveil.files.release_folder.certificate_file import certificate_in, read_certificate, stamps_of
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import (
    CERTIFICATE,
    CODEBOOK,
    FACILITIES,
    MEASURED_SPINE,
    PAGE,
    RELEASE,
    SOURCE,
    SPINE,
    STRATEGY,
)
from tallyveil.files.release_folder.manifest import listed_files, sealed, sha256_of
from tallyveil.files.release_folder.measurement_files import digest_of_values
from tallyveil.files.release_folder.read_folder import read_optimised, read_spine
from tallyveil.files.tables.codebook_toml import read_codebook
from tallyveil.privacy.budget import rounded_up
from tallyveil.privacy.guarantee import constraints_in_words, invariants_in_words
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.sentences import SEEDED
from tallyveil.privacy.several_releases import cost_of
from tallyveil.privacy.strategy_toml import read_strategy
from tallyveil.release.canonical import MANIFEST, certificate_digest
from tallyveil.release.certificate import Certificate

OF_THE_COST = frozenset({PAGE, STRATEGY, CODEBOOK, SOURCE, SPINE, MEASURED_SPINE})  # small, unlike the tables of counts


def loss_in(folder: Path) -> Loss:
    """The privacy loss of a release, on the spine that it was measured on if the folder has one."""
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such folder. Give the folder of a release.")
    if not (folder / STRATEGY).is_file():
        raise FolderError(f"{folder}: no {STRATEGY} in it. Give the folder of a release.")
    refuse_altered(folder)
    strategy = read_strategy(folder / STRATEGY)
    if not ((folder / CODEBOOK).is_file() and (folder / SPINE).is_file()):
        return Loss(strategy=strategy)
    spine, book = read_spine(folder), read_codebook(folder / CODEBOOK)
    strategy.check(spine, book.schema)
    return Loss(
        strategy=strategy, spine=spine, schema=book.schema, optimised=read_optimised(folder, spine),
        rows_per_person=book.rows_per_person or 1,
    )  # fmt: skip


def refuse_altered(folder: Path) -> None:
    """Refuse a folder in which a file that the cost follows from is not the one that its certificate lists.

    The certificate must be that of its page, and one that states a seed has the stamp of seeded noise. Counts and
    measurements are not hashed here: the cost does not follow from them. The first folders had no list of files and
    stated no seed; there is nothing to compare them with.
    """
    certificate = read_certificate(folder) if (folder / CERTIFICATE).is_file() else {}
    declared = certificate.get("declared")
    seeded = declared.get("seeded") if isinstance(declared, Mapping) else None
    if MANIFEST not in certificate and seeded is None:
        return
    try:
        if seeded is True and SEEDED not in stamps_of(certificate):
            raise BrokenError(f"{CERTIFICATE} states that the noise comes from a seed, but has no stamp that says so")
        listed = {name: digest for name, digest in listed_files(certificate).items() if name in OF_THE_COST}
        with sealed(folder) as opened:
            part = replace(opened, files=opened.files & OF_THE_COST)
            part.match(listed)
            check_page(part, certificate)
    except (BrokenError, UncheckedError) as problem:
        raise FolderError(
            f"{folder}: the files and the certificate differ ({problem}). See: tallyveil verify {folder}"
        ) from None


def content_of(folder: Path, loss: Loss) -> dict[str, str]:
    """Digests of what equal identifiers promise to be equal: what is measured, the noisy answers, and the release.

    The release is compared only with one that the same versions computed with the same post-processing. Exact answers
    are left out, so that nothing is a function of the people alone.
    """
    if loss.spine is None or loss.schema is None:
        return {}
    plan, facilities, kept = loss.strategy, folder / FACILITIES, read_codebook(folder / CODEBOOK).filter
    asked: list[object] = [*loss.spine.canonical_bytes(), loss.schema.canonical()]
    asked += [*loss.measured.canonical_bytes(), *plan.canonical_bytes(), kept and sorted(kept.where.items())]
    made: list[object] = [plan.rounding, plan.passes, plan.estimator, plan.information_level, plan.constraints]
    made += [loss.schema.possible.tobytes(), sha256_of(facilities) if facilities.is_file() else None]
    made += [certificate_in(folder).declared.versions, pyarrow.parquet.read_metadata(folder / RELEASE).created_by]
    answers = (folder / "measurements").glob("*/*.parquet")  # exact ones are a folder deeper
    return {
        "what is measured": sha256(repr(asked).encode()).hexdigest(),
        f"{RELEASE}, {sha256(repr(made).encode()).hexdigest()}": sha256_of(folder / RELEASE),
        **{path.relative_to(folder).as_posix(): digest_of_values(path) for path in sorted(answers)},
    }


def entry_of_folder(folder: Path) -> Entry:
    """What a ledger records about a release; a certificate that states another loss is refused."""
    loss = loss_in(folder)
    if not (folder / CERTIFICATE).is_file():
        raise FolderError(f"{folder}: no {CERTIFICATE} in it. Give the folder of a release.")
    certificate = certificate_in(folder)
    entry = entry_of(folder.resolve().name, loss, certificate)
    guarantee = certificate.declared.guarantee
    stated = guarantee.epsilon if guarantee.rho is None else guarantee.rho
    if not math.isclose(stated, rounded_up(entry.cost.loss), rel_tol=1e-9):
        raise FolderError(
            f"{folder}: the certificate states {stated:g}, but the strategy costs {float(entry.cost.loss):g}. "
            f"See: tallyveil verify {folder}"
        )
    cost = replace(entry.cost, content=content_of(folder, loss))
    return replace(entry, cost=cost, certificate=certificate_digest(read_certificate(folder)))


def entry_of(name: str, loss: Loss, certificate: Certificate) -> Entry:
    """What a ledger records about a release with this certificate; its line and status come with the ledger."""
    declared = certificate.declared
    return Entry(
        line=0,
        status="published",
        cost=cost_of(name, loss, certificate.measurement),
        population=declared.population,
        reference=declared.reference,
        certificate=certificate_digest(certificate.to_json()),
        stamps=declared.stamps,
        seeded=declared.seeded is True,
        filter=None if declared.filter is None else declared.filter.words,
        invariants=tuple(invariants_in_words(loss.strategy, loss.schema)),
        constraints=tuple(constraints_in_words(loss.strategy, loss.schema)),
    )
