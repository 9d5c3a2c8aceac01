"""ChaCha20 against RFC 8439 and another library, the layout of a stream's words, and keys that stay inside."""

import copy
import errno
import os
import pickle
import re
import stat
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import InputError, SecretError
from tallyveil.privacy.chacha import keystream
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.stream_words import Stream

KEY = bytes(range(100, 132))

unhurried = settings(deadline=None, max_examples=60)


# -- references --------------------------------------------------------------------------------------------------------


def block(key, counter, nonce):
    """One 64-byte block by the `cryptography` library; nonce is three 32-bit words."""
    start = struct.pack("<4I", counter, *nonce)
    return Cipher(ChaCha20(key, start), mode=None).encryptor().update(bytes(64))


def place_of(level, query, replicate, index, number):
    """Where word ``number`` of a draw lies: (counter, nonce, which of the block's eight words); from the docstring."""
    if number == 0:
        part, high, low, which = 0, index // 8 >> 32, index // 8 & 0xFFFFFFFF, index % 8
    else:
        part, which = divmod(number - 1, 8)
        part, high, low = part + 1, index >> 32, index & 0xFFFFFFFF
    return low, (high, replicate, level * 2**24 + query * 2**12 + part), which


def draw_of(counter, nonce, which):
    """The inverse: which draw's word lies at a place."""
    level, rest = divmod(nonce[2], 2**24)
    query, part = divmod(rest, 2**12)
    whole = nonce[0] << 32 | counter
    return (
        (level, query, nonce[1], 8 * whole + which, 0)
        if part == 0
        else (level, query, nonce[1], whole, 8 * (part - 1) + which + 1)
    )


def word_of(key, *draw):
    counter, nonce, which = place_of(*draw)
    return struct.unpack("<8Q", block(key, counter, nonce))[which]


def blocks(key, counter, nonce0, nonce1, nonce2):
    """Blocks by the library under test, as bytes."""
    out = np.empty((len(counter), 16), np.uint32)
    arrays = [np.array(a, dtype=np.uint32) for a in (counter, nonce0, nonce1)]
    keystream(np.frombuffer(key, "<u4"), *arrays, np.uint32(nonce2), out)
    return [row.astype("<u4").tobytes() for row in out]


def one_block(key, counter, nonce):
    n0, n1, n2 = struct.unpack("<3I", nonce)
    return blocks(key, [counter], [n0], [n1], n2)[0]


# -- RFC 8439 ----------------------------------------------------------------------------------------------------------

ORDERED = bytes(range(32))
RFC = [  # section, key, counter, nonce, block
    (
        "2.3.2",
        ORDERED,
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        "2.4.2, first block",
        ORDERED,
        1,
        "000000000000004a00000000",
        "224f51f3401bd9e12fde276fb8631ded8c131f823d2c06e27e4fcaec9ef3cf78"
        "8a3b0aa372600a92b57974cded2b9334794cba40c63e34cdea212c4cf07d41b7",
    ),
    (
        "A.1, vector 1",
        bytes(32),
        0,
        "000000000000000000000000",
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        "A.1, vector 2",
        bytes(32),
        1,
        "000000000000000000000000",
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        "A.1, vector 3",
        bytes(31) + b"\x01",
        1,
        "000000000000000000000000",
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (
        "A.1, vector 4",
        b"\x00\xff" + bytes(30),
        2,
        "000000000000000000000000",
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        "A.1, vector 5",
        bytes(32),
        0,
        "000000000000000000000002",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]


@pytest.mark.parametrize(("section", "key", "counter", "nonce", "expected"), RFC, ids=[row[0] for row in RFC])
def test_blocks_of_rfc_8439(section, key, counter, nonce, expected):  # noqa: ARG001
    assert one_block(key, counter, bytes.fromhex(nonce)).hex() == expected


def test_the_encrypted_sunscreen_advice_of_rfc_8439_section_2_4_2():
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
        b"sunscreen would be it."
    )
    n0, n1, n2 = struct.unpack("<3I", bytes.fromhex("000000000000004a00000000"))
    stream = b"".join(blocks(ORDERED, [1, 2], [n0, n0], [n1, n1], n2))
    assert bytes(a ^ b for a, b in zip(text, stream, strict=False)).hex() == (
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
        "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
        "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d"
    )


words32 = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]))


