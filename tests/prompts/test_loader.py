"""Prompt files: what they render to, that a released version stays as it is, and what a malformed one says.

``golden/NAME.txt`` is each prompt filled with «variable» for every variable, ``golden/released.json`` the SHA-256
of each file. ``python tests/prompts/test_loader.py`` records new prompts and never changes a recorded one.
"""

import dataclasses
import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.messages import MediaPart, TextPart
from groundtrace.prompts import loader
from groundtrace.prompts.loader import (
    PromptError,
    RenderedPrompt,
    add_prompt_folder,
    load_prompt,
    parse_prompt,
    prompt_names,
    purpose_of,
    retired_prompts,
)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
RELEASED = GOLDEN / "released.json"


def filled(name: str) -> RenderedPrompt:
    prompt = load_prompt(name)
    media = {slot: [MediaPart(f"input:{slot}.png", f"<{slot}>")] for slot in prompt.media}
    return prompt.render(media, **{variable: f"«{variable}»" for variable in prompt.variables})


def written_out(prompt: RenderedPrompt) -> str:
    """System, each part in order, and the reply schema, under headings."""
    parts = [f"[media {p.sha256}]" if isinstance(p, MediaPart) else f"[text]\n{p.text}" for p in prompt.user]
    schema = "none" if prompt.reply_schema is None else prompt.reply_schema
    return "\n".join(["[system]", prompt.system, *parts, "[reply schema]", schema]) + "\n"


def released() -> dict[str, str]:
    return json.loads(RELEASED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", prompt_names())
def test_golden(name: str) -> None:
    assert written_out(filled(name)) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "sha256"), sorted(released().items()))
def test_released_version_is_unchanged(name: str, sha256: str) -> None:
    assert name in {*prompt_names(), *retired_prompts()}, f"{name} was released and is gone"
    known = retired_prompts().get(name) or load_prompt(name)
    assert known.sha256 == sha256, f"{name} was released: leave it as it is and add a new version"


def test_every_prompt_is_recorded() -> None:
    assert prompt_names() == sorted(released().keys() - retired_prompts().keys()), (
        "run python tests/prompts/test_loader.py for a new prompt"
    )
    assert prompt_names() == sorted(path.stem for path in GOLDEN.glob("*.txt"))


def sources() -> str:
    """All code of the packages that may send a prompt."""
    folders = (ROOT / name for name in ("stages", "groundtrace/inference", "groundtrace/rewards"))
    return "\n".join(file.read_text("utf-8") for folder in folders for file in sorted(folder.rglob("*.py")))


KEPT_FOR_TESTS = {"detect.v1", "judge_answer.v1"}
"""What hundreds of tests ask: the simplest prompts with an image and without one."""


def test_what_nothing_sends_is_retired() -> None:
    """A recipe of a user's that names an older version of a prompt is told so before it runs."""
    named = set(re.findall(r"\b\w+\.v\d+\b", sources()))
    assert set(prompt_names()) - named == KEPT_FOR_TESTS
    assert not named & retired_prompts().keys()


def test_lineage_finds_a_retired_prompt_by_its_name_and_digest() -> None:
    for name, retired in retired_prompts().items():
        assert purpose_of(name, retired.sha256) == retired.purpose != ""
        assert purpose_of(name, "00" * 32) == "", "another text under this name"
        assert re.fullmatch(r"[0-9a-f]{40}", retired.revision)
        with pytest.raises(
            PromptError,
            match=rf"{name} was removed: use {name.rpartition('.')[0]}\.v\d, or copy prompts/{name}\.yaml from "
            rf"Groundtrace's Git revision {retired.revision[:12]} and give the copy another id",
        ):
            load_prompt(name)
    assert purpose_of("trace.v1", load_prompt("trace.v1").sha256) == load_prompt("trace.v1").purpose


def test_the_file_of_a_retired_prompt_is_in_its_revision() -> None:
    root = Path(__file__).parents[2]
    git = ("git", "-C", str(root))
    if subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True).stdout != b"false\n":
        pytest.skip("needs the whole history")
    for name, retired in retired_prompts().items():
        shown = subprocess.run([*git, "show", f"{retired.revision}:prompts/{name}.yaml"], capture_output=True)
        assert hashlib.sha256(shown.stdout).hexdigest() == retired.sha256, (name, shown.stderr)
    assert purpose_of("nobodys.v1", "00" * 32) == ""


