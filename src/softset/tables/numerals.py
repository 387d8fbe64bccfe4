"""How numbers are written in text: decimal marks, separators of thousands, units."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from softset.typing import Array, Floats

_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE)
_TRUTH = {"true": 1.0, "false": 0.0}
# The units and currencies that are read.
_CURRENCIES = "€ $ £ ¥ ₹ ₽ ₩ zł kr Kč EUR USD GBP CHF JPY CNY INR SEK NOK DKK PLN CZK HUF AUD CAD"
_MEASURES = "kg g mg t lb oz km m cm mm mi ft in m² m2 km² ha l L ml s ms min h hrs km/h mph m/s"
_OTHERS = "% ‰ ppm °C °F K ° W kW MW Wh kWh MWh V A Hz kHz MHz GHz bar Pa hPa kB KB MB GB TB bit px"
_UNITS = frozenset(f"{_CURRENCIES} {_MEASURES} {_OTHERS}".split())
# A number with a word before or behind it.
_BESIDE = re.compile(
    r"(?P<before>[^\d\s.,+-]{0,5})\s*[+-]?[\d.,]*\d\s*(?P<after>(?![\d.,])\D?.{0,5})"
)
# Thousands as in 1.234.567,5 and, for text whose decimal mark is the point, 1,234,567.5.
_GROUPED = {
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?", re.ASCII),
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?", re.ASCII),
}
_NUMERAL = re.compile(r"[+-]?[\d.,]+", re.ASCII)
_ADDRESS = re.compile(r"\d{1,3}(\.\d{3}){3}", re.ASCII)  # of the internet: 192.168.100.200


def read_numbers(
    words: Sequence[str],
    truth: bool = False,
    *,
    decimal: str = ".",
    thousands: bool = False,
    unit: str = "",
) -> Floats:
    """Text as numbers, NaN where it is none.

    With ``truth``, the words true and false are 1 and 0. A number may stand beside its ``unit``.
    Where the decimal mark is the comma, a point never is one.

    >>> read_numbers(["1", " 2.5", "?", "1,000"]).tolist()
    [1.0, 2.5, nan, nan]
    >>> read_numbers(["1.000,5", "2 €", "1.5"], decimal=",", thousands=True, unit="€").tolist()
    [1000.5, 2.0, nan]
    """
    numbers = np.full(len(words), np.nan)
    for i, word in enumerate(words):
        text = without_unit(word, unit)
        if thousands and _GROUPED[decimal].fullmatch(text):
            text = text.replace("." if decimal == "," else ",", "")
        if decimal == ",":
            text = "" if "." in text else text.replace(",", ".")
        if _NUMBER.fullmatch(text):
            numbers[i] = float(text)
        elif truth:
            numbers[i] = _TRUTH.get(text.lower(), np.nan)
    return numbers


def without_unit(word: str, unit: str) -> str:
    """``word`` without blanks around it, and without its unit."""
    text = word.strip()
    return text.removeprefix(unit).removesuffix(unit).strip() if unit and unit in text else text


def common_unit(words: Sequence[str], counts: Array, enough: float) -> str:
    """The word that stands beside at least ``enough`` numbers, each word counted so many times."""
    seen: Counter[str] = Counter()
    for word, count in zip(words, counts, strict=True):
        match = _BESIDE.fullmatch(word.strip())
        if match is not None and bool(match["before"]) != bool(match["after"].strip()):
            seen[match["before"] or match["after"].strip()] += int(count)
    unit, count = seen.most_common(1)[0] if seen else ("", 0)
    return unit if count >= max(enough, 1) else ""


def is_unit(word: str) -> bool:
    """Whether a word is a unit or currency that is read beside numbers.

    >>> is_unit("€"), is_unit("kg"), is_unit("pcs")
    (True, True, False)
    """
    return word in _UNITS


def has_thousands(words: Sequence[str], decimal: str) -> bool:
    """Whether thousands are separated: all numbers must be written so.

    Where the decimal mark is the point, a comma may also be a decimal comma; then one number must
    leave no doubt, as 1,234,567 and 1,234.5 do.

    >>> has_thousands(["1.234,5", "7,5"], ","), has_thousands(["1.234", "12345"], ",")
    (True, False)
    """
    grouped = _GROUPED[decimal]
    numerals = [word for word in words if _NUMERAL.fullmatch(word)]
    separated = [word for word in numerals if grouped.fullmatch(word)]
    if not separated or all(_ADDRESS.fullmatch(word) for word in numerals):
        return False
    if decimal == "." and not any("." in word or word.count(",") > 1 for word in separated):
        return False
    below = re.compile(rf"[+-]?\d{{1,3}}({re.escape(decimal)}\d*)?", re.ASCII)
    return all(grouped.fullmatch(word) or below.fullmatch(word) for word in numerals)
