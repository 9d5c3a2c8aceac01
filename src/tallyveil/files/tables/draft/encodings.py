"""The encoding of a text file that is not UTF-8: the one whose letters some language uses.

Words in one language have few different letters besides a to z. Read with another encoding, the same bytes give letters
of several languages, signs inside words, capitals inside words, or Thai vowels without a consonant.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from itertools import pairwise

from tallyveil.files.tables.draft.words import VOCABULARY
from tallyveil.files.tables.spellings import plain

_LOOKED_AT = 1 << 20  # bytes by which encodings are compared
_ANYWHERE = set("\u00a0\u00ad–—’‘“”„«»°§…€\u3000、。（）")  # noqa: RUF001 (signs that texts in all languages have)
_START = 10_000  # characters in which known words are looked for
_PLENTY = 0.9  # share of letters that one language has, if the encoding is right

_MIXED = 0.2  # share of words with capitals after small letters that no language has
_FEW_MIXED = 2  # such words that any table may have
_THAI = "".join(map(chr, (*range(0x0E01, 0x0E3B), *range(0x0E3F, 0x0E5C))))
_THAI_BASES = "\u0e01-\u0e2e"  # consonants
_THAI_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"  # above or below a consonant
# Signs that Thai never has: marks and vowels without a consonant before or after them, and letters beside Latin ones.
_NOT_THAI = re.compile(
    f"(?<![{_THAI_BASES}{_THAI_MARKS}])[{_THAI_MARKS}]|(?<![{_THAI_BASES}{_THAI_MARKS}\u0e32\u0e45])[\u0e30\u0e32\u0e33\u0e45]"
    f"|[\u0e40-\u0e44](?![{_THAI_BASES}])|(?<=[A-Za-z])[{_THAI}]|[{_THAI}](?=[A-Za-z])"
)

_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґјљњћџђѓќ"
_GREEK = "αβγδεζηθικλμνξοπρστυφχψωςάέήίόύώϊϋΐΰ"
_KANA = "".join(map(chr, range(0x3041, 0x30FF)))
_HANGUL = "".join(map(chr, range(0xAC00, 0xD7A4)))
# Encodings with the letters of languages that use them, the more frequent ones first: ties go to the first.
_LANGUAGES = (
    *(("cp1252", letters) for letters in ("äöüß", "éèêëàâçîïôûùœæü", "áéíóúñüºª¿¡", "ãõáéíóúâêôàçºª", "àèéìòùí")),
    *(("cp1252", letters) for letters in ("åäöé", "æøåéö", "éëïóöüá", "áéíóúýðþæö")),
    *(
        (encoding, letters)
        for letters in ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áéíóöőúüű", "áäčďéíĺľňóôŕšťúýž", "ăâîşţ", "čćđšž")
        for encoding in ("cp1250", "iso8859-2")
    ),
    *((encoding, _CYRILLIC) for encoding in ("cp1251", "koi8-r", "iso8859-5")),
    *((encoding, _GREEK) for encoding in ("cp1253", "iso8859-7")),
    ("cp1254", "çğıöşüâîİ"),
    *(("cp1257", letters) for letters in ("āčēģīķļņšūž", "ąčęėįšųūž", "äõöüšž")),
    *((encoding, _KANA + "県市区町村都道府男女性別年齢人口総数合計歳以上未満地域") for encoding in ("cp932", "euc_jp")),
    ("cp949", _HANGUL),
    ("gb18030", "省市县区镇乡村男女性别年龄人口总数合计岁以上地区未满"),
    ("big5", "縣市區鄉鎮村里男女性別年齡人口總數合計歲以上地未滿"),
    ("cp874", _THAI),  # the last one: capitals of other alphabets are consonants in it
)


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """The encoding of a file, a word of it that shows whether it is right, and whether that is in doubt."""

    name: str
    word: str = ""
    is_sure: bool = True


def likely_encoding(content: bytes, *, whole: bool) -> Encoding | None:
    """The encoding of a text, or None if it is UTF-8. ``whole`` says that the text does not go on."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Encoding(name="utf-16")
    if _decoded(content, "utf-8-sig", whole=whole) is not None:
        return None
    texts = {name: _decoded(content[:_LOOKED_AT], name, whole=False) for name, _ in _LANGUAGES}
    shares = {(name, i): _share(texts[name] or "", letters) for i, (name, letters) in enumerate(_LANGUAGES)}
    share = max(shares.values())
    tied = list(dict.fromkeys(name for (name, _), some in shares.items() if some == share > 0)) or ["latin-1"]
    best = max(tied, key=lambda name: _known_words(texts.get(name) or ""))
    if _decoded(content, best, whole=whole) is None:
        best, tied = "latin-1", ["latin-1"]
    text = _decoded(content[:_LOOKED_AT], best, whole=False) or ""
    alone = len({texts.get(name) for name in tied}) == 1 or _known_words(text) > 0
    return Encoding(name=best, word=_longest_word(text), is_sure=alone and share >= _PLENTY)


def _known_words(text: str) -> int:
    """The number of words with letters beyond ASCII that tables often have."""
    words = {word for word in re.findall(r"[^\W\d_]+", text[:_START]) if not word.isascii()}
    return sum(plain(word) in VOCABULARY for word in words)


def _decoded(content: bytes, encoding: str, *, whole: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(content, final=whole)
    except UnicodeDecodeError:
        return None


def _share(text: str, letters: str) -> float:
    """The share of characters beyond ASCII that a language has; capitals inside a word are none of them.

    Nothing counts if capitals are inside many words, as in text of another alphabet.
    """
    known = {*letters, *letters.upper(), *_ANYWHERE}
    beyond = [match[0] for match in re.finditer(r"[^\x00-\x7f]", text)]
    words = re.findall(r"[^\W\d_]{2,}", text)
    odd = [_capitals_inside(word) for word in words]
    foreign = [number > 0 for word, number in zip(words, odd, strict=True) if not word.isascii()]
    if sum(foreign) > max(_FEW_MIXED, _MIXED * len(foreign)):
        return 0.0
    wrong = sum(odd) + (len(_NOT_THAI.findall(text)) if letters == _THAI else 0)
    return (sum(letter in known for letter in beyond) - wrong) / max(1, len(beyond))


def _capitals_inside(word: str) -> int:
    """The number of capitals after small letters."""
    return sum(a.islower() and b.isupper() for a, b in pairwise(word))


def _longest_word(text: str) -> str:
    """A word of a text with letters beyond ASCII."""
    words = [word for word in re.findall(r"[^\W\d_]+", text) if not word.isascii()]
    return max(words[:200], key=len, default="")
