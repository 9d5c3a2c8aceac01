"""Keys, signatures, and the commands keygen, sign and verify --public-key."""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from typer.testing import CliRunner

from folders import edit, failing, holds, reseal
from small_release import small_noisy, small_release
from tallyveil import sign_release
from tallyveil.cli.main import app
from tallyveil.errors import InputError
from tallyveil.files import write_release
from tallyveil.files.release_folder.signing import read_public_key, read_signing_key, write_key_pair


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("made") / "release"
    write_release(small_release(), place, noisy=small_noisy())
    return place


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "release"))


@pytest.fixture
def key(tmp_path) -> Path:
    write_key_pair(tmp_path / "office")
    return tmp_path / "office"


def run(*words) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Keys


def test_keygen_writes_a_private_key_for_its_owner_alone_and_a_public_one_beside_it(tmp_path):
    code, said = run("keygen", "-o", tmp_path / "office")
    assert code == 0
    assert "keep it secret" in said
    assert mode(tmp_path / "office") == 0o600
    private = load_pem_private_key((tmp_path / "office").read_bytes(), password=None)
    public = load_pem_public_key((tmp_path / "office.pub").read_bytes())
    assert isinstance(private, Ed25519PrivateKey)
    assert private.public_key() == public
    assert (tmp_path / "office").read_text().startswith("-----BEGIN PRIVATE KEY-----")


def test_no_key_is_ever_overwritten(key):
    before = key.read_bytes(), key.with_name("office.pub").read_bytes()
    with pytest.raises(InputError, match=r"office.pub exists. Name a new key; nothing is overwritten"):
        write_key_pair(key)
    key.with_name("office.pub").unlink()
    with pytest.raises(InputError, match=r"office exists. Name a new key; nothing is overwritten"):
        write_key_pair(key)
    assert key.read_bytes() == before[0]
    assert not key.with_name("office.pub").exists()


def test_a_public_key_that_cannot_be_written_leaves_no_private_one(tmp_path, monkeypatch):
    right = os.open

    def only_the_first(path, *rest, **more):
        if str(path).endswith(".pub"):
            raise OSError(28, "No space left on device")
        return right(path, *rest, **more)

    monkeypatch.setattr(os, "open", only_the_first)
    with pytest.raises(InputError, match=r"x.pub: cannot be written \(No space left on device\)"):
        write_key_pair(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\)"):
        write_key_pair(tmp_path / "nowhere" / "x")


def test_a_link_in_place_of_a_key_is_not_followed(tmp_path):
    (tmp_path / "office").symlink_to(tmp_path / "target")
    with pytest.raises(InputError, match="office exists"):
        write_key_pair(tmp_path / "office")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("wrong", [0o640, 0o604, 0o660, 0o777])
def test_a_private_key_that_others_may_read_is_refused(key, wrong):
    key.chmod(wrong)
    with pytest.raises(InputError, match=rf"others may read this key \(mode {wrong:04o}\). Run: chmod 600 "):
        read_signing_key(key)


def test_what_is_no_key_is_refused_with_the_remedy(tmp_path, key):
    with pytest.raises(InputError, match="Make a key with: tallyveil keygen -o"):
        read_signing_key(tmp_path / "none")
    other = generate_private_key(SECP256R1())
    for data in (
        b"",
        b"\0\xff",
        other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    ):
        (tmp_path / "odd").write_bytes(data)
        (tmp_path / "odd").chmod(0o600)
        with pytest.raises(InputError, match=r"not a private Ed25519 key. Make one with: tallyveil keygen"):
            read_signing_key(tmp_path / "odd")
    for data in (b"", b"\0\xff", other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)):
        (tmp_path / "odd").write_bytes(data)
        with pytest.raises(InputError, match=r"not a public Ed25519 key. Give the file that ends in .pub"):
            read_public_key(tmp_path / "odd")
    with pytest.raises(InputError, match="a private key, which nobody else should have"):
        read_public_key(key)
    with pytest.raises(InputError, match=r"none.pub: cannot be read \(No such file or directory\)"):
        read_public_key(tmp_path / "none.pub")


# Signatures


def test_a_signed_folder_holds_with_the_public_key_and_is_unchecked_without(folder, key):
    assert run("sign", folder, "--key", key) == (0, f"{folder / 'certificate.sig'}\n")
    signature = (folder / "certificate.sig").read_bytes()
    assert len(signature) == 64
    read_public_key(f"{key}.pub").verify(signature, (folder / "certificate.json").read_bytes())
    code, said = run("verify", folder, "--public-key", f"{key}.pub", "--json")
    told = json.loads(said)
    checks = {check["name"]: check for check in told["checks"]}
    assert (code, told["holds"], checks["signature"]["holds"]) == (0, True, True)
    assert set(checks["signature"]) == {"name", "holds", "words"}
    code, said = run("verify", folder, "--json")
    checks = {check["name"]: check for check in json.loads(said)["checks"]}
    assert (code, checks["signature"]["holds"]) == (0, None)
    assert checks["signature"]["words"].startswith("certificate.sig exists; checking whose it is needs")