@unhurried
@given(
    key=st.binary(min_size=32, max_size=32),
    places=st.lists(st.tuples(words32, words32, words32), min_size=1, max_size=40),
    last=words32,
)
def test_any_blocks_agree_with_another_library(key, places, last):
    ours = blocks(key, *zip(*places, strict=True), last)
    assert ours == [block(key, counter, (n0, n1, last)) for counter, n0, n1 in places]


# -- the layout of a stream --------------------------------------------------------------------------------------------

indices = st.one_of(
    st.integers(0, 100),
    st.integers(2**35 - 20, 2**35 + 20),  # where index // 8 outgrows one word
    st.integers(2**32 - 20, 2**32 + 20),
    st.integers(0, 2**62),
)
levels, queries, replicates = st.integers(0, 255), st.integers(0, 4095), st.integers(0, 2**32 - 1)


@unhurried
@given(level=levels, query=queries, places=st.lists(st.tuples(indices, replicates), min_size=1, max_size=30))
def test_first_words_lie_where_the_docstring_says(level, query, places):
    index, replicate = (np.array(column, dtype=np.int64) for column in zip(*places, strict=True))
    got = Stream(KEY).words(index, level=level, query=query, replicate=replicate)
    assert got.dtype == np.uint64
    assert got.tolist() == [word_of(KEY, level, query, r, i, 0) for i, r in places]


@unhurried
@given(
    level=levels,
    query=queries,
    places=st.lists(st.tuples(indices, replicates), min_size=1, max_size=20),
    part=st.one_of(st.integers(1, 3), st.integers(1, 4095)),
)
def test_further_words_lie_where_the_docstring_says(level, query, places, part):
    index, replicate = (np.array(column, dtype=np.int64) for column in zip(*places, strict=True))
    got = Stream(KEY).further_words(index, level=level, query=query, replicate=replicate, part=part)
    assert got.tolist() == [
        [word_of(KEY, level, query, r, i, 8 * (part - 1) + 1 + j) for j in range(8)] for i, r in places
    ]


def test_a_long_run_of_first_words_that_share_blocks_lies_where_the_docstring_says():
    # more blocks than are made at once, in order, with gaps, repeats and steps back
    random = np.random.default_rng(5)
    index = np.concatenate([np.arange(5000), random.integers(0, 2**40, 3000), np.arange(40, 20, -1), [7, 7, 8, 7]])
    replicate = random.integers(0, 2, len(index)) * 2**31
    got = Stream(KEY).words(index, level=3, query=9, replicate=replicate)
    expected = [word_of(KEY, 3, 9, r, i, 0) for i, r in zip(index.tolist(), replicate.tolist(), strict=True)]
    assert got.tolist() == expected


@settings(max_examples=30)
@given(level=levels, query=queries, index=indices, replicate=replicates)
def test_all_words_of_one_draw_come_in_order(level, query, index, replicate):
    words = Stream(KEY).draw_words(index, level=level, query=query, replicate=replicate)
    assert [next(words) for _ in range(27)] == [word_of(KEY, level, query, replicate, index, n) for n in range(27)]


@unhurried
@given(level=levels, query=queries, replicate=replicates, index=indices, number=st.integers(0, 8 * 4095))
def test_no_two_words_share_a_place_because_a_place_tells_its_draw(level, query, replicate, index, number):
    counter, nonce, which = place_of(level, query, replicate, index, number)
    assert max(counter, *nonce) < 2**32
    assert which < 8
    assert draw_of(counter, nonce, which) == (level, query, replicate, index, number)


