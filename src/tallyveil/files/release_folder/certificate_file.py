"""``certificate.json`` in a release's folder: canonical JSON with the list of the other files, and its signature."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tallyveil.errors import FolderError, InputError
from tallyveil.files.atomic import replacing
from tallyveil.files.release_folder.layout import CERTIFICATE, SIGNATURE
from tallyveil.release.canonical import MANIFEST, canonical_bytes, parse_json
from tallyveil.release.certificate import Certificate


def certificate_in(folder: Path) -> Certificate:
    """The certificate of a folder, without its list of files."""
    table = read_certificate(folder)
    try:
        return Certificate.from_json({name: part for name, part in table.items() if name != MANIFEST})
    except FolderError as problem:
        _refuse_other_version(folder / CERTIFICATE, table, problem)
        raise problem.located(folder / CERTIFICATE) from None


def read_certificate(folder: Path) -> dict[str, Any]:
    """The certificate of a folder."""
    path = folder / CERTIFICATE
    try:
        certificate = parse_json(path.read_bytes())
    except OSError as problem:
        raise FolderError(f"{path}: cannot be read ({problem.strerror}). Copy the folder again.") from None
    except InputError as problem:
        raise problem.located(path) from None
    if not isinstance(certificate, dict):
        raise FolderError(f"{path}: not a certificate. It has the fields declared and observed. Copy the folder again.")
    return certificate


def write_certificate(
    certificate: Mapping[str, Any], listed: Mapping[str, str], place: Path, *, key: Ed25519PrivateKey | None = None
) -> None:
    """Write a certificate with its list of files into a folder, and its signature beside it."""
    data = certificate_bytes(certificate, listed)
    with replacing(place / CERTIFICATE) as temporary:
        temporary.write_bytes(data)
    if key is not None:
        with replacing(place / SIGNATURE) as temporary:
            temporary.write_bytes(key.sign(data))


def certificate_bytes(certificate: Mapping[str, Any], listed: Mapping[str, str]) -> bytes:
    """A certificate with a list of files, as canonical JSON."""
    try:
        return canonical_bytes({**certificate, MANIFEST: dict(listed)})
    except InputError as problem:
        raise FolderError(f"the certificate {problem}") from None


def stamps_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The stamps in a certificate."""
    return _texts(_declared(certificate, "stamps"))


def shaped_by_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What the measured spine depends on, according to a certificate."""
    return _texts(_declared(certificate, "measured_on", "shaped_by"))


def _declared(certificate: Mapping[str, Any], *path: str) -> Any:
    """A field of the declared part, or None if the certificate lacks it."""
    value: Any = certificate
    for name in ("declared", *path):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _refuse_other_version(path: Path, certificate: Mapping[str, Any], problem: FolderError) -> None:
    """If another version wrote a certificate that cannot be read, name that version."""
    stated, here = _declared(certificate, "versions", "tallyveil"), version("tallyveil")
    if isinstance(stated, str) and stated != here:
        reason = str(problem).removesuffix(" Copy the folder again.").removesuffix(".")
        raise FolderError(
            f"{path}: written by tallyveil {stated}, which tallyveil {here} cannot read ({reason}). "
            f"Read the folder with tallyveil {stated}."
        ) from None
