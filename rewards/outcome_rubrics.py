"""Rubrics that ask whether the final answer is right, which the outcome already pays for (RuCL Eq. 4)."""

import re

from schemas.records import Rubric

_ANSWER = r"(?:final )?(?:answers?|responses?|solutions?|conclusions?|choices?|options?|predictions?)"
_RIGHT = r"(?:correct|right|true|accurate|wrong|incorrect|inaccurate)"
_ABOUT_ANSWER = re.compile(
    r"\bground[ -]?truths?\b|\banswer key\b|\bgold(?:en)?[ -](?:standard|label)s?\b"
    # "the correct answer", "the reference solution", but not "the correct form of answer" or "the right answer type"
    rf"|\b(?:{_RIGHT}|gold(?:en)?|reference|expected|actual|target|official) {_ANSWER}\b"
    r"(?! (?:form|format|type|unit|kind|style|tags?)\b)"
    r"|\b(?:provided|given|known) (?:final )?(?:answer|response|solution|conclusion|choice|option|prediction)\b"
    r"(?! (?:form|format|type|unit|kind|style|tags?)\b)"
    r"|\b(?:correct|right|true|expected) final (?:number|value|result|count)\b"
    # "the final answer is right", "correctness of the answer", "answer accuracy", "answers the question correctly"
    rf"|\b{_ANSWER} (?:(?:is|are|was|be|being|must be|should be) )?(?:fully |factually |objectively )?{_RIGHT}\b"
    rf"|\b(?:correctness|accuracy|rightness) of (?:the |its )?{_ANSWER}\b|\b{_ANSWER} (?:correctness|accuracy)\b"
    r"|\b(?:answer(?:s|ed)?|solve[sd]?) the (?:question|problem|task) (?:correctly|accurately|right)\b"
    r"|\b(?:correctly|accurately) (?:answer(?:s|ed)?|solve[sd]?) the (?:question|problem|task)\b"
    r"|标准答案|参考答案|正确答案",
    re.IGNORECASE,
)
_LAST = r"(?:number|value|count|result|outcome|output|verdict|decision|label|total)"
_STATED = r"(?:answers?|responses?|solutions?|conclusions?|predictions?|outputs?|outcomes?|verdicts?)"
_FINAL = (
    rf"(?:(?:final|boxed|last) (?:yes/no )?(?:\w+ )?{_LAST}|(?:final |boxed |stated )?{_STATED}"
    r"|(?:option|choice|answer) (?:\w+ )?(?:chosen|picked|selected|given)"
    r"|(?:number|value|count) (?:given at the end|(?:with)?in the (?:answer|box)(?: tags?)?))"
)
_REFERENCE = (
    r"(?:reference|gold(?:en)?|gt|labels?|targets?|key|expected|correct|right|true|actual|exact|number of|"
    r"(?:given |reference )?solution)\b(?! (?:form|format|type|unit|kind|style|tags?)\b)"
)
_MATCHES = (
    r"(?:match(?:es)?|equals?|==|agrees?|coincides?|identical|consistent|corresponds?|the same|is|are) "
    r"(?:with |to |as )?"
)
_BY_SENSE = re.compile(
    # "the final answer equals the reference", "the count given at the end is the true count"
    rf"\b{_FINAL}(?: \w+){{0,2}}? {_MATCHES}(?:the |its |a |what the )?(?:\w+ )?{_REFERENCE}"
    rf"|\bfinal \w+ {_MATCHES}(?:what )?(?:the )?(?:image|picture)\b"
    rf"|\b{_FINAL} (?:is |be )?(?:free of|without) (?:any )?(?:error|mistake)s?\b"
    # "the final answer is not wrong", "no mistake in the final answer", "the final count is exact"
    rf"|\b{_FINAL}(?: on [\w ]{{1,30}})? (?:is|are|be|must be|should be|would be)(?: \w+)? "
    rf"(?:{_RIGHT}|exact|valid|truthful|free of (?:any )?(?:error|mistake)s?|marked as \w+)\b"
    rf"|\b(?:no|any|without(?: an?)?) (?:mistake|error)s? in the {_FINAL}\b"
    # "reaches the right result", "selects the right option", "correct outcome"
    r"|\b(?:reach|arriv|get|obtain|giv|end|select|pick|choos|produc|yield|conclud)\w* (?:at |with )?(?:the |a |an )?"
    r"(?:right|correct|true|proper|exact|accurate) (?:final )?"
    r"(?:answer|result|outcome|number|count|value|option|choice|total)\b"
    r"|\b(?:right|correct|true) outcome\b|\boutcome (?:correctness|accuracy)\b|\bresult correctness\b"
    r"|\bgets? (?:it|this|the (?:question|answer|task|problem))(?: right| correct(?:ly)?)?(?=[ .,;]*(?:$|\.))"
    r"|\b(?:solve[sd]?|answer(?:s|ed)?) (?:it |this )?(?:correctly|right|truthfully|accurately)\b"
    r"|\b(?:teacher|grader|examiner)s?\b[^.]{0,30}\b(?:accept|mark)|== ?gold|\bgt\b|\bthe key lists\b"
    # the same in other languages
    r"|答案[^。，]{0,6}(?:正确|一致|对)|答え[^。]{0,4}正し|\brespuesta\b[^.]{0,20}\bcorrect[ao]\b|\bréponse\b[^.]{0,20}\bcorrecte\b"
    r"|\bantwort\b[^.]{0,20}\b(?:richtig|korrekt)|\brisposta\b[^.]{0,20}\b(?:corretta|esatta)|\bresposta\b[^.]{0,20}\b(?:correta|certa)",
    re.IGNORECASE,
)
_LEFT_ASIDE = re.compile(
    r"\b(?:regardless of|no matter|irrespective of|independent(?:ly)? of|whether or not|even (?:if|when|where)|"
    r"leav(?:e|ing) aside|not (?:about|on) whether|rather than)\b[^.;:,]*",
    re.IGNORECASE,
)


def asks_for_right_answer(rubric: Rubric) -> bool:
    """Returns whether the rubric asks if the final answer is right, by what it says of gold, correct or reference ones.

    The outcome is rewarded apart (RuCL Eq. 4; Table 6 keeps its candidate 20, the gold-answer check, apart too), and a
    rubric that repeats it would pay for the answer in place of the reasoning. That the conclusion follows from the
    reasoning, or has the form that was asked for, is not meant; nor is what a rubric says to leave aside.
    """
    said = ". ".join((rubric.id, rubric.description, rubric.criteria)).replace("_", " ").replace("-", " ")
    said = _LEFT_ASIDE.sub(" ", " ".join(said.split()))
    return _ABOUT_ANSWER.search(said) is not None or _BY_SENSE.search(said) is not None
