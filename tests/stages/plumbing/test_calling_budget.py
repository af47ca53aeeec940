"""What calls over HTTP leave in the ledger when they fail, and how a stage ends when the budget is used up."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to

from groundtrace.inference.flow.notes import Paid, paid_in
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.scorers.outcome import score_outcome
from groundtrace.schemas.records import Draft, Rejected
from groundtrace.stages.plumbing.calling import CallModels
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.stage import REJECTED, Stage

from ..matching import assert_that

STAGE = Stage("stage", "asks", asks=(Asks("judge", ("judge_answer.v1", "judge_answer.v3")),))
SAID = '{"reason": "the same", "same": true}'
PARAPHRASE = "he sits on the back of a galloping brown animal"


async def judge(draft: Draft, session: Session) -> Draft:
    prompt = load_prompt("judge_answer.v1").render(question="q", gold="g", predicted=draft.id)
    await session.generate("judge", prompt, Sampling())
    return draft


async def score(draft: Draft, session: Session) -> str:
    verdict = await score_outcome(draft.question, PARAPHRASE, session)
    return f"{draft.id} {verdict.value}"


def run(drafts: list[Draft], work: Any, models: ModelsSettings, kept: list[Any], rejected: list[Any]) -> dict[Any, int]:
    """Run the stage, assert what leaves it as (id, calls) and (id, reason, calls), and give the run's counters."""
    pipeline = beam.Pipeline(FnApiRunner(), Options([]))
    calls = CallModels(STAGE, work, models)
    done = pipeline | beam.Create(drafts) | beam.ParDo(calls).with_outputs(REJECTED, main="kept")
    assert_that(done.kept | "Show" >> beam.Map(shown), equal_to(kept), label="kept")
    assert_that(done[REJECTED] | "ShowRejected" >> beam.Map(shown_rejected), equal_to(rejected), label="rejected")
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter())["counters"]
    return {(row.key.metric.namespace, row.key.metric.name): row.committed for row in found}


def poorer(models: ModelsSettings, usd: float | None = None) -> ModelsSettings:
    """The settings of a run that may take one token, as whoever starts it makes them."""
    poor = replace(models, budget_usd=usd, budget_tokens=1, notes=f"{models.run_root}/poor")
    Path(poor.notes).mkdir(parents=True, exist_ok=True)
    return poor


def paid_of(models: ModelsSettings) -> list[Paid]:
    return list(paid_in(Path(models.notes)))


def requests_of(models: ModelsSettings) -> int:
    return sum(each.requests for each in paid_of(models))


def shown(kept: Any) -> Any:
    return (kept.id, len(kept.calls)) if isinstance(kept, Draft) else kept


def shown_rejected(found: Rejected) -> tuple[str, str, int]:
    return found.id, found.reason, len(found.calls)


def test_a_call_beyond_the_budget_is_a_typed_rejection(models, make_draft) -> None:
    poor = models("judge", says=lambda *_: SAID)
    poor = poorer(poor)
    counters = run([make_draft("a"), make_draft("b")], judge, poor, [], [("a", "budget", 1), ("b", "budget", 1)])
    assert counters["rejected/stage", "budget"] == 2
    assert requests_of(poor) == 0


def test_what_the_cache_has_is_served_beyond_the_budget(models, make_draft) -> None:
    rich = models("judge", says=lambda *_: SAID)
    run([make_draft("a")], judge, rich, [("a", 1)], [])
    poor = poorer(rich)
    run([make_draft("a"), make_draft("b")], judge, poor, [("a", 1)], [("b", "budget", 1)])
    assert requests_of(poor) == 0


def test_a_scorer_does_not_take_a_used_up_budget_for_a_failed_judge(models, make_draft) -> None:
    """It would leave the answer unscored, and the record would end as if it could not be verified."""
    draft = make_draft("a", answer="riding a horse", answer_type="text")
    rich = models("judge", says=lambda *_: SAID)
    run([draft], score, poorer(rich, usd=0.0), [], [("a", "budget", 1)])
    run([draft], score, rich, ["a 1.0"], [])


class _Broken(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(500)
        self.send_header("retry-after", "0")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def broken() -> Iterator[EndpointSettings]:
    """An endpoint whose server answers everything with status 500."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Broken) as http:
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield EndpointSettings("openai", "m", base_url=f"http://127.0.0.1:{http.server_port}/v1", max_retries=2)
        http.shutdown()


def test_the_ledger_counts_the_requests_of_a_failed_call(
    models: Callable[..., ModelsSettings], make_draft: Callable[..., Draft], broken: EndpointSettings
) -> None:
    settings = models("judge")
    settings = replace(
        settings, endpoints=(("server", broken),), roles=(("judge", "server"),), notes=f"{settings.run_root}/notes"
    )
    run([make_draft("a")], judge, settings, [], [("a", "call_failed", 1)])
    assert [(each.requests, each.retries, each.replies, each.stage) for each in paid_of(settings)] == [
        (3, 2, 0, "stage")
    ]
