"""Record types have our coder for whoever builds pipelines, and cost no Beam where they are only read."""

import subprocess
import sys
import uuid

import pytest
from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from groundtrace.grading.input_record import InputRecord
from groundtrace.schemas.coding import RECORD_MODULES, record
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft, RawRecord, Rejected
from groundtrace.stages.plumbing import packing
from groundtrace.stages.plumbing.packing import PackedCoder


@record
class DeclaredLater:
    """A record of somebody's own stage, with another one in it."""

    name: str
    boxes: tuple[Box, ...] = ()


@pytest.mark.parametrize("kind", [Box, Draft, InputRecord, RawRecord, Rejected, DeclaredLater])
def test_every_record_type_is_packed(kind: type) -> None:
    coder = registry.get_coder(kind)
    assert isinstance(coder, PackedCoder)
    assert coder.to_type_hint() is kind


SAY_ID = "import groundtrace.schemas.records; print(groundtrace.schemas.records.Draft._beam_schema_id)"


def test_a_schema_id_is_a_uuid_and_the_same_in_every_process() -> None:
    said = subprocess.run([sys.executable, "-c", SAY_ID], check=True, capture_output=True, text=True).stdout.strip()
    assert said == Draft._beam_schema_id == str(uuid.UUID(said))
    assert Rejected._beam_schema_id != said


def test_a_record_declared_later_is_the_same_after_a_shuffle() -> None:
    coder, value = registry.get_coder(DeclaredLater), DeclaredLater("a", (Box("b", 1.0, 2.0, 3.0, 4.0),))
    assert coder.decode(coder.encode(value)) == value


@pytest.mark.parametrize(("kind", "field"), [(Draft, "question"), (Draft, "traces"), (DeclaredLater, "boxes")])
def test_a_record_in_another_is_a_row_and_no_pickle(kind: type, field: str) -> None:
    fields = {each.name: each.type for each in SCHEMA_REGISTRY.get_schema_by_id(kind._beam_schema_id).fields}
    inner = fields[field].array_type.element_type if fields[field].HasField("array_type") else fields[field]
    assert inner.WhichOneof("type_info") == "row_type"


def test_workers_import_what_declares_and_what_registers() -> None:
    assert {packing.__name__, __name__, "groundtrace.schemas.records", "groundtrace.schemas.geometry"} <= RECORD_MODULES


BEAM_FREE = """
import sys
import groundtrace.schemas.records, groundtrace.grading.input_record
assert "apache_beam" not in sys.modules
import groundtrace.stages.plumbing.packing
from apache_beam.coders.typecoders import registry
assert type(registry.get_coder(groundtrace.schemas.records.Draft)).__name__ == 'PackedCoder'
"""


def test_records_alone_do_without_beam() -> None:
    subprocess.run([sys.executable, "-c", BEAM_FREE], check=True)
