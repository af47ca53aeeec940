"""The argos reward with the embedded engine on a real picture: answers, points, frames, clips."""

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundtrace.config.errors import ConfigError
from groundtrace.grading.responses.response import parse_points
from groundtrace.grading.responses.speech import Speech
from groundtrace.inference.preflight import NotServed
from groundtrace.rewards.rows.checks import check_recipe
from groundtrace.rewards.rows.reward import Reward, Scored, media_of
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.rows.shards import Shards
from groundtrace.schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, ResizeRule, from_px
from groundtrace.schemas.records import MediaRef
from groundtrace.trainer.encode import prompt_sample
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import EncodedImage
from groundtrace.vision.decode import decode_image
from groundtrace.vision.media import MediaStore

from ...trainer.runs import SAMPLE, records, rl_row

WIDTH, HEIGHT = 400, 100
BLUE: dict[str, tuple[float, float]] = {"blue triangle": (17, 56), "blue circle": (373, 55), "blue square": (371, 80)}
"""The middles of what ``How many blue objects …?`` is about, in pixels of the 400x100 picture."""
WORDS = "<think>I see {}.</think> <answer>{}</answer>"


def tag(label: str, x: float, y: float) -> str:
    return f'<points x1="{x:g}" y1="{y:g}" alt="{label}">{label}</points>'


def said(points: dict[str, tuple[float, float]], answer: str) -> str:
    """A response as the model of the tests writes it, in thousandths."""
    frame = {label: (round(x / WIDTH * 1000), round(y / HEIGHT * 1000)) for label, (x, y) in points.items()}
    return WORDS.format(", ".join(tag(label, *at) for label, at in frame.items()), answer)


@pytest.fixture
def row_of(tmp_path: Path, write_shards: Callable[..., Path]) -> Callable[..., TrainingRow]:
    """A record of the sample data, as it comes out of a shard."""

    def written(id: str = "662-1-0-c1", **changes: Any) -> TrainingRow:
        data = write_shards(tmp_path / "run", [rl_row(*records(id), **changes)], "rl")
        return Shards(data, "rl", tmp_path / "rows")[0]

    return written


@pytest.fixture
def score(tmp_path: Path) -> Any:
    """Score responses to one row."""
    opened = []

    def scored(vlm: VisionLanguageModel, row: TrainingRow, *texts: str, **settings: Any) -> list[Scored]:
        reward = Reward(RewardSettings(**settings), tmp_path / "out")
        opened.append(reward)
        [found] = reward.score(vlm.speech, [row], [texts])
        return found

    yield scored
    for reward in opened:
        reward.close()


OFF: dict[str, tuple[float, float]] = {"blue triangle": (200, 5), "blue circle": (373, 55), "blue square": (371, 80)}
NOWHERE = dict.fromkeys(BLUE, (200, 5))
RESPONSES = [
    # Outcome and spatial have equal weights; below the gate the outcome is all.
    # Two of three objects and a point off them: 2/3 · (1/2 + 1/2 · 2/3).
    ("right, and points", said(BLUE, "3"), 1.0, 1.0, 1.0),
    ("right, one point of three off", said(OFF, "3"), 7 / 9, 1.0, 5 / 9),
    ("right, all points off", said(NOWHERE, "3"), 0.4625, 1.0, -0.075),
    ("right, without a point", said({}, "3"), 0.5, 1.0, 0.0),
    ("right, with a label that is not there", said({"red circle": (17, 56)}, "3"), 0.475, 1.0, -0.05),
    ("right, with a label that names nothing", said({"gizmo": (17, 56)}, "3"), 0.475, 1.0, -0.05),
    ("right, a box that nothing checks", said(BLUE, "3").replace("I see", "I see <box>[1,2,3,4]</box>"), 0, 1, None),
    ("right, concluding otherwise", said(BLUE, "3").replace(".</th", ". So there are 4 blue objects.</th"), 0, 1, None),
    ("wrong, and points", said(BLUE, "4"), 0.0, 0.0, None),
    ("no answer, and points", said(BLUE, "3").replace("<answer>3</answer>", ""), 0.0, 0.0, None),
    ("nothing", "", 0.0, 0.0, None),
    ("both answers", said(BLUE, "3 or 4"), 0.0, 0.0, None),
]


@pytest.mark.parametrize(("response", "reward", "outcome", "spatial"), [case[1:] for case in RESPONSES],
                         ids=[case[0] for case in RESPONSES])  # fmt: skip
def test_responses(
    response: str, reward: float, outcome: float, spatial: float | None, qwen3: VisionLanguageModel, row_of: Any,
    score: Any,
) -> None:  # fmt: skip
    [found] = score(qwen3, row_of(), response)
    assert found.reward == pytest.approx(reward)
    assert (found.outcome, found.value("spatial")) == (outcome, pytest.approx(spatial))


