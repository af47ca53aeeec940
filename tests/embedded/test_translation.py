"""Tests of the English names of shapes, colours and places in other languages."""

import pytest

from groundtrace.embedded.translation import in_english


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("es gibt keine schwarzen quadrate", "es gibt keine black squares"),
        ("im linken kasten ist kein blauer kreis", "im left box ist kein blue circle"),
        ("rechts ist kein dreieck", "on the right ist kein triangle"),
        ("der linke turm hat keinen gelben block", "der left tower has keinen yellow block"),
        ("il n'y a aucun carré noir", "il n'y a aucun black square"),
        ("il n'y a pas de cercle", "il n'y a no circle"),
        ("aucune tour n'est entièrement noire", "aucune tower n'est entièrement black"),
        ("dans la boîte de gauche, pas de cercle", "dans la left box, no circle"),
        ("no hay ningún círculo rojo", "no hay red circle"),
        ("ninguna torre es negra", "no tower es black"),
        ("en la caja derecha no hay cuadrados negros", "en la right box no hay black squares"),
        ("von links nach rechts ist kein kreis", " ist kein circle"),
        ("none of them is round", "none of them is circle"),
        ("no circular shape is red", "no circle shape is red"),
        ("on my tour of the image i link the hats", "on my tour of the image i link the hats"),
        ("there is a square black on top", "there is a square black on top"),
    ],
)
def test_names_are_in_english(text: str, expected: str) -> None:
    assert in_english(text) == expected
