"""Decides whether a clause affirms or rejects the statement that a question asks about.

For example, the clauses "it agrees" and "so yes" affirm the statement, and "it does not hold" rejects the statement.
"""

import re
from fractions import Fraction

from groundtrace.embedded.sentences import NEGATIONS, STATEMENTS
from groundtrace.embedded.vocabulary import words
from groundtrace.grading.answers.numerals import read_numerals

_AGREES = words("agrees")

_DISAGREES = words("disagrees")

_LOOSE = words("disagrees_of_statements")
"""Words that mean disagreement only if the clause also has a word for the question's statement, such as "statement".

For example, "this is different from the statement" disagrees, but "it is different" does not.
"""
_SAYS = words("says")
_IT = words("it")
_AS_SAID = re.compile(
    r"\b(?:as|wie|comme) (?:was |is |the statement |it )?(?:described|stated|claimed|said|asserted|asked|"
    r"required|behauptet|beschrieben|angegeben|says?|claims?|describes?|states?)\b"
)
_SIDES = {"yes": True, "no": False, "ja": True, "nein": False, "oui": True, "non": False, "sí": True}
_SPEAKS = words("before_yes_or_no")
_FILLS_VERDICT = words("beside_verdicts")

_HAS_RIGHT_OF = re.compile(
    r"\b(?:to|on|at|in|from|far|the) (?:the )?(?:far |very |lower |upper )*right\b(?! (?:answer|number))"
)
_WHAT_IS_SAID = re.compile(
    r"\b(?:is|are|was|just|exactly)(?P<not> not)?(?: (?:exactly|just|precisely))* what (?:the |i |it |is |was |we )"
)
_SPEAKS_FOR = re.compile(
    r"\b(?:speaks?|argues?|points?|evidence|counts?|decides?) (?P<how>for|against|in favou?r of) (?:the|this|that|it)\b"
)
_COMPARED = re.compile(r"(?<=\bwith )(?:there (?:being|having been)|the (?:claim|idea|view|fact) that)\b.*")
"""Matches what a clause compares something with: "there being none" in "that agrees with there being none".

A negation in this part ("none") does not negate the clause.
"""
_SAMENESS = words("sameness")
_FINAL = _SAMENESS | words("final_verdicts")

_RIGHT_IDIOM = re.compile(r"\b(?:spot[- ]on|on the mark|on the money|dead right|bang on)\b")
_WRONG_IDIOM = re.compile(r"\b(?:(?:wide of|off|far from) the (?:mark|truth)|off base|dead wrong|wide of it)\b")
_OBJECT_IT = re.compile(r"\b(?:this|that|it)\b(?: up| out)?\W*$")


_NOTHING = frozenset({"nothing", "nichts", "rien", "nada"})


class BothSidesError(ValueError):
    """Raised if a clause both affirms and rejects the statement that the question asks about.

    An example is the clause "true and false".
    """


def side_of_statement(clause: str) -> bool | None:
    """Return whether a clause affirms (True) or rejects (False) the statement that the question asks about.

    A clause that answers yes affirms, and a clause that answers no rejects. Returns None if the clause does neither.
    For example, "so it is true" gives True, and "this does not hold" gives False.

    A word of judgement, such as "true", "wrong" or "agrees", is a verdict only in three cases. First, the clause names
    the statement, or has a pronoun such as "it" or "this". Second, the clause ends with a word such as "agrees" or
    "differs". Third, the clause has only words of judgement, negations and fillers ("clearly not true"). Each
    negation inverts the verdict. Raises BothSidesError if the clause both affirms and rejects.
    """
    clause = _COMPARED.sub("it", clause)
    clause = _WRONG_IDIOM.sub("wrong", _RIGHT_IDIOM.sub("right", clause))
    words = _words(clause)
    alone = {*words} - _FILLS_VERDICT
    bare = {word for word in alone if word in _SIDES}
    if bare and (alone == bare or (words[-1] in bare and {*words} & _SPEAKS)):
        if len({_SIDES[word] for word in bare}) > 1:
            raise BothSidesError(clause)
        return _SIDES[next(iter(bare))]
    negated = sum(word in NEGATIONS or word in _NOTHING for word in words) % 2 == 1
    if _AS_SAID.search(clause):
        return not negated
    what, speaks = _WHAT_IS_SAID.search(clause), _SPEAKS_FOR.search(clause)
    if what is not None and (STATEMENTS | _SAYS) & {*words}:
        return not what["not"]
    if speaks is not None:
        return (speaks["how"] != "against") != negated
    kept = _words(_HAS_RIGHT_OF.sub(" ", clause))
    if kept and kept[-1] in _SAMENESS:
        return not negated
    of_statement = bool(STATEMENTS & {*kept})
    found = _verdicts(kept, of_statement)
    if not found or not (of_statement or kept[-1] in _FINAL or _is_about_it(clause, kept)):
        return None
    return all(found.values()) != negated


def takes_back(clause: str, answer: Fraction) -> bool:
    """Return whether a clause calls the answer wrong: "that is incorrect", "3 is the wrong answer".

    ``answer`` is the answer as a number. The result is False if the clause is about the statement that the question
    asks about, or if it names a number other than the answer.
    """
    kept = _words(_HAS_RIGHT_OF.sub(" ", clause))
    if STATEMENTS & {*kept} or any(each.value != answer for each in read_numerals(clause).numerals):
        return False
    found = _verdicts(kept, of_statement=False)
    if not found or all(found.values()) or not ("answer" in kept or _is_about_it(clause, kept)):
        return False
    return sum(word in NEGATIONS for word in kept) % 2 == 0


def _verdicts(words: list[str], of_statement: bool) -> dict[int, bool]:
    """Return a dict from the position of each verdict word to a bool: True if it affirms, False if it rejects.

    Verdict words are words such as "true" and "wrong". ``of_statement`` is True if the clause has a word such as
    "statement". More words are then verdict words, such as "different" in "this is different from the statement".
    Raises BothSidesError if "and" or "or" joins a word that affirms with a word that rejects.
    """
    loose = frozenset[str]() if of_statement else _LOOSE
    agrees = _AGREES | _SAMENESS if of_statement else _AGREES
    found = {at: word in agrees for at, word in enumerate(words) if word in agrees or word in _DISAGREES - loose}
    if len({*found.values()}) > 1 and {"and", "or"} & {*words[min(found) : max(found)]}:
        raise BothSidesError(" ".join(words))
    return found


def _is_about_it(clause: str, words: list[str]) -> bool:
    """Return whether a clause judges something that the clause does not name, as "it is true" does.

    The result is True in two cases. First, the clause has "it" or a similar pronoun, as one of its first three words
    ("it is true") or at its end ("I confirm this"). Second, all words of the clause are words of judgement such as
    "true", negations, or fillers ("clearly not true").
    """
    rest = {*words} - _AGREES - _DISAGREES - _FILLS_VERDICT - NEGATIONS
    return not rest or bool(_IT & {*words[:3]}) or _OBJECT_IT.search(clause) is not None


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)