def test_a_group_is_scored_in_order(qwen3: VisionLanguageModel, row_of: Any, score: Any) -> None:
    found = score(qwen3, row_of(), *(case[1] for case in RESPONSES))
    assert [scored.reward for scored in found] == pytest.approx([case[2] for case in RESPONSES])


def test_several_rows_keep_their_answers(qwen3: VisionLanguageModel, tmp_path: Path, write_shards: Any) -> None:
    """Two questions about one picture: each is graded by its own gold answer."""
    rows = [rl_row(record) for record in records("662-1-0-c0", "662-1-0-c1")]
    shards = Shards(write_shards(tmp_path / "run", rows, "rl"), "rl", tmp_path / "rows")
    reward = Reward(RewardSettings(), tmp_path / "out")
    both = [shards[0], shards[1]]
    texts = [["<answer>1</answer>", "<answer>3</answer>"]] * 2
    found = reward.score(qwen3.speech, both, texts)
    reward.close()
    assert [[scored.outcome for scored in group] for group in found] == [[1.0, 0.0], [0.0, 1.0]]


def test_rows_of_one_id_are_not_mixed_up(qwen3: VisionLanguageModel, tmp_path: Path, write_shards: Any) -> None:
    """Runs put into one folder may repeat an id with another question: it is graded by its own gold answer."""
    first, second = (rl_row(record, id="q") for record in records("662-1-0-c0", "3949-1-0-c0"))
    shards = Shards(write_shards(tmp_path / "run", [first, second], "rl"), "rl", tmp_path / "rows")
    reward = Reward(RewardSettings(), tmp_path / "out")
    found = []
    for row in (shards[0], shards[1]):
        found += reward.score(qwen3.speech, [row], [["<answer>1</answer>", "<answer>4</answer>"]])
    reward.close()
    assert [[scored.outcome for scored in group] for group in found] == [[1.0, 0.0], [0.0, 1.0]]


def test_nothing_to_point_at(qwen3: VisionLanguageModel, row_of: Any, score: Any) -> None:
    """A right answer without a point has no spatial term to lose."""
    asked = {"question": "What is the picture's style?", "answer_type": "text", "answer": "drawn"}
    [found] = score(qwen3, row_of(entities=[], pointable=[], **asked), said({}, "drawn"))
    assert (found.reward, found.value("spatial")) == (1.0, None)


def test_what_is_counted_is_looked_for_where_the_pointer_found_none(qwen3: Any, row_of: Any, score: Any) -> None:
    [found] = score(qwen3, row_of(entities=[], pointable=[]), said({}, "3"))
    assert (found.reward, found.value("spatial")) == (0.5, 0.0)


@pytest.mark.parametrize(("pointable", "reward"), [(["blue circle"], 0.5), ([], 1.0)])
def test_the_row_says_what_can_be_pointed_at(
    pointable: list[str], reward: float, qwen3: VisionLanguageModel, row_of: Any, score: Any
) -> None:
    asked = {"question": "Is a blue circle here?", "answer_type": "bool", "answer": "yes"}
    row = row_of(gold_boxes=None, entities=["blue circle", "red circle"], pointable=pointable, **asked)
    [found] = score(qwen3, row, said({}, "yes"))
    assert found.reward == reward


def test_points_need_somebody_who_finds_objects(qwen3: VisionLanguageModel, row_of: Any, score: Any) -> None:
    settings = RewardSettings(roles={})
    with pytest.raises(ConfigError, match=r'reward\.roles\.detector names no endpoint.*skip = \["spatial"\]'):
        check_recipe(settings, lambda _: True)
    skipped = {"skip": ["spatial", "counting"]}
    check_recipe(RewardSettings(roles={}, options=skipped), lambda _: True)
    [found] = score(qwen3, row_of(), said(NOWHERE, "3"), roles={}, options=skipped)
    assert (found.reward, found.value("spatial")) == (1.0, None)


def test_a_detector_that_cannot_be_served_is_no_verdict(
    qwen3: VisionLanguageModel, row_of: Any, score: Any, tmp_path: Path
) -> None:
    """A right answer that points rightly is unscored, and not a response whose points are wrong."""
    roles = {"detector": "colour", "segmenter": "edges"}
    reward = Reward(RewardSettings(roles=roles), tmp_path / "out")
    with pytest.raises(NotServed, match="a prompt of the detector"):
        reward.check_endpoints()
    reward.close()
    [found] = score(qwen3, row_of(), said(BLUE, "3"), roles=roles)
    assert (found.reward, found.outcome) == (None, 1.0)
    assert [verdict.name for verdict in found.verdicts if verdict.failed] == ["spatial"]


