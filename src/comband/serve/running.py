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
from dataclasses import replace
from typing import Any

import uvicorn

from comband.page.problem import InputError
from comband.serve.api import make_app
from comband.serve.bounds import Bounds
from comband.serve.journal import TakenError
from comband.serve.protocol import bounded
from comband.serve.service import Service
from comband.serve.settings import Settings, load_models
from comband.serve.tokens import first_token
from comband.serve.wire import Spec

_OTHER_FILES = 128


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


def serve(
    settings: Settings,
    *,
    beside: Callable[[Service], Any] | None = None,
    ready: Any = None,
    show_token: Callable[[str], None] = print,
) -> None:
    """Run until SIGTERM or SIGINT; then finish what was begun, commit and close. `beside` is a coroutine function that
    runs with it, `ready` is called with the address once it listens, `show_token` with the token that is made at the
    first start.
    """
    log_to_stderr(settings.log)
    bounds = within_files(settings.bounds)
    service = Service(
        settings.store,
        models=load_models(settings.models),
        timing=settings.timing,
        learn=settings.learn,
        bounds=bounds,
        environment=settings.environment,
        retention_days=settings.retention_days,
    )
    try:
        check_tokens(service, settings, show_token)
        app = make_app(service, settings.access)
        config = configured(
            app,
            bounds,
            host=settings.host,
            port=settings.port,
            proxies=settings.proxies,
            keep_alive=settings.keep_alive,
        )
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_run(_Server(config), service, settings.experiments, beside, ready))
    finally:
        service.close(bounds.shutdown_timeout / 2)
        logging.getLogger("comband.serve").info("stopped")


def within_files(bounds: Bounds) -> Bounds:
    """The same with no more connections than the process may have files, some of them for other things."""
    try:
        import resource
    except ImportError:  # no such limit on this system
        return bounds
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return bounds
    return replace(bounds, max_connections=min(bounds.max_connections, max(files - _OTHER_FILES, files // 2)))


def configured(
    app: Any, bounds: Bounds, *, host: str, port: int, proxies: Sequence[str] = (), keep_alive: int = 75
) -> uvicorn.Config:
    """How uvicorn listens, within bounds; it believes what these proxies say about who asks."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=bounded(bounds),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=max(1, int(bounds.shutdown_timeout / 2)),
        timeout_keep_alive=keep_alive,
        server_header=False,
        date_header=True,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )


def check_tokens(service: Service, settings: Settings, show_token: Callable[[str], None]) -> None:
    """Makes the first token if there has never been one; raises `InputError` where no token could be used, or an open
    service would not be open.
    """
    if settings.open and not settings.is_loopback:
        raise InputError(
            f"a service that listens on {settings.host} can be reached from elsewhere, and cannot be open; start it "
            "without --open, or let it listen on 127.0.0.1."
        )
    if settings.open and service.experiments.tokens:
        raise InputError("the store has tokens, and so is not open; start without --open, or on a store of its own.")
    if settings.open:
        logging.getLogger("comband.serve").warning("open: every process on this machine's loopback may do everything")
        return
    with service.database.transaction():
        made = first_token(service.journal)
    service.experiments.refresh()
    if made is not None:
        show_token(made)
    elif all(token.revoked is not None for token in service.experiments.tokens.values()):
        raise InputError("all tokens are revoked; make one first: comband token create --role admin.")


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
