"""No pixels cross a shuffle: every element that enters a grouping of the whole pipeline is looked at."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import apache_beam as beam
import cv2
import numpy as np
import pytest
from apache_beam.coders import registry
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.utils.windowed_value import WindowedValue

from groundtrace import pipelines
from groundtrace.pipelines.running.plan.plan import Plan, RunArguments, make_plan
from groundtrace.pipelines.running.run import execute
from groundtrace.schemas.records import Draft, Question, RawRecord
from groundtrace.stages.mine_rubrics import RubricTask
from groundtrace.stages.plumbing.sized_rows import SizedRow
from groundtrace.stages.plumbing.spill import spooling

pytestmark = pytest.mark.slow

SQUARES = (("red", "blue"), ("red", "red", "black"), ("blue",) * 3, ("yellow", "black"), ("black",) * 4, ("yellow",))
WIDTH, HEIGHT = 160, 120
SMALL, LARGE = 2, 6  # how many times that
PIPELINE = str(Path(pipelines.__file__).parent / "grounded_cot.py")
EXACT_EYES = ("endpoints.coarse.strength=0.0", "difficulty.include_high=true", "dedup.near=false")
LARGEST_ELEMENT_BYTES = 20_000
LARGEST_HELD_BYTES = 256
PIXELS = (bytes, bytearray, memoryview, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Crossing:
    """One element at one shuffle: the records in it, its size as its coder writes it and as the runner holds it, which
    has but a slip of what lies in the spool, and where pixels may hide."""

    shuffle: str
    records: frozenset[type]
    size_bytes: int
    held_bytes: int
    problems: tuple[str, ...]


CROSSINGS: list[Crossing] = []


def parts(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """The value and, recursively, everything in it, each with its path."""
    yield path, value
    if isinstance(value, WindowedValue):
        yield from parts(value.value, f"{path}.value")
    elif isinstance(value, SizedRow):
        yield from parts(value.unpack() if value.packed else None, f"{path}.unpack()")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from parts(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from parts(key, f"{path}.key")
            yield from parts(item, f"{path}[{key!r}]")
    elif isinstance(value, Iterable) and not isinstance(value, (str, *PIXELS)):
        for index, item in enumerate(value):
            yield from parts(item, f"{path}[{index}]")


class Look(beam.DoFn):
    """Notes every element of one shuffle's input."""

    def __init__(self, shuffle: str, element_type: object) -> None:
        self._shuffle, self._type, self._coder = shuffle, element_type, registry.get_coder(element_type)

    def process(self, element: object) -> None:
        inside = list(parts(element))
        problems = tuple(f"{path}: {type(value).__name__}" for path, value in inside if isinstance(value, PIXELS))
        records = frozenset(type(value) for _, value in inside if dataclasses.is_dataclass(value))
        with spooling(""):
            size_bytes = len(registry.get_coder(self._type).encode(element))
        held_bytes = len(self._coder.encode(element))
        CROSSINGS.append(Crossing(self._shuffle, records, size_bytes, held_bytes, problems))


class Watcher(FnApiRunner, PipelineVisitor):
    """The in-process runner, which looks at the input of every grouping of the pipeline that it is given."""

    def run_pipeline(self, pipeline, options):
        self._inputs: list[tuple[str, beam.PCollection]] = []
        pipeline.visit(self)
        for label, elements in self._inputs:
            _ = elements | f"Look/{label}" >> beam.ParDo(Look(label, elements.element_type))
        return super().run_pipeline(pipeline, options)

    def visit_transform(self, transform_node) -> None:
        if isinstance(transform_node.transform, beam.GroupByKey):
            self._inputs += [(transform_node.full_label, elements) for elements in transform_node.inputs]

    enter_composite_transform = visit_transform