def test_words_of_draws_that_a_careless_layout_would_confuse_all_differ():
    draws = [(0, 0, 0, i) for i in (0, 1, 7, 8, 64, 2**32, 2**35, 2**35 + 1, 2**38, 2**62)]
    draws += [(0, 0, 1, i) for i in (0, 2**32, 2**35)]
    draws += [(level, query, 0, 0) for level, query in ((1, 0), (0, 1), (16, 0), (0, 16), (255, 4095), (0, 4095))]
    draws += [(0, 0, 2**31, 0), (0, 0, 2**32 - 1, 0)]
    seen = []
    for level, query, replicate, index in draws:
        words = Stream(KEY).draw_words(index, level=level, query=query, replicate=replicate)
        seen += [next(words) for _ in range(25)]
    assert len(set(seen)) == len(seen) == 25 * len(draws)


@pytest.mark.parametrize(
    ("name", "limit", "value"),
    [("level", "255", 256), ("level", "255", -1), ("query", "4,095", 4096), ("query", "4,095", -1)],
)
def test_a_level_or_query_that_does_not_fit_its_bits_is_refused(name, limit, value):
    place = {"level": 0, "query": 0, "replicate": np.array([0])} | {name: value}
    for words in (Stream(KEY).words, Stream(KEY).further_words):
        with pytest.raises(InputError, match=f"number of a {name} must be 0 to {limit}\\. Got {value:,} instead\\."):
            words(np.array([0]), **place)


@pytest.mark.parametrize("value", [-1, 2**32, 2**40])
def test_a_replicate_that_does_not_fit_its_bits_is_refused(value):
    for words in (Stream(KEY).words, Stream(KEY).further_words):
        with pytest.raises(InputError, match=rf"must be 0 to 4,294,967,295\. Got 0 to {value}|Got {value} to 0"):
            words(np.array([0, 1]), level=0, query=0, replicate=np.array([0, value]))


def test_a_part_that_does_not_fit_its_bits_is_refused():
    with pytest.raises(InputError, match=r"number of a part must be 0 to 4,095\. Got 4,096 instead\."):
        Stream(KEY).further_words(np.array([0]), level=0, query=0, replicate=np.array([0]), part=4096)


# -- streams from a run's key ------------------------------------------------------------------------------------------


def fingerprint(stream):
    return Stream.words(stream, np.arange(3), level=0, query=0, replicate=np.zeros(3, np.int64)).tolist()


def test_the_same_key_and_pieces_give_the_same_stream():
    assert fingerprint(RunKey(KEY).stream([b"a", b"bc"])) == fingerprint(RunKey(KEY).stream(iter([b"a", b"bc"])))


def test_a_stream_depends_on_the_key_on_each_piece_on_their_order_and_on_where_they_are_split():
    pieces = [[b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"abc", b""], [b"", b"abc"], [b"c", b"ab"], [b"ab", b"d"], []]
    pieces += [[b""], [b"bb", b"c"], [b"ab", b"c", b"c"], [b"ab\x00", b"c"], [b"\x02" + bytes(7) + b"ab"]]
    seen = [fingerprint(RunKey(KEY).stream(p)) for p in pieces]
    seen.append(fingerprint(RunKey(KEY[:-1] + b"\x00").stream(pieces[0])))
    assert len({tuple(words) for words in seen}) == len(pieces) + 1


@unhurried
@given(st.lists(st.binary(max_size=20), max_size=4), st.lists(st.binary(max_size=20), max_size=4))
def test_different_pieces_give_different_streams(one, two):
    same = fingerprint(RunKey(KEY).stream(one)) == fingerprint(RunKey(KEY).stream(two))
    assert same == (one == two)


