"""`[models]` and `[host]`: keys come from elsewhere, and names of models must exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.config.load import LoadedConfig, load


def loaded(folder: Path, text: str, **environ: str) -> LoadedConfig:
    path = folder / "interlock.toml"
    path.write_text(text)
    return load(path, home=folder / "home", environ=environ)


def test_a_model_has_its_key_from_elsewhere_and_without_it_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    (tmp_path / "key").chmod(0o600)
    text = """
        [models.one]
        kind = "anthropic"
        model = "m-1"
        key = "${env:ONE_KEY}"
        [models.two]
        model = "m-2"
        url = "${WHERE:-http://127.0.0.1:8000/v1}"
        key = "${file:key}"
        [models.three]
        model = "m-3"
        key = "${env:NOT_SET}"
        [models.toy]
        kind = "scripted"
        script = "answers.json"
    """
    found = loaded(tmp_path, text, ONE_KEY="sk-one")
    assert found.usable
    models = found.config.models
    assert (models["one"].key, models["two"].key) == ("sk-one", "from-a-file")
    assert models["two"].url == "http://127.0.0.1:8000/v1"
    assert models["toy"].script == str(tmp_path / "answers.json")
    assert "three" not in models
    (problem,) = found.problems
    assert problem.message == "model `three` needs the variable `NOT_SET`, which is not set"
    assert problem.line == 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[models.a]\nkind = "openai"', "does not name a model"),
        ('[models.a]\nkind = "scripted"', "has no `script`"),
        ('[models.a]\nmodel = "m"\nurl = "ftp://x"', "must begin with http"),
        ('[models.a]\nmodel = "m"\nkind = "opnai"', 'must be one of "openai", "anthropic", "scripted"'),
        ('[host]\nmodel = "b"', "there is no model `b`"),
        ('[host.inference]\ndefault = "b"', "there is no model `b`"),
        ('[models.a]\nmodel = "m"\n[host.inference]\nroutes = { "x.*" = "b" }', "there is no model `b`"),
        ('[models.a]\nmodel = "m"\n[host.inference]\npins = { conv_1 = "b" }', "there is no model `b`"),
        ('[models.a]\nmodel = "m"\n[host.inference]\nroutes = { "" = "a" }', "is no pattern"),
    ],
)
def test_what_cannot_be_meant_is_reported_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    found = loaded(tmp_path, text)
    assert not found.usable
    assert any(message in problem.message for problem in found.problems), found.problems


def test_a_channel_without_any_model_is_reported_with_its_place(tmp_path: Path) -> None:
    text = '[channels.team]\nagent = "a"\nincoming = ["chat/*"]\n'
    found = loaded(tmp_path, text)
    assert found.usable
    (problem,) = found.problems
    assert problem.message == "[channels.team] begins no turns: no model is configured"
    assert problem.line == 1
    assert "[models.NAME]" in problem.hint
    assert not loaded(tmp_path, text + '[models.a]\nmodel = "m"\n').problems
