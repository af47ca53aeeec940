"""Recognises clauses of a reasoning that affirm or deny something.

Two kinds of clauses are compared with the statement that a question quotes ('Is the following statement true?'):

- A clause that repeats the statement affirms the statement.
- A clause that denies the statement's relation between two objects ("no yellow block is above a black block") rejects
  the statement.

Other kinds are not compared with a statement:

- A clause that denies an object ("there is no circle") contradicts a reasoning that points at this object.
- A clause that only explains why an object is not counted contradicts nothing.
- A sentence that states another colour than the answer contradicts the answer.
"""

import re
from collections.abc import Collection

from groundtrace.embedded.sentences import NEGATIONS, STATEMENTS
from groundtrace.embedded.sight.labels import COLOURS, colour_word, kind_word
from groundtrace.embedded.vocabulary import PARTICLES, words
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.schemas.labels import counted_phrase, words_of

_QUOTED = re.compile(r"[\"“](?P<statement>[^\"“”]+)[\"”]")
_RELATION = re.compile(
    r"\b(?P<relation>above|below|under|beneath|over|beside|between|touch\w*|on|next)\b(?P<other>(?: \w+){1,4})"
)
_EXCLUDED = re.compile(r"\b(?:is|are) not (?P<colour>\w+)\W*$")
_HAS = re.compile(r"\b(?:no|neither) (?P<owner>(?:\w+ ){1,3}?)(?:has|have|contains?|holds?|shows?)\b(?P<owned>.*)")
_NOT_COUNTED = re.compile(
    r"(?P<subject>.*?)\b(?:(?:does|do) not (?:\w+ )?(?:count|qualify)|(?:is|are) not (?:\w+ )?(?:counted|included))"
    r"(?: here| either)?\W*$"
)
_WHICH = re.compile(r"\W*(?:which|that|who)\W*$")
_BECAUSE = re.compile(r"\W*(?:because|since|as)\b(?P<reason>[^,;:.]*)")
_IS_COLOURED = re.compile(
    rf"\b(?P<noun>\w+) (?:is|are|ist|sind|est|sont|es|son|n['’]est) (?:\w+ly |all |ganz |entièrement |completamente )?"
    rf"(?P<colour>{'|'.join(COLOURS)})\b"
)
_PAINTED = re.compile(
    r"\b(?:painted|colou?red|tinted|shaded|filled(?: in)?(?: with)?|(?:rendered|drawn|shown|printed) in"
    r"|(?:it|this|that|(?:its|the|their) (?:colou?r|fill|filling|hue|shade)) (?:is|appears|looks)) (?:\w+ly )?"
    r"(?P<colour>[a-z]+)\b"
)
_EMPTY_OF = re.compile(r"\b(?:free|devoid)$")
_BETWEEN = words("between_negation_and_thing")
_FILLERS = PARTICLES | {"there", "are", "any", "some", "has", "have", "exactly", "least", "one"}
MIN_SHARED_WORDS = 4
"""A clause repeats a statement only if the statement has at least this number of words besides fillers."""


def repeats_statement(clause: str, question: str, labels: Collection[str]) -> bool:
    """Return whether a clause repeats the question's statement for one object, and so affirms the statement.

    For example, the statement is "there is a yellow square touching the edge", and the clause is "the yellow square is
    touching the edge". ``question`` is the question that quotes the statement. ``labels`` are the names of the objects
    that the reasoning points at. The clause must begin with one of these labels, have no negation, and contain the
    words of the statement in their order (words such as "there" or "a" are ignored). The result is False for statements
    with a negation, with "only", or with a number other than one, since a single object cannot make them true.
    """
    quoted = _QUOTED.search(question)
    words = words_of(clause)
    if quoted is None or (NEGATIONS | STATEMENTS) & {*re.findall(r"[^\W\d_]+", clause)}:
        return False
    statement = quoted["statement"].casefold()
    if (
        any(each.value != 1 for each in read_numerals(statement).numerals)
        or NEGATIONS & {*statement.split()}
        or "only" in statement
    ):
        return False
    content = [word for word in words_of(statement) if word not in _FILLERS and not word.isdigit()]
    if len(content) < MIN_SHARED_WORDS or not any(words[: len(label.split())] == (*label.split(),) for label in labels):
        return False
    rest = iter(words)
    return all(word in rest for word in content)


def another_colour(sentence: str, answer: str) -> str | None:
    """Return a message if a sentence states another colour than the answer; else None.

    For example, the sentence is "its colour is red", and ``answer`` is "blue". Sentences with a negation are not
    checked.
    """
    colour = colour_word(answer.strip().casefold())
    if colour is None or NEGATIONS & {*re.findall(r"[^\W\d_]+", sentence)}:
        return None
    named = (colour_word(match["colour"]) for match in _PAINTED.finditer(sentence))
    other = next((each for each in named if each is not None and each != colour), None)
    return None if other is None else f"it states another colour: {sentence.strip()}"


