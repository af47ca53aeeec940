"""Judges whether the text of a reasoning agrees with the reasoning's evidence (points and boxes) and its answer.

A reasoning that points at objects of the question needs no concluding sentence: the answer is treated as the
conclusion. If there is no such sentence, the judge looks in the image whether the points are on these objects
(:mod:`groundtrace.embedded.seen_points`). The judge searches every sentence for contradictions of these kinds:

- The question asks whether a statement is true. The sentence calls the statement true, but the answer is no; or the
  sentence calls it false, but the answer is yes.
- The sentence denies an object that the reasoning points at ("there is no circle").
- The points contradict a count, a comparison, a colour or a place, or the arithmetic is wrong.
- The reasoning withdraws its answer.

If a sentence is unreadable (:mod:`groundtrace.embedded.sentences`), or a negation is unclear, the verdict is
"cannot judge".
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from groundtrace.embedded.hedges import asserted
from groundtrace.embedded.parts import part_denied, sides_of, with_headings
from groundtrace.embedded.pointed_facts import contradicted_fact
from groundtrace.embedded.pointed_numbers import contradicted_number
from groundtrace.embedded.scenes import Scene
from groundtrace.embedded.seen_points import Place, seen_points
from groundtrace.embedded.sentences import (
    CLAUSE,
    NEGATIONS,
    SENTENCE,
    STATEMENTS,
    clauses,
    ends_on_another,
    parts_of,
    spelled,
    unreadable,
)
from groundtrace.embedded.statements import (
    another_colour,
    denies_having,
    denies_object,
    denies_relation,
    is_excluded,
    repeats_statement,
)
from groundtrace.embedded.translation import in_english
from groundtrace.embedded.verdicts import BothSidesError, side_of_statement, takes_back
from groundtrace.embedded.vocabulary import words
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.polarity import polarity
from groundtrace.grading.responses.conclusions import conclusions, contradiction
from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.label_parts import noun_phrase_of
from groundtrace.schemas.labels import counted_phrase, plain_label, words_of
from groundtrace.schemas.records import Question

_ELSE = words("other_things")

_ALL_PARTS = frozenset({"left", "middle", "right"})
_PLACED = words("placed")
_NOTHING = words("nothing")
_DENIES = re.compile(r"\b(?:free of|devoid of|other than|absent|missing|nowhere|lacks?|lacking)\b")
_TAKEN_BACK = "it takes its answer back"
_NOT_ONE = re.compile(
    r"\bnone(?: at all)?\W*$"
    r"|\bnot? (?:(?:even )?(?:a )?single one|(?:even )?one|any)\b(?: of (?:them|these|those))?\W*$"
)
_PERCEIVES = words("perceives")
_IMAGE = words("images")

MIN_REPEATED_CHARS = 12
"""The maximum length, in characters, of a line of the question that may stay in a reasoning.

