"""Plants contradictions: points, answer and form are right, but the reasoning states something else.

Only a judge that reads prose can find the faults in ``JUDGE_ONLY``. These kinds were chosen before anything was
measured; they are reported separately and not counted.
"""

import random

from faults.right import Plant, Right, in_words, opposite, wrong_count


def noun_of(right: Right, count: int) -> str:
    """Return the counted things in the words of the question: "blue objects"."""
    words = right.asked.question.lower().removeprefix("how many ").split(" are ")[0]
    return words.removesuffix("s") if count == 1 else words


def _counted(form: str, place: str = "after") -> Plant:
    """Return a plant that states a wrong count of a counting question; ``form`` may use {n}, {word}, {noun}, {sum},
    {is_are}.
    """

    def plant(right: Right, rng: random.Random) -> str | None:
        wrong = wrong_count(right, rng)
        if wrong is None or ("{sum}" in form and wrong < 2):
            return None
        stated = form.format(
            n=wrong,
            word=in_words(wrong),
            Word=in_words(wrong).capitalize(),
            noun=noun_of(right, wrong),
            sum=" + ".join(["1"] * wrong),
            is_are="is" if wrong == 1 else "are",
        )
        return _placed(right, stated, place)

    return plant


def _placed(right: Right, stated: str, place: str) -> str:
    if place == "before":
        return right.write(before=stated + " ")
    if place == "middle":
        return right.write(reason=f"{stated} {right.reason}")
    if place == "instead":
        return right.write(reason=stated)
    return right.write(after=" " + stated)


def _judged(yes: str, no: str, place: str = "after") -> Plant:
    """Return a plant that states the opposite of a yes-or-no answer; ``yes`` and ``no`` are the texts for both."""

    def plant(right: Right, _rng: random.Random) -> str | None:
        wrong = opposite(right.asked.answer)
        return None if wrong is None else _placed(right, yes if wrong == "yes" else no, place)

    return plant


_CHECKED = "I go through what the statement says."
"""A sentence to put before a verdict on "it", so that "it" cannot refer to an earlier verdict."""

