"""Checks the facts that a reasoning asserts. They must agree with its tags, its arithmetic and the shapes in its image.

A tag is an XML element with a label and points, by which a reasoning points at objects.
"""

import re

from groundtrace.embedded.arithmetic import calculations
from groundtrace.embedded.counts_beside_tags import miscounted_tags
from groundtrace.embedded.marked_text import MARK, MarkedText, assertions, is_negated, read_marked
from groundtrace.embedded.pointed_colours import answers_otherwise, miscoloured
from groundtrace.embedded.pointed_places import misplaced
from groundtrace.embedded.scenes import Scene
from groundtrace.embedded.stated_presence import states_presence
from groundtrace.embedded.tower_ends import wrong_end_of_tower
from groundtrace.schemas.records import Question

_CLAUSE_END = re.compile(r"[,:(]")


def contradicted_fact(reasoning: str, question: Question, scene: Scene | None) -> str | None:
    """Return a message about one contradicted fact in a reasoning; None if no contradiction is found.

    Facts are calculations, and the counts, colours, places and presence of objects. They are compared with the tags of
    the reasoning (XML elements that point at objects) and with its answer. ``question`` holds the question and this
    answer. ``scene`` holds the image; None if there is no image. Without an image, places such as "in the left box" and
    towers (stacks of blocks) are not checked.
    """
    marked = read_marked(reasoning)
    return (
        _miscalculated(marked)
        or miscounted_tags(marked)
        or miscoloured(marked)
        or misplaced(marked, scene)
        or wrong_end_of_tower(marked, scene)
        or answers_otherwise(marked, question)
        or states_presence(marked, question)
    )


def _miscalculated(marked: MarkedText) -> str | None:
    """Return a message about the first equation or comparison that is wrong; None if none is wrong.

    A comparison is ignored if its sentence has a negation such as "not". An equation is ignored if its clause (a part
    of the sentence between commas, colons or opening brackets) has a negation.
    """
    for sentence in assertions(marked):
        for each in calculations(re.sub(MARK, " … ", sentence.text)):
            clause = _CLAUSE_END.split(each.before)[-1] + each.text + _CLAUSE_END.split(each.behind)[0]
            whole = f"{each.before}{each.text}{each.behind}"
            if not each.holds and not is_negated(whole if each.is_comparison else clause):
                return f"its arithmetic is wrong: {each.text}"
    return None
