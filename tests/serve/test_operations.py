"""What the guide for operators says: back up, restore, and files that fit the program."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from comband.commands.cli import app as cli
from comband.serve.journal import NotRunningError
from comband.serve.settings import _defaults, settings
from tests.serve import postgres
from tests.serve.test_service import same, state_of
from tests.serve.worlds import World, caught_up, play, serving, spec

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
DEPLOY = ROOT / "deploy"


def back_up(store: str, folder: Path, cluster: postgres.Server | None) -> str:
    """As the guide says, while the service runs; the address of what is restored."""
    if cluster is None:
        [command] = re.findall(r'^python3 -c "(.*)" experiments.db backup.db$', GUIDE, re.MULTILINE)
        files = [store.removeprefix("sqlite:///"), str(folder / "backup.db")]
        subprocess.run([sys.executable, "-c", command, *files], check=True)
        shutil.copy(folder / "backup.db", folder / "restored.db")
        return f"sqlite:///{folder}/restored.db"
    programs = (cluster.programs / "initdb").resolve().parent
    file, target = str(folder / "backup.dump"), cluster.address.replace("/postgres", "/restored")
    subprocess.run([str(programs / "pg_dump"), "-Fc", "-f", file, store], check=True)
    subprocess.run(
        [str(programs / "createdb"), "-h", "127.0.0.1", "-p", str(cluster.port), "-U", "comband", "restored"],
        check=True,
    )
    subprocess.run([str(programs / "pg_restore"), "-d", target, file], check=True)
    return target


def restored_and_compared(store: str, folder: Path, cluster: postgres.Server | None) -> None:
    world = World(best=0.05)

    async def run() -> None:
        made = serving(store)
        try:
            await made.create(spec(epsilon=0.01))
            await play(made, world, 0, 192)
            restored = back_up(store, folder, cluster)  # while it runs
            lost = await made.decide("test", [World(seed=9).request(1000)])
            await caught_up(made)
            wanted = state_of(made)
        finally:
            made.close()
        answer = CliRunner().invoke(cli, ["repair", "restored", "--store", restored])
        assert answer.exit_code == 0, answer.output
        made = serving(restored)
        try:
            await caught_up(made)
            assert same(wanted, state_of(made))
            with pytest.raises(NotRunningError, match="paused"):
                await made.decide("test", [world.request(500)])
            receipt = await made.reward("test", [World(seed=9).post(1000, lost[0])])
            assert {fault.outcome for fault in receipt.faults} == {"unknown"}  # and not those of another decision
            await made.set_state("test", "running")
            await play(made, world, 192, 224)
        finally:
            made.close()

    asyncio.run(run())


def test_a_back_up_of_sqlite_is_restored(tmp_path: Path) -> None:
    restored_and_compared(f"sqlite:///{tmp_path}/journal.db", tmp_path, None)


def test_a_back_up_of_postgresql_is_restored(tmp_path: Path) -> None:
    with postgres.server() as cluster:
        restored_and_compared(cluster.address, tmp_path, cluster)


def test_the_files_name_settings_that_there_are() -> None:
    names = {f"COMBAND_SERVE_{name.upper()}" for name in _defaults()}
    text = "".join(file.read_text(encoding="utf-8") for file in sorted(DEPLOY.iterdir()) if file.suffix != ".json")
    assert set(re.findall(r"COMBAND_SERVE_\w+", text)) <= names
    assert settings(None, {"COMBAND_SERVE_HOST": "0.0.0.0"}).host == "0.0.0.0"
    unit, proxy = (DEPLOY / "comband.service").read_text(), (DEPLOY / "nginx.conf").read_text()
    bounds, made = settings(None, {}).bounds, settings(None, {})
    [stop] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(stop) > bounds.shutdown_timeout
    [kept] = re.findall(r"keepalive_timeout (\d+)s", proxy)
    assert int(kept) < made.keep_alive
    [read] = re.findall(r"proxy_read_timeout (\d+)s", proxy)
    assert int(read) > bounds.answer_timeout
    [size] = re.findall(r"client_max_body_size (\d+)m", proxy)
    assert int(size) << 20 == bounds.max_body
    assert proxy.count("{") == proxy.count("}")


def test_the_manifests_probe_what_there_is() -> None:
    yaml = pytest.importorskip("yaml")
    deployment, service, budget = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    assert [one["kind"] for one in (deployment, service, budget)] == ["Deployment", "Service", "PodDisruptionBudget"]
    pod = deployment["spec"]["template"]
    [container] = pod["spec"]["containers"]
    probes = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert probes == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    labels = pod["metadata"]["labels"].items()
    for selector in (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"]):
        assert selector.items() <= labels
    assert container["ports"][0]["containerPort"] == settings(None, {}).port
    assert pod["spec"]["terminationGracePeriodSeconds"] > settings(None, {}).bounds.shutdown_timeout
    assert all(isinstance(one.get("value", ""), str) for one in container["env"])


def test_the_image_is_built_of_files_that_are_there_and_does_not_run_as_root() -> None:
    lines = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text()).splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    assert words[0][0] == "FROM"
    known = {
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
    }
    assert {line[0] for line in words} <= known
    for line in words:
        if line[0] == "COPY" and not line[1].startswith("--from"):
            assert all((ROOT / name).exists() for name in line[1:-1])
    order = [line[0] for line in words]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert {line[0]: line[1] for line in words}["USER"] != "root"
    extras = re.search(r"\.\[(.*?)\]", (DEPLOY / "Dockerfile").read_text())
    assert extras is not None
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{name} = ", project, re.MULTILINE) for name in extras[1].split(","))