@pytest.fixture(scope="module")
def crossings(tmp_path_factory, draw_scene, write_records, record):
    """What crosses the shuffles of whole runs: over small and large pictures to the SFT side, over large ones to RL."""

    def run(name: str, scale: int, sft_ratio: float, side: str) -> list[Crossing]:
        folder = tmp_path_factory.mktemp(name)
        rows = [record(id="gone", media="gone.bmp")]
        for number, squares in enumerate(SQUARES):
            picture = draw_scene(squares, WIDTH, HEIGHT).repeat(scale, 0).repeat(scale, 1)
            cv2.imwrite(str(folder / f"{number}.bmp"), picture[:, :, ::-1])
            rows.append(record(id=f"scene-{number}", media=f"{number}.bmp", answer=str(len(squares))))
        write_records(folder, rows)
        overrides = (*EXACT_EYES, f"split.sft_ratio={sft_ratio}")
        options = [f"--runner={Watcher.__module__}.{Watcher.__qualname__}"]
        arguments = RunArguments(PIPELINE, str(folder), str(folder / "run"), overrides=overrides, beam_options=options)
        CROSSINGS.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Plan, "is_local", True)  # as it is, but under another name
            assert execute(make_plan(arguments)).counts.rows(side) == len(SQUARES)
        assert (folder / "run" / "media").exists() == (side == "sft")
        return list(CROSSINGS)

    cases = {"small": (SMALL, 1.0, "sft"), "large": (LARGE, 1.0, "sft"), "rl": (LARGE, 0.0, "rl")}
    return {name: run(name, *case) for name, case in cases.items()}


def test_the_walk_finds_pixels_wherever_they_are():
    draft = Draft(Question("q", "s", "l", (), "?", "1", "numeric"), entities=("a", b"\x89PNG"))
    element = ("key", [WindowedValue({"one": draft, "two": np.zeros((2, 2))}, 0, ())])
    assert [path for path, value in parts(element) if isinstance(value, PIXELS)] == [
        "[1][0].value['one'].entities[1]",
        "[1][0].value['two']",
    ]


@pytest.mark.parametrize("size", ["small", "large", "rl"])
def test_no_element_of_a_shuffle_holds_bytes_or_arrays(crossings, size):
    assert {c.shuffle: c.problems for c in crossings[size] if c.problems} == {}


@pytest.mark.parametrize(("size", "kinds"), [("large", {RawRecord, Draft, SizedRow}), ("rl", {RubricTask, SizedRow})])
def test_every_kind_of_record_was_seen_crossing(crossings, size, kinds):
    assert frozenset().union(*(crossing.records for crossing in crossings[size])) >= kinds


@pytest.mark.parametrize("size", ["large", "rl"])
def test_every_element_is_small_beside_its_picture(crossings, size):
    picture_bytes = WIDTH * HEIGHT * 3 * LARGE**2
    largest = max(crossings[size], key=lambda crossing: crossing.size_bytes)
    assert largest.size_bytes < LARGEST_ELEMENT_BYTES < picture_bytes / 100, largest


@pytest.mark.parametrize("size", ["large", "rl"])
def test_the_runner_holds_little_of_every_element(crossings, size):
    """Rubrics are judged on a bounded sample, the manifest has a line for each shard, and an input few sources; of
    everything else there is as much as there are questions.
    """
    bounded = ("Rubrics/", "AllLines", "Ingest/SpreadSources/")
    each = [crossing for crossing in crossings[size] if not crossing.shuffle.startswith(bounded)]
    assert max(crossing.size_bytes for crossing in each) > 2 * LARGEST_HELD_BYTES
    assert {c.shuffle: c.held_bytes for c in each if c.held_bytes > LARGEST_HELD_BYTES} == {}


def test_a_larger_picture_makes_no_larger_elements(crossings):
    """Nine times the pixels add only digits to sizes and coordinates, at each shuffle."""
    largest: dict[str, collections.Counter[str]] = {}
    for size in ("small", "large"):
        largest[size] = collections.Counter()
        for crossing in crossings[size]:
            largest[size][crossing.shuffle] = max(largest[size][crossing.shuffle], crossing.size_bytes)
    assert largest["small"].keys() == largest["large"].keys()
    grown = {name: (largest["small"][name], size) for name, size in largest["large"].items()}
    assert {name: sizes for name, sizes in grown.items() if sizes[1] > 1.1 * sizes[0] + 16} == {}