def test_free_text_without_a_judge_is_unscored(qwen3: VisionLanguageModel, row_of: Any, score: Any) -> None:
    row = row_of(answer="the one on the left", answer_type="text", question="Which one is it?")
    [found] = score(qwen3, row, said({}, "something that only a judge can compare with it"))
    assert (found.reward, found.outcome) == (None, None)


FRAMES = [
    (CoordinateFrame.NORM1000, 0, QWEN25_IMAGE),
    (CoordinateFrame.MOLMO100, 1, QWEN25_IMAGE),
    (CoordinateFrame.PX, 1, QWEN25_IMAGE),
    # 400x100 px is shown at twice its size: at least 80,000 px.
    (CoordinateFrame.QWEN25_RESIZED_PX, 0, ResizeRule(28, 80_000, 1_000_000)),
]


@pytest.mark.parametrize(("frame", "decimals", "rule"), FRAMES)
def test_points_in_the_models_own_frame(
    frame: CoordinateFrame,
    decimals: int,
    rule: ResizeRule,
    load: Callable[..., VisionLanguageModel],
    row_of: Any,
    score: Any,
) -> None:
    """What the model writes in its frame is read back to pixels, and lies on the objects; a text in pixels does not."""
    vlm = load("qwen3")
    vlm.speech = Speech(frame, decimals, rule)
    own = {
        label: tuple(round(value, decimals) for value in from_px(frame, *at, WIDTH, HEIGHT, rule))
        for label, at in BLUE.items()
    }
    response = WORDS.format(", ".join(tag(label, *at) for label, at in own.items()), "3")
    [found] = score(vlm, row_of(), response)
    assert (found.reward, found.value("spatial")) == (1.0, 1.0)
    points = [(point.label, point.x, point.y) for point in parse_points(found.text)]
    assert [label for label, _, _ in points] == list(BLUE)
    for (_, x, y), (expected_x, expected_y) in zip(points, BLUE.values(), strict=True):
        assert math.hypot(x - expected_x, y - expected_y) < 1.5
    in_pixels = WORDS.format(", ".join(tag(label, *at) for label, at in BLUE.items()), "3")
    if frame is not CoordinateFrame.PX:
        assert score(vlm, row_of(), in_pixels)[0].value("spatial") != 1.0


@pytest.mark.parametrize("family", ["qwen3", "qwen25"])
def test_points_in_the_familys_frame(
    family: str, load: Callable[..., VisionLanguageModel], row_of: Any, score: Any
) -> None:
    """Qwen2.5-VL writes pixels of the picture as its processor shows it: its patches say how large that is."""
    vlm, row = load(family), row_of()
    _, down, across = prompt_sample(vlm, row).images[0].grid
    patch = vlm.processor.image_processor.patch_size
    size = {"qwen3": (1000, 1000), "qwen25": (across * patch, down * patch)}[family]
    own = {label: (round(x / WIDTH * size[0]), round(y / HEIGHT * size[1])) for label, (x, y) in BLUE.items()}
    [found] = score(vlm, row, WORDS.format(", ".join(tag(label, *at) for label, at in own.items()), "3"))
    for point, (x, y) in zip(parse_points(found.text), BLUE.values(), strict=True):
        assert math.hypot(point.x - x, point.y - y) < 1.5
    assert found.reward == 1.0


OUTSIDE = [
    (CoordinateFrame.NORM1000, (1500, 500)),
    (CoordinateFrame.MOLMO100, (50, 130)),
    (CoordinateFrame.PX, (450, 50)),
    (CoordinateFrame.NORM1000, (-40, 1)),
]


@pytest.mark.parametrize(("frame", "at"), OUTSIDE)
def test_points_out_of_the_frame_are_a_fault_of_form(
    frame: CoordinateFrame, at: tuple[float, float], load: Callable[..., VisionLanguageModel], row_of: Any, score: Any
) -> None:
    vlm = load("qwen3")
    vlm.speech = Speech(frame, 1)
    [found] = score(vlm, row_of(), WORDS.format(tag("blue circle", *at), "3"))
    assert parse_points(found.text) == ()
    assert (found.reward, found.outcome, found.value("format")) == (0.0, 1.0, 0.0)


def test_media_are_written_once_upright(qwen3: VisionLanguageModel, row_of: Any, score: Any, tmp_path: Path) -> None:
    score(qwen3, row_of(), said(BLUE, "3"), said({}, "3"))
    [written] = (tmp_path / "out" / "media").iterdir()
    assert written.read_bytes() == (SAMPLE / records("662-1-0-c1")[0]["media"][0]).read_bytes()


