"""Which picture a tag is in, by the words around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.image_mentions import images_of_tags, place_in_images
from groundtrace.grading.responses.tags import scan_tags
from groundtrace.grading.responses.traces import read_trace
from groundtrace.schemas.records import MediaRef

P = '<points x1="1" y1="2" alt="cat">cat</points>'
B = "<box>[1,2,3,4]</box>"
CASES = [
    (P, [0]),
    (f"In picture 2 {P}.", [1]),
    (f"The second image shows {P} and {P}.", [1, 1]),
    (f"{P} in picture 2 is larger than {P} in picture 1.", [1, 0]),
    (f"{P}, {P} and {P} in the third picture.", [2, 2, 2]),
    (f"Picture 2 shows {P}. There is another one: {P}. In picture 1 {P}.", [1, 1, 0]),
    (f"First {P}; then, in Image #3, {P}.", [0, 2]),
    (f"{P} (picture 2) and {P} (picture 3)", [1, 2]),
    (f"In picture 2 {B}.", [1]),
    ('<points x1="1" y1="2" alt="picture 2">picture 2</points> ' + P, [0, 0]),
    (f"picture 0 {P} picture two {P}", [0, 0]),
    (f"picture 100 {P}", [99]),
    (f"In picture 2 there is a dog. It is at {P}. And {P}.", [1, 1]),
    (f"In the image 3 dogs are seen: {P}.", [0]),
    (f"\u017fecond picture {P} f\u0131rst picture {P}", [0, 0]),
    (f"picture {'1' * 5000} {P}", [0]),
]


@pytest.mark.parametrize(("text", "indices"), CASES)
def test_the_picture_that_the_words_say(text: str, indices: list[int]) -> None:
    assert images_of_tags(text, scan_tags(text)) == indices
    points, boxes = place_in_images(text)
    assert [each.media_index for each in (*points, *boxes)] == indices


@given(st.lists(st.sampled_from([P, B, "picture 2", " in ", ". ", "first image", "<points", "\n\n"]), max_size=12))
def test_every_tag_has_one(parts: list[str]) -> None:
    text = "".join(parts)
    assert len(images_of_tags(text, scan_tags(text))) == len(scan_tags(text))


STILLS = tuple(MediaRef(f"input:{n}.png", "image", n * 64, n * 64, "0" * 16, 40, 30, 1, 99) for n in "ab")


@pytest.mark.parametrize(("media", "indices"), [(STILLS[:1], [0, 0]), (STILLS, [1, 1])])
def test_a_trace_on_one_picture_is_on_that_one(media: tuple[MediaRef, ...], indices: list[int]) -> None:
    trace = read_trace(0, f"<think>In picture 2 {P} {B}</think><answer>1</answer>", media)
    assert [each.media_index for each in (*trace.points, *trace.boxes)] == indices
