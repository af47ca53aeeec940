"""What the embedded judge makes of reasoning: what goes with evidence and answer, what not, and what it cannot read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.embedded.prose import judge_support
from groundtrace.schemas.records import Question

A, B, C = (f'<points x1="{x}" y1="5" alt="blue square">blue square</points>' for x in (10, 40, 60))
CAT = '<points x1="70" y1="5" alt="black circle">black circle</points>'

BLUE_CIRCLE = '<points x1="90" y1="5" alt="blue circle">blue circle</points>'


def asked(question: str, answer: str, kind: str) -> Question:
    return Question("q", "", "", (), question, answer, kind)


TWO = asked("How many blue squares are there in the image?", "2", "numeric")
NONE = asked("How many triangles are there in the image?", "0", "numeric")
SAID = 'Is the following statement about the image true? "There are exactly two blue squares." Answer yes or no.'
TRUE, FALSE = asked(SAID, "yes", "bool"), asked(SAID, "no", "bool")
MORE = asked("Are there more blue squares than black circles in the image?", "yes", "bool")
ABSENT = asked("Is there a red square in the image?", "no", "bool")
Y, K = (f'<points x1="{x}" y1="5" alt="{c} block">{c} block</points>' for x, c in ((10, "yellow"), (40, "black")))
STATED = 'Is the following statement about the image true? "{}" Answer yes or no.'
ABOVE = asked(STATED.format("There is a yellow block above a black block."), "no", "bool")
TOP = asked(STATED.format("There is 1 tower with a yellow block at the top"), "yes", "bool")
ALL_BLACK = asked(STATED.format("There is 1 box with only black items"), "no", "bool")
NO_BLACK_TOWER = asked(STATED.format("There is a black tower."), "no", "bool")
NO_CIRCLES, ONE_CIRCLE = (asked("How many circles are there in the image?", n, "numeric") for n in "01")
LEFT_CIRCLE = {side: asked("Is there a circle in the left box?", side, "bool") for side in ("yes", "no")}
COLOUR = asked("What is the color of the leftmost object?", "blue", "text")


@pytest.mark.parametrize(
    ("reasoning", "question"),
    [
        (f"{A} and {B}.", TWO),
        (f"My eyes go to {A} and {B}, giving two.", TWO),
        (f"Could it be 3? No: {A} and {B}, which makes 2.", TWO),
        (f"{A} and {B}. The other 2 shapes are of no interest.", TWO),
        (f"{A} and {B}. One on the left and one on the right.", TWO),
        (f"{A} and {B}. There are not 5 blue squares, there are 2.", TWO),
        (f"{TWO.question} {A} and {B}.", TWO),
        (f"Markiert habe ich {A} und {B}.", TWO),
        ("Not one triangle can be found here.", NONE),
        ("None of the shapes is a triangle.", NONE),
        ("none at all", NONE),
        ("The image is free of triangles.", NONE),
        (f"{A}, {B}.", TRUE),
        (f"{A} and {B}. That agrees with the statement.", TRUE),
        (f"{A} and {B}. As described.", TRUE),
        (f"{A} and {B}. So it holds.", TRUE),
        (f"{A} and {B}. No objection.", TRUE),
        (f"{A} and {B}. Die Aussage stimmt.", TRUE),
        (f"{A}. The image does not back this up.", FALSE),
        (f"{A}. That contradicts the statement.", FALSE),
        (f"{A} fails to satisfy the statement.", FALSE),
        (f"{A}. The image shows 1. That does not agree with there being none. So the answer is no.", FALSE),
        (f"{A} and {B}. That agrees with there being none beside them.", TRUE),
        (f"{A}. Das passt nicht.", FALSE),
        (f"If it did not hold, the answer would be no. {A} and {B}.", TRUE),
        (f"{A} and {B} outnumber {CAT}.", MORE),
        (f"There are fewer black circles ({CAT}) than blue squares ({A}, {B}).", MORE),
        ("There is no red square in the image.", ABSENT),
        ("I can't see a red square.", ABSENT),
        (f"The leftmost one is {A}.", COLOUR),
        (f"The leftmost one is {A}, painted blue.", COLOUR),
        (f"{A} and {B}. I leave out {CAT}, since it is not a blue square.", TWO),
        (f"In the left section there are {A} and {B}. In the third section I find no blue squares.", TWO),
        (f"{A} and {B}. Whatever lies elsewhere is irrelevant.", TWO),
        (f"{A} and {B}, i.e. two.", TWO),
        (f"{A}. For the statement to be true there would have to be two.", FALSE),
        (f"{A} and {B}. The sentence is spot on.", TRUE),
        (f"{A} and {B}. The claim can be accepted.", TRUE),
        (f"Ich gehe die Kästen der Reihe nach durch und finde {A} und {B}.", TWO),
        (f"J'ai parcouru l'image de gauche à droite : {A} et {B}.", TWO),
        (f"Je parcours l'image de gauche à droite : {A} et {B}.", TWO),
        (f"{A} and {B}. The shape at the bottom is a circle, so it does not count.", TWO),
        (f"{A} und {B}. Der mittlere Turm hat keinen blauen Block. Also zwei.", TWO),
        (f"{K} sits on {Y}. No yellow block is above a black block.", ABOVE),
        (f"{Y} is in each box. Each of them holds something that is not black, hence no.", ALL_BLACK),
        (f"{Y}. The left tower has no yellow block at the top.", TOP),
        (f"There are two blue squares, {A} and {B}: 1 + 1 = 2. {A} is left of {B}.", TWO),
        (f"Two blue squares: {A}. Wait, I missed {B}. So there are 2.", TWO),
        (f"{A}. The square is blue.", COLOUR),
        (f"{Y}. No black tower has a yellow block at the top.", TOP),
        (f"{K} est posé sur {Y}, donc le jaune est en dessous. L'affirmation est fausse.", ABOVE),
        (f"Die Aussage verlangt zwei Objekte dieser Art, {A} und {B}. Damit ist die Aussage wahr.", TRUE),
        (f"Left: {Y}. Middle: {K}. Right: one yellow block. No box has only black items, so no.", ALL_BLACK),
        (f"Left – {Y}; middle – {K}; right – one yellow block. So no.", ALL_BLACK),
        (f"Left ({Y}), middle ({K}), right (nothing): so no.", ALL_BLACK),
        (f"Left, middle, right: each box has {Y}. So no.", ALL_BLACK),
        (f"The left box has {A} and {B}. The middle box has {CAT} and a triangle, but no blue square.", TWO),
        (f"Left: {A} and {B}. Middle: no blue square. Right: no blue squares. That makes 2.", TWO),
        (f"{A} and {B} are on the left. On the right there are triangles, but there are no blue squares.", TWO),
        (f"{A} and {B}. The right group is all yellow, with no blue square in it.", TWO),
        (f"{A} ist das einzige Objekt. Die Antwort lautet nein.", ABSENT),
        (f"{A} ist das einzige Objekt. Die richtige Antwort ist daher nein.", ABSENT),
        (f"{A} est le seul objet. La réponse est donc non.", ABSENT),
        (f"{A} está en la caja del medio. La respuesta es no.", ABSENT),
        (f"{A} und {B}. Also lautet die Antwort ja.", TRUE),
        (f"{A} et {B}. La réponse est oui.", TRUE),
        (f"{A} y {B}. La respuesta es sí.", TRUE),
        (f"{A}, {B} and {BLUE_CIRCLE}. The last one is a circle, so it does not count.", TWO),
        (f"{A}, {B}, and {BLUE_CIRCLE}, which does not count because it is a circle.", TWO),
        (f"{A} and {B}. {BLUE_CIRCLE} does not count, since it is not a square.", TWO),
        (f"{A}. The small one could be a square or a rectangle; on a closer look it is a square: {B}. So 2.", TWO),
        (f"{A}. The other may be black. Looking closely, it is blue: {B}.", TWO),
        (f"{A}. The other might be black or blue, up close it is blue: {B}. That makes two.", TWO),
        (f"There may be two or three blue squares. Looking closely there are two: {A} and {B}.", TWO),
        (f"Es gibt keine Dreiecke, nur {A} und {CAT}. Also 0.", NONE),
        (f"Il n'y a aucun triangle, seulement {A} et {CAT}. Donc 0.", NONE),
        (f"No hay ningún triángulo, solo {A}. Entonces 0.", NONE),
        (f"Links sind {A} und {B}. Im rechten Kasten ist kein blaues Quadrat. Also 2.", TWO),
        (f"À gauche, {A} et {B}. À droite, il n'y a pas de carré bleu. Donc 2.", TWO),
        (f"Aucune tour n'est entièrement noire : {Y}. Donc non.", NO_BLACK_TOWER),
        (f"Kein Turm ist ganz schwarz: {Y}. Also nein.", NO_BLACK_TOWER),
        (f"Ninguna torre es completamente negra: {Y}. Entonces no.", NO_BLACK_TOWER),
        (f"The shapes are {A} and {B}. None of them is round, so there are 0 circles.", NO_CIRCLES),
        (f"I find no round shape, only {A}. That gives 0.", NO_CIRCLES),
        (f"No shape is circular: {A}, {B}. So 0.", NO_CIRCLES),
        (f"Links: {A} und {B}. Mitte: kein blaues Quadrat. Rechts: kein blaues Quadrat. Also 2.", TWO),
        (f"In the left box there is no circle. {CAT} is in the middle. So no.", LEFT_CIRCLE["no"]),
        ("Keine der Formen ist rund. Also 0.", NO_CIRCLES),
        (f"No tower is entirely black: {Y}. So no.", NO_BLACK_TOWER),
    ],
)
def test_what_gives_its_evidence_has_concluded(reasoning: str, question: Question) -> None:
    assert judge_support(reasoning, question).supports is True, judge_support(reasoning, question).reason


@pytest.mark.parametrize(
    ("reasoning", "question"),
    [
        (f"{A} and {B}. So there are 3.", TWO),
        (f"{A} and {B}. I will go with 3.", TWO),
        (f"{A} and {B}. The answer is 2 or 3.", TWO),
        (f"I see no blue squares. I see {A} and {B}.", TWO),
        (f"{A} and {B}. None of these is a blue square.", TWO),
        (f"{A} and {B}. All of these are something other than blue squares.", TWO),
        (f"{A} and {B}. It can't be 2.", TWO),
        (f"{A} and {B}. So 2. Wait, no, that is wrong.", TWO),
        (f"{A} and {B}. One on the left and two on the right.", TWO),
        (f"{A} and {B}. The statement fails.", TRUE),
        (f"{A} and {B}. I'd say no.", TRUE),
        (f"{A} and {B}. That does not agree with there being two.", TRUE),
        (f"{A} and {B}. Das stimmt nicht.", TRUE),
        (f"{A} and {B}. So the claim is wide of the mark.", TRUE),
        (f"{A} and {B}. The assertion cannot be upheld.", TRUE),
        (f"{A}. The sentence is spot on.", FALSE),
        (f"{A} et {B}. L'affirmation est donc fausse.", TRUE),
        (f"{A} und {B}. Die Antwort lautet daher nein.", TRUE),
        (f"{A}, painted black.", COLOUR),
        (f"Here is {A}. Its fill is clearly black.", COLOUR),
        (f"{A} and {B}. I leave out {A}, since it is not a blue square.", TWO),
        (f"{A}. This is exactly what the statement says.", FALSE),
        (f"{A}. The number matches.", FALSE),
        (f"{A}, {B}; {CAT}. There are fewer blue squares than black circles.", MORE),
        (f"{A}, {B}; {CAT}. Both are equally many.", MORE),
        (f"{Y}. No tower has a yellow block at the top.", TOP),
        (f"{Y}. There is no yellow block at the top.", TOP),
        (f"I point at {CAT}.", COLOUR),
        (f"{A} and {B}. 1 + 1 = 3.", TRUE),
        (f"There are two blue squares: {A}, {B}, {C}. So 3.", asked(TWO.question, "3", "numeric")),
        (f"{A}. The square is yellow.", COLOUR),
        (f"{A} is to the right of {B}.", TRUE),
        ("There is a triangle in the left box.", NONE),
        (f"Left: {Y}. Right: {K}. The statement is right.", ALL_BLACK),
        (f"Left: {Y}. Middle: {K}. Verdict: right.", ALL_BLACK),
        (f"Left: {Y}. Right, just as the statement says.", ALL_BLACK),
        (f"In the left box I see {A} and {B}, but no blue square.", TWO),
        (f"The left box has {A} and {B}, but there is no blue square in the image.", TWO),
        (f"{A} and {B}. The middle box has a triangle, so there is no blue square.", TWO),
        (f"{A}. Die Antwort lautet ja.", ABSENT),
        (f"{A} et {B}. La réponse est non.", TRUE),
        (f"{A} y {B}. La respuesta es no.", TRUE),
        (f"{A}, {B}. It could be a square or a circle, up close it is a square, so there are 5 blue squares.", TWO),
        (f"{A}, {B}. There may be two or three blue squares. Looking closely there are three.", TWO),
        (f"{A} und {B}. Es gibt keine blauen Quadrate. Also 2.", TWO),
        (f"{A} et {B}. Il n'y a aucun carré bleu. Donc 2.", TWO),
        (f"{A} y {B}. No hay cuadrados azules. Son dos.", TWO),
        (f"{CAT}. None of the shapes is round. So 1.", ONE_CIRCLE),
        (f"{CAT}. No shape is circular. So 1.", ONE_CIRCLE),
        (f"{CAT}. In the left box there is no circle. So yes.", LEFT_CIRCLE["yes"]),
        (f"{CAT}. Links ist kein Kreis. Also ja.", LEFT_CIRCLE["yes"]),
        (f"{K}. No tower is black. So yes.", asked(STATED.format("There is a black tower."), "yes", "bool")),
        (f"{A} and {B}. Left: no blue square. Middle: no blue square. Right: no blue square. So 2.", TWO),
        (f"{A} und {B}. Im linken Kasten ist ein Dreieck, im Bild kein blaues Quadrat. Also 2.", TWO),
    ],
)
def test_what_contradicts_evidence_or_answer(reasoning: str, question: Question) -> None:
    assert judge_support(reasoning, question).supports is False, judge_support(reasoning, question).reason


@pytest.mark.parametrize(
    ("reasoning", "question"),
    [
        (f"{A} and {B}. I made this up.", TWO),
        (f"I'm sorry, but I cannot help with this request. {A} and {B}.", TWO),
        (f"I did not look at the image. {A} and {B}.", TWO),
        (f"{A} and {B}. I have no idea.", TWO),
        (f"{A} and {B} asdf qwer zxcv.", TWO),
        (f"{A} and {B}. So there are 2 elephants.", TWO),
        (f"The cat sits on the sofa. {A} and {B}.", TWO),
        (f"{A} and {B}. {'I count again. ' * 9}", TWO),
        (f"{A} and {B}. {'the ' * 30}", TWO),
        (f"Step 1: ... Step 2: ... {A} and {B}", TWO),
        (f"{A} and {B}. About 2, give or take one.", TWO),
        (f"{A} and {B}. 2? Or 4?", TWO),
        (f"{A} and {B}. 2? 4? One of the two.", TWO),
        (f"{A} and {B}. The last of them must be left out, since it is something else.", TWO),
        (f"{A} and {B}. It might be true, or it might not be.", TRUE),
        (f"{A} and {B}. The statement is true and false.", TRUE),
        ("I look at the image.", TRUE),
        (f"{A} and {B}. The statement is a shambles.", TRUE),
        (f"{A} and {B}, plus one more that is partly hidden.", TWO),
        (f"{A} and {B}. Wait, 2. No, wait, 3. No, wait, 2. No, wait, 3. No, wait, 2.", TWO),
        (f"Whatever the image shows, I answer 2. {A} and {B}", TWO),
        (f"{A} and {B}. These looked plausible.", TWO),
        (f"{Y} lies above a black block in the middle tower.", ABOVE),
        (f"{A} and {B}. They do not count.", TWO),
        (f"{A} and {B}.", asked("What is the speed limit?", "2", "numeric")),
        (f"{A}, {B} and {BLUE_CIRCLE}. The last one is blue, so it does not count.", TWO),
        (f"{BLUE_CIRCLE}, {A} and {B}, which do not count because they are circles.", TWO),
        (
            f"{A} and {B}. The third is a circle, so it does not count.",
            asked("How many objects are there?", "2", "numeric"),
        ),
        (f"{A}, {B}. The small one could be a square or a rectangle.", TWO),
        (f"{A}. The small one could be a square or a circle; on a closer look it could be either. {B}.", TWO),
        (f"{A}. The small one could be a square or a circle. It lies next to a square. {B}.", TWO),
        (f"{A}, {B}. There may be two or three blue squares.", TWO),
        (f"{A}, {B}. They could be blue or black. This is blue.", TWO),
    ],
)
def test_what_it_cannot_judge(reasoning: str, question: Question) -> None:
    assert judge_support(reasoning, question).supports is None, judge_support(reasoning, question).reason


@given(st.text(), st.sampled_from([TWO, NONE, TRUE, FALSE, MORE, ABSENT, COLOUR]))
def test_any_text_can_be_judged(reasoning: str, question: Question) -> None:
    assert judge_support(reasoning, question).reason