def test_a_folder_that_is_not_signed_or_by_another_or_badly_fails_with_a_public_key(folder, key, tmp_path):
    public = f"{key}.pub"
    assert failing(folder, public_key=public) == {"signature": "not signed: there is no certificate.sig"}
    assert run("verify", folder, "--public-key", public)[0] == 1
    write_key_pair(tmp_path / "other")
    sign_release(folder, tmp_path / "other")
    line = "certificate.sig is not the signature of this certificate.json by this key"
    assert failing(folder, public_key=public) == {"signature": line}
    path = folder / "certificate.sig"
    right = path.read_bytes()
    for wrong in (b"", right[:-1], right + b"\n"):
        path.write_bytes(wrong)
        assert failing(folder) == {"signature": "certificate.sig is not a signature: it does not have 64 bytes"}
    for bit in range(0, 512, 37):
        path.write_bytes(bytes(byte ^ (1 << bit % 8 if i == bit // 8 else 0) for i, byte in enumerate(right)))
        assert not holds(folder, public_key=tmp_path / "other.pub")


def test_a_signature_that_is_a_link_is_found(folder, key, tmp_path):
    sign_release(folder, key)
    shutil.move(folder / "certificate.sig", tmp_path / "sig")
    (folder / "certificate.sig").symlink_to(tmp_path / "sig")
    assert failing(folder, public_key=f"{key}.pub").keys() == {"signature", "files"}


def test_a_folder_that_does_not_hold_is_not_signed(folder, key):
    edit(folder / "levels" / "us.parquet", lambda table: table.assign(total=1))
    with pytest.raises(InputError, match=r"so it is not signed \(manifest: levels/us.parquet is not the file"):
        sign_release(folder, key)
    reseal(folder)
    with pytest.raises(InputError, match=r"so it is not signed \(levels: levels/us.parquet, us us, total"):
        sign_release(folder, key)
    assert not (folder / "certificate.sig").exists()


def test_nothing_is_signed_twice(folder, key):
    sign_release(folder, key)
    before = (folder / "certificate.sig").read_bytes()
    with pytest.raises(InputError, match=r"exists: the folder is signed. Remove it to sign again"):
        sign_release(folder, key)
    assert (folder / "certificate.sig").read_bytes() == before


def test_signing_is_the_same_every_time_and_leaves_no_other_trace(folder, key):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    sign_release(folder, key)
    once = (folder / "certificate.sig").read_bytes()
    (folder / "certificate.sig").unlink()
    sign_release(folder, key)
    assert (folder / "certificate.sig").read_bytes() == once
    (folder / "certificate.sig").unlink()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_folder_can_appear_signed(tmp_path, key):
    write_release(small_release(), tmp_path / "r", noisy=small_noisy(), sign_with=key)
    assert failing(tmp_path / "r", public_key=f"{key}.pub") == {}
    key.chmod(0o644)
    with pytest.raises(InputError, match="others may read this key"):
        write_release(small_release(), tmp_path / "s", sign_with=key)
    assert not (tmp_path / "s").exists()


def test_openssl_agrees_with_the_signature(folder, key):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here")
    sign_release(folder, key)
    words = ["pkeyutl", "-verify", "-pubin", "-inkey", f"{key}.pub", "-rawin", "-in", folder / "certificate.json"]
    done = subprocess.run([openssl, *words, "-sigfile", folder / "certificate.sig"], capture_output=True, text=True)
    assert "Signature Verified Successfully" in done.stdout, done.stderr


# What the command says


def test_verify_prints_a_line_per_check_and_ends_with_its_conclusion(folder, key):
    code, said = run("verify", folder)
    lines = said.splitlines()
    assert code == 0
    assert all(line.split()[0] in ("holds", "unchecked") for line in lines[:-1])
    assert lines[-1] == "The folder passes 25 checks; signature and post-processing were not checked."
    sign_release(folder, key)
    said = run("verify", folder, "--public-key", f"{key}.pub")[1]
    assert said.splitlines()[-1] == (
        "The folder is signed with this key and passes 26 checks; post-processing was not checked."
    )
    (folder / "truth.csv").write_text("37")
    code, said = run("verify", folder)
    assert code == 1
    assert said.splitlines()[-1] == "Do not trust this folder: manifest, files fail."
    told = json.loads(run("verify", folder, "--json")[1])
    assert told["holds"] is False
    assert {check["name"] for check in told["checks"] if check["holds"] is False} == {"manifest", "files"}
