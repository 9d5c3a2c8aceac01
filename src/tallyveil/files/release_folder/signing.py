"""Signatures: the holder of a private key vouches for a certificate and, through its list of files, for the folder.

Ed25519 (RFC 8032). The private key is an unencrypted PEM file (PKCS 8) that only its owner can read. The public key is
beside it as ``<name>.pub`` and should be published separately from the releases. The signature of the bytes of
``certificate.json`` has 64 bytes.
"""

from __future__ import annotations

import os
import stat
from os import PathLike
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from tallyveil.errors import InputError
from tallyveil.files.atomic import refuse_inside_release

SIGNATURE_SIZE = 64


def write_key_pair(path: str | PathLike[str]) -> Path:
    """Write a new private key (mode 0600) and its public key, ``<name>.pub``; nothing is overwritten."""
    private, public = Path(path), public_path(path)
    refuse_inside_release(private)  # which will be published
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    published = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if os.path.lexists(public):
        raise InputError(f"{public} exists. Name a new key; nothing is overwritten.")
    _write_new(private, secret, 0o600)
    try:
        _write_new(public, published, 0o644)
    except BaseException:
        private.unlink()
        raise
    return public


def public_path(path: str | PathLike[str]) -> Path:
    """The path of a private key's public key.

    >>> str(public_path("keys/office"))
    'keys/office.pub'
    """
    private = Path(path)
    return private.with_name(f"{private.name}.pub")


def read_signing_key(path: str | PathLike[str]) -> Ed25519PrivateKey:
    """Read a private key; a file that others may read is refused."""
    file = Path(path)
    try:
        with file.open("rb") as handle:
            mode = stat.S_IMODE(os.fstat(handle.fileno()).st_mode)
            data = handle.read(1 << 16)
    except OSError as problem:
        raise InputError(
            f"{file}: cannot be read ({problem.strerror}). Make a key with: tallyveil keygen -o {file}"
        ) from None
    if b"PUBLIC KEY" in data:
        raise InputError(f"{file}: a public key, which cannot sign. Give the private one, the file without .pub.")
    if mode & 0o077 and os.name == "posix":
        raise InputError(f"{file}: others may read this key (mode {mode:04o}). Run: chmod 600 {file}")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{file}: not a private Ed25519 key. Make one with: tallyveil keygen -o KEY")
    return key


def read_public_key(path: str | PathLike[str]) -> Ed25519PublicKey:
    """Read a public key."""
    file = Path(path)
    try:
        with file.open("rb") as handle:
            data = handle.read(1 << 16)
    except OSError as problem:
        raise InputError(f"{file}: cannot be read ({problem.strerror}). Give the signer's public key.") from None
    try:
        key = load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        secret = b"PRIVATE KEY" in data
        wrong = "a private key, which nobody else should have" if secret else "not a public Ed25519 key"
        raise InputError(f"{file}: {wrong}. Give the file that ends in .pub.")
    return key


def signature_holds(key: Ed25519PublicKey, signature: bytes, certificate: bytes) -> bool:
    """Whether the holder of the private key signed these bytes."""
    try:
        key.verify(signature, certificate)
    except InvalidSignature:
        return False
    return True


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise InputError(f"{path} exists. Name a new key; nothing is overwritten.") from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror}). Name a file in a folder you own.") from None
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    except OSError as problem:
        path.unlink(missing_ok=True)
        raise InputError(
            f"{path}: cannot be written ({problem.strerror}). Free some space, or name another file."
        ) from None