If a reasoning repeats a longer line of the question, this line is removed before the reasoning is judged.
"""
_NO_DOUBT = re.compile(
    r"\bof no (?:interest|importance|relevance|concern|consequence)\b|"
    r"\b(?:no|without(?: any| a)?|not any) (?:objections?|doubts?|exceptions?|problems?|mistakes?|errors?|question)\b"
)
_VERDICT_ON = re.compile(
    r"\b(?:the|this|that) (?:\w+ )?(?:statement|claim|sentence|caption|assertion|proposition|description|condition|"
    r"requirement) (?:is|was|can|cannot|could|will|has been|turns out|proves|remains)\b(?: not)? "
    r"(?!(?:about|that|whether|to|of|for|asking|saying|this|simple|simply|there|be tested|be checked)\b)"
)
"""Matches a clause that judges a statement, such as "the claim is absurd". If the verdict in the clause cannot be read,
the reasoning cannot be judged.
"""
_IS_NONE_OF = re.compile(r"\b(?:it|this|that|which|they|these|those) (?:is|are)(?: \w+)? not\b|\bnot being\b")
_EXISTS = re.compile(r"\b(?:there (?:is|are)|(?:is|are) there) (?:(?:an?|any|some) )?((?:[a-z]+ ?){1,2})")
_FAILS_TO = re.compile(r"\b(?:fails?|failed|failing) to\b")
_ABSENT = re.compile(
    r"\b(?:such|object|shape|thing|one|nothing|sort|kind)\b.*\b(?:exists?|appears?|present|visible|found|seen|there|shows?)\b"
)


@dataclass(frozen=True)
class SupportVerdict:
    """Holds the judge's verdict on whether a reasoning supports its answer.

    ``supports`` is True if the reasoning supports its answer, False if not, and None if the judge cannot decide.
    ``reason`` explains the verdict.
    """

    supports: bool | None
    reason: str


def judge_support(reasoning: str, question: Question, scene: Scene | None = None) -> SupportVerdict:
    """Judge whether the text of a reasoning agrees with its own points and boxes, and with its own answer.

    ``question`` holds the question and the answer of the reasoning. ``scene`` holds the image; without it, the points
    are compared neither with the image nor with places such as "in the left box". Never raises.
    """
    for line in question.question.splitlines():
        reasoning = reasoning.replace(line, " ") if len(line) > MIN_REPEATED_CHARS else reasoning
    text = "".join(parts_of(reasoning))
    reason = contradiction(text, question)
    if reason is not None:
        return SupportVerdict(False, f"the reasoning states: {reason}")
    reader = _ReasoningReader(reasoning, text, question)
    fault = reader.against() or contradicted_fact(reasoning, question, scene)
    if fault is not None:
        return SupportVerdict(False, fault)
    lacking = unreadable(reasoning, question) or reader.unread or ends_on_another(text, question)
    if lacking is not None:
        return SupportVerdict(None, lacking)
    concluded = [each.text for each in conclusions(text, question) if each.right] + reader.agreeing
    concluded += [each.text for part in CLAUSE.split(text) for each in conclusions(part, question) if each.right]
    if concluded:
        return SupportVerdict(True, f"the reasoning states: {concluded[-1].strip()}")
    return _shown_by_points(reader.places.values(), text, question, scene)


def _shown_by_points(places: Collection[Place], text: str, question: Question, scene: Scene | None) -> SupportVerdict:
    """Judge a reasoning that states no conclusion by ``places``: the points, and the centres of the boxes.

    The reasoning supports its answer if the places show objects that the question is about
    (:mod:`groundtrace.embedded.seen_points`). An answer that is neither yes, no nor a count must also be named in
    ``text``, the text of the reasoning. The number of places is not compared with a count: another check does this.
    Places that show no such object count like no places: a count is then unsupported, and any other answer cannot be
    judged.
    """
    counts = read_numerals(question.answer).single is not None and counted_phrase(question.question) is not None
    named = frozenset(words_of(question.answer))
    without_places = False if counts else None
    if not places or not (counts or polarity(question.answer) is not None or (named and named <= {*words_of(text)})):
        reason = "no conclusion is stated, and nothing is pointed at that shows the answer"
        return SupportVerdict(without_places, reason)
    if scene is None:
        return SupportVerdict(True, "it answers by what it points at")
    seen = seen_points(places, question, scene)
    return SupportVerdict(without_places if seen.shown is False else seen.shown, seen.reason)


class _ReasoningReader:
    """Compares the clauses of a reasoning with its evidence (points and boxes) and its answer."""

    def __init__(self, reasoning: str, text: str, question: Question) -> None:
        self._text, self._question = text, question
        self._asked = in_english(question.question.casefold())
        self._side = polarity(question.answer)
        self._claimed = {" ".join(words_of(each)) for each in map(noun_phrase_of, _EXISTS.findall(self._asked))}
        number = read_numerals(question.answer).single
        self._number = None if self._side is not None or number is None else number.value
        self.labels = Counter[str]()
        self.places: dict[Place, Place] = {}
        found: list[Point] = [*parse_points(reasoning)]
        for label, x, y in [
            *((p.label, p.x, p.y) for p in found),
            *((b.label, *b.centre) for b in parse_boxes(reasoning)),
        ]:
            name = in_english(plain_label(label))
            key = " ".join(words_of(name))
            if (key, x, y) not in self.places:
                self.places[key, x, y] = (name, x, y)
                self.labels[key] += 1
        self._denied = defaultdict[str, set[str]](set)
        self._sentence = ""
        self.agreeing: list[str] = []
        self.unread: str | None = None

    def against(self) -> str | None:
        """Return a message about the first sentence that contradicts the evidence (points and boxes) or the answer.

        A sentence that withdraws the answer is reported only if no later sentence states the answer again, and no later
        sentence contains another contradiction. Return None if there is nothing to report.
        """
        taken_back: str | None = None
        for sentence in SENTENCE.findall(with_headings(spelled(self._text))):
            if sentence.rstrip().endswith("?"):
                continue
            plain = asserted(sentence)
            self._sentence = english = in_english(plain)
            wrong = None if plain == sentence else contradiction(plain, self._question)
            fault = None if wrong is None else f"the reasoning states: {wrong}"
            fault = (
                fault
                or contradicted_number(english, self.labels, self._number)
                or another_colour(english, self._question.answer)
            )
            for clause in clauses(plain):
                fault = fault or self._clause(in_english(clause), clause.strip())
            if fault is not None and fault.startswith(_TAKEN_BACK):
                taken_back = fault
            elif fault is not None:
                return fault
            elif taken_back is not None and self._is_answered(plain):
                taken_back = None
        return taken_back

    def _is_answered(self, sentence: str) -> bool:
        return any(each.right for each in conclusions(sentence, self._question)) or (
            self._number is not None and any(n.value == self._number for n in read_numerals(sentence).numerals)
        )

    def _clause(self, clause: str, quoted: str) -> str | None:
        """Return a message if a clause contradicts the answer or the evidence (points and boxes); else None.

        ``clause`` is the clause in English, and ``quoted`` is the same clause in its original language.
        """
        clause = _FAILS_TO.sub("not", _NO_DOUBT.sub(" ", clause))
        words = re.findall(r"[^\W\d_]+|\d+", clause)
        try:
            side = None if self._side is None else side_of_statement(clause)
            if self._side is None and self._number is not None and takes_back(clause, self._number):
                return f"{_TAKEN_BACK}: {quoted}"
        except BothSidesError:
            self.unread = f"both sides are taken: {quoted!r:.80}"
            return None
        if side is not None:
            self.agreeing += [quoted] if side == self._side else []
            return None if side == self._side else f"it states: {quoted}"
        if self._side is False and repeats_statement(clause, self._asked, self.labels):
            self.unread = self.unread or f"it repeats the statement as true: {quoted!r:.80}"
            return None
        if self._side is not None and _VERDICT_ON.search(clause):
            self.unread = self.unread or f"its verdict cannot be read: {quoted!r:.80}"
            return None
        if (
            self._number == 0
            and [n.value for n in read_numerals(clause).numerals] == [0]
            and self._names_a_thing(words)
        ):
            self.agreeing += [] if self.labels else [quoted]
            return None
        denies = sum(word in NEGATIONS for word in words) % 2 or _DENIES.search(clause)
        return self._negation(clause, words, quoted) if denies and not {*words} <= _NOTHING else None

    def _negation(self, clause: str, words: list[str], quoted: str) -> str | None:
        """Return a message if a clause denies the answer, or an object at which the reasoning points; else None.

        ``clause`` is the clause in English, ``words`` are its words, and ``quoted`` is the same clause in its original
        language.
        """
        for label in [*self.labels, *self._asked_things()]:
            if self._side is False and denies_relation(label, clause, self._asked):
                self.agreeing.append(quoted)
                return None
            if self._side is True and self.labels[label] and denies_having(label, clause, self._asked):
                return f"it denies what it points at: {quoted}"
            if (
                denies_object(label, clause)
                and (not (_ELSE - sides_of(clause)) & {*words} or "other than" in clause)
                and not STATEMENTS & {*words}
            ):
                part = part_denied(label, clause, self._sentence, self._words_asked())
                self._denied[label].add(part or "")
                denied_everywhere = (self._number or 0) > 0 and self._denied[label] >= _ALL_PARTS
                if (part or self._is_of_another(label, clause)) and not denied_everywhere:
                    return None
                if self._is_there(label):
                    return f"it denies what it points at: {quoted}"
                self.agreeing += [quoted] if self._side is False or self._number == 0 else []
                return None
        if is_excluded(clause, self._sentence, self._asked, self.labels):
            return None
        behind = re.split(r"\b(?:not|never|cannot|nicht|pas)\b", clause)[1:]
        denied = [n.value for n in read_numerals(behind[-1]).numerals] if behind else []
        if denied and self._number is not None and denied == [self._number]:
            return f"it denies its answer: {quoted}"
        if (_NOT_ONE.search(clause) or _ABSENT.search(clause)) and not self.labels:
            self.agreeing += [quoted] if self._side is False or self._number == 0 else []
            return None
        if (
            _PERCEIVES & {*words}
            and {*words} & {*_IMAGE, "anything"}
            and "else" not in words
            and not self._names_a_thing(words)
        ):
            self.unread = f"it does not look: {quoted!r:.80}"
        known = _ELSE | STATEMENTS | {"majority", "outnumber", "larger", "greater", "bigger", "many", "equal", "same"}
        if not denied and not known & {*words} and not _PLACED & {*words} and not self._names_a_thing(words):
            self.unread = self.unread or f"its denial cannot be read: {quoted!r:.80}"
        return None

    def _is_there(self, label: str) -> bool:
        """Return whether the object ``label`` must exist according to the reasoning's points and boxes, or its answer.

        A point or box with the label "black square" shows that a "square" exists. The answer shows that the object
        exists in three cases:

        - The answer is a number above 0.
        - The answer is yes, and the question asks whether the object exists ("is there a square?").
        - The answer is yes, and the reasoning has no points or boxes. In this case, the caller passes only objects of
          the question as ``label``.
        """
        pointed = any({*label.split()} <= {*other.split()} for other in self.labels) if label else False
        claimed = self._side is True and (not self.labels or label in self._claimed)
        return pointed or claimed or (self._number or 0) > 0

    def _words_asked(self) -> frozenset[str]:
        """Return the words of the question if its answer is yes or a number above 0; else an empty set.

        If the answer is yes or a number above 0, the objects must exist in the part of the image that the question
        names, such as "in the left box". A reasoning that denies objects in this part ("no square in the left box")
        then contradicts the answer. The caller finds the part by the words of the question.
        """
        is_there = self._side is True or (self._number or 0) > 0
        return frozenset(words_of(self._asked)) if is_there else frozenset()

    def _is_of_another(self, label: str, clause: str) -> bool:
        """Return whether a clause is only about another object, and so does not deny that ``label`` exists.

        For example, "the blue square is large, so it is not a circle" does not deny that a "circle" exists. The result
        is True only if the reasoning points at the other object ("blue square"), and the sentence names this object
        before the clause.
        """
        denied, before = {*label.split()}, self._sentence.partition(clause)[0]
        named = words_of(before)
        return _IS_NONE_OF.search(clause) is not None and any(
            not denied <= {*other.split()} and {*other.split()} <= {*named} for other in self.labels
        )

    def _names_a_thing(self, words: Sequence[str]) -> bool:
        named = {*words_of(" ".join(words))}
        return any(named & {*label.split()} for label in [*self.labels, *self._asked_things()])

    def _asked_things(self) -> list[str]:
        """Return the objects that the question names.

        The first element names the counted objects, as in "how many red cars"; it is "" if the question counts nothing.
        The other elements are the objects that are named after words such as "a" or "any", as in "is there a dog".
        """
        asked = self._asked
        found = re.findall(r"\b(?:an?|any|some|more|no) ((?:[a-z]+ ?){1,2})", asked)
        return [" ".join(counted_phrase(asked) or ()), *(" ".join(words_of(noun_phrase_of(each))) for each in found)]
