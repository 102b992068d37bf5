"""What is published: the built wheel, in an environment that has nothing of this clone; and the files beside it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import numpy as np
import pytest

import comband as cb
from tests.documents import ROOT
from tests.evaluation.logs.worlds import small_log

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, made from a copy of what they need."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("comband-*-py3-none-any.whl")
    (source,) = built.glob("comband-*.tar.gz")
    assert wheel.stat().st_size < 20e6
    assert source.stat().st_size < 20e6
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = message_from_bytes(archive.read(next(name for name in names if name.endswith("/METADATA"))))
    inside = {name for name in names if ".dist-info/" not in name}
    kept = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "comband").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".nbi", ".nbc")
    }
    assert inside == kept
    assert "comband/py.typed" in inside
    assert metadata["Name"] == "comband"
    assert metadata["Version"] == PROJECT["version"] == cb.__version__
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert set(metadata.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"])
    assert str(metadata.get_payload()).startswith("# comband")


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    """Packages that it needs come from this environment by PYTHONPATH; comband itself only from the wheel."""
    home = tmp_path / "env"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    needed = sysconfig.get_path("purelib")
    where = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    ).strip()
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install, str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": needed, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [*command], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = run(python, "-c", "import comband; print(comband.__file__)").strip()
    assert found.startswith(where)
    command = home / "bin" / "comband"
    assert run(command, "--version").strip() == f"comband {PROJECT['version']}"
    rounds, policies = small_log(60)
    cb.write_rounds(rounds, tmp_path / "log.csv")
    cb.write_candidates(policies, np.arange(30), tmp_path / "lists.csv")
    answer = json.loads(run(command, "evaluate", "log.csv", "--candidates", "lists.csv", "--sparsity", "1", "--json"))
    assert answer["rounds"] == 60
    assert answer["best"] == cb.evaluate(rounds, policies, max_reward=1).best.name


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^version: {re.escape(PROJECT['version'])}$", text, re.MULTILINE)
    assert re.search(rf"^license: {PROJECT['license']}$", text, re.MULTILINE)
    assert re.search(r"^date-released: \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert re.search(r"^    year: \d{4}$", text, re.MULTILINE)  # of the paper


def test_every_dependency_has_its_licence_listed() -> None:
    """`python tools/licences.py > docs/licences.md` renews the page."""
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| [\w-]+ \| ([\w-]+) \| (.+) \| [\d.]+ \|$", page, re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"]]
    lines += [line for name, group in extras.items() if name not in ("test", "docs", "dev") for line in group]
    names = {re.match(r"[\w-]+", line)[0].lower() for line in lines}  # type: ignore[index]
    assert names <= set(listed)
    assert not [name for name, licence in listed.items() if licence == "not stated"]
    copyleft = {name: licence for name, licence in listed.items() if re.search(r"\bA?GPL", licence)}
    assert copyleft == {}


def test_the_forge_and_commits_run_what_people_run() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.findall(r"- run: (.*)", workflow) == ["make check", "make test", "make test-pages"]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    checks = re.search(r"^check:.*?\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert checks is not None
    wanted = [line.split("/", 1)[1].removesuffix(" .") for line in checks[1].splitlines()]
    assert re.findall(r"entry: \.venv/bin/(.*)", hooks) == wanted
