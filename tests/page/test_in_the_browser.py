"""The page in a real browser, on this machine alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from browser import Browser


def test_a_visit_reaches_no_other_machine_and_says_what_was_asked(browser: Browser) -> None:
    with pytest.raises(AssertionError, match=r"https://example\.org/a\.png"):
        _go_astray(browser)
    with browser.visit(width=390, scheme="dark") as visit:
        visit.page.set_content("<!doctype html><html><title>a</title><img src='data:,'><p>text")
        assert [fault.split(":")[0] for fault in visit.faults()] == ["html-has-lang", "image-alt"]
        assert not visit.is_too_wide()
        assert visit.page.evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches")
    asyncio.run(asyncio.sleep(0))  # the browser leaves the process as it was


def _go_astray(browser: Browser) -> None:
    with browser.visit() as visit:
        visit.page.set_content("<!doctype html><img alt=a src=https://example.org/a.png>")