def ref(name: str) -> MediaRef:
    return MediaRef(f"run:media/{name}.png", "image", name * 64, "", "", 64, 48, 1, 100)


def test_images_are_media_as_they_are() -> None:
    assert media_of([ref("a"), ref("b")], ()) == (ref("a"), ref("b"))


def test_frames_make_a_clip() -> None:
    """An image, then two frames of a clip: two media, the second with frames that have numbers and times."""
    image, clip = media_of([ref("a"), ref("b"), ref("c")], [(0, None, None), (1, 1, 0.0), (1, 2, 0.5)])
    assert image == ref("a")
    assert (clip.kind, clip.width, clip.height) == ("video", 64, 48)
    assert [(frame.number, frame.t_s, frame.uri, frame.sha256) for frame in clip.frames] == [
        (1, 0.0, "run:media/b.png", "b" * 64),
        (2, 0.5, "run:media/c.png", "c" * 64),
    ]


def test_two_clips_stay_apart() -> None:
    first, second = media_of([ref(name) for name in "abcd"], [(0, 1, 0.0), (1, 1, 0.0), (0, 2, 1.0), (1, 2, 2.0)])
    assert [frame.uri[10] for frame in first.frames] == ["a", "c"]
    assert [frame.uri[10] for frame in second.frames] == ["b", "d"]


def test_rows_with_frames_are_clips(qwen3: VisionLanguageModel, row_of: Any, score: Any, tmp_path: Path) -> None:
    """A row of two frames: the question that is scored has one medium, a clip, and its frames can be opened."""
    (record,) = records("662-1-0-c1")
    data = (SAMPLE / record["media"][0]).read_bytes()
    row = row_of(
        images=[{"bytes": data, "path": "1.png"}, {"bytes": data, "path": "2.png"}],
        prompt=[{"role": "user", "content": "CoordinateFrame 1 (0.0 s): <image>\nFrame 2 (0.5 s): <image>\nHow many?"}],
        frames=[{"media_index": 0, "frame": 1, "t_s": 0.0}, {"media_index": 0, "frame": 2, "t_s": 0.5}],
    )
    assert row.frames == ((0, 1, 0.0), (0, 2, 0.5))
    reward = Reward(RewardSettings(), tmp_path / "clip")
    ready = reward.ready(row)
    [found] = reward.score(qwen3.speech, [row], [[said(BLUE, "3")]])[0]
    reward.close()
    assert (ready.sizes, ready.row.images) == (((WIDTH, HEIGHT),), ())
    [clip] = ready.question.media
    assert (clip.kind, clip.width, clip.height, len(clip.frames)) == ("video", WIDTH, HEIGHT, 2)
    store = MediaStore(str(tmp_path / "clip"), str(tmp_path / "clip"))
    assert {decode_image(store.open_bytes(frame.uri)).pixels.shape for frame in clip.frames} == {(HEIGHT, WIDTH, 3)}
    assert found.outcome == 1.0
    assert found.value("spatial") is None, "the points of a clip are scored with its times"


def test_a_turned_picture_is_scored_upright(qwen3: VisionLanguageModel, row_of: Any, score: Any) -> None:
    """Its bytes lie on their side with an EXIF mark; points are those of the picture as it is seen."""
    picture = Image.open(SAMPLE / records("662-1-0-c1")[0]["media"][0]).convert("RGB")
    exif = Image.Exif()
    exif[274] = 6
    stream = io.BytesIO()
    picture.transpose(Image.Transpose.ROTATE_90).save(stream, "PNG", exif=exif)
    row = row_of(images=[{"bytes": stream.getvalue(), "path": None}])
    seen: EncodedImage = prompt_sample(qwen3, row).images[0]
    assert (seen.width, seen.height) == (WIDTH, HEIGHT)
    assert score(qwen3, row, said(BLUE, "3"))[0].value("spatial") == 1.0


def test_what_is_found_is_shared_while_it_is_in_use(qwen3: VisionLanguageModel, row_of: Any, tmp_path: Path) -> None:
    """Two that are scored at once share a question's objects, each with calls of its own; afterwards they are gone."""
    reward = Reward(RewardSettings(), tmp_path / "out")
    ready = reward.ready(row_of())
    sessions: list[Any] = [object(), object(), object()]
    first, second = (reward._masks(ready.question, session) for session in sessions[:2])
    assert first._found is second._found
    assert [first.caller, second.caller] == sessions[:2]
    kept = first._found
    del first, second
    assert reward._masks(ready.question, sessions[2])._found is not kept
    reward.close()
