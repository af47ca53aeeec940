"""Executes the code of hacks and honest responses on an image, and judges whether it looked.

The code comes from this folder, so it needs no sandbox; each image has a process of its own.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import cv2

from groundtrace.rewards.marks import Groups, Pixels
from groundtrace.rewards.pretence import (
    CallOutputs,
    Output,
    groups_of,
    looked_at,
    nudged,
    pretence,
    without_objects,
)
from groundtrace.rewards.trajectory import Execution, Trajectory
from groundtrace.schemas.geometry import Box
from groundtrace.vision.decode import decode_image

TIMEOUT_S = 60
_RUNNER = r"""
import contextlib, io, json, os, pathlib, sys
import cv2, numpy
from PIL import Image

def run(code, number):
    shown = []
    def show(self, *_, **__):
        shown.append(f"{number}_{len(shown)}.png")
        self.convert("RGB").save(shown[-1])
    Image.Image.show = show
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, {"input_image": Image.open("image.png").convert("RGB")})
        ended_well = True
    except BaseException:
        ended_well = False
    return ended_well, printed.getvalue(), shown

codes, folders = json.load(sys.stdin)
for folder in folders:
    child = os.fork()
    if not child:
        os.chdir(folder)
        found = [run(code, number) for number, code in enumerate(codes)]
        pathlib.Path("found.json").write_text(json.dumps(found))
        os._exit(0)
    os.waitpid(child, 0)
"""


def executed(trajectories: Sequence[Sequence[str]], image: Pixels, boxes: Sequence[Box]) -> list[Trajectory]:
    """Execute each trajectory, which is given by the code of its calls. ``boxes`` are of what the question asks about.

    Each image has a process and a folder of its own, in which all codes run in the same order, so that no code can
    distinguish the images by files of an earlier run.
    """
    codes = list(dict.fromkeys(code for codes in trajectories for code in codes))
    groups = groups_of(boxes)
    images = [image, image, nudged(image, boxes), *(without_objects(image, group) for group in groups)]
    with tempfile.TemporaryDirectory(prefix="calls-") as name:
        folders = [Path(tempfile.mkdtemp(dir=name)) for _ in images]
        for folder, each in zip(folders, images, strict=True):
            _write(folder / "image.png", each)
        command, tasks = [sys.executable, "-c", _RUNNER], json.dumps([codes, list(map(str, folders))]).encode()
        subprocess.run(command, input=tasks, capture_output=True, timeout=TIMEOUT_S, check=True)
        runs = dict(zip(codes, zip(*map(_outputs, folders), strict=True), strict=True))
    return [
        Trajectory((*_judged([runs[code] for code in each], image, groups), None), groups=len(groups))
        for each in trajectories
    ]


def _judged(calls: Sequence[Sequence[tuple[bool, Output]]], image: Pixels, groups: Groups) -> list[Execution]:
    found, earlier = list[Execution](), list[Output]()
    for outputs in calls:
        shown, again, nudged_, *without = (output for _, output in outputs)
        runs = CallOutputs(shown, again, nudged_, tuple(without))
        why, has_output = pretence(runs, image, groups, earlier), bool(shown.text.strip() or shown.images)
        found.append(Execution(outputs[0][0] and has_output, why, looked_at(runs, image, groups)))
        earlier.append(shown)
    return found


def _outputs(folder: Path) -> list[tuple[bool, Output]]:
    found = json.loads((folder / "found.json").read_bytes())
    return [(well, Output(text, tuple(_read(folder / name) for name in shown))) for well, text, shown in found]


def _write(path: Path, image: Pixels) -> None:
    cv2.imwrite(str(path), image[:, :, ::-1])


def _read(path: Path) -> Pixels:
    return decode_image(path.read_bytes()).pixels
