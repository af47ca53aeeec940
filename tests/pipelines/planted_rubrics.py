"""A policy, a teacher and a judge whose behaviour is planted: how often rubrics apply, are met, and answers are right.

Each decision is drawn from a hash of seed, question and rubric, so that a seed is one population.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundtrace.schemas.ordering import unit_hash

_NUMBER = re.compile(r"\(question (\d+)\)")
Rates = tuple[float, float]
"""How often a rubric applies, and how often it is met where it does."""


@dataclass(frozen=True)
class Plant:
    """What is planted: for each rubric its rates, and how often the policy is right."""

    rubrics: Mapping[str, Rates]
    right: float
    seed: int = 0

    def is_right(self, question: str) -> bool:
        """Whether the policy answers the question right."""
        return unit_hash(question, self.seed, "right") < self.right

    def score(self, rubric: str, question: str) -> int | None:
        """The judge's word on a rubric; None where it does not apply."""
        applicable, met = self.rubrics[rubric]
        if unit_hash(question, self.seed, f"applies {rubric}") >= applicable:
            return None
        return int(unit_hash(question, self.seed, f"met {rubric}") < met)

    def answer(self, _: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The reply to a chat request, by what it asks."""
        content = body["messages"][-1]["content"]
        text = "\n".join(part.get("text", "") for part in content)
        says = (
            self._candidates if "Write 20 criteria" in text else self._scores if "CRITERIA: " in text else self._tried
        )
        message = {"role": "assistant", "content": says(text)}
        choices = [{"index": i, "message": message, "finish_reason": "stop"} for i in range(body.get("n", 1))]
        return 200, {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 10}}

    def _candidates(self, _: str) -> str:
        rows = [{"id": name, "description": f"{name}?", "criteria": f"1 when {name}, else 0."} for name in self.rubrics]
        rows.append({"id": "final_answer_correct", "description": "Is it right?", "criteria": "1 when right, else 0."})
        return json.dumps({"rubrics": rows})

    def _tried(self, text: str) -> str:
        [number] = _NUMBER.findall(text)
        return f"<think>I count.</think><answer>{3 if self.is_right(number) else 4}</answer>"

    def _scores(self, text: str) -> str:
        [number] = _NUMBER.findall(text)
        [listed] = re.findall(r"CRITERIA: (\[.*\])\n", text)
        rows = []
        for rubric in json.loads(listed):
            score = self.score(rubric["id"], number)
            said = {"applicable": score is not None, "rationale": "as it is seen", "score": score}
            rows.append({"id": rubric["id"], **said})
        return json.dumps({"scores": rows})


def write_questions(
    count: int, folder: Path, write_scene: Callable[..., Path], write_records: Callable[..., Path]
) -> Path:
    """So many questions about four scenes of three squares."""
    scenes = [write_scene(folder / f"scene{number}.png", width=160 + number) for number in range(min(count, 4))]
    rows = [
        {"id": f"q{number}", "media": [scenes[number % 4].name], "question": f"How many squares? (question {number})"}
        for number in range(count)
    ]
    return write_records(folder, rows)


def played_by(url: str) -> list[str]:
    """The options by which the server at ``url`` plays policy, teacher and judge."""
    fields = {"kind": "openai", "model": "m", "base_url": url, "frame": "px", "multi_image": "true"}
    named = {f"endpoints.far.{name}": value for name, value in fields.items()}
    named |= dict.fromkeys(("roles.policy", "roles.teacher", "roles.judge"), "far")
    return [word for name, value in named.items() for word in ("--set", f"{name}={value}")]
