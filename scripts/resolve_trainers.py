"""Prints, for each trainer that has an example, whether it can be installed beside this checkout, as a Markdown table.

Usage: python scripts/resolve_trainers.py [TRAINER==VERSION …]

``uv pip compile`` resolves both together, from the registry that uv is configured for; nothing is installed. If no
versions fit, the last column holds uv's message about this package.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRAINERS = ("trl==1.16.0", "verl==0.9.1", "ms-swift==4.6.0", "openrlhf==0.11.2", "llamafactory==0.9.5")
SHOWN = ("datasets", "huggingface-hub", "transformers")
OURS = re.compile(r"groundtrace==\S+\s+depends\s+on\s+([\w-]+(?:\[[\w,-]+\])?[<>=!~][^\s]*)")


def main(trainers: list[str]) -> int:
    """Print the table; returns 2 if uv is not installed."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        print("resolve_trainers: there is no uv: pip install uv", file=sys.stderr)
        return 2
    print(f"| trainer | beside groundtrace | {' | '.join(SHOWN)} |")
    print("|---|---|" + "---|" * len(SHOWN))
    for trainer in trainers:
        print(line_of(trainer, resolved(uv, trainer)), flush=True)
    return 0


def resolved(uv: str, trainer: str) -> tuple[bool, str]:
    """Return whether both have versions that fit, and the output of uv."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.in"
        wanted.write_text(f"groundtrace @ {ROOT.as_uri()}\n{trainer}\n", "utf-8")
        command = [uv, "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python", sys.executable]
        command += ["--refresh-package", "groundtrace", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr


def line_of(trainer: str, found: tuple[bool, str]) -> str:
    """Return a line of the table. Raises RuntimeError for an error of uv other than a conflict of versions."""
    fits, output = found
    if fits:
        versions = dict(line.split("==", 1) for line in output.splitlines() if "==" in line)
        return f"| {trainer} | yes | {' | '.join(versions.get(name, '') for name in SHOWN)} |"
    ours = OURS.search(output)
    if "No solution found" not in output or ours is None:
        raise RuntimeError(f"uv cannot resolve {trainer}: {output[-2000:]}")
    return f"| {trainer} | no: we need {ours[1].rstrip(',')} |{' |' * len(SHOWN)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(TRAINERS)))
