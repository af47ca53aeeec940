"""Worker processes that ask one server, with one cache and, if they are to, one budget."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CODE = """
import asyncio, json, sys
from groundtrace.inference.errors import BudgetUsedUp, CallError, RunStopped
from groundtrace.inference.models import Models
from groundtrace.inference.request import Sampling
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.prompts.loader import load_prompt

given = json.loads(sys.argv[1])

async def main():
    endpoint = EndpointSettings("openai", "tiny", base_url=given["url"], **given["limits"])
    folder, run = given["folder"], given["run"]
    models = Models(ModelsSettings((("e", endpoint),), (("policy", "e"),), folder + "/cache/replies.sqlite", folder,
                                   run, budget_tokens=given["tokens"], notes=given["notes"]))
    texts, failed, names = {}, [], iter(given["asked"])
    prompt = load_prompt("judge_answer.v1")

    async def caller():
        for name in names:
            rendered = prompt.render(question="How many?", gold="3", predicted=name)
            try:
                texts[name] = (await models.generate("policy", rendered, Sampling())).text
            except (BudgetUsedUp, CallError, RunStopped) as error:
                failed.append(f"{type(error).__name__}: {error}")

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(caller() for _ in range(given["callers"])))
    await models.close()
    return {"texts": texts, "failed": failed}

print(json.dumps(asyncio.run(main())))
"""


class Worker:
    """One worker process. It begins when it is told to."""

    def __init__(self, given: dict[str, Any]) -> None:
        command = [sys.executable, "-c", CODE, json.dumps(given)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def said(self) -> dict[str, Any]:
        """Its replies by what it asked, and its failures, once it has ended."""
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return json.loads(out)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def workers(
    folder: Path,
    url: str,
    asked: Sequence[Sequence[str]],
    callers: int = 16,
    tokens: int | None = None,
    **limits: Any,
) -> Iterator[list[Worker]]:
    """A worker for each list of what is asked, all ready."""
    notes = str(folder / "notes") if tokens is not None else ""
    if notes:
        Path(notes).mkdir()
    given = {"url": url, "folder": str(folder), "run": str(folder), "notes": notes, "tokens": tokens}
    given |= {"callers": callers, "limits": limits}
    started = [Worker({**given, "asked": list(each)}) for each in asked]
    try:
        for worker in started:
            worker.wait_until_ready()
        yield started
    finally:
        for worker in started:
            if worker.process.poll() is None:
                worker.kill()
