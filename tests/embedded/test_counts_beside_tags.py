"""Numbers with a noun beside a list of tags: which count the points of the list, and which do not."""

import pytest

from groundtrace.embedded.counts_beside_tags import miscounted_tags
from groundtrace.embedded.marked_text import read_marked
from groundtrace.grading.responses.tags import format_points_tag


def tag(label: str, number: int = 1, inner: str | None = None, start: int = 0) -> str:
    return format_points_tag(label, [(10.0 * n, 5.0) for n in range(start, start + number)], inner=inner)


K1, K2, K3 = (tag("black square", start=n) for n in range(3))
Y1, Y2 = (tag("yellow square", start=n) for n in (10, 11))
C = tag("yellow circle", start=20)
BLACK3, YELLOW2 = tag("black square", 3, "here"), tag("yellow square", 2, "here", 10)


@pytest.mark.parametrize(
    "reasoning",
    [
        f"There are two black squares, {BLACK3}, and three yellow squares, {YELLOW2}, so there are more black squares.",
        f"There are 3 yellow squares ({YELLOW2}) and 3 black squares ({BLACK3}).",
        f"I see three black squares: {K1} and {K2}.",
        f"Four black squares {K1}, {K2}, {K3}.",
        f"{K1}, {K2}, {K3}: two black squares.",
        f"{K1} and {K2} are three black squares.",
        f"There are three black squares and two yellow squares: {K1}, {K2}, {Y1}, {Y2}. 3 + 2 = 5.",
        f"There are two black squares and three yellow squares: {K1}, {K2}, {Y1}, {Y2}.",
        f"{tag('black square', 3, 'Two black squares')} against {tag('yellow square', 2, 'two yellow squares', 10)}.",
        f"In the left box there are two black squares ({BLACK3}).",
        f"Three yellow objects, {Y1}, {Y2}, {C} and two black objects, {BLACK3}.",
        f"One black square ({tag('black square', 2)}).",
        f"There are four {tag('black square', 3, 'black squares')}.",
    ],
)
def test_wrong_numbers(reasoning: str) -> None:
    assert miscounted_tags(read_marked(reasoning)) is not None


@pytest.mark.parametrize(
    "reasoning",
    [
        f"There are three black squares, {BLACK3}, and two yellow squares, {YELLOW2}.",
        f"I see three black squares: {K1}, {K2} and, at the bottom, {K3}.",
        f"In the left box there are two black squares, {K1} and {K2}, and one black square in the right box, {K3}.",
        f"Two black squares in the left box, {K1}, {K2}, and one in the right box, {K3}.",
        f"In the left box I see two black squares {K1} and {K2}, and {K3} in the right box.",
        f"There are three black squares, {K1} is the smallest. {K2} and {K3} are larger.",
        f"There are three black squares, {K1} and two more, {K2} and {K3}.",
        f"There are five black squares, such as {K1}.",
        f"There are at least two black squares: {K1}, {K2}, {K3}.",
        f"Two of the black squares are small: {K1}.",
        f"{K1}, {K2}: two black squares so far. {K3} makes three black squares.",
        f"No. 2 black square {K1}. Tower 3 black square {K2}.",
        f"One black square {K1}, one black square {K2}, one black square {K3}.",
        f"There are two squares: {K1}, {Y1} and a circle: {C}.",
        f"{K1}, {K2}, {K3}. There are 3 black squares and 2 yellow squares ({YELLOW2}).",
        f"There are 2 black squares: {K1}, {K2}. Wait, {K3} is a third. So there are 3.",
        f"Two black squares: {K1}, {K2}, {K3}. I overlooked one, so there are three.",
        f"Are there two black squares? {BLACK3} are three.",
        f"If there were two black squares, {BLACK3} would be too many.",
        f"There are two small black squares, {K1}, {K2}, and {K3} is large.",
        f"Three yellow objects: {Y1}, {Y2} and {C}.",
        f"The two black squares {K1} and {K1} are the same, {K2}.",
        f"Each box has two black squares: {K1}, {K2} and {K3}.",
        f"There are four {tag('block', 3, 'squares')}.",
        f"There are three dogs: {tag('dog')}.",
    ],
)
def test_right_numbers(reasoning: str) -> None:
    assert miscounted_tags(read_marked(reasoning)) is None
