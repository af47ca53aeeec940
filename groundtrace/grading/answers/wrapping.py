"""Removes the text around an answer: markup, quotes, a full stop, and a phrase such as "The answer is".

Phrases in English, Chinese, Japanese, Korean, Spanish, Portuguese, French, German and Italian are removed.
A phrase is removed only at the start of the answer, and only as a whole. So a denial ("La respuesta no es
B", "答案不是B") keeps its "not". Words such as "です" and "입니다" are removed at the end.
"""

from __future__ import annotations

import re
import unicodedata

from groundtrace.grading.answers.cjk_numerals import with_arabic_digits

_COMMAND = (
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:bf|rm|it|sf|tt)|mbox|boldsymbol|bm|emph|underline|boxed|fbox)\s*\{"
)
_MARKUP = re.compile(rf"{_COMMAND}([^{{}}]*)\}}")
_BEGINS = re.compile(_COMMAND)
_ENCLOSED = tuple(
    re.compile(rf"{begin}({inner}){end}", re.DOTALL)
    for begin, inner, end in (
        (r"\$\$", r"[^$]+", r"\$\$"),
        (r"\$", r"[^$]+", r"\$"),
        (r"\\\(", r"(?:(?!\\\)).)+", r"\\\)"),
        (r"\\\[", r"(?:(?!\\\]).)+", r"\\\]"),
        (r"\*\*", r"[^*]+", r"\*\*"),
        (r"\*", r"[^*]+", r"\*"),
        ("__", "[^_]+", "__"),
        ("`", "[^`]+", "`"),
        ('["“„«]', '[^"“”«»]+', '["”“»]'),
        ("['‘]", "[^'‘’]+", "['’]"),
        ("[「『【]", "[^「」『』【】]+", "[」』】]"),
    )
)
_LETTER_IN_FORMULA = re.compile(r"\d\s*[A-Za-z](?![A-Za-z])")
_STOP = re.compile(r"(?<=[^.\s])\s*[.。．]\Z")
_MAX_LAYERS = 4
_FULLWIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_MAX_NUMERAL_CHARS = 2000

_IS = r"\s*(?:is|was|would\s+be|should\s+be|must\s+be|will\s+be)(?:\s*:)?|\s*[:：]"
_ADJECTIVES = r"(?:(?:final|correct|best|right|most\s+likely|only)\s+){0,2}"
_COUNTING = r"(?:的|です|は|은|는|\s)*"
_LEADS = (
    re.compile(
        r"(?:so|thus|hence|therefore|finally|overall|in\s+conclusion|in\s+summary)\s*,?\s+(?=\S)", re.IGNORECASE
    ),
    re.compile(
        rf"(?:(?:the|my)\s+)?{_ADJECTIVES}(?:answer|statement|claim|sentence|caption|date|time|option|choice)"
        rf"(?:\s+to\s+(?:the|this)\s+question)?(?:{_IS})\s*",
        re.IGNORECASE,
    ),
    re.compile(r"(?:c['’]est|es\s+ist|richtig\s+ist)\s+(?:la\s+)?(?=\S)", re.IGNORECASE),
    re.compile(r"(?:it|this|that)(?:\s+(?:is|must\s+be|should\s+be|would\s+be)|['’]s)\s+", re.IGNORECASE),
    re.compile(
        r"(?:i|we)(?:\s+would|['’]d|\s+will|['’]ll)?\s+(?:choose|pick|select|say|go\s+(?:with|for)|answer|think|believe)"
        r"(?:\s+that)?\s*:?\s+(?=\S)",
        re.IGNORECASE,
    ),
    re.compile(r"(?:所以|因此|故而|故|综上(?:所述)?|于是|最终)\s*[，,]?\s*"),
    re.compile(
        rf"(?:(?:本题|此题|我|正确|最终|最佳|标准){_COUNTING})*(?:答案|选项|選項)\s*"
        r"(?:(?:应该|應該|应|就)?(?:是|为|為|选|選)|[:：])?\s*[:：]?\s*"
    ),
    re.compile(r"(?:本题|此题|我|应该|應該|应|應|该)*(?:选择|選擇|选|選)(?:项|項)?\s*[:：]?\s*"),
    re.compile(r"(?:正しい|最終的な|最終)?(?:答え|正解|回答|解答|選択肢)\s*は?\s*[:：、]?\s*"),
    re.compile(r"(?:따라서\s*)?(?:최종\s*)?(?:정답|답|선택지)\s*(?:은|는)?\s*[:：]?\s*"),
    re.compile(
        r"(?:(?:la|a)\s+)?(?:respuesta|resposta|risposta|opci[óo]n|opção|opzione|alternativa)(?:\s+(?:correcta|correta|corretta|final|finale))?"
        r"\s*(?:es|é|è)?\s*:?\s*(?:(?:la|el|a|o|il)\s+)?(?=\S)",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:la\s+)?(?:bonne\s+)?r[ée]ponse(?:\s+(?:correcte|finale|exacte))?\s*(?:est)?\s*:?\s*(?:(?:la|le)\s+)?(?=\S)",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:(?:die|meine)\s+)?(?:(?:richtige|korrekte|endgültige)\s+)?antwort\s*(?:ist|lautet)?\s*:?\s*(?=\S)",
        re.IGNORECASE,
    ),
)
_TAIL = re.compile(r"(?<=\S)\s*(?:です|である|입니다|이다|です。|选项|選項|是正确的|是对的|が正解)\Z")


