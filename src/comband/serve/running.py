"""The process: listens, logs, and stops in good order."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from comband.problem import InputError
from comband.serve.api import make_app
from comband.serve.journal import TakenError
from comband.serve.service import Service
from comband.serve.settings import Settings, load_models
from comband.serve.wire import Spec


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, message, and whatever facts there are."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def log_to_stderr(level: str) -> None:
    """Structured logs of the service and of uvicorn."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("comband.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler] if name != "uvicorn.error" else [], name == "uvicorn.error"
        logger.setLevel(level.upper())


def serve(settings: Settings, *, beside: Callable[[Service], Any] | None = None, ready: Any = None) -> None:
    """Run until SIGTERM or SIGINT; then finish what was begun, commit and close. `beside` is a coroutine function that
    runs with it, `ready` is called with the address once it listens.
    """
    log_to_stderr(settings.log)
    service = Service(settings.store, models=load_models(settings.models), timing=settings.timing, learn=settings.learn)
    try:
        live = [token for token in service.experiments.tokens.values() if token.revoked is None]
        if not settings.is_loopback and not live:
            raise InputError(
                f"a service that listens on {settings.host} can be reached from elsewhere and needs tokens; make one "
                "first (comband token create --role admin …), or listen on 127.0.0.1."
            )
        app = make_app(service, is_open=settings.is_loopback)
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=10,
            timeout_keep_alive=settings.keep_alive,
            server_header=False,
            date_header=True,
        )
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_run(_Server(config), service, settings.experiments, beside, ready))
    finally:
        service.close()
        logging.getLogger("comband.serve").info("stopped")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not made for this system
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _Server(uvicorn.Server):
    """Says where it listens, and leaves what comes after a signal to us: uvicorn itself would end the process by it
    before anything is saved.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop it in good order; a second one at once."""
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def address(self) -> str:
        """As a URL."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def _run(
    server: _Server,
    service: Service,
    experiments: Sequence[Spec],
    beside: Callable[[Service], Any] | None,
    ready: Any,
) -> None:
    for spec in experiments:
        with suppress(TakenError):
            await service.create(spec)
    if beside is None:  # which needs less, and compiles that as it goes
        service.warming.start()
    tasks = []

    async def when_started() -> None:
        while not server.started:
            await asyncio.sleep(0.02)
        address = server.address()
        logging.getLogger("comband.serve").info("listening", extra={"facts": {"address": address}})
        if ready is not None:
            ready(address)
        if beside is not None:
            await beside(service)

    tasks.append(asyncio.create_task(when_started()))
    try:
        await server.serve()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
