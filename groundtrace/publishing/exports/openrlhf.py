"""Exports RL rows to OpenRLHF: JSON Lines with ``input``, ``label`` and ``images``.

OpenRLHF sends the label to the reward. The label is the row's reference: JSON text by which Groundtrace's reward finds
the row in its run. OpenRLHF keeps the image column in memory and resolves relative paths from its working directory. So
the images are files with absolute paths, and the run has to be exported again after the export folder is moved.
OpenRLHF's SFT does not use images, so only RL rows are written. OpenRLHF requests the reward of each response as soon
as this response is complete (``openrlhf/utils/agent.py`` of 0.11.2). But if a question has several streams (prompts),
the rewards of all its responses are computed together. So a run whose questions have several streams cannot be exported
to OpenRLHF.
"""

from pathlib import Path

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.client import reward_client
from groundtrace.publishing.exports.streams import whole_groups_only
from groundtrace.publishing.exports.writers import LinesWriter, Record


def open_rl(folder: Path, target: Target) -> LinesWriter:
    """Open a writer that writes RL rows for OpenRLHF's ``PromptDataset``, to ``rl.jsonl`` in ``folder``.

    The images are separate files. ``target`` describes the run and the model to be trained.
    """

    def record(row: ExportRow, images: list[str]) -> Record:
        return {
            "id": row.id,
            "datasource": row.fields.get("source") or "groundtrace",
            "input": list(row.turns),
            "label": row.reference(target),
            "images": [str(target.output / image) for image in images],
        }

    return LinesWriter(folder / "rl.jsonl", record)


OPENRLHF = ExportFormat(
    name="openrlhf",
    does="prompts for OpenRLHF, whose label is the reference that its remote reward is sent",
    open={"rl": open_rl},
    drops_added=("rl",),
    beside=reward_client,
    check=whole_groups_only("OpenRLHF"),
)