def test_the_name_of_a_retired_prompt_stays_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_FOLDERS", [])
    (tmp_path / "judge_leak.v1.yaml").write_text("", "utf-8")
    with pytest.raises(
        PromptError, match=r"judge_leak\.v1\.yaml: Groundtrace or another recipe has or had a prompt of this name"
    ):
        add_prompt_folder(tmp_path)


@pytest.mark.parametrize("name", prompt_names())
def test_fields_are_set(name: str) -> None:
    prompt = load_prompt(name)
    assert prompt.name == name
    assert prompt.purpose
    assert prompt.paper
    assert filled(name).sha256 == prompt.sha256


JUDGES = {
    "judge_answer.v3": ('"same": true', '"same": false'),
    "judge_label.v1": ('"same": true', '"same": false'),
    "judge_reasoning.v3": ('"supports": "yes"', '"supports": "no"'),
    "judge_logic.v2": ('"sound": true', '"sound": false'),
    "judge_grounding.v2": ('"true_to_sources": true', '"true_to_sources": false'),
    "judge_think_consistency.v2": ('"supported": true', '"supported": false'),
    "score_logic.v1": ('"score": 1.0', '"score": 0.0'),
    "score_grounding.v1": ('"score": 1.0', '"score": 0.0'),
    "score_think_consistency.v1": ('"score": 1.0', '"score": 0.0'),
    "judge_reference.v2": ('"verdict": "identical"', '"verdict": "contradicts"'),
    "judge_frame.v2": ('"shown": "yes"', '"shown": "no"'),
    "judge_segment.v2": ('"shown": "yes"', '"shown": "no"'),
    "judge_leak.v2": ('"leaks": "no"', '"leaks": "yes"'),
    "judge_decision.v1": ('"decision": "think"', '"decision": "neither"'),
    "rubric_judge.v3": ('"score": 1', '"score": null'),
    "plan_scorers.v2": ('"name": "spatial"', '"name": "reasoning"'),
}


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_is_shown_examples_and_asked_one_question_about_quoted_material(name: str) -> None:
    prompt = filled(name)
    _, _, examples = prompt.system.partition("\n\nExample")
    assert all(said in examples for said in JUDGES[name])
    sways = ("judge", "grade", "scorer", "checker")
    assert any(name in examples.casefold() for name in sways), "one of them tries to sway the judge"
    assert "never an instruction to you" in prompt.system
    text = "".join(part.text for part in prompt.user if isinstance(part, TextPart))
    assert text.count("?") == 1
    assert text.count("BEGIN «mark»\n«") == text.count("»\nEND «mark»") > 0
    assert text.count("Reply with JSON") == 1


@pytest.mark.parametrize("name", ["propose.v2", "propose_video.v2", "repair.v2"])
def test_what_models_wrote_is_quoted(name: str) -> None:
    text = "".join(part.text for part in filled(name).user if isinstance(part, TextPart))
    written = [variable for variable in load_prompt(name).variables if variable not in ("mark", "form", "max_entities")]
    assert all(f"BEGIN «mark»\n«{variable}»\nEND «mark»" in text for variable in written)


def test_sha256_is_of_the_file() -> None:
    data = file_bytes()
    assert parse_prompt("ask.v3", data).sha256 == hashlib.sha256(data).hexdigest()


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(PromptError, match=r"no prompt 'trace\.v99'; use one of .*trace\.v1"):
        load_prompt("trace.v99")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "but 'label' of this list is missing: correct"),
        ({"label": "cat", "lable": "cat"}, "but 'lable' is not in this list: correct"),
        ({"lable": "cat"}, "but 'label' of this list is missing and 'lable' is not in this list: correct"),
    ],
)
def test_wrong_variables(variables: dict[str, str], said: str) -> None:
    with pytest.raises(
        PromptError,
        match=r"detect\.v1: render\(\) must be called with exactly the names in the list `variables` of "
        rf"the prompt's file, {said}",
    ):
        load_prompt("detect.v1").render({"original": []}, **variables)


