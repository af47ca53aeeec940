"""Rewrites Chinese and Japanese numerals as digits: 三个 is 3个, 一百二十 is 120, 2.5万 is 25000, 第二 is 2nd.

A numeral is converted in four places only: at the end of the text, before a space or punctuation, before a word for a
counted thing (三只猫), and before の. Inside any other word (三角形, 一样) it is unchanged. A numeral that may mean two
numbers is also unchanged (三四个: three or four). A percentage or a fraction (三分之二) is converted in any place.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

_DIGITS = "〇零一二三四五六七八九两兩壹贰叁肆伍陆柒捌玖貳參陸"
_TENS = "十百千拾佰仟"
_MYRIADS = "万萬亿億"
_COUNTED = (
    "个個只隻条條本人张張次元円圆圓块塊岁歲年月日号號头頭匹台辆輛朵棵件位名支枝杯瓶盒层層间間点點分秒米度倍つ枚回"
)
_NUMERAL = re.compile(
    rf"(?P<ordinal>第)?(?:(?P<written>\d+(?:\.\d+)?)\s?(?P<scale>[{_MYRIADS}千]{{1,3}})|"
    rf"(?<![\d{_DIGITS}{_TENS}{_MYRIADS}])(?P<numeral>[{_DIGITS}{_TENS}{_MYRIADS}]+))"
    rf"(?=$|[^\w]|[{_COUNTED}]|の|点[{_DIGITS}])"
    rf"(?:点(?P<decimals>[{_DIGITS}]+))?"
)
_SHARE = re.compile(rf"([{_DIGITS}{_TENS}{_MYRIADS}]+)分之([{_DIGITS}{_TENS}{_MYRIADS}]+)")


def with_arabic_digits(text: str) -> str:
    """Return the text with digits in place of its Chinese and Japanese numerals: "三只猫" becomes "3只猫".

    A numeral is converted at the end of the text, before a space or punctuation, before a word for a counted thing, and
    before の. Inside another word (三角形) it is unchanged, and so is a numeral that may mean two numbers (三四个). A
    percentage or a fraction is converted in any place. Never raises; takes time linear in ``len(text)``.
    """
    if text.isascii():
        return text
    return _NUMERAL.sub(_as_digits, _SHARE.sub(_as_share, text))


def value_of_numeral(numeral: str) -> int | None:
    """Return the value of a Chinese or Japanese numeral, such as 120 for 一百二十 and 25000 for 两万五千.

    ``numeral`` must have only characters for digits, tens and larger units. Returns None if it is not one
    number, such as 三四 (three or four).
    """
    if all(char in _DIGITS for char in numeral):
        is_one = len(numeral) == 1 or len(numeral) == 4 or any(char in "〇零" for char in numeral)
        return int("".join(str(_worth(char)) for char in numeral)) if is_one else None
    total = section = digit = 0
    smallest, is_digit = 10**9, False
    for char in numeral:
        worth = _worth(char)
        if char in _DIGITS:
            if is_digit and digit:
                return None
            digit, is_digit = worth, True
        elif char in _TENS:
            section += max(digit, 0 if is_digit else 1) * worth
            digit, is_digit, smallest = 0, False, worth
        else:
            total = (total + max(section + digit, 1)) * worth if total < worth else total + (section + digit) * worth
            section, digit, is_digit, smallest = 0, 0, False, worth
    # 一百二 is 120: a last digit without a zero before it counts the next smaller unit.
    if digit and smallest > 10 and numeral[-2] not in "零〇":
        digit *= smallest // 10
    return total + section + digit


def _worth(char: str) -> int:
    return 2 if char == "两" else int(unicodedata.numeric(char))


def _as_digits(found: re.Match[str]) -> str:
    part = found.groupdict()
    if part["written"]:
        value = Fraction(part["written"])
        for char in part["scale"]:
            value *= _worth(char)
        return str(value.numerator) if value.denominator == 1 else found.group()
    whole = value_of_numeral(part["numeral"])
    if whole is None:
        return found.group()
    if part["decimals"]:
        return f"{whole}.{''.join(str(_worth(char)) for char in part['decimals'])}"
    return f"{whole}{_suffix(whole)}" if part["ordinal"] else str(whole)


def _as_share(found: re.Match[str]) -> str:
    """Write a percentage or a fraction in digits: 百分之二十 is 20 %, 三分之二 is 2/3."""
    below, above = (value_of_numeral(text) for text in found.groups())
    if below is None or above is None or not below:
        return found.group()
    return f"{above}%" if found.group(1) == "百" else f"{above}/{below}"


def _suffix(number: int) -> str:
    return {1: "st", 2: "nd", 3: "rd"}.get(0 if 10 < number % 100 < 20 else number % 10, "th")