def test_a_streams_key_is_not_the_runs_key():
    assert fingerprint(RunKey(KEY).stream([])) != fingerprint(Stream(KEY))


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_the_wrong_size_is_refused_without_showing_it(size):
    for make in (RunKey, Stream):
        with pytest.raises(InputError, match=rf"key must have 32 bytes\. Got {size} instead\.") as caught:
            make(b"Z" * size)
        assert "ZZ" not in str(caught.value)


def test_two_keys_from_the_system_differ_and_are_not_seeded():
    one, two = RunKey.from_system(), RunKey.from_system()
    assert fingerprint(one.stream([])) != fingerprint(two.stream([]))
    assert not one.seeded


def test_a_seed_gives_the_same_key_again_and_marks_it():
    assert RunKey.from_seed(7).seeded
    assert fingerprint(RunKey.from_seed(7).stream([])) == fingerprint(RunKey.from_seed(7).stream([]))
    seeds = [0, 1, 7, 70, 2**64, 2**64 + 7]
    assert len({tuple(fingerprint(RunKey.from_seed(seed).stream([]))) for seed in seeds}) == len(seeds)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "7", None])
def test_what_is_not_a_whole_number_is_no_seed(seed):
    with pytest.raises(InputError, match=re.escape(f"whole number, 0 or more and below 2^1024. Got {seed!r}")):
        RunKey.from_seed(seed)


# -- key files ---------------------------------------------------------------------------------------------------------


def test_a_missing_key_file_is_made_for_its_owner_alone_and_read_again(tmp_path):
    file = tmp_path / "run.key"
    before = os.umask(0)
    try:
        made = RunKey.from_file(file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert fingerprint(RunKey.from_file(str(file)).stream([b"x"])) == fingerprint(made.stream([b"x"]))
    assert not made.seeded
    other = RunKey.from_file(tmp_path / "other.key")
    assert fingerprint(other.stream([b"x"])) != fingerprint(made.stream([b"x"]))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602, 0o604])
def test_a_key_file_that_others_may_read_or_write_is_refused_with_the_remedy(tmp_path, mode):
    file = tmp_path / "run.key"
    RunKey.from_file(file)
    file.chmod(mode)
    with pytest.raises(InputError, match=rf"run\.key.*\(mode {mode:04o}\)\. Run: chmod 600 .*run\.key") as caught:
        RunKey.from_file(file)
    assert file.read_text().strip() not in str(caught.value)


def test_a_key_file_opens_again_once_the_remedy_was_followed(tmp_path):
    file = tmp_path / "run.key"
    made = RunKey.from_file(file)
    file.chmod(0o644)
    file.chmod(0o600)
    assert fingerprint(RunKey.from_file(file).stream([])) == fingerprint(made.stream([]))


@pytest.mark.parametrize("content", [b"", b"secret words", b"ab" * 31, b"ab" * 33, b"\xff\xfe\x00" * 20])
def test_a_file_that_holds_no_key_is_refused_without_showing_it(tmp_path, content):
    file = tmp_path / "run.key"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(InputError, match=r"run\.key: not a key file .64 hexadecimal digits.") as caught:
        RunKey.from_file(file)
    assert "secret words" not in str(caught.value)
    assert "abab" not in str(caught.value)


def test_a_key_that_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(InputError, match=r": a folder, pipe or device, not a key file\. Name a file\."):
            RunKey.from_file(path)


@pytest.mark.parametrize("fails", ["open", "link"])
def test_a_key_file_is_made_where_files_without_names_are_not_known(tmp_path, monkeypatch, fails):
    known = getattr(os, fails)

    def refused(place, *given, **more):
        if (fails == "open" and place != tmp_path) or (fails == "link" and not str(place).startswith("/proc")):
            return known(place, *given, **more)
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, fails, refused)
    made = RunKey.from_file(tmp_path / "run.key")
    assert stat.S_IMODE((tmp_path / "run.key").stat().st_mode) == 0o600
    assert fingerprint(RunKey.from_file(tmp_path / "run.key").stream([])) == fingerprint(made.stream([]))
    assert [path.name for path in tmp_path.iterdir()] == ["run.key"]


