"""Many calls in flight inside Beam: results, typed rejections, windows and timestamps, and the ledger's counters."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import registry
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import equal_to
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue

from groundtrace.inference.errors import BudgetUsedUp, CallError, Failure
from groundtrace.inference.flow.in_flight import one_in_flight
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.runtime import runtime
from groundtrace.inference.session import Session
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.coding import record
from groundtrace.schemas.records import Call, Draft, Question, Rejected
from groundtrace.schemas.usage import Usage
from groundtrace.stages.plumbing.calling import CallModels
from groundtrace.stages.plumbing.metrics import clear_board, progress
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.stage import REJECTED, Reject, Route, RunWork, Stage

from ..matching import assert_that

CALL = Call(
    "teacher",
    "p.v1",
    "0" * 64,
    "m",
    ("key of the call",),
    Usage(
        calls=1,
        requests=2,
        cached=1,
        retries=1,
        tokens_in=30,
        tokens_out=7,
        tokens_reasoning=3,
        tokens_cached=4,
        tokens_wasted=5,
        repairs=1,
        cost_usd=0.25,
        worth_usd=0.5,
    ),
)

STAGE = Stage(
    "stage",
    "asks",
    reasons={"too_hard": "it is too hard", "no_entities": "there are none"},
    asks=(Asks("teacher", ("p.v1",)), Asks("policy", ("judge_answer.v1",))),
)


@record
class Item:
    """An element with an id and what shall become of it."""

    id: str
    fate: str = ""


def draft(name: str, *calls: Call) -> Draft:
    return Draft(Question(name, "s", "l", (), "q", "a", "text"), calls=calls)


def items(count: int) -> list[Item]:
    return [Item(str(n)) for n in range(count)]


async def work(element: Any, session: Session) -> Any:
    """What the element's fate says; "slow" elements end after the others."""
    fate = getattr(element, "fate", "")
    if fate == "slow":
        for _ in range(200):
            await asyncio.sleep(0)
    if fate == "call failed":
        raise CallError(Failure.SERVER_ERROR, "HTTP 500", key="key of the failure")
    if fate == "bad reply before any call":
        raise BadReply("no boxes")
    session.calls.append(CALL)
    if fate == "bad reply":
        raise BadReply("no boxes")
    if fate == "late failure":
        raise CallError(Failure.REFUSED, "no", key="key of the failure")
    if fate == "budget":
        raise BudgetUsedUp("the budget is used up: $1.0000 of $1")
    if fate == "rejected":
        raise Reject("too_hard", "said so")
    if fate == "defect":
        raise ZeroDivisionError("a defect")
    return f"done {element.id}"


async def with_calls_of(element: Draft, session: Session) -> Draft:
    session.calls.append(CALL)
    return replace(element, entities=("dog",))


async def fail_draft(element: Draft, session: Session) -> Draft:
    session.calls.append(CALL)
    raise CallError(Failure.TIMEOUT, "no reply in time", key="k")


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Callable[..., ModelsSettings]]:
    """Settings for an endpoint; what was opened for them is closed at the end."""
    made: list[ModelsSettings] = []

    def build(**endpoint: Any) -> ModelsSettings:
        fields = {"kind": "classical", "model": "colour", **endpoint}
        made.append(
            ModelsSettings(
                (("e", EndpointSettings(**fields)),),
                (("policy", "e"), ("judge", "e")),
                str(tmp_path / "r.sqlite"),
                str(tmp_path),
                str(tmp_path),
            )
        )
        return made[-1]

    yield build
    for settings in made:
        runtime().close(settings)


Outputs = dict[str, beam.PCollection]


def run(elements: list[Any], calls: beam.DoFn, check: Callable[[Outputs], None]) -> Any:
    """Run the stage on one bundle of elements in this process; ``check`` gets both outputs. Gives the result."""
    options = PipelineOptions(["--direct_running_mode=in_memory"])
    pipeline = beam.Pipeline("FnApiRunner", options=options)
    done = pipeline | beam.Create(elements) | beam.ParDo(calls).with_outputs(REJECTED, main="kept")
    check({"kept": done.kept, REJECTED: done[REJECTED]})
    result = pipeline.run()
    result.wait_until_finish()
    return result


def counters(result: Any) -> dict[tuple[str, str], int]:
    found = result.metrics().query(MetricsFilter())["counters"]
    return {(row.key.metric.namespace, row.key.metric.name): row.committed for row in found}


def expect(kept: list[Any], rejected: list[Any]) -> Callable[[Outputs], None]:
    def check(outputs: Outputs) -> None:
        assert_that(outputs["kept"], equal_to(kept), label="kept")
        assert_that(outputs[REJECTED], equal_to(rejected), label="rejected")

    return check


