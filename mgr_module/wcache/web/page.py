"""The page of the active mgr, put together; jinja2 is imported here, and not before."""

from __future__ import annotations

from typing import Any, Callable

from .app import App, Logins, OwnTokens
from .reading import Reader


def page_app(
    read: Reader, tokens: OwnTokens, dashboard: Logins, secure: bool,
    log_exception: Callable[[str], None], open_metrics: Callable[[], bool] = lambda: False,
) -> Callable[..., Any]:
    """The WSGI application.  Raises ImportError where jinja2 is missing.

    `open_metrics`: whether `/metrics` is read without a login.
    """
    from .rendering import Renderer

    return App(
        read=read, render=Renderer(), tokens=tokens, dashboard=dashboard, secure=secure,
        log_exception=log_exception, open_metrics=open_metrics,
    )
