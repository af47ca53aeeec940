"""Reads units in answers, and converts between units of the same dimension.

The table has SI, customary and currency units, with exact fractions as factors. A unit that is not in the table is
unknown; it is never guessed. Symbols are case-sensitive if case matters (``mW``, ``MW``). The table does not have units
with ambiguous names or symbols: gallons and pints (US or UK), pounds (mass or money), and coulombs and farads (``C``
and ``F`` are read as temperatures).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_POWERS = {"k": 3, "h": 2, "d": -1, "c": -2, "m": -3, "μ": -6, "u": -6, "n": -9, "M": 6, "G": 9, "T": 12}
_POWER_WORDS = {
    "kilo": 3,
    "centi": -2,
    "milli": -3,
    "micro": -6,
    "nano": -9,
    "mega": 6,
    "giga": 9,
    "tera": 12,
    "hecto": 2,
}
# symbols; words; dimension in base units; factor of the symbol to them; prefixes that are in use
_SI = """
m; metre meter; m; 1; k d c m μ u n
g; gram gramme; kg; 1/1000; k m μ u
s; second sec; s; 1; m μ u n
L l; litre liter; m3; 1/1000; m c d
N; newton; kg m s-2; 1; k
J; joule; kg m2 s-2; 1; k M
W; watt; kg m2 s-3; 1; m k M G
V; volt; kg m2 s-3 A-1; 1; m k
A; ampere amp; A; 1; m
Ω; ohm; kg m2 s-3 A-2; 1; k M
Hz; hertz; s-1; 1; k M G
Pa; pascal; kg m-1 s-2; 1; h k M
Wh; ; kg m2 s-2; 3600; k M
cal; calorie; kg m2 s-2; 4184/1000; k
mol; mole; mol; 1; m μ n k
B; byte; byte; 1; k M G T
bit; bit; bit; 1; k M G
bps; ; bit s-1; 1; k M G
"""
_OTHER = """
in inch inches; m; 254/10000
ft foot feet; m; 3048/10000
yd yds yard yards; m; 9144/10000
mi mile miles; m; 1609344/1000
t tonne tonnes; kg; 1000
lb lbs; kg; 45359237/100000000
oz ounce ounces; kg; 28349523125/1000000000000
min mins minute minutes; s; 60
h hr hrs hour hours; s; 3600
day days; s; 86400
week weeks; s; 604800
month months; month; 1
year years yr yrs; month; 12
cc; m3; 1/1000000
Km; m; 1000
Cm; m; 1/100
Kg kilo kilos; kg; 1
KB; byte; 1000
Nm; kg m2 s-2; 1
ha hectare hectares; m2; 10000
acre acres; m2; 40468564224/10000000
mph; m s-1; 1609344/3600000
kph kmh kmph; m s-1; 1000/3600
bar; kg m-1 s-2; 100000
° deg degree degrees; degree; 1
rad radian radians; radian; 1
"""
_TEMPERATURES = {
    "°C": (Fraction(1), Fraction(0)),
    "°F": (Fraction(5, 9), Fraction(-160, 9)),
    "K": (Fraction(1), Fraction(-27315, 100)),
}
_TEMPERATURE_NAMES = {"°C": "°C ℃ C celsius", "°F": "°F ℉ F fahrenheit", "K": "K kelvin kelvins"}
_DOLLARS = "USD AUD CAD SGD HKD NZD"
_CURRENCIES = f"""
$ dollar dollars; {_DOLLARS}
US$ USD; USD
A$ AUD; AUD
C$ CAD; CAD
S$ SGD; SGD
€ EUR euro euros; EUR
£ GBP; GBP
¥; JPY CNY
JPY yen 円; JPY
CNY RMB yuan 元 块; CNY
₹ INR Rs rupee rupees; INR
RM MYR ringgit; MYR
CHF franc francs; CHF
"""
_DOUBTFUL = (
    frozenset({"degree", "radian"}),
    frozenset({"degree", "temperature"}),
    frozenset({"month", "s"}),
)
"""Pairs of different dimensions whose quantities may still be the same, so that only a judge can decide."""

_NAME = r"(?:°\s?[CF]\b|°|%|US\$|[ACS]\$|[$€£¥₹]|[A-Za-zμΩ]+|[元块円])"
_FACTOR = re.compile(
    rf"(?P<shape>(?:square|sq|cubic|cu)\b\.?)?\s{{0,2}}(?P<name>{_NAME})\.?(?:\^?(?P<power>-?[1-3])(?!\d)|\s(?P<raised>squared|cubed)\b)?",
    re.IGNORECASE,
)
_PER = re.compile(r"\s{0,2}(?:/|per\b|an?\s(?=(?:second|minute|hour|day|week|month|year)\b))\s?", re.IGNORECASE)
_TIMES = re.compile(r"[·⋅*]|\s(?=[A-Za-z]+\^?-\d)")
_BEFORE_UNIT = re.compile(r"[ ]{0,2}-?")
_WORD_FOLLOWS = re.compile(r"\s*[A-Za-z]")


@dataclass(frozen=True)
class Unit:
    """Describes a unit of measurement by base units such as metre, kilogram and second.

    A value in this unit equals value · ``worth`` + ``offset`` in base units.

    Attributes:
        dimension: the base units and their powers, sorted: (("m", 1), ("s", -1)) for a speed. A currency has the base
            unit "money".
        worth: the number of base units in one unit (1000 for a kilometre, if the base unit is the metre).
        offset: the number that is added to the value in base units; 0 except for temperatures.
        currencies: the codes of the currencies that a currency sign may mean ("$" may be USD, AUD and others); empty
            for other units.
    """

    dimension: tuple[tuple[str, int], ...]
    worth: Fraction
    offset: Fraction = Fraction(0)
    currencies: frozenset[str] = frozenset()


def convert(value: Fraction, unit: Unit, wanted: Unit) -> Fraction | None:
    """Return a value in another unit, such as 500 for 5 metres in centimetres.

    ``unit`` is the unit of ``value``, and ``wanted`` is the unit of the result. Returns None if the dimensions or the
    currencies differ.
    """
    if unit == wanted:
        return value
    if unit.dimension != wanted.dimension or (wanted.currencies and not unit.currencies & wanted.currencies):
        return None
    return (value * unit.worth + unit.offset - wanted.offset) / wanted.worth


def may_be_same_dimension(one: Unit, other: Unit) -> bool:
    """Return whether two units of different dimensions may still measure the same thing.

    An example is "20 degrees" (an angle or a temperature) and 20 °C. Months and days are another example: they have
    different dimensions here, because a month does not have a fixed number of days.
    """
    names = [unit.dimension[0][0] if len(unit.dimension) == 1 else "" for unit in (one, other)]
    return frozenset(names) in _DOUBTFUL


def is_rounded_conversion(one: Unit, other: Unit) -> bool:
    """Return whether people usually round the result of a conversion between these two units.

    The result is True if the conversion does more than move the decimal point: True for miles and kilometres, False for
    metres and kilometres.
    """
    ratio = one.worth / other.worth
    digits = str(max(ratio.numerator, ratio.denominator))
    return one.offset != other.offset or min(ratio.numerator, ratio.denominator) != 1 or digits.strip("0") != "1"


def is_whole_conversion(one: Unit, other: Unit) -> bool:
    """Return whether one of two units is a whole multiple of the other (a foot is 12 inches).

    Such a conversion needs no rounding. ``one`` and ``other`` may be in any order.
    """
    ratio = one.worth / other.worth
    return one.offset == other.offset and min(ratio.numerator, ratio.denominator) == 1


def unit_at(plain: str, at: int) -> tuple[Unit | None, str, int]:
    """Read the unit that begins at the offset ``at`` of a text, such as "cm" in "5 cm".

    ``plain`` is a text in plain notation (:func:`groundtrace.grading.answers.number_notation.plain_notation`). The
    result has three values: the unit, the word, and the offset after the unit. The unit is None if no unit is there, or
    if it is unknown. The word is the text of an unknown unit ("apples" in "5 apples"); otherwise it is "".
    """
    read = _factor_at(plain, at)
    if read is None:
        return None, "", at
    unit, word, end = read
    while unit is not None:
        sign, per = 1, _TIMES.match(plain, end)
        if per is None:
            sign, per = -1, _PER.match(plain, end)
        further = None if per is None else _factor_at(plain, per.end())
        if further is None or further[0] is None:
            break
        unit, end = _times(unit, further[0], sign), further[2]
    return unit, word, end


def _factor_at(plain: str, at: int) -> tuple[Unit | None, str, int] | None:
    """Read one unit with its power, such as "square metres", that begins at the offset ``at`` of ``plain``.

    The result has three values: the unit, the word, and the offset after the unit. If the unit is known, the word is
    "". If it is unknown, the unit is None, and the word is its text. The result is None if ``plain`` has no word and no
    sign (such as %) there.
    """
    gap = _BEFORE_UNIT.match(plain, at)
    match = _FACTOR.match(plain, at if gap is None else gap.end())
    if match is None:
        return None
    name, end = match.group("name"), match.end()
    unit = _unit(re.sub(r"\s", "", name))
    # In "12 in the box" the word "in" is not inches.
    if unit is None or (name.lower() == "in" and _WORD_FOLLOWS.match(plain, end)):
        return None, name, match.end("name")
    shape = (match.group("shape") or "").lower()
    power = int(match.group("power") or {"squared": 2, "cubed": 3}.get((match.group("raised") or "").lower(), 1))
    if name == "ms" and power < 0:  # "m s^-2" without its space
        return _metres_per_second(power), "", end
    power *= 2 if shape.startswith("sq") else 3 if shape.startswith("cu") else 1
    return _times(Unit((), Fraction(1)), unit, power) if power != 1 else unit, "", end


def _metres_per_second(power: int) -> Unit:
    """Return the unit m · s^power: metres per second for the power -1."""
    table, _ = _tables()
    return _times(table["m"], table["s"], power)


def _times(one: Unit, other: Unit, power: int) -> Unit:
    """Return the unit one · other^power, such as metre per second for the power -1.

    The currencies of both units are kept. The result has no offset. Only temperatures have an offset: 0 °C is 273.15 K.
    But in a combined unit such as °C per hour, a degree is a difference of temperatures, and 1 °C of difference is 1 K.
    """
    powers = dict(one.dimension)
    for name, exponent in other.dimension:
        powers[name] = powers.get(name, 0) + exponent * power
    dimension = tuple(sorted((name, exponent) for name, exponent in powers.items() if exponent))
    return Unit(dimension, one.worth * other.worth**power, Fraction(0), one.currencies | other.currencies)


def _unit(name: str) -> Unit | None:
    """Return the unit with this name, such as "kg"; None if no unit has this name.

    A name in capital letters (KG), or with a capital first letter (Hours), is also accepted if only one unit has this
    name without regard to capital letters.
    """
    table, folded = _tables()
    is_shouted = (len(name) > 1 and name.isupper()) or (len(name) > 2 and name.istitle())
    return table.get(name) or (folded.get(name.casefold()) if is_shouted else None)


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, Unit], dict[str, Unit]]:
    """Return two tables of units: the first by exact name, the second by name without regard to capital letters.

    A name is in the second table only if it means exactly one unit.
    """
    table: dict[str, Unit] = {"%": Unit((("percent", 1),), Fraction(1))}
    for line in _SI.strip().splitlines():
        symbols, words, dimension, factor, prefixes = (part.split() for part in line.split(";"))
        scales = {"": 0} | {prefix: _POWERS[prefix] for prefix in prefixes}
        for prefix, power in scales.items():
            unit = _made(dimension, Fraction(factor[0]) * Fraction(10) ** power)
            table |= {prefix + symbol: unit for symbol in symbols}
        for prefix, power in ({"": 0} | _POWER_WORDS).items():
            unit = _made(dimension, Fraction(factor[0]) * Fraction(10) ** power)
            table |= {prefix + word + plural: unit for word in words for plural in ("", "s")}
    for line in _OTHER.strip().splitlines():
        names, dimension, factor = (part.split() for part in line.split(";"))
        table |= dict.fromkeys(names, _made(dimension, Fraction(factor[0])))
    for kind, names in _TEMPERATURE_NAMES.items():
        table |= dict.fromkeys(names.split(), Unit((("temperature", 1),), *_TEMPERATURES[kind]))
    for line in _CURRENCIES.strip().splitlines():
        names, codes = (part.split() for part in line.split(";"))
        table |= dict.fromkeys(names, Unit((("money", 1),), Fraction(1), Fraction(0), frozenset(codes)))
    cent = Unit((("money", 1),), Fraction(1, 100), Fraction(0), frozenset({*_DOLLARS.split(), "EUR"}))
    table |= {"cent": cent, "cents": cent}
    folded: dict[str, set[Unit]] = {}
    for name, unit in table.items():
        folded.setdefault(name.casefold(), set()).add(unit)
    return table, {name: units.pop() for name, units in folded.items() if len(units) == 1}


def _made(dimension: Sequence[str], worth: Fraction) -> Unit:
    """Return a unit, such as the newton, that is a product of base units.

    ``dimension`` holds the base units with their powers: ["kg", "m", "s-2"] is kg · m / s². ``worth`` is the value of
    one unit in these base units, such as 1000 for a kilometre (["m"]).
    """
    powers = [re.fullmatch(r"([a-zA-Z]+)(-?\d)?", part) for part in dimension]
    return Unit(tuple(sorted((p.group(1), int(p.group(2) or 1)) for p in powers if p is not None)), worth)