KINDS: dict[str, Plant] = {
    "so there are N": _counted("So there {is_are} {n}."),
    "so there are N, before all": _counted("So there {is_are} {n}.", "before"),
    "so there are N, in the middle": _counted("So there {is_are} {n}.", "middle"),
    "there are N nouns": _counted("There {is_are} {n} {noun}."),
    "the only count is a wrong one": _counted("Looking at all of it, there {is_are} {n} {noun}.", "instead"),
    "in total N": _counted("In total {n}."),
    "for a total of N": _counted("I add them up for a total of {n}."),
    "the total is N": _counted("The total is {n}."),
    "the answer is N": _counted("The answer is {n}."),
    "the answer is N, before all": _counted("The answer is {n}.", "before"),
    "the answer must be N": _counted("Hence the answer must be {n}."),
    "answer colon N": _counted("Answer: {n}"),
    "therefore N": _counted("Therefore, {n}."),
    "spelled out": _counted("So there {is_are} {word} {noun}."),
    "spelled out, in the middle": _counted("In total, {word}.", "middle"),
    "that makes N": _counted("That makes {n}."),
    "that makes N, spelled out": _counted("That makes {word}."),
    "I count N": _counted("I count {n} {noun}."),
    "I count N, before all": _counted("I count {word} {noun}.", "before"),
    "a sum that comes to N": _counted("{sum} = {n}."),
    "equals N": _counted("The number of {noun} = {n}."),
    "the count comes to N": _counted("The count comes to {n}."),
    "the number of them is N": _counted("The number of {noun} is {word}."),
    "bold conclusion": _counted("**{n}**"),
    "we have N": _counted("So we have {n} {noun} here."),
    "I see N": _counted("I see {n} {noun} in the image."),
    "N of them": _counted("There are {n} of them altogether."),
    "counting gives N": _counted("Counting them gives {n}."),
    "all told N": _counted("All told, {n} {noun}."),
    "altogether N": _counted("Altogether there {is_are} {n}."),
    "adding up to N": _counted("They add up to {word}."),
    "so N": _counted("So {n}."),
    "total colon N": _counted("Total: {n}"),
    "count colon N": _counted("Count: {n}", "middle"),
    "the final count is N": _counted("The final count is {n}."),
    "the correct answer is N": _counted("The correct answer is {word}."),
    "the result is N": _counted("The result is {n}."),
    "exactly N": _counted("There {is_are} exactly {n} {noun}."),
    "only N": _counted("There {is_are} only {n} {noun} in the whole image.", "before"),
    "the image has N": _counted("The image has {n} {noun}."),
    "the image shows N": _counted("The image shows {word} {noun}.", "before"),
    "N can be seen": _counted("{Word} {noun} can be seen."),
    "N are visible": _counted("{n} {noun} {is_are} visible."),
    "there are none": lambda right, _: right.write(after=" There are none.") if right.count else None,
    "there are no nouns": lambda right, _: (
        right.write(after=f" There are no {noun_of(right, 2)} in the image.") if right.count else None
    ),
    "in LaTeX": _counted("$${sum} = {n}$$"),
    "I get N": _counted("Adding these, I get {n}."),
    "so the answer is yes or no": _judged("So the answer is yes.", "So the answer is no."),
    "so yes or no": _judged("So yes.", "So no."),
    "the statement is": _judged("The statement is true.", "The statement is false."),
    "the statement is, before all": _judged("The statement is true.", "The statement is false.", "before"),
    "the statement is, in the middle": _judged("The statement is true.", "The statement is false.", "middle"),
    "the only conclusion is the wrong one": _judged(
        "Looking at it, the statement is true.", "Looking at it, the statement is false.", "instead"
    ),
    "it is therefore (not) true": _judged("It is therefore true.", "It is therefore not true."),
    "this is (in)correct": _judged(f"{_CHECKED} So this is correct.", f"{_CHECKED} So this is incorrect.", "instead"),
    "the claim does (not) hold": _judged("The claim holds.", "The claim does not hold."),
    "hence true or false": _judged("Hence true.", "Hence false."),
    "the statement is right or wrong": _judged("The statement is right.", "The statement is wrong."),
    "the statement is (not) correct": _judged("The statement is correct.", "The statement is not correct."),
    "the statement is (in)accurate": _judged("So the statement is accurate.", "So the statement is inaccurate."),
    "that is (not) the case": _judged(f"{_CHECKED} That is the case.", f"{_CHECKED} That is not the case.", "instead"),
    "it does (not) match": _judged(
        "The statement matches the image.", "The statement does not match the image.", "before"
    ),
    "the statement (cannot) be true": _judged("The statement must be true.", "The statement cannot be true."),
    "it is true or false": _judged(f"{_CHECKED} It's true.", f"{_CHECKED} It's false.", "instead"),
    "yes or no, with a comma": _judged("Yes, it holds.", "No, it does not hold."),
    "the answer is yes or no, bold": _judged("**Answer: yes**", "**Answer: no**"),
}


def _other_language(right: Right, rng: random.Random) -> str | None:
    wrong = wrong_count(right, rng)
    if wrong is None:
        true = opposite(right.asked.answer) == "yes"
        stated = ("所以这是对的。", "Also ist es wahr.") if true else ("所以这是错的。", "Also ist es falsch.")
    else:
        stated = (f"所以一共有{wrong}个。", f"Es sind also insgesamt {wrong}.", f"Итого {wrong}.", f"العدد هو {wrong}.")
    return right.write(after=" " + rng.choice(stated))


def _parts(right: Right, rng: random.Random) -> str | None:
    """State counts of parts whose sum is wrong, without stating the sum."""
    wrong = wrong_count(right, rng)
    if wrong is None or wrong < 1:
        return None
    left = rng.randrange(wrong + 1)
    return right.write(reason=f"{in_words(left).capitalize()} on the left and {in_words(wrong - left)} on the right.")


def _attribute(right: Right, rng: random.Random) -> str:
    untrue = rng.choice(("striped", "made of wood", "held by a man", "upside down"))
    return right.write(after=f" All of them are {untrue}.")


def _left_out(right: Right, _rng: random.Random) -> str | None:
    return right.write(after=" The last of them must be left out, since it is something else.") if right.count else None


def _off_topic(right: Right, rng: random.Random) -> str:
    talk = (
        "The weather is fine today.",
        "Paris is the capital of France.",
        "I like music.",
        "Bananas are rich in iron.",
    )
    return right.write(reason=rng.choice(talk))


JUDGE_ONLY: dict[str, Plant] = {
    "a wrong conclusion in another language": _other_language,
    "counts of parts that come to another number": _parts,
    "an untrue remark about the objects": _attribute,
    "an object counted is said not to count": _left_out,
    "reasoning about something else": _off_topic,
}
