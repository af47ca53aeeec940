"""The process of a replay: without a pipeline that the user named, it has no secrets of the user."""

import pytest

from groundtrace.publishing.view.replays import environment_of


@pytest.mark.parametrize(("pipeline", "has_keys"), [("", False), ("grounded_cot", True)])
def test_only_a_named_pipeline_gets_the_keys_of_the_environment(
    pipeline: str, has_keys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "HF_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "my_token")
    for name in secrets:
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.setenv("PATH", "/bin")
    made = environment_of(pipeline)
    assert [name in made for name in secrets] == [has_keys] * len(secrets)
    assert made["PATH"] == "/bin" and made.get("HF_HUB_OFFLINE") == (None if has_keys else "1")