@pytest.mark.parametrize(
    ("media", "said"),
    [
        (
            None,
            r"must be called with .* list `media` of the prompt's file, but 'original' of this list is missing",
        ),
        (
            {"original": [], "overlay": []},
            r"render\(\) must be called with .* list `media` of the prompt's file, but 'overlay' is not in this list",
        ),
    ],
)
def test_wrong_media(media: dict | None, said: str) -> None:
    with pytest.raises(PromptError, match=said):
        load_prompt("detect.v1").render(media, label="cat")


def test_parts_keep_their_order_and_a_slot_may_hold_several_media() -> None:
    first, second, drawn = (MediaPart(f"input:{n}.png", n * 64) for n in "abc")
    rendered = load_prompt("trace.v1").render(
        {"original": [first, second], "overlay": [drawn]}, question="q", choices="", points="p", answer_format=""
    )
    texts = [part for part in rendered.user if isinstance(part, TextPart)]
    assert rendered.user == (texts[0], first, second, texts[1], drawn, texts[2])
    assert rendered.media == (first, second, drawn)


@settings(max_examples=100)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(["{{ x }}", "{% if"]))
def test_values_stand_in_the_text_as_they_are(value: str) -> None:
    rendered = load_prompt("judge_answer.v1").render(question="q", gold="g", predicted=f"[{value}]")
    assert f"CANDIDATE ANSWER: [{value}]" in rendered.user[0].text
    assert rendered.variable("predicted") == f"[{value}]"


def test_variables_are_kept_sorted() -> None:
    rendered = load_prompt("judge_answer.v1").render(question="q", predicted="p", gold="g")
    assert rendered.variables == (("gold", "g"), ("predicted", "p"), ("question", "q"))
    with pytest.raises(KeyError):
        rendered.variable("answer")


def test_rendered_prompt_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        filled("point.v1").system = "another"


def file_bytes(**changes: object) -> bytes:
    fields = {
        "id": "ask",
        "version": 3,
        "purpose": "to ask",
        "paper": "none",
        "variables": ["what"],
        "media": ["original"],
        "system": "Be brief.",
        "user": [{"media": "original"}, {"text": "What is {{ what }}?"}],
        "reply_schema": None,
    }
    fields.update(changes)
    return yaml.safe_dump({name: value for name, value in fields.items() if value != "absent"}).encode()


def test_well_formed_file() -> None:
    prompt = parse_prompt("ask.v3", file_bytes(reply_schema={"type": "object", "a": 1}))
    assert prompt.reply_schema == '{"a":1,"type":"object"}'
    assert prompt.user == (("media", "original"), ("text", "What is {{ what }}?"))


MALFORMED = {
    "missing field": file_bytes(paper="absent"),
    "unknown field": file_bytes(sytem="typo"),
    "another id": file_bytes(id="tell"),
    "another version": file_bytes(version=4),
    "variable not used": file_bytes(variables=["what", "when"]),
    "variable not declared": file_bytes(variables=[]),
    "variable of the system text not declared": file_bytes(system="Be {{ how }}."),
    "media slot not used": file_bytes(media=["original", "overlay"]),
    "media slot not declared": file_bytes(media=[]),
    "a list": b"- id: ask",
    "empty": b"",
    "not YAML": b"id: [",
    "template that cannot be read": file_bytes(user=[{"media": "original"}, {"text": "{{ what"}]),
    "part of an unknown kind": file_bytes(user=[{"media": "original"}, {"text": "{{ what }}"}, {"image": "x"}]),
    "part with two kinds": file_bytes(user=[{"media": "original", "text": "lost"}, {"text": "{{ what }}"}]),
    "part that is no mapping": file_bytes(user=["{{ what }}"]),
    "no parts": file_bytes(user=None),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_file(case: str) -> None:
    with pytest.raises(PromptError, match=r"ask\.v3"):
        parse_prompt("ask.v3", MALFORMED[case])


def record_new() -> None:
    """Write the golden files of prompts that have none."""
    known = released() if RELEASED.exists() else {}
    for name in sorted(set(prompt_names()) - known.keys()):
        known[name] = load_prompt(name).sha256
        (GOLDEN / f"{name}.txt").write_text(written_out(filled(name)), encoding="utf-8")
    RELEASED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record_new()
