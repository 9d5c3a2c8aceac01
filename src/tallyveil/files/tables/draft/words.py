"""Words by which columns are recognised, in several languages. They only decide where the data leave a doubt."""

from __future__ import annotations

import re
from functools import cache

from tallyveil.files.tables.codebook import COUNTS, TOTALS
from tallyveil.files.tables.spellings import plain

# Well-known levels, coarse to fine, and columns with one code to cut into levels.
LEVELS = (
    *("nation", "region", "division", "state", "county", "county_subdivision", "municipality", "town", "ward"),
    *("tract", "block_group", "enumdist", "enumeration_district", "precinct", "block"),
)
CODES = ("geoid", "geoid10", "geoid20", "gisjoin", "geocode", "geo_id")


def _words(text: str) -> frozenset[str]:
    return frozenset(map(plain, text.split()))


_PLACES = _words("""
    country pays pais land region rgn regiao mesorregiao microrregiao regione division zone zona sector secteur setor
    state etat estado bundesland
    province provincia provinz prov canton kanton prefecture departement departamento county comte condado kreis
    landkreis comarca lad ltla utla district distrito distretto bezirk distrikt arrondissement chiefdom township
    subdistrict commune comune municipio municipality gemeinde concelho freguesia parish paroisse town city ville stadt
    ciudad cidade village aldea dorf barrio quartier stadtteil tract seccion secao block blockgroup manzana enumdist
    precinct ward wd constituency msoa lsoa oa ctry nuts nuts1 nuts2 nuts3 lau iris lga meshblock datazone academie
    academia etablissement ecole lycee college school escuela schule hospital hopital krankenhaus facility site station
    place location area territory territoire statefp countyfp tractce vtd vtdst electorate distr dist dept depto
    departement mun munic aldeia povoado bairro localidad localidade parroquia corregimiento vereda colonia
    wilaya daira oblast rayon raion okrug voivodeship wojewodztwo powiat gmina kraj okres obec fylke kommune kommun
    maakunta kunta ilce mahalle provinsi kabupaten kecamatan kelurahan desa barangay upazila thana mouza tehsil taluk
    aire groupement chefferie collectivite fokontany payam boma lokalite nomos dimos subcounty sublocation estate
    mandal panchayat woreda kebele cercle prefektur catchment healthzone postcode plz zip
    woj pow gm miejscowosc przychodnia szpital szkola miasto kraje mesto obce skola nemocnice megye jaras telepules
    varos iskola korhaz judet comuna oras zupanija opcina opstina lan fylki maakond vald linn novads pagasts savivaldybe
    seniunija il bucak область район город село край округ республика громада школа больница
    νομος δημος 都道府県 市区町村 地域 県 市 町 省 县 区 縣 鄉鎮 学校 시도 시군구 읍면동 학교 tinh huyen xa quan phuong
    محافظة منطقة قضاء بلدية
""")
_INFLECTED = 8  # letters of words whose last one may change: przychodnia, przychodni
_STEMS = {word[:-1] for word in _PLACES if len(word) >= _INFLECTED}
_TIMES = _words("""
    year annee ano jahr anno month mois mes monat wave quarter rok lata ar vuosi aasta gads metai ev leto godina yil
    sene tahun nam год рік година έτος 年 年次 年度 연도 السنة
""")
_AGES = _words("""
    age ages edad idade alter eta ika leeftijd alder wiek vek starost eletkor kor yas umur usia tuoi vanus vecums amzius
    varsta aldur mosha adina oed aois umri возраст вік възраст узраст старост жасы ηλικια տարիք ასაკი גיל العمر عمر سن
    आयु उम्र বয়স อายุ 年齢 年齡 年龄 연령 나이
""")
_ATTRIBUTES = (
    _TIMES
    | _AGES
    | _words("""
    sex sexe sexo geschlecht gender genre altersgruppe agegroup agegrp race ethnic ethnicity
    ethnie etnia origin origine hispanic nationality nationalite religion language langue sprache idioma marital
    education diplome occupation profession beruf employment statut tenure disability grade classe
    plec pohlavi pohlavie nem spol pol cinsiyet sukupuoli kon sugu jenis_kelamin пол стать φυλο 性別 성별 gioi sesso eta
    korcsoport geslacht
""")
)
_IDS = _words("""
    id pid uid uuid identifiant case caseid record serial person personid patient index row hhid hh household menage
    hogar haushalt respondent interview questionnaire lineno
""")
_CODE_WORDS = _words("""
    code cd cod codigo kennziffer insee fips ags ons geo geography id nr no num number numero numer nummer kod kods
    kodas sifra szam cislo kode koodi kodu κωδ κωδικος код номер 番号 コード 编号 代码 번호 코드
""")
_CLASS_WORDS = _words("group grp groupe grupo gruppe class cat category band level status")
_NAME_WORDS = _words("name names nm nom nombre nome label libelle lib bezeichnung titre title")
# Words for labels, from which attributes in the names of columns get their own name.
LABELS = {
    "age": _words("adult child minor under18 18plus voting_age young old adulte enfant"),
    "sex": _words("""
        male female m f men women males females homme femme hommes femmes filles garcons hombre mujer hombres mujeres
        manner frauen mannlich weiblich boys girls boy girl homens mulheres meninos meninas ragazzi ragazze maschi
        femmine ninos ninas varones miehet naiset pojat tytot man kvinnor mannen vrouwen pria wanita laki-laki
        kobiety mezczyzni kobieta mezczyzna dziewczeta chlopcy zeny muzi zena muz divky chlapci ferfi nok ferfiak
        zene muskarci moski zenske mehed naised viriesi sievietes vyrai moterys kadin erkek femei barbati maend kvinder
        menn kvinner женщины мужчины женский мужской жінки чоловіки жени мъже γυναικες ανδρες 女 男 女性 男性 여자 남자
        женщина мужчина ذكور إناث
    """),
    "hispanic": _words("h nh hispanic not_hispanic non_hispanic"),
    "race": _words("white black asian aian nh_white nh_black"),
}


