# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A headless Chromium, driven over its debugging pipe: opens pages, tells their requests and complaints, takes pictures."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-default-apps", "--disable-extensions", "--disable-sync", "--metrics-recording-only",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe", "--hide-scrollbars",
)
ANSWER_SECONDS = 60.0


def executable() -> str | None:
    """Return the path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one tab."""

    def __init__(self) -> None:
        self.profile = tempfile.mkdtemp(prefix="report-pages-")
        to_read, self.to_write = os.pipe()
        self.to_listen, from_write = os.pipe()
        # The pipe's ends must be the descriptors 3 and 4; the shell puts them there.
        script = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
        command = ["nice", "-n", "19", "/bin/bash", "-c", script, executable(), *OPTIONS, f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and remove its profile."""
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to_write)
        os.close(self.to_listen)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, until: float) -> dict[str, Any]:
        """Return the next message of the browser."""
        while b"\0" not in self.buffer:
            if not select.select([self.to_listen], [], [], max(until - time.monotonic(), 0))[0]:
                raise RuntimeError("the browser does not answer")
            data = os.read(self.to_listen, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.buffer += data
        text, _nul, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to_write, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            answer = self.message(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, page: pathlib.Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Open a page in a window of a size, in light or dark."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=page.as_uri())
        until = time.monotonic() + ANSWER_SECONDS
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(until))

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for."""
        return [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Return errors and warnings of the console."""
        found = []
        for event in self.events:
            if event.get("method") == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
            elif event.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                found.append(json.dumps(event["params"])[:300])
        return found

    def picture(self, file: pathlib.Path, full: bool = True) -> None:
        """Write a screenshot as PNG."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full, **({"clip": self.whole_page()} if full else {}))
        file.write_bytes(base64.b64decode(answer["data"]))

    def whole_page(self) -> dict[str, float]:
        """Return the area of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 9000), "scale": 1}