# -- a key belongs to one set of people --------------------------------------------------------------------------------


def test_a_key_file_is_bound_to_the_people_it_is_first_used_on_and_refuses_others(tmp_path):
    file = tmp_path / "run.key"
    first = RunKey.from_file(file).people([b"the people"])
    bound = tmp_path / "run.key.bound"
    assert stat.S_IMODE(bound.stat().st_mode) == 0o600
    assert RunKey.from_file(file).people([b"the people"]) == first
    with pytest.raises(InputError, match=r"run\.key: this key was first used on other people .*Name a new key file"):
        RunKey.from_file(file).people([b"the people", b"and one more"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.key", "run.key.bound"]


def test_what_is_kept_beside_a_key_file_is_keyed_and_is_not_the_digest_that_streams_use(tmp_path):
    kept = set()
    for name in ("a.key", "b.key"):
        digest = RunKey.from_file(tmp_path / name).people([b"the people"])
        content = (tmp_path / f"{name}.bound").read_text().strip()
        assert len(bytes.fromhex(content)) == 32
        kept |= {content, digest.hex()}
    assert len(kept) == 4


def test_a_damaged_binding_refuses_everybody(tmp_path):
    file = tmp_path / "run.key"
    RunKey.from_file(file).people([b"the people"])
    (tmp_path / "run.key.bound").write_bytes(b"\xff\x00")
    with pytest.raises(InputError, match=r"first used on other people"):
        RunKey.from_file(file).people([b"the people"])


def test_a_key_without_a_file_is_bound_to_nobody():
    key = RunKey(KEY)
    assert key.people([b"one"]) != key.people([b"two"])


@pytest.mark.parametrize("key", [bytes(32), b"\xff" * 32, bytes(range(7)) * 4 + bytes(4)])
def test_keys_of_few_distinct_bytes_are_refused(tmp_path, key):
    with pytest.raises(InputError, match=rf"a run key with {len(set(key))} distinct bytes is not random"):
        RunKey(key)
    file = tmp_path / "run.key"
    file.write_text(key.hex())
    file.chmod(0o600)
    with pytest.raises(InputError, match=r"run\.key: a run key with . distinct bytes is not random. Name a new key"):
        RunKey.from_file(file)


# -- keys stay inside --------------------------------------------------------------------------------------------------

SECRETS = [RunKey(KEY), RunKey.from_seed(1), Stream(KEY), RunKey(KEY).stream([b"x"])]


@pytest.mark.parametrize("secret", SECRETS, ids=repr)
def test_a_secret_shows_nothing_of_its_key(secret):
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r}", "%s" % secret, repr([secret]), ascii(secret)]  # noqa: UP031
    for text in shown:
        assert f"<{type(secret).__name__}: secret>" in text
        assert KEY.hex() not in text
        assert str(int.from_bytes(KEY[:4], "little")) not in text


@pytest.mark.parametrize("secret", SECRETS, ids=repr)
def test_a_secret_cannot_be_pickled_or_copied(secret):
    ways = [copy.copy, copy.deepcopy]
    ways += [lambda x, p=protocol: pickle.dumps(x, p) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    ways += [lambda x: pickle.dumps({"key": [x]}), lambda x: copy.deepcopy([x])]
    for way in ways:
        with pytest.raises(SecretError, match=f"a {type(secret).__name__} is secret and cannot be pickled or copied"):
            way(secret)
    with pytest.raises(SecretError, match="Derive it where it is used"):
        pickle.dumps(secret)


@pytest.mark.parametrize("secret", SECRETS, ids=repr)
def test_a_secret_has_no_dictionary_to_dump(secret):
    with pytest.raises(TypeError, match="__dict__"):
        vars(secret)
