"""The judges on the card: as judges.json says, and nothing where there is none."""

import json
from pathlib import Path

from groundtrace.publishing.judge_agreement import JudgeRow, judge_rows
from groundtrace.rewards.scorers.thinking import LOGIC
from groundtrace.stages.measure_judges import Judgement, JudgeReport, MeasuredTrace, judges_json


def test_rows(tmp_path: Path) -> None:
    assert judge_rows(tmp_path) == []
    said = [Judgement(LOGIC, False, 1.0)] * 3 + [Judgement(LOGIC, False, 0.0), Judgement(LOGIC, True, None)]
    (tmp_path / "judges.json").write_text(judges_json(JudgeReport((MeasuredTrace(tuple(said), ()),))), "utf-8")
    assert judge_rows(tmp_path) == [
        JudgeRow("logic", "3 of 4 (0.30 to 0.95)", "none judged", 1),
        JudgeRow("grounding", "none judged", "none judged", 0),
        JudgeRow("consistency", "none judged", "none judged", 0),
    ]
    assert json.loads((tmp_path / "judges.json").read_text("utf-8"))["traces"] == 1