def denies_object(label: str, clause: str) -> bool:
    """Return whether a clause denies that an object exists: "no circle" or "this is not a circle" for the label
    "circle".

    ``label`` is the name of the object. "No tower is black" denies the object "black tower".
    """
    clause = _IS_COLOURED.sub(r"\g<colour> \g<noun>", clause)
    words = re.findall(r"[^\W\d_]+|\d+", clause)
    plain = [" ".join(words_of(word)) for word in words]
    parts = label.split()
    for index in range(len(plain) - len(parts) + 1):
        if parts and plain[index : index + len(parts)] == parts:
            before = index
            while before and words[before - 1] in _BETWEEN:
                before -= 1
            lead, ahead = words[before - 1] if before else "", " ".join(words[max(0, before - 2) : before])
            gone = {*words[index + len(parts) :]} & {"absent", "missing", "nowhere"}
            if gone or lead in NEGATIONS or lead in ("lack", "lacks", "lacking") or _EMPTY_OF.search(ahead):
                return True
            if words[max(0, index - 2) : index] == ["other", "than"]:
                return True
    return False


def denies_relation(label: str, clause: str, question: str) -> bool:
    """Return whether a clause denies that an object has a relation, such as "above", to another object.

    ``label`` is the name of the object. An example is "no yellow block is above a black block" for the label
    "yellow block". The result is True only if the question contains the same relation. Such a clause does not deny that
    a yellow block exists.
    """
    related = _RELATION.search(clause)
    if related is None or not {*words_of(related["relation"])} & {*words_of(question)}:
        return False
    named = {*words_of(clause[: related.start()])}
    others = words_of(related["other"])
    return {*label.split()} <= named and any(kind_word(word) or colour_word(word) for word in others)


def denies_having(label: str, clause: str, question: str) -> bool:
    """Return whether a clause states that no group, such as a tower or a box, has an object with this label.

    For example, the result is True for the question "how many towers are there?", the label "blue block" and the clause
    "no tower has a blue block". The question must contain all words for the group. So with the same question, the
    result is False for "no yellow tower has a blue block": this clause is about only some of the towers.
    """
    having = _HAS.search(clause)
    if having is None or not {*words_of(having["owner"])} <= {*words_of(question)}:
        return False
    owned, parts = words_of(having["owned"]), tuple(label.split())
    places = range(len(owned) - len(parts) + 1)
    return bool(parts) and any(owned[place : place + len(parts)] == parts for place in places)


def is_excluded(clause: str, sentence: str, question: str, labels: Collection[str]) -> bool:
    """Return whether a clause only explains why an object is not counted.

    Such a clause has a negation, but does not contradict the answer. ``sentence`` is the sentence that contains the
    clause. ``labels`` are the names of the objects that the reasoning points at. The clause can have two forms:

    - The clause denies a colour, such as black: "it is not black". Three conditions must then be true. First, the
      question names this colour ("how many black squares?"). Second, one of ``labels`` has another colour ("yellow
      square"). Third, the clause does not contain a label with the denied colour ("black square").
    - The clause denies that an object counts: "so it does not count", "which does not count". The sentence must then
      give one of two reasons. First, the object has a shape or colour that the question does not ask for ("the third is
      a circle"). Second, the object does not have the shape or colour that the question asks for ("the third is not
      black").
    """
    excluded = _EXCLUDED.search(clause)
    if excluded is not None and colour_word(excluded["colour"]) is not None:
        colour, own = excluded["colour"], {*words_of(clause)}
        others = [label for label in labels if colour not in label.split() and any(map(colour_word, label.split()))]
        named = any(colour in label.split() and {*label.split()} <= own for label in labels)
        return colour in words_of(question) and bool(others) and not named
    counted = _NOT_COUNTED.search(clause)
    if counted is None:
        return False
    wanted = counted_phrase(question) or words_of(question)
    before, _, behind = sentence.partition(clause)
    subject, reason = counted["subject"], _BECAUSE.match(behind)
    of_subject = _is_another(before if _WHICH.match(subject) else subject, wanted)
    of_reason = _is_another(reason["reason"] if reason else f"{before} {subject}", wanted)
    return of_subject is not False and of_reason is True


def _is_another(text: str, wanted: Collection[str]) -> bool | None:
    """Return whether the last object in a text differs from the wanted object; None if the text describes no object.

    ``wanted`` are the words for the wanted object, such as "blue" and "square". The result is then True for the texts
    "blue triangle" and "not blue", and False for "blue" and for "square".
    """
    words, described = re.findall(r"[^\W\d_]+", text), list[str]()
    while words and not (described and not _describes(words[-1])):
        word = words.pop()
        described += [word] if _describes(word) else []
    if not described:
        return None
    colours = {*map(colour_word, wanted)} - {None}
    kinds = {kind for word in wanted for kind in kind_word(word) or ()}
    differs = any(
        (bool(colours) and colour_word(word) not in {*colours, None})
        or (bool(kinds) and kinds.isdisjoint(kind_word(word) or kinds))
        for word in described
    )
    return differs != bool({"not", "no"} & {*words[-2:]})


def _describes(word: str) -> bool:
    return bool(colour_word(word) or kind_word(word))
