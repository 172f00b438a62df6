"""The console's pages in a headless Chromium, driven by Playwright, with every error that the browser noticed.

with browser(chromium()) as chrome, chrome.pages(port) as pages:
    pages.open("topics/orders")
    pages.sees("orders")
    assert pages.errors == []
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Response, expect, sync_playwright

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING = "no Chromium is found: install the Debian package chromium, or name one by TIDELOG_CHROMIUM"
DEADLINE_MS = 15_000
WIDE = (1280, 800)
NARROW = (390, 844)


def chromium() -> str | None:
    """The program; None where there is none."""
    named = os.environ.get("TIDELOG_CHROMIUM")
    if named:
        return named if os.access(named, os.X_OK) else None
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Pages:
    """One window that looks at one cluster of a console."""

    def __init__(self, page: Page, port: int, cluster: str) -> None:
        self.page = page
        self.address = f"http://127.0.0.1:{port}/"
        self._cluster = cluster
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.set_default_timeout(DEADLINE_MS)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        # What the server refuses the page shows in its words; that the browser notes it too is no error of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def _on_response(self, response: Response) -> None:
        if not response.url.startswith((self.address, "data:")):
            self.foreign.append(response.url)
        if response.status >= 500:
            self.errors.append(f"{response.status} {response.url}")

    def open(self, path: str = "") -> None:
        self.page.goto(f"{self.address}#/c/{self._cluster}/{path}")

    @property
    def main(self) -> Locator:
        return self.page.locator("main")

    def sees(self, text: str | re.Pattern[str], *, within: Locator | None = None) -> Locator:
        """The first place with this text, once it is shown."""
        found = (within or self.main).get_by_text(text).first
        expect(found).to_be_visible(timeout=DEADLINE_MS)
        return found

    def press(self, name: str, *, exact: bool = True) -> None:
        self.page.get_by_role("button", name=name, exact=exact).first.click()

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


class Chrome:
    """A browser; every window has a session of its own."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    @contextmanager
    def pages(
        self,
        port: int,
        cluster: str = "cluster",
        size: tuple[int, int] = WIDE,
        scheme: Literal["dark", "light"] = "dark",
        *,
        is_still: bool = False,
    ) -> Iterator[Pages]:
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            reduced_motion="reduce" if is_still else "no-preference",
        )
        try:
            yield Pages(context.new_page(), port, cluster)
        finally:
            context.close()


@contextmanager
def browser(program: str) -> Iterator[Chrome]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield Chrome(started)
        finally:
            started.close()
