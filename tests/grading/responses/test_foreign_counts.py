"""Counts that a reasoning concludes in other languages than English."""

import pytest

from groundtrace.grading.responses.foreign_counts import foreign_count


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("Es sind also fünf Dreiecke", 5),
        ("Also sind es 5 Dreiecke.", 5),
        ("Insgesamt gibt es genau zwölf schwarze Quadrate", 12),
        ("Somit gibt es keine Kreise", 0),
        ("Il y a donc huit triangles", 8),
        ("Donc, il y en a 3", 3),
        ("Cela fait donc deux carrés noirs", 2),
        ("Hay por lo tanto cuatro círculos", 4),
        ("En total hay un cuadrado amarillo", 1),
        ("Es gibt drei im linken Feld", None),
        ("Es gibt also drei im linken Feld links", None),
        ("Es gibt fünf Dreiecke", None),
        ("Il y a deux triangles à gauche", None),
        ("Donc la réponse est non", None),
        ("So there are five", None),
    ],
)
def test_foreign_count(sentence: str, count: int | None) -> None:
    assert foreign_count(sentence) == count
