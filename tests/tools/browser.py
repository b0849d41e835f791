"""A headless Chromium under remote control, with nothing but the standard library: DevTools messages over a pair of pipes.

    with Browser() as browser:
        page = browser.page()
        page.go(url)
        page.until("document.title !== ''")
        page.screenshot("x.png")

What a page writes to the console as an error, throws, or asks the network for is kept: page.errors, page.requests.
"""
import base64, json, os, select, shutil, signal, subprocess, tempfile, time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program():
    return next((p for p in map(shutil.which, NAMES) if p), None)


class Broken(Exception):
    pass


class Browser:
    def __init__(self, timeout=60):
        self.timeout, self.number, self.pages, self.buffer, self.answers = timeout, 0, {}, b"", {}
        self.home = tempfile.mkdtemp(prefix="bourse-browser.")
        to_child, self.out = os.pipe()
        self.into, from_child = os.pipe()
        env = dict(os.environ, HOME=self.home, XDG_CONFIG_HOME=self.home, XDG_CACHE_HOME=self.home, TZ="UTC", LANG="en_US.UTF-8")

        def ours_to_3_and_4():
            # Through high numbers, so that none of the two is written over by the other.
            os.dup2(to_child, 103), os.dup2(from_child, 104)
            os.dup2(103, 3), os.dup2(104, 4)

        self.log = open(os.path.join(self.home, "log"), "wb")
        self.process = subprocess.Popen(
            [program(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
             "--no-default-browser-check", "--metrics-recording-only", "--mute-audio", "--force-color-profile=srgb", "--lang=en-US",
             # Nothing leaves this machine.
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--user-data-dir=" + self.home, "about:blank"],
            env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, close_fds=False, preexec_fn=ours_to_3_and_4, start_new_session=True)
        os.close(to_child), os.close(from_child)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self.process.wait(20)
        except (Broken, subprocess.TimeoutExpired, OSError):
            pass
        try:  # its own group, whatever is left of it
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.out), os.close(self.into)
        self.log.close()
        for _ in range(50):  # its helpers may still be writing
            shutil.rmtree(self.home, ignore_errors=True)
            if not os.path.exists(self.home):
                break
            time.sleep(0.1)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.timeout
        while self.number not in self.answers:
            self.read(end, method)
        answer = self.answers.pop(self.number)
        if "error" in answer:
            raise Broken(method + ": " + answer["error"]["message"])
        return answer["result"]

    def read(self, end, what):
        """Takes in what comes; an answer or an event is then there."""
        ready, _, _ = select.select([self.into], [], [], max(0, end - time.monotonic()))
        if not ready:
            raise Broken(what + ": no answer from the browser")
        chunk = os.read(self.into, 1 << 20)
        if not chunk:
            self.log.flush()
            raise Broken(what + ": the browser is gone: " + open(self.log.name, errors="replace").read()[-2000:])
        *whole, self.buffer = (self.buffer + chunk).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].event(message["method"], message["params"])

    def page(self, width=1280, height=900):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            page.call(domain + ".enable")
        page.size(width, height)
        return page


class Page:
    def __init__(self, browser, session, target):
        self.browser, self.session, self.target, self.errors, self.requests, self.dialogs = browser, session, target, [], [], []

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def event(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append("thrown: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert", "warning"):
            self.errors.append("console." + params["type"] + ": " + " ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append("log: " + params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        del self.browser.pages[self.session]

    def go(self, url):
        answer = self.call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise Broken(url + ": " + answer["errorText"])

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def colours(self, scheme, motion="no-preference"):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme},
                                                          {"name": "prefers-reduced-motion", "value": motion}])

    def run(self, script):
        """The value of an expression in the page; what it throws is raised here."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Broken(answer["exceptionDetails"].get("exception", {}).get("description", answer["exceptionDetails"]["text"]))
        return answer["result"].get("value")

    def until(self, condition, seconds=30):
        """Waits for an expression to be true. False where it never was."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.run("Boolean(" + condition + ")"):
                    return True
            except Broken as e:  # while the page is being loaded there may be nothing to ask
                if "browser" in str(e):
                    raise
            time.sleep(0.05)
        return False

    def key(self, name, shift=False):
        code = {"Tab": 9, "Enter": 13, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27}[name]
        text = {"Enter": "\r", " ": " "}.get(name, "")
        common = dict(key=name, code="Space" if name == " " else name, windowsVirtualKeyCode=code, modifiers=8 if shift else 0)
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=False):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]))

    def spoken(self):
        """What a screen reader is told: (role, name, value) of every node that is not ignored, in order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        text = lambda n, k: str(n.get(k, {}).get("value", ""))
        return [(text(n, "role"), text(n, "name"), n) for n in nodes if not n.get("ignored")]