def legible(text: str) -> str:
    """Return a text in plain characters, so that equal answers have equal characters.

    Invisible characters are removed, fullwidth characters become plain characters ("５" becomes "5"), and
    Chinese and Japanese numerals become digits ("三个" becomes "3个"). Numerals are not converted in a text of
    more than 2,000 characters.
    """
    if text.isascii():
        return text
    plain = "".join([char for char in text.translate(_FULLWIDTH) if unicodedata.category(char) != "Cf"])
    return with_arabic_digits(plain) if len(plain) <= _MAX_NUMERAL_CHARS else plain


def without_markup(text: str) -> str:
    r"""Return the text with LaTeX commands for text styles replaced by their content: ``\text{cat}`` becomes ``cat``.

    The commands are ``\text``, ``\textbf``, ``\mathrm``, ``\boxed`` and similar ones.
    """
    for _ in range(_MAX_LAYERS):
        text, replaced = _MARKUP.subn(r"\1", text)
        if not replaced:
            break
    return text


def without_wrapping(text: str) -> str:
    r"""Return the text without markup, dollar signs, quotes and a full stop around the whole text. Never raises.

    For example, ``**"5"**.`` becomes ``5``. But ``$3m$`` keeps its dollar signs: without them, its symbol ``m`` would
    be read as the unit metre.
    """
    for _ in range(2 * _MAX_LAYERS):
        inner = _STOP.sub("", text.strip())
        begins = _BEGINS.match(inner)
        if begins is not None and _closes_at_the_end(inner, begins.end()):
            inner = inner[begins.end() : -1]
        for pattern in _ENCLOSED:
            match = pattern.fullmatch(inner)
            is_formula = match is not None and inner[0] in "$\\" and _LETTER_IN_FORMULA.search(match.group(1))
            if match is not None and not is_formula:
                inner = match.group(1)
                break
        if inner.strip() in {text, ""}:
            break
        text = inner.strip()
    return text


def _closes_at_the_end(text: str, at: int) -> bool:
    r"""Return whether a LaTeX command, such as ``\text{…}``, encloses the whole text with its braces.

    ``text`` begins with the command. ``at`` is the offset after the opening brace, such as 6 for ``\text{cat}``. The
    result is True for ``\text{cat}``, and False for ``\text{cat} or \text{dog}``.
    """
    depth = 1
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return end == len(text) - 1
    return False


def bare_answer(text: str) -> str:
    """Return only the answer in a text, such as "5" for "The answer is **5**."

    A phrase such as "The answer is", and the markup and quotes around the answer, are removed.
    """
    return without_wrapping(without_answer_phrase(text))


def without_answer_phrase(text: str) -> str:
    """Return the text without a phrase before or after the answer.

    Examples are "So the answer is" at the start, and "です" at the end. A text without such a phrase is
    returned unchanged, except that spaces around it are removed.
    """
    text = text.strip()
    for _ in range(_MAX_LAYERS):
        rest = next((text[found.end() :] for lead in _LEADS if (found := lead.match(text)) and found.end()), text)
        if rest == text or not rest:
            break
        text = rest.strip()
    return _TAIL.sub("", text) or text
