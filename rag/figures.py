"""Numbers with their units, in a form in which they can be compared. No I/O here."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Figure:
    """A number as it is compared, and its unit where it has one we know."""

    value: str
    unit: str = ""

    @property
    def in_base_unit(self) -> tuple[float, str]:
        """5 ms and 0.005 s are the same."""
        base, factor = _BASE_UNITS.get(self.unit, (self.unit, 1.0))
        try:
            return round(float(self.value) * factor, 9), base
        except ValueError:  # 3.11.7 is a version
            return 0.0, f"version {self.value}"


_NUMBER_WORDS = {
    word: str(value)
    for value, words in {
        2: "two twice double pair",
        3: "three triple",
        4: "four",
        5: "five",
        6: "six",
        7: "seven",
        8: "eight",
        9: "nine",
        10: "ten",
        11: "eleven",
        12: "twelve dozen",
        15: "fifteen",
        20: "twenty",
        30: "thirty",
        40: "forty",
        50: "fifty",
    }.items()
    for word in words.split()
}
_UNIT_NAMES = {
    unit: names.split()
    for unit, names in {
        "%": "% percent",
        "°": "° deg degree degrees",
        "rad": "rad radian radians",
        "hz": "hz hertz",
        "khz": "khz kilohertz",
        "mhz": "mhz megahertz",
        "ghz": "ghz gigahertz",
        "m": "m meter meters metre metres",
        "cm": "cm centimeter centimeters centimetre centimetres",
        "mm": "mm millimeter millimeters millimetre millimetres",
        "km": "km kilometer kilometers kilometre kilometres",
        "s": "s sec second seconds",
        "ms": "ms millisecond milliseconds",
        "µs": "µs us microsecond microseconds",
        "min": "min minute minutes",
        "h": "h hour hours",
        "day": "day days",
        "week": "week weeks",
        "year": "year years",
        "kg": "kg kilogram kilograms",
        "g": "g gram grams",
        "n": "n newton newtons",
        "v": "v volt volts",
        "a": "a amp amps ampere amperes",
        "w": "w watt watts",
        "fps": "fps",
        "kb": "kb kib kilobyte kilobytes",
        "mb": "mb mib megabyte megabytes",
        "gb": "gb gib gigabyte gigabytes",
        "tb": "tb tib terabyte terabytes",
        "px": "px pixel pixels",
    }.items()
}
_UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names}
_BASE_UNITS = {
    "ms": ("s", 1e-3),
    "µs": ("s", 1e-6),
    "cm": ("m", 1e-2),
    "mm": ("m", 1e-3),
    "km": ("m", 1e3),
    "khz": ("hz", 1e3),
    "mhz": ("hz", 1e6),
    "ghz": ("hz", 1e9),
    "g": ("kg", 1e-3),
    "mb": ("gb", 1e-3),
    "tb": ("gb", 1e3),
}
_RANGE = re.compile(r"\s*(?:to|or|and|by|-|–|×)\s*", re.IGNORECASE)
_UNIT = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<digits>\d+(?:[.,]\d+)*)(?:[\s-]?(?P<unit>{_UNIT})(?!\w))?"
    rf"|\b(?P<word>{'|'.join(_NUMBER_WORDS)})\b(?:[\s-](?P<word_unit>{_UNIT})(?!\w))?",
    re.IGNORECASE,
)


def figures_of(text: str) -> set[Figure]:
    numbers = list(_NUMBER.finditer(text))
    figures: set[Figure] = set()
    unit, start = "", len(text)
    for number in reversed(numbers):
        own = _UNITS.get((number["unit"] or number["word_unit"] or "").lower(), "")
        # In "1 or 2 ms" the unit is meant for both.
        shared = unit if _RANGE.fullmatch(text[number.end() : start]) else ""
        unit, start = own or shared, number.start()
        value = number["digits"] or _NUMBER_WORDS[number["word"].lower()]
        figures.add(Figure(canonical(value), unit))
    return figures


def has(figures: Iterable[Figure], wanted: Figure) -> bool:
    """Whether a number is among others: with its unit, or where those say nothing of units."""
    return any(
        wanted.in_base_unit == figure.in_base_unit
        or (wanted.value == figure.value and not (wanted.unit and figure.unit))
        for figure in figures
    )


def without_numbers(text: str) -> str:
    return _NUMBER.sub(" ", text)


def canonical(number: str) -> str:
    """1,000 and 1000, 0.50 and 0.5 are the same; 22.04 stays a version."""
    plain = re.sub(r",(?=\d{3}\b)", "", number)
    return plain.rstrip("0").rstrip(".") if re.fullmatch(r"0?\.\d+|\d+\.0+", plain) else plain
