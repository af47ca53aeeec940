"""Defines the words that the embedded judge (a program without a model) knows: for seeing, counting and concluding.

For English, rules derive the other forms of a word ("counted" from "count"). For German, French and Spanish, all forms
are listed. Some words show that a reasoning guesses the answer, refuses to answer, or does not see the image, such as
"invented", "sorry" or "blurred". Such a reasoning has no value. These words are recognised by their stems.
"""

import re
from pathlib import Path

from groundtrace.embedded.sight.labels import COLOURS, colour_word, kind_word
from groundtrace.schemas.yaml_text import read_yaml

_LISTS: dict[str, str] = read_yaml(Path(__file__).with_name("words.yaml").read_text("utf-8"))


def words(name: str) -> frozenset[str]:
    """Return the words of one list in the file ``words.yaml``, such as "verbs". ``name`` is the name of the list."""
    return frozenset(_LISTS[name].split())


_FUNCTION = words("little")
_NUMBERS = words("numbers")
_VERBS = words("verbs")
_IRREGULAR = words("verb_forms")
_QUALITIES = words("qualities")
_ADVERBS = words("adverbs")
_NOUNS = words("nouns")
_GERMAN = words("german")
_ROMANCE = words("french_and_spanish")
DOUBT = words("doubt")

"""Words of doubt, such as "perhaps". Only questions and suppositions ("if it were red") may contain them. If another
sentence of a reasoning contains one, the reasoning cannot be judged.
"""
_PLAIN = frozenset(
    [*_FUNCTION, *_NUMBERS, *_IRREGULAR, *_QUALITIES, *_ADVERBS, *_NOUNS, *_GERMAN, *_ROMANCE, *COLOURS, "gray"]
)
_VERB_STEMS = frozenset(_VERBS)
PARTICLES = words("particles")

"""Short words; a real sentence never has many of them in a row."""


_WORTHLESS = re.compile(
    r"(?:guess|inven(?:t(?!or)|ció)|fabricat|random|arbitrar|pretend|imagin|hallucinat|fak(?:e|ing)|ficti|bogus|dummy|"
    r"placeholder|lorem|todo|tbd|apolog|sorry|unable|unfortunat|refus|declin|assist|help|impossib|imposib|blurr|unclear|"
    r"unsure|uncertain|unknown|unreadable|illegible|indetermin|ambiguous|hesitat|undecided|whatever|regardless|irrelevan|"
    r"unseen|blind|assum|plausib|concoct|conjur|contriv|improvis|presum|gambl|bluff|cheat|copied|omitt|insert|erfund|erfinde|geraten|rate$|leider|"
    r"entschuldig|unmöglich|zufäll|inventé|désolé|hasard|lo siento|azar|language|model$|ai$|chatbot|ja?ilbreak)",
    re.IGNORECASE,
)
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}|^[^aeiouyäöüáéíóúàèêâîôû]+$")


def is_worthless(word: str) -> bool:
    """Return whether a word shows that a reasoning guesses ("invented"), refuses ("sorry") or does not see ("blurred").

    ``word`` must be in lower case.
    """
    return _WORTHLESS.match(word) is not None


def is_wordlike(word: str) -> bool:
    """Return whether an unknown word could be a real word, and not a random sequence of letters.

    Such a word has at most 20 letters, at least one vowel, and no five consonants in a row.
    """
    return len(word) <= 20 and _CONSONANTS.search(word) is None


def is_known(word: str) -> bool:
    """Return whether the embedded judge (a program without a model) knows a word. ``word`` must be in lower case.

    The judge knows the words of its lists, and all numbers, colours, shapes and words that end with "ly".
    """
    if word in _PLAIN or word in _VERB_STEMS or word.isdigit():
        return True
    if colour_word(word) is not None or kind_word(word) is not None:
        return True
    if word.endswith("ly"):
        return True
    return any(stem in _VERB_STEMS or (plural and stem in _PLAIN) for stem, plural in _stems(word))


def _stems(word: str) -> list[tuple[str, bool]]:
    """Return the possible stems of a word, such as "count" for "counted". The caller looks them up in the word lists.

    The second value of each pair is True if the stem may be a noun or an adjective ("tower" for "towers", "large" for
    "larger"). It is False if the stem can only be a verb ("count" for "counted").
    """
    stems = []
    for ending in ("s", "es", "ies", "ed", "d", "ing", "ied"):
        if word.endswith(ending) and len(word) - len(ending) >= 2:
            stem = word[: -len(ending)]
            plural = ending in ("s", "es", "ies")
            stems += [(stem, plural), (stem + "e", False), (stem + "y", plural)]
            if len(stem) > 2 and stem[-1] == stem[-2]:
                stems.append((stem[:-1], plural))
    for ending in ("er", "est"):
        if word.endswith(ending):
            stems += [(word[: -len(ending)], True), (word[: -len(ending)] + "e", True)]
    return stems