@pytest.mark.parametrize("in_flight", [1, 3, 64])
@pytest.mark.parametrize("count", [0, 1, 10])
def test_every_element_ends_once(models, in_flight, count) -> None:
    elements = items(count)
    kept = [f"done {n}" for n in range(count)]
    run(elements, CallModels(STAGE, work, models(), in_flight), expect(kept, []))


async def say_in_flight(element: Item, session: Session) -> list[int]:
    live = progress("stage")
    said = [live.in_flight]
    if element.fate == "asks":
        with one_in_flight():
            said.append(live.in_flight)
    return [*said, live.in_flight]


def test_an_elements_requests_are_in_flight_and_not_the_element(models) -> None:
    clear_board()
    elements = [Item("0"), Item("1", "asks"), Item("2")]
    run(elements, CallModels(STAGE, say_in_flight, models()), expect([[0, 0], [0, 1, 0], [0, 0]], []))


def test_a_slow_element_holds_nobody_up_and_is_not_lost(models) -> None:
    elements = [Item("0", "slow"), *items(6)[1:], Item("6", "slow")]
    run(elements, CallModels(STAGE, work, models(), 2), expect([f"done {n}" for n in range(7)], []))


@pytest.mark.parametrize("in_flight", [1, 64])
@pytest.mark.parametrize(
    ("fate", "reason", "detail", "key", "calls"),
    [
        ("call failed", "call_failed", "server_error: HTTP 500", "key of the failure", 0),
        ("late failure", "call_failed", "refused: no", "key of the failure", 1),
        ("bad reply", "unparsable_reply", "no boxes", "key of the call", 1),
        ("bad reply before any call", "unparsable_reply", "no boxes", None, 0),
        ("budget", "budget", "the budget is used up: $1.0000 of $1", None, 1),
        ("rejected", "too_hard", "said so", None, 1),
    ],
)
def test_failures_are_typed_rejections(models, in_flight, fate, reason, detail, key, calls) -> None:
    elements = [Item("a"), Item("b", fate), Item("c")]
    rejected = [Rejected("b", "stage", reason, detail, key, 0.5 * calls, (CALL,) * calls)]
    run(elements, CallModels(STAGE, work, models(), in_flight), expect(["done a", "done c"], rejected))


@pytest.mark.parametrize("in_flight", [1, 64])
def test_a_defect_fails_the_run(models, in_flight) -> None:
    with pytest.raises(Exception, match="a defect"):
        run([Item("a"), Item("b", "defect")], CallModels(STAGE, work, models(), in_flight), lambda _: None)


def test_a_rejected_draft_carries_what_it_has_cost(models) -> None:
    rejected = [Rejected("a", "stage", "call_failed", "timeout: no reply in time", "k", 1.5, (CALL,) * 3)]
    run([draft("a", CALL, CALL)], CallModels(STAGE, fail_draft, models()), expect([], rejected))


def test_a_kept_draft_has_all_calls(models) -> None:
    kept = [Draft(draft("a").question, entities=("dog",), calls=(CALL, CALL), passed=("stage",))]
    run([draft("a", CALL)], CallModels(STAGE, with_calls_of, models()), expect(kept, []))


def test_a_rejection_adds_up_the_cost() -> None:
    given = STAGE.rejected("a", Reject("no_entities", "none", "key"), [CALL, CALL])
    assert given == Rejected("a", "stage", "no_entities", "none", "key", 1.0, (CALL, CALL))


def test_a_reason_that_the_stage_does_not_declare_is_a_defect() -> None:
    with pytest.raises(ValueError, match="the stage stage does not declare the reason 'odd' of a rejection"):
        STAGE.rejected("a", Reject("odd", "said so"))


def test_a_call_that_the_description_does_not_name_fails_the_run(models) -> None:
    """Validation, capabilities and the card would not know of it."""
    silent = Stage("stage", "asks", asks=(Asks("teacher", ("other.v1",)),))
    with pytest.raises(Exception, match=r"the stage stage sends the prompt p\.v1 to the teacher"):
        run([Item("a")], CallModels(silent, work, models()), lambda _: None)


async def route_with_a_call(element: Draft, session: Session) -> Route:
    session.calls.append(CALL)
    return Route("aside", element)


def test_a_routed_draft_leaves_by_its_output_with_its_calls(models) -> None:
    pipeline = beam.Pipeline("FnApiRunner", options=Options(["--direct_running_mode=in_memory"]))
    calls = CallModels(STAGE, route_with_a_call, models())
    done = pipeline | beam.Create([draft("a", CALL)]) | beam.ParDo(calls).with_outputs("aside", main="kept")
    assert_that(done["aside"], equal_to([replace(draft("a", CALL, CALL), passed=("stage",))]))
    pipeline.run().wait_until_finish()


