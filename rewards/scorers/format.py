"""The format reward (SAIL-RL Eq. 1, iVGR §3.2): are the sections of the response as asked for?"""

from rewards.case import Case
from rewards.scorer import Scorer
from schemas.records import Verdict
from schemas.responses.response import Response

NAME = "format"


def score_format(response: Response) -> Verdict:
    """1 when the sections are as :attr:`schemas.responses.response.Response.has_format` says, else 0."""
    reason = "the sections are as asked for" if response.has_format else "the sections are not as asked for"
    return Verdict(NAME, float(response.has_format), reason)


async def _score(case: Case) -> Verdict:
    return score_format(case.response)


SCORER = Scorer(NAME, "every response has a form", _score)