def is_place(name: str) -> bool:
    """Whether a column's name is a word for places, in any of several languages.

    >>> is_place("LAD22CD"), is_place("région_code"), is_place("Nr przychodni"), is_place("Население")
    (True, True, True, False)
    """
    if is_count(name):
        return False
    endings = {word[:-1] for word in _parts(name) if len(word) >= _INFLECTED}
    return bool((_parts(name) | endings) & (_PLACES | _STEMS)) or plain(name) in LEVELS


def is_attribute(name: str) -> bool:
    """Whether a column's name is a word for a characteristic of people."""
    return bool(_parts(name) & _ATTRIBUTES)


def is_time(name: str) -> bool:
    """Whether a column's name is a word for a time at which people were counted."""
    return bool(_parts(name) & _TIMES)


def is_only_attribute(name: str) -> bool:
    """Whether a column's name says nothing but a characteristic of people, so that numbers in it are codes.

    >>> is_only_attribute("age_group"), is_only_attribute("age_0_4"), is_only_attribute("adult_hispanic")
    (True, False, False)
    """
    return is_attribute(name) and _parts(name) <= _ATTRIBUTES | _CODE_WORDS | _CLASS_WORDS


def is_count(name: str) -> bool:
    """Whether a column's name is a word for a number of people, perhaps in a year.

    >>> is_count("População 2021"), is_count("Liczba osób"), is_count("2021"), is_count("popular")
    (True, True, False, False)
    """
    words = re.sub(r"\s*\b(19|20)[0-9]{2}\b\s*", "", plain(name))
    return words in _COUNTS or (bool(words) and set(words.split()) <= _COUNTS)


def is_total(name: str) -> bool:
    """Whether a column's name is a word for a total, perhaps of persons.

    >>> is_total("Ogółem"), is_total("Total persons"), is_total("合計"), is_total("Kobiety razem")
    (True, True, True, False)
    """
    words = _split(name)
    return plain(name) in _TOTALS or (bool(words & SUM_WORDS) and words <= SUM_WORDS | _COUNTS)


def is_sum_label(label: str) -> bool:
    """Whether a label, or the code of a unit, says that a row is the total of others.

    >>> is_sum_label("Total"), is_sum_label("Both sexes"), is_sum_label("_T"), is_sum_label("Totteridge")
    (True, True, True, False)
    """
    words = _split(label)
    return plain(label) in _SUMS or (bool(words) and words <= SUM_WORDS)


def says_total(label: str) -> bool:
    """Whether a label says that it is a total, alone or with the name of a unit.

    >>> says_total("Total Norte"), says_total("Pirkanmaa yhteensä"), says_total("Totteridge"), says_total("東京 合計")
    (True, True, False, True)
    """
    return is_sum_label(label) or bool(_split(label) & SUM_WORDS)


def _split(text: str) -> frozenset[str]:
    """The words of a text, in any script."""
    return frozenset(word for word in re.split(r"[\W_]+", plain(text)) if word)


def is_age(name: str) -> bool:
    """Whether a column's name is a word for age, so that numbers in it are years.

    >>> is_age("Age (years)"), is_age("Ηλικία (έτη)"), is_age("age_group"), is_age("village")
    (True, True, False, False)
    """
    return bool(_parts(name) & _AGES) and _parts(name) <= _AGES | _YEARS


