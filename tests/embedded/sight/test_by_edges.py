from collections import Counter

import numpy as np
import pytest

from groundtrace.embedded.sight.by_edges import detect, detect_all
from groundtrace.embedded.sight.segment import segment
from groundtrace.embedded.sight.templates import POINTS, templates


@pytest.mark.parametrize("name", ["scattered", "towers"])
def test_all_objects_are_detected_with_their_boxes(name, request):
    drawn = request.getfixturevalue(name)
    found = detect_all(drawn.image)
    assert Counter(d.label for d in found) == Counter(label for label, _ in drawn.boxes)
    for detection in found:
        assert any(
            label == detection.label and np.abs(np.subtract(box, detection.box_px)).max() <= 2
            for label, box in drawn.boxes
        )
        assert 0.72 <= detection.confidence <= 1


@pytest.mark.parametrize(
    ("label", "count"),
    [
        ("yellow square", 1),
        ("circle", 4),
        ("blue object", 3),
        ("black block", 1),
        ("red circle", 0),
        ("blue", 3),
    ],
)
def test_a_label_selects(scattered, label, count):
    found = detect(scattered.image, label)
    assert found is not None and len(found) == count
    assert [d.confidence for d in found] == sorted((d.confidence for d in found), reverse=True)


@pytest.mark.parametrize("label", ["dog", "", "yellow cat", "not a square"])
def test_an_unknown_label_cannot_be_read(scattered, label):
    assert detect(scattered.image, label) is None


@pytest.mark.parametrize("size", [(1, 1), (5, 5), (1, 1000), (1000, 1), (1100, 1300)])
def test_no_size_breaks_it(size):
    assert detect(np.full((*size, 3), 90, np.uint8), "circle") == []


def test_segmented_objects_hold_their_middle_and_not_what_lies_beside(scattered):
    for label, (x1, y1, x2, y2) in scattered.boxes:
        mask = segment(scattered.image, (x1, y1, x2, y2))
        inside = np.zeros(mask.shape, bool)
        inside[y1:y2, x1:x2] = (scattered.image[y1:y2, x1:x2] != (211, 211, 211)).any(2)
        assert (mask == inside).mean() > 0.999, label
        assert mask[(y1 + 2 * y2) // 3, (x1 + x2) // 2]


def test_template_normals_are_unit_and_point_outwards():
    table = templates()
    assert table.points.shape == table.normals.shape == (len(table.kinds), POINTS, 2)
    assert np.allclose(np.linalg.norm(table.normals, axis=2), 1)
    centre = table.points.mean(1, keepdims=True)
    assert ((table.points - centre) * table.normals).sum(2).min() > 0
