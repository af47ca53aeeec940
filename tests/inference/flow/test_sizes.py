"""What a request is expected to take: as much as it may, until others of its prompt have come."""

from groundtrace.inference.flow.sizes import Sizes
from groundtrace.inference.request import Completion, Continuation, Reply, Request, Sampling, estimated_tokens
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.usage import Usage

PROMPT = load_prompt("judge_answer.v1").render(question="How many?", gold="3", predicted="three")


def request(n: int = 1, max_tokens: int = 500, continuation: Continuation | None = None) -> Request:
    return Request(PROMPT, Sampling(n=n, max_tokens=max_tokens), tuple(range(n)), continuation)


def reply(samples: int, tokens_in: int, tokens_out: int) -> Reply:
    return Reply((Completion("a"),) * samples, Usage(requests=1, tokens_in=tokens_in, tokens_out=tokens_out))


def test_before_the_first_reply_it_is_as_much_as_it_may_be() -> None:
    assert Sizes().expected(request(), 4) == estimated_tokens(PROMPT) + 4 * 500


def test_a_continuation_makes_no_tokens() -> None:
    assert Sizes().expected(request(continuation=Continuation("so", "3")), 1) == estimated_tokens(PROMPT)


def test_then_it_is_what_others_of_its_prompt_took() -> None:
    sizes = Sizes()
    sizes.saw(request(2), reply(2, tokens_in=900, tokens_out=60))
    sizes.saw(request(1), reply(1, tokens_in=1100, tokens_out=30))
    assert sizes.expected(request(), 1) == 1000 + 30
    assert sizes.expected(request(8), 8) == 1000 + 240