def is_remark(name: str) -> bool:
    """Whether a column's name is a word for remarks."""
    return bool(_parts(name) & _REMARKS)


def is_identifier(name: str) -> bool:
    """Whether a column's name is a word for the number of a record, and none for a place."""
    return bool(_parts(name) & _IDS) and not is_place(name)


def is_code_name(name: str) -> bool:
    """Whether a column's name says that it holds codes."""
    return bool(_parts(name) & _CODE_WORDS)


def is_unit_name(name: str) -> bool:
    """Whether a column's name says that it holds names."""
    return bool(_parts(name) & _NAME_WORDS)


def names_the_same(name: str, code: str) -> bool:
    """Whether one column's name says that it holds the names of what another numbers.

    >>> names_the_same("dist_nome", "dist"), names_the_same("District name", "district_code")
    (True, True)
    >>> names_the_same("dist_nome", "zone"), names_the_same("name", "code")
    (False, False)
    """
    thing = _parts(name) - _NAME_WORDS
    return is_unit_name(name) and bool(thing) and thing == _parts(code) - _CODE_WORDS


_COUNTS = {
    *map(plain, COUNTS),
    *_words("""
    nombre nb cases deaths value obs_value populacao populacion popolazione befolkning vaesto asukkaat inwoners aantal
    antal ludnosc penduduk nufus residents residenti residentes inhabitants habitants pupils students learners eleves
    alunos alumnos schuler enrolment enrollment liczba osoby ludnosc pacjenci uczniowie pocet osob obyvatel obyvatelstvo
    lakossag nepesseg fo letszam broj stevilo osobe stanovnistvo populatie persoane rahvaarv iedzivotaji gyventojai
    nufus kisi население численность люди кількість πληθυσμος 人口 人数 人數 인구 dan_so
    folkmangd innbyggere folketal vaeki elever patienter personer personen bewohner
"""),
}
# Words for totals, by family of languages; they are compared in lower case and without accents.
SUM_WORDS = _words("""
    total totals subtotal subtotals overall altogether
    totaux totale ensemble sous-total totali totales subtotales suma totais soma conjunto totalidad
    gesamt gesamtsumme insgesamt summe zusammen zwischensumme totaal samen
    totalt ialt sammanlagt summa samtals yhteensä kaikkiaan kokku pavisam kopā viso
    ogółem razem łącznie suma celkem celkom spolu úhrnem součet skupaj ukupno sveukupno zbirno
    összesen együtt mindösszesen toplam gjithsej totali
    всего итого усього разом общо вкупно укупно свега барлығы
    σύνολο სულ ընդամենը סך סה״כ المجموع مجموع الإجمالي اجمالي جمع کل
    jumlah keseluruhan tổng cộng jumla kabuuan รวม कुल योग মোট
    合計 總計 总计 合计 小計 小计 総数 總數 总数 計 计 全国 全體 全体 합계 총계 소계 전체 계
""")
_SUMS = {
    *("_t", "all", "all ages", "both", "both sexes", "all persons", "todos", "ambos sexos", "les deux sexes"),
    *("tous ages", "i alt", "alle", "wszyscy", "alla", "kaikki", "grand total", "total geral"),
    *("total general", "genel toplam"),
}
_YEARS = _words("""
    year years yr yrs y an ans annees anos jahre jahren anni in en em completed at lat let w v ev vuotta jaar ar tahun
    ετη ετων σε лет годы років 歳 岁 세
""")
_REMARKS = _words(
    "comment comments remark remarks note notes observation observations observacoes bemerkung comentario"
)
MISSING = _words("na n/a nan null #n/a - . .. ?")  # what stands for a missing value
_TOTALS = {
    *TOTALS,
    *(
        "enrolment",
        "enrollment",
        "all",
        "i alt",
        "grand total",
        "all persons",
        "all people",
        "both sexes",
        "ambos sexos",
    ),
}


VOCABULARY = SUM_WORDS | _PLACES | _ATTRIBUTES | _COUNTS | LABELS["sex"]


@cache
def _parts(name: str) -> frozenset[str]:
    """The words of a column's name; years in it (LAD22CD) separate words too."""
    spaced = re.sub(r"(?<=[a-zà-ÿ])(?=[A-Z])", "_", name.strip())
    words = [word for word in re.split(r"[\W_]+", plain(spaced)) if word]
    return frozenset(part for word in words for part in (word, *re.split(r"[0-9]+", word)) if part)
