"""What is remembered of DoFns is what Beam finds in them."""

import random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal import pickler
from apache_beam.transforms import core, userstate
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.typehints.decorators import IOTypeHints

from groundtrace.pipelines.running.execute.beam_inspection import inspected_once

STATE = ReadModifyWriteStateSpec("count", VarIntCoder())
PARAMETER = beam.DoFn.StateParam(STATE)


class Plain(beam.DoFn):
    def process(self, element: Any, extra: int = 3) -> Any:
        yield element


class Stateful(Plain):
    def process(self, element: Any, extra: int = 3, state: Any = PARAMETER) -> Any:
        yield element


FUNCTIONS = ((core, "get_function_args_defaults"), (core, "_get_function_body_without_inners"))
REPLACED = (*FUNCTIONS, (userstate, "get_dofn_specs"), (IOTypeHints, "from_callable"))
DO_FNS = [Plain(), Stateful(), Stateful(), core.CallableWrapperDoFn(len)]


@pytest.mark.parametrize("dofn", DO_FNS, ids=lambda dofn: type(dofn).__name__)
def test_the_results_are_those_of_beam(dofn: Any) -> None:
    def found() -> list[Any]:
        of_functions = [getattr(module, name)(dofn.setup) for module, name in FUNCTIONS]
        return [*of_functions, userstate.get_dofn_specs(dofn), core.get_function_arguments(dofn, "process")]

    expected = found()
    with inspected_once():
        assert [found(), found()] == [expected, expected]


def test_pickled_objects_are_compressed_as_beam_compresses_them() -> None:
    given = [1, "text", random.Random(1).randbytes(100_000), DO_FNS[1]]
    expected = [pickler.dumps(each) for each in given]
    with inspected_once():
        assert [pickler.dumps(each) for each in given * 2] == expected * 2
        assert [pickler.loads(each) for each in expected[:3] * 2] == given[:3] * 2


@pytest.mark.parametrize("first", [len, Plain().process])
def test_objects_of_one_class_that_wrap_methods_have_their_own_states(first: Any) -> None:
    wrapped = core.CallableWrapperDoFn(Stateful().process)
    with inspected_once():
        assert userstate.get_dofn_specs(core.CallableWrapperDoFn(first)) == (set(), set())
        assert userstate.get_dofn_specs(wrapped) == ({STATE}, set())


def listed(self: int, numbers: list[int], *more: str, **named: float) -> dict[str, bool]:
    return {}


def test_hints_are_those_of_beam() -> None:
    class Holder:
        method = listed

        @staticmethod
        def alone(count: int): ...

    given = (listed, Holder.method, Holder().method, Holder.alone, len, str.strip, lambda x: x, dict[str, int])
    expected = [IOTypeHints.from_callable(each) for each in given]
    with inspected_once():
        assert [[IOTypeHints.from_callable(each) for each in given] for _ in range(2)] == [expected, expected]
        changed = IOTypeHints.from_callable(listed)
        assert changed is not None and changed.input_types is not None
        changed.input_types[1].clear()
        assert IOTypeHints.from_callable(listed) == expected[0]


def test_a_caller_may_change_a_result() -> None:
    dofn = Stateful()
    with inspected_once():
        states, _ = userstate.get_dofn_specs(dofn)
        states.clear()
        assert userstate.get_dofn_specs(dofn)[0] == {STATE}
        names, _ = core.get_function_arguments(dofn, "process")
        names.clear()
        assert core.get_function_arguments(dofn, "process")[0] == ["element", "extra", "state"]


def test_beam_is_as_before_also_after_an_error() -> None:
    def functions() -> list[Any]:
        return [getattr(module, name) for module, name in REPLACED]

    before = functions()
    with pytest.raises(ZeroDivisionError), inspected_once():
        assert not any(one is other for one, other in zip(before, functions(), strict=True))
        raise ZeroDivisionError
    assert functions() == before
