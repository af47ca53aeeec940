"""A recipe like ``grounded_cot``, whose policy need not be called: each question gets right attempts at once.

The main job's benchmark runs it, to measure the CPU time that the command takes outside the attempt stage.
"""

from dataclasses import dataclass, replace

from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines import grounded_cot
from groundtrace.schemas.records import Attempt, Draft
from groundtrace.stages import attempt_questions
from groundtrace.stages.attempt_questions import AttemptSettings
from groundtrace.stages.plumbing.stage import DraftStage, Work


def answer_rightly(draft: Draft) -> Draft:
    """Return the draft (a question with its data) with two right attempts, as the scripted server's answers are."""
    answer = draft.question.answer
    attempt = Attempt(f"<think>I look.</think><answer>{answer}</answer>", answer, True, "equal", "")
    return replace(draft, attempts=(attempt, attempt))


@dataclass
class RightAttempts(DraftStage):
    """Stage with the name of the attempt stage, and without its calls."""

    settings: AttemptSettings
    models: ModelsSettings
    stage = attempt_questions.STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data)."""
        return answer_rightly


grounded_cot.AttemptQuestions = RightAttempts
RECIPE = replace(grounded_cot.RECIPE, name="without_attempts")
