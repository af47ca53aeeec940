"""Who looks for a label, which labels nobody can look for, and what the verifier must know of those who look."""

import pytest

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.rewards.locating import Instances, ObjectMasks, ServedRoles, is_of_label, served_by


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
    assert ServedRoles(frozenset(roles), synthetic_sources=frozenset({"charts"})).locators(source) == locators


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


OF_THE_LABEL = {Failure.UNKNOWN_LABEL, Failure.REFUSED}


@pytest.mark.parametrize("failure", Failure)
def test_whose_doing_a_failed_call_is(failure) -> None:
    """A refusal and an unknown word answer what was asked; the rest, an empty reply too, is another's doing."""
    assert is_of_label(CallError(failure, "said")) is (failure in OF_THE_LABEL)


def test_a_reply_that_cannot_be_read_is_not_the_labels_doing() -> None:
    assert not is_of_label(BadReply("prose"))


EYES = ServedRoles(frozenset({"detector", "segmenter"}))


def test_a_label_is_looked_for_in_its_plain_form_and_once(run, question, seeing) -> None:
    caller = seeing({"red dog": [(10, 10, 20, 20)]})
    masks = ObjectMasks(question(), caller, EYES)
    for label in ("Red  Dog", "the red dog", "a RED\ndog"):
        found = run(masks.of(label, 0))
        assert (len(found.masks), found.by, found.note) == (1, "detector", "")
    assert [role for role, _, _ in caller.asked] == ["detector", "segmenter"]


@pytest.mark.parametrize(
    "label", ["", "?!", "picture", "the background", "everything", "x" * 121, "dog\u202e", "<|end|>"]
)
def test_a_label_that_names_no_object_has_no_instances_and_asks_nobody(run, question, seeing, label) -> None:
    caller = seeing({})
    found = run(ObjectMasks(question(), caller, EYES).of(label, 0))
    assert (found.masks, found.by) == ((), "")
    assert found.note
    assert caller.asked == []


def test_a_label_that_the_detector_does_not_know_has_no_instances(run, question, seeing) -> None:
    found = run(ObjectMasks(question(), seeing({}), EYES).of("gizmo", 0))
    assert (found.masks, found.by) == ((), "")
    assert found.note.startswith("the detector cannot serve it: ")


def test_a_server_that_is_down_is_no_answer_and_is_asked_again(run, question, scripted) -> None:
    masks = ObjectMasks(question(), scripted(detector=[CallError(Failure.TIMEOUT, "late"), '{"boxes": []}']), EYES)
    with pytest.raises(CallError, match="late"):
        run(masks.of("dog", 0))
    assert run(masks.of("dog", 0)) == Instances((), "detector")


ALL_EYES = ServedRoles(frozenset({"detector", "segmenter", "pointer"}), own_pointer=False)
NO_ANSWERS = {
    **{failure.value: CallError(failure, "said") for failure in Failure if failure not in OF_THE_LABEL},
    **{f"HTTP {n}": CallError(Failure.BAD_REQUEST, f"HTTP {n}: no", status=n) for n in (400, 402, 404)},
    "prose": "You exceeded your current quota.",
    "out of range": '{"boxes": [[0, 0, 900, 900]]}',
}


@pytest.mark.parametrize("reply", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_no_pointer_replaces_a_detector_that_gives_no_answer(run, question, scripted, reply) -> None:
    """The point that the pointer confirms might be one that the detector refutes; the label is asked about again."""
    replies = [reply, '{"boxes": []}']
    caller = scripted(detector=replies, pointer=['<points x1="15" y1="15" alt="dog">dog</points>'])
    masks = ObjectMasks(question(), caller, ALL_EYES)
    with pytest.raises((CallError, BadReply)):
        run(masks.of("dog", 0))
    assert run(masks.of("dog", 0)) == Instances((), "detector")
    assert [role for role, _, _ in caller.asked] == ["detector", "detector"]


@pytest.mark.parametrize(
    ("box", "instances"), [((0, 0, 400, 100), 0), ((0, 0, 400, 91), 0), ((0, 0, 400, 90), 1), ((0, 0, 361, 100), 0)]
)
def test_a_box_over_nearly_the_whole_image_is_no_instance(run, question, seeing, box, instances) -> None:
    found = run(ObjectMasks(question(), seeing({"dog": [box]}), EYES).of("dog", 0))
    assert (len(found.masks), found.by) == (instances, "detector")


def test_without_an_endpoint_nothing_is_found_and_that_is_said(run, question, scripted) -> None:
    found = run(ObjectMasks(question(), scripted(), ServedRoles()).of("dog", 0))
    assert found == Instances((), "", "no endpoint is configured to look for it")
