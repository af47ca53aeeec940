"""Detects rubrics that require a right final answer.

A rubric is one criterion of grading. A run does not use a rubric that requires a right answer, because another term of
the reward already scores the final answer (RuCL Eq. 4).
"""

import re

from groundtrace.schemas.patterns import compile_late
from groundtrace.schemas.records import Rubric

_NOT_ITS_FORM = r"(?! (?:form|format|type|unit|kind|style|tags?)\b)"
_ANSWER = r"(?:final )?(?:answers?|responses?|repl(?:y|ies)|solutions?|conclusions?|choices?|options?|predictions?)"
_RIGHT = r"(?:correct|right|true|accurate|wrong|incorrect|inaccurate)"
_LAST = (
    r"(?:number|value|count|total|sum|result|outcome|output|verdict|decision|label|claim|statement|letter|choice|option"
    r"|answer|response|reply|solution|conclusion|prediction|one)"
)
_STATED = r"(?:answers?|responses?|solutions?|conclusions?|predictions?|outputs?|outcomes?|verdicts?|decisions?)"
_FINAL = (
    r"(?:(?:final|last|overall|boxed|chosen|selected|picked|marked|predicted|reported|stated|given|returned|resulting)"
    rf" (?:yes/no )?(?:\w+ )?{_LAST}|{_STATED}|the result(?! of)"
    rf"|{_LAST} (?:\w+ )?(?:chosen|picked|selected|given|at the end|(?:with)?in the (?:answer|box)(?: tags?)?))"
)
"""A regular expression for phrases that mean the final answer of a response, such as "final answer"."""
_BY = r"(?: (?:that|which|given|provided|drawn|stated|reached|of|in|on|by|from|at) [^.;,]{1,40}?| \([^)]{1,40}\))?"
"""Optional words after a phrase of :data:`_FINAL`, which state the source or position of the answer. An example is
"drawn from the chart" in "the conclusion drawn from the chart is correct".
"""
_REFERENCE = (
    r"(?:reference|gold(?:en)?|gt|labels?|targets?|key|expected|correct|right|true|actual|exact|number of|standard"
    rf"|annotations?|should be|answer sheet|teacher|(?:given |reference )?solution)\b{_NOT_ITS_FORM}"
)
_MATCHES = (
    r"(?:match(?:es)?|equals?|==|agrees?|coincides?|identical|equivalent|consistent|corresponds?|the same|is|are"
    r"|tall(?:y|ies)|squares?|lines? up|conforms?|hits?|in (?:agreement|accordance|line)|as|within \w+ of"
    r"|(?:verified|checked|held) against|(?:deviates?|differs?|departs?) from) (?:with |to |as )?"
)
_GIVES = (
    r"(?:reach|arriv|get|obtain|giv|end|select|pick|choos|produc|yield|conclud|stat|report|find|provid|deliver|output"
    r"|predict|return|com)\w*"
)
_OWNER = r"(?:data ?set|annotators?|key|reference|teacher|grader|book)"
_PATTERNS = (
    r"\bground[ -]?truths?\b|\banswer key\b|\bgold(?:en)?[ -](?:standard|label)s?\b|== ?gold|\bgt\b|\bthe key lists\b",
    # "the correct answer", "the reference solution", but not "the correct form of answer" or "the right answer type"
    rf"\b(?:{_RIGHT}|gold(?:en)?|reference|expected|actual|target|official) {_ANSWER}\b{_NOT_ITS_FORM}",
    r"\b(?:provided|given|known) (?:final )?(?:answer|response|solution|conclusion|choice|option|prediction)\b"
    + _NOT_ITS_FORM,
    # "correctness of the answer", "answer accuracy", "correct outcome"
    rf"\b(?:correctness|accuracy|rightness) of (?:the |its )?(?:{_ANSWER}|(?:final|overall) {_LAST})\b",
    rf"\b(?:{_ANSWER}|outcome|result) (?:correctness|accuracy)\b|\b(?:right|correct|true) outcome\b",
    # "answers the question correctly", "gets it right"
    r"\b(?:answer(?:s|ed)?|solve[sd]?) (?:the (?:question|problem|task) |it |this )?"
    r"(?:correctly|right|truthfully|accurately)\b",
    r"\b(?:correctly|accurately) (?:answer(?:s|ed)?|solve[sd]?) the (?:question|problem|task)\b",
    r"\bgets? (?:it|this|the (?:question|answer|task|problem))(?: right| correct(?:ly)?)?(?=[ .,;]*(?:$|\.))",
    # "the final answer equals the reference", "the count given at the end is the true count"
    rf"\b{_FINAL}{_BY}(?: \w+){{0,2}}? {_MATCHES}(?:the |its |a |what the |what |in the )?(?:\w+ )?{_REFERENCE}",
    rf"\bfinal \w+ {_MATCHES}(?:what )?(?:the )?(?:image|picture)\b",
    rf"\b{_STATED}\b[^.;]{{0,20}}\b(?:is|was|are) the one (?:that |which )?"
    rf"(?:is|was|the \w+ \w+|{_RIGHT}|expected|given)\b",
    rf"\b{_STATED} (?:that |which )?the {_OWNER}\b",
    # "the final answer is not wrong", "no mistake in the final answer", "the verdict (true or false) is right"
    rf"\b{_FINAL}{_BY} (?:(?:is|are|was|be|being|must be|should be|would be)(?: \w+)? )?(?:an? |the )?"
    rf"(?:{_RIGHT}|exact|truthful|(?:free of|without) (?:any )?(?:error|mistake)s?|marked as \w+)\b{_NOT_ITS_FORM}",
    r"\banswers? (?:is|are|be) (?:\w+ )?valid\b|\b(?:answer|outcome) check\b",
    r"\b(?:question|problem|task) (?:is|was|gets) (?:solved|answered) (?:\w+ )?"
    r"(?:successfully|correctly|right|accurately)\b",
    rf"\b(?:no|any|without(?: an?)?) (?:mistake|error)s? in the {_FINAL}\b",
    # "reaches the right result", "selects the right option", "a grader would accept it"
    rf"\b{_GIVES} (?:up )?(?:at |with |to )?(?:the |a |an )?(?:right|correct|true|proper|exact|accurate"
    rf"|intended|expected|desired|wanted) (?:final )?{_LAST}\b(?! (?:of|for) (?:each|every)\b)",
    r"\b(?:teacher|grader|examiner)s?\b[^.]{0,30}\b(?:accept|mark)|\baccept\w* by (?:an? |the )?\w*(?:er|or)s?\b",
    # the same in other languages
    r"标准答案|参考答案|正确答案|答案[^。，]{0,6}(?:正确|一致|对)|答え[^。]{0,4}正し",
    r"\brespuesta\b[^.]{0,20}\bcorrect[ao]\b|\bréponse\b[^.]{0,20}\bcorrecte\b|\bantwort\b[^.]{0,20}\b(?:richtig"
    r"|korrekt)|\brisposta\b[^.]{0,20}\b(?:corretta|esatta)|\bresposta\b[^.]{0,20}\b(?:correta|certa)",
)
_ASKS = compile_late("|".join(_PATTERNS), re.IGNORECASE)
_LEFT_ASIDE = compile_late(
    r"\b(?:regardless of|no matter|irrespective of|independent(?:ly)? of|whether or not|even (?:if|when|where)"
    r"|leav(?:e|ing) aside|(?:rul(?:e|ing)s? out|eliminat\w+|exclud\w+|dismiss\w+|refut\w+)"
    r"|(?:other|remaining|alternative|rejected) (?:options?|choices?|answers?)"
    r"|not (?:about|on) whether|rather than)\b[^.;:,]*",
    re.IGNORECASE,
)


def asks_for_right_answer(rubric: Rubric) -> bool:
    """Return whether a rubric requires a right final answer, detected by phrases such as "the correct answer".

    A rubric is one criterion of grading. The final answer is rewarded separately (RuCL Eq. 4). A rubric that requires a
    right answer would reward the answer again, instead of the reasoning. RuCL's Table 6 also separates such a rubric
    (candidate 20, the check of the gold answer) from the others.

    The result is False for a rubric about other properties of the conclusion, such as "the conclusion follows from the
    reasoning" or "the final answer is a single letter". Phrases after words like "regardless of" are ignored.
    """
    text = ". ".join((rubric.id, rubric.description, rubric.criteria)).replace("_", " ").replace("-", " ")
    return _ASKS.search(_LEFT_ASIDE.sub(" ", " ".join(text.split()))) is not None