class Stamp(beam.DoFn):
    """The element with its timestamp and the start of its window, in seconds."""

    def process(self, element, timestamp=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
        name = element.id if isinstance(element, Rejected) else element.removeprefix("done ")
        yield name, timestamp.micros / 1e6, window.start.micros / 1e6


@pytest.mark.parametrize("in_flight", [1, 2, 64])
def test_results_keep_their_own_window_and_timestamp(models, in_flight) -> None:
    """Whether they leave while others arrive or when the bundle ends."""
    elements = [Item(str(n), "call failed" if n % 3 == 0 else "slow" if n % 3 == 1 else "") for n in range(9)]
    pipeline = beam.Pipeline("FnApiRunner", options=Options(["--direct_running_mode=in_memory"]))
    done = (
        pipeline
        | beam.Create([TimestampedValue(element, 7 * int(element.id)) for element in elements])
        | beam.Map(lambda stamped: stamped)
        | beam.WindowInto(FixedWindows(10))
        | beam.ParDo(CallModels(STAGE, work, models(), in_flight)).with_outputs(REJECTED, main="kept")
    )
    stamped = (done.kept, done[REJECTED]) | beam.Flatten() | beam.ParDo(Stamp())
    expected = [(str(n), 7.0 * n, float(7 * n // 10 * 10)) for n in range(9)]
    assert_that(stamped | "Together" >> beam.WindowInto(GlobalWindows()), equal_to(expected))
    pipeline.run().wait_until_finish()


def test_what_is_counted_for_display(models) -> None:
    elements = [Item("a"), Item("b"), Item("c", "bad reply"), Item("d", "call failed"), Item("e", "rejected")]
    assert counters(run(elements, CallModels(STAGE, work, models()), lambda _: None)) == {
        ("stage/stage", "in"): 5,
        ("stage/stage", "kept"): 2,
        ("rejected/stage", "unparsable_reply"): 1,
        ("rejected/stage", "call_failed"): 1,
        ("rejected/stage", "too_hard"): 1,
    }


async def ask_judge(element: Draft, session: Session) -> Draft:
    prompt = load_prompt("judge_answer.v1").render(question="q", gold="g", predicted=element.id)
    await session.generate("policy", prompt, Sampling())
    return element


def test_a_draft_carries_its_stage_and_its_calls(models) -> None:
    """What the funnel and the ledger are summed over; a call that failed is one too."""
    asks = replace(STAGE, asks=(Asks("policy", ("judge_answer.v1",)),))

    def check(outputs: Outputs) -> None:
        ends = (outputs["kept"], outputs[REJECTED]) | beam.Flatten()
        seen = ends | beam.Map(lambda end: (end.id, [(c.role, c.stage, len(c.keys)) for c in end.calls]))
        assert_that(seen, equal_to([("a", [("policy", "stage", 0)])]), label="calls")
        assert_that(outputs["kept"], equal_to([]), label="none")

    run([draft("a")], CallModels(asks, ask_judge, models(model="edges")), check)


async def ask_policy(element: Item, session: Session) -> str:
    prompt = load_prompt("judge_answer.v1").render(question="q", gold="g", predicted=element.id)
    return (await session.generate("policy", prompt, Sampling())).text


def test_the_embedded_engine_in_a_stage(models) -> None:
    detail = "unsupported: the embedded engine 'edges' cannot answer the prompt judge_answer.v1"

    def check(outputs: Outputs) -> None:
        seen = outputs[REJECTED] | beam.Map(lambda r: (r.id, r.reason, r.detail, len(r.cache_key)))
        assert_that(seen, equal_to([("a", "call_failed", detail, 64)]))

    run([Item("a")], CallModels(STAGE, ask_policy, models(model="edges")), check)


def keep_a(element: Draft) -> Draft:
    if element.id != "a":
        raise Reject("too_hard", "said so", "key")
    return replace(element, entities=("dog",))


def test_plain_work() -> None:
    rejected = [Rejected("b", "stage", "too_hard", "said so", "key", 0.5, (CALL,))]
    kept = [replace(draft("a"), entities=("dog",), passed=("stage",))]
    result = run([draft("a"), draft("b", CALL)], RunWork(STAGE, keep_a), expect(kept, rejected))
    assert counters(result)["stage/stage", "in"] == 2
    assert counters(result)["stage/stage", "kept"] == 1
    assert counters(result)["rejected/stage", "too_hard"] == 1


def test_items_cross_a_shuffle() -> None:
    coder = registry.get_coder(Item)
    assert coder.decode(coder.encode(Item("a", "b"))) == Item("a", "b")
