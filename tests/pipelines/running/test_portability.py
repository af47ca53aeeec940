"""What every recipe's pipeline tells a runner in another language: nothing that it would read wrong or deal anew."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2, schema_pb2

from groundtrace import pipelines
from groundtrace.pipelines.running.execute.job import row_context
from groundtrace.pipelines.running.execute.outputs import write_ends
from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan

RECIPES = sorted(path.stem for path in Path(pipelines.__file__).parent.glob("*.py") if not path.stem.startswith("__"))
ROW = "beam:coder:row:v1"
# What Beam's runners in Java and Go read and write themselves; of anything else they take the bytes as they are.
KNOWN = frozenset(
    f"beam:coder:{name}:v1"
    for name in (
        *("bytes", "bool", "varint", "double", "string_utf8", "kv", "iterable", "nullable", "timer"),
        *("length_prefix", "global_window", "interval_window", "windowed_value", "state_backed_iterable"),
    )
)
PASSED_ON = KNOWN | {"beam:coder:pickled_python:v1"}
DEALT_ANEW = ("beam:transform:reshuffle", "beam:transform:redistribute")


@pytest.fixture(scope="module", params=RECIPES)
def proto(request, tmp_path_factory) -> beam_runner_api_pb2.Pipeline:
    """The pipeline of a recipe, with all its ends, as it would be sent to a job server."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "records.jsonl").write_text("{}\n", "utf-8")
    recipe_file = str(Path(pipelines.__file__).parent / f"{request.param}.py")
    plan = make_plan(RunArguments(recipe_file, str(folder), str(folder / "run"), measure=True))
    pipeline = beam.Pipeline()
    context = replace(plan.context, sources=plan.context.sources * 2)
    wired = plan.wire(pipeline, context)
    write_ends(wired, row_context(plan, wired), str(folder / "job"), plan.context.roots, plan.settings.write)
    return pipeline.to_runner_api()


def coders_of(proto: beam_runner_api_pb2.Pipeline, coder_id: str) -> Iterator[beam_runner_api_pb2.Coder]:
    """A coder and those that it is made of."""
    coder = proto.components.coders[coder_id]
    yield coder
    for part in coder.component_coder_ids:
        yield from coders_of(proto, part)


@pytest.mark.slow
def test_no_collection_has_rows_that_java_would_read(proto):
    """Every runner materialises between stages what its workers make, so this concerns more than the shuffles."""
    read_wrong = {
        name: coder.spec.urn
        for name, collection in proto.components.pcollections.items()
        for coder in coders_of(proto, collection.coder_id)
        if coder.spec.urn not in PASSED_ON
    }
    assert read_wrong == {}


def test_every_schema_id_is_a_uuid(proto):
    for coder in proto.components.coders.values():
        if coder.spec.urn == ROW:
            assert uuid.UUID(schema_pb2.Schema.FromString(coder.spec.payload).id)


def test_what_is_redistributed_is_grouped_by_a_key_of_its_own(proto):
    urns = {transform.unique_name: transform.spec.urn for transform in proto.components.transforms.values()}
    assert [name for name, urn in urns.items() if urn.startswith(DEALT_ANEW)] == []
    assert any("Spread" in name and urn == "beam:transform:group_by_key:v1" for name, urn in urns.items())


def test_keys_of_groupings_are_written_the_same_wherever(proto):
    """A runner compares keys as bytes, and pickled ones may differ between workers."""
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:group_by_key:v1":
            (entering,) = transform.inputs.values()
            pair = proto.components.coders[proto.components.pcollections[entering].coder_id]
            assert pair.spec.urn == "beam:coder:kv:v1", transform.unique_name
            key = proto.components.coders[pair.component_coder_ids[0]]
            constant = b"DeterministicFastPrimitivesCoder" in key.spec.payload  # the one key of Beam's own combiners
            assert key.spec.urn in KNOWN or constant, (transform.unique_name, key.spec.urn)
