"""Who looks for a label, and what the verifier must know of them."""

import pytest

from inference.settings import EndpointSettings, ModelsSettings
from rewards.locating import Served, served_by


@pytest.mark.parametrize(
    ("roles", "source", "locators"),
    [
        ({"detector", "segmenter", "pointer"}, "photos", ("detector", "pointer")),
        ({"detector", "segmenter"}, "photos", ("detector",)),
        ({"pointer", "segmenter"}, "photos", ()),
        ({"detector", "pointer"}, "photos", ("detector",)),  # its boxes stand for masks
        ({"detector"}, "photos", ("detector",)),
        ({"detector", "pointer"}, "charts", ()),
        ({"segmenter"}, "photos", ()),
        ({"detector", "segmenter", "pointer"}, "charts", ("pointer",)),
        ({"pointer", "segmenter"}, "charts", ("pointer",)),
        ({"detector", "segmenter"}, "charts", ()),
    ],
)
def test_argos_before_eq3_who_looks_for_a_label(roles, source, locators) -> None:
    assert Served(frozenset(roles), synthetic_sources=frozenset({"charts"})).locators(source) == locators


def models(**roles: str) -> ModelsSettings:
    endpoints = (("a", EndpointSettings("classical", "colour")), ("b", EndpointSettings("g", "m", frame="gemini")))
    return ModelsSettings(endpoints, tuple(roles.items()), "cache", "in", "run")


@pytest.mark.parametrize(
    ("roles", "makers", "own"),
    [
        ({"pointer": "a", "teacher": "b"}, ("pointer", "teacher"), True),
        ({"pointer": "a", "policy": "b"}, ("policy",), False),
        ({"pointer": "a", "policy": "a"}, ("policy",), True),
        ({"policy": "a"}, ("policy",), False),
    ],
)
def test_whether_the_pointer_made_the_points(roles, makers, own) -> None:
    served = served_by(models(**roles), makers=makers)
    assert served.own_pointer is own
    assert served.roles == set(roles)


def test_what_is_served_holds_the_synthetic_sources() -> None:
    assert served_by(models(detector="b"), ("charts",)).synthetic_sources == {"charts"}
    assert served_by(models(detector="b")).synthetic_sources == frozenset()
