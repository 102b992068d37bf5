"""Someone who follows only the README gets from a clone to a verdict, with what its pip lines install and no more."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.documents import ROOT, run_document
from tests.ports import reserved_port
from tests.serve.worlds import listening, service
from tests.waiting import LIMIT, wait_for

README = (ROOT / "README.md").read_text(encoding="utf-8")
CURL = re.compile(r"curl -s localhost:8300(\S+) .*?-d '(.*?)'$", re.DOTALL | re.MULTILINE)


def test_readme_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    monkeypatch.chdir(tmp_path)
    assert run_document(ROOT / "README.md") >= 2
    assert (tmp_path / "report.html").is_file()


def test_readme_shows_what_its_command_prints(tmp_path: Path) -> None:
    (command,) = re.findall(r"^\$ comband (evaluate .*)$", README, re.MULTILINE)
    arguments = shlex.split(command.replace("report.html", str(tmp_path / "report.html")))
    made = subprocess.run([sys.executable, "-m", "comband", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (shown,) = re.findall(r"^```\n(Decided: .*?)```$", README, re.DOTALL | re.MULTILINE)
    assert made.stdout.startswith(shown)


def test_readme_curls_are_answered(tmp_path: Path) -> None:
    calls = CURL.findall(README)
    assert len(calls) == 3
    with service(tmp_path) as made, listening(made) as address, httpx.Client(base_url=address, timeout=LIMIT) as client:
        for path, body in calls:
            answer = client.post(path, content=body, headers={"content-type": "application/json"})
            assert answer.is_success, f"{path}: {answer.text}"
            json.loads(body)


def test_readme_links_and_make_targets_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    for target in links:
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z-]+)`", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.slow
@pytest.mark.parametrize("section", re.findall(r"^## (.*)$", README.split("\n## Figures", 1)[0], re.MULTILINE))
def test_each_section_needs_what_its_pip_line_installs(section: str, tmp_path: Path) -> None:
    """In an environment of its own: the section's pip line, then everything in it."""
    text = README.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    (line,) = re.findall(r"^pip install (\S+)", text, re.MULTILINE)
    extras = line.strip("'").removeprefix(".")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv" / "bin"
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    use: dict[str, Any] = {"cwd": tmp_path, "check": True, "capture_output": True, "text": True, "env": clean}
    subprocess.run([programs / "pip", "install", "-q", f"{ROOT}{extras}"], **use)
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    ran = 0
    for command in re.findall(r"^\$ comband (.*)$", text, re.MULTILINE):
        subprocess.run([programs / "comband", *shlex.split(command)], **use)
        ran += 1
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        made = subprocess.run([programs / "python", "-c", code], **use)
        assert made.stdout.startswith("Decided: ")
        ran += 1
    if calls := CURL.findall(text):
        serve = [str(programs / "comband"), "serve", "--store", "sqlite:///experiments.db", "--open"]
        with (
            reserved_port() as port,
            subprocess.Popen(
                [*serve, "--port", str(port)], cwd=tmp_path, env=clean, stderr=subprocess.DEVNULL
            ) as process,
        ):
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LIMIT) as client:
                    wait_for(lambda: _answers(client), "an answer")
                    for path, body in calls:
                        answer = client.post(path, content=body, headers={"content-type": "application/json"})
                        assert answer.is_success, answer.text
                        ran += 1
            finally:
                process.terminate()
    assert ran > 0


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").is_success
    except httpx.TransportError:
        return False
