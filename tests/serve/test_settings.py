"""Settings from everywhere, the commands, and what a service refuses to start with."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from comband.commands.cli import app
from comband.page.problem import InputError
from comband.serve.settings import load_models, settings


def test_options_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('host = "::1"\nport = 1\nlease = 7\n[models]\nmine = "a:b"\n')
    found = settings(file, {"COMBAND_SERVE_PORT": "2", "COMBAND_SERVE_LEARN": "false", "OTHER": "x"}, port=None)
    assert (found.host, found.port, found.lease, found.learn, found.models) == ("::1", 2, 7, False, {"mine": "a:b"})
    assert found.is_loopback
    assert settings(file, {"COMBAND_SERVE_PORT": "2"}, port=3, host="0.0.0.0").port == 3


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("prot = 1", {}, "no setting"),
        ('port = "x"', {}, "whole number"),
        ("port = 70000", {}, "0 … 65535"),
        ("learn = 1", {}, "true or false"),
        ("lease = 0", {}, "above 0"),
        ("keep_alive = 0", {}, "1 … 86400"),
        ("log = 'loud'", {}, "debug, info"),
        ("=", {}, "TOML"),
        ("", {"COMBAND_SERVE_PROT": "1"}, "no setting"),
        ("", {"COMBAND_SERVE_PORT": "x"}, "whole number"),
    ],
)
def test_settings_that_are_none(tmp_path: Path, text: str, environment: dict[str, str], message: str) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        settings(file, environment)


@pytest.mark.parametrize(
    "entry", ["nowhere_at_all:f", "comband.page.problem:nothing", "comband.page.problem", "os:getcwd"]
)
def test_models_that_cannot_be_had(entry: str) -> None:
    with pytest.raises(InputError, match="models"):
        load_models({"mine": entry})


def test_tokens_by_command_and_no_start_with_none_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMBAND_SERVE_STORE", f"sqlite:///{tmp_path}/journal.db")
    run = CliRunner().invoke
    refused = run(app, ["serve", "--host", "0.0.0.0", "--port", "0", "--open"])
    assert refused.exit_code == 1
    assert "cannot be open" in refused.output
    made = run(app, ["token", "create", "--role", "read", "--role", "decide", "--name", "web"])
    assert made.exit_code == 0
    secret = made.stdout.strip().splitlines()[-1]
    assert secret.startswith("cb_")
    listed = run(app, ["token", "list"]).stdout
    assert "decide read" in listed
    assert secret not in listed
    assert run(app, ["token", "revoke", secret.split("_")[1]]).exit_code == 0
    assert "revoked" in run(app, ["token", "list"]).stdout
    refused = run(app, ["serve", "--host", "0.0.0.0", "--port", "0"])
    assert "all tokens are revoked" in refused.output
    for wrong in (["token", "revoke"], ["token", "revoke", "x"], ["token", "forget"], ["token", "create"]):
        assert run(app, wrong).exit_code == 1
